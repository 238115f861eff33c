"""Bessel and Airy functions. Above 5, PyTorch's own J and Y of f64 are off by up to 5e-7: there they are judged by
mpmath."""

import mpmath
import torch
from aten_calls import check_alike, check_equal
from core_aten_samples import F64, INF, INTEGERS, NAN, call, f

NEAR = torch.tensor([-4.9, -1.0, -1e-3, 1e-8, 0.5, 1.0, 1.999, 2.0, 3.3, 4.9])
FAR = torch.tensor([5.1, 7.0, 9.5, 11.9, 12.1, 15.9, 16.1, 20.5, 40.0, 85.0])
ENDS = torch.tensor([0.0, -0.0, NAN, -INF])
POINTS = [call(NEAR), call(NEAR.double()), call(FAR), call(ENDS), call(f(3, 4))]

OSCILLATING = {
    "aten.special_bessel_j0.default": lambda x: mpmath.besselj(0, x),
    "aten.special_bessel_j1.default": lambda x: mpmath.besselj(1, x),
    "aten.special_bessel_y0.default": lambda x: mpmath.bessely(0, x),
    "aten.special_bessel_y1.default": lambda x: mpmath.bessely(1, x),
}
DECAYING = [
    "aten.special_modified_bessel_k0.default",
    "aten.special_modified_bessel_k1.default",
    "aten.special_scaled_modified_bessel_k0.default",
    "aten.special_scaled_modified_bessel_k1.default",
]
AIRY = torch.tensor([-40.0, -9.0, -8.0, -7.9, -6.5, -1.0, 0.0, 1.0, 2.4, 2.6, 6.0, 10.0, 30.0])

SAMPLES = {name: [*POINTS, call(FAR.double()), *INTEGERS] for name in OSCILLATING}
SAMPLES |= {name: [*POINTS, call(FAR.double()), *INTEGERS] for name in DECAYING}
SAMPLES["aten.special_airy_ai.default"] = [call(AIRY), call(AIRY.double()), call(f(3, 4)), call(ENDS), *INTEGERS]


def check_wave(call, name, args, kwargs):
    (x,) = args
    if x.dtype is not F64:
        check_equal(call, name, args, kwargs)
        return
    (mine,) = call.evaluate()
    exact = torch.tensor(
        [float(OSCILLATING[name](mpmath.mpf(v))) if v > 0 or "_j" in name else NAN for v in x.tolist()], dtype=F64
    )
    check_alike([mine], [exact])
    torch.testing.assert_close(mine, exact, rtol=1e-9, atol=1e-9, equal_nan=True)


CHECKS = dict.fromkeys(OSCILLATING, check_wave)
