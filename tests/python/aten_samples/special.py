"""Special functions of mathematics."""

import torch
from core_aten_samples import F64, I32, I64, INF, INTEGERS, NAN, call, f, i, unary

FAR = torch.tensor([-85.0, -40.0, -20.5, -19.5, -1e-3, 1e-3, 8.0, 19.5, 20.5, 40.0, 80.0])
BESSEL = [*unary(others=INTEGERS), call(FAR), call(FAR.double()), call(f(9, dtype=torch.bfloat16))]
DEGREES = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, -1.0])
POINTS = torch.tensor([-2.5, -1.0, -0.5, 0.0, 0.3, 1.0, 1.5])
CHEBYSHEV = [call(POINTS[:, None], DEGREES), call(POINTS.double()[:, None], DEGREES.double()), call(f(3, 4), f(low=1))]
CHEBYSHEV += [call(i(3, low=-1, high=1), i(3, low=0, high=5)), call(f(3, low=-1, high=1), i(3, low=0, high=5))]
ENDS = [
    (torch.tensor(-2.5), torch.tensor(4.0)),
    (torch.tensor(3), torch.tensor(-1)),
    (torch.tensor(1.0), torch.tensor(1.0)),
]
FIBONACCI = torch.tensor([7540113804746346429, 4660046610375530309, 0, -12, 2**62, 6])
TINY = torch.tensor([1e-40, -1e-45, 0.0, -0.0, 1.0, -0.75, 3e38, INF, -INF, NAN])


def linspaces(which, *rest):
    """Of tensors and numbers: which ends are tensors."""
    calls = []
    for start, end in ENDS:
        ends = [x if is_tensor else x.item() for x, is_tensor in zip((start, end), which, strict=True)]
        calls += [call(*ends, steps, *rest) for steps in (0, 1, 2, 7)] + [call(*ends, 4, *rest, dtype=F64)]
    return calls


SAMPLES = {
    "aten.angle.default": unary(others=INTEGERS),
    "aten.conj.default": unary(others=INTEGERS),
    "aten.conj_physical.default": unary(others=INTEGERS),
    "aten.frexp.Tensor": [
        call(f(3, 4)),
        call(TINY),
        call(torch.tensor([5e-324, 1e-310, 1e308, 0.5, NAN], dtype=F64)),
        call(f(9, dtype=torch.bfloat16)),
        call(f()),
    ],
    "aten.gcd.default": [
        call(i(3, 4), i(4)),
        call(i(20, low=-1000, high=1000, dtype=I32), i(20, low=-1000, high=1000)),
        call(FIBONACCI, FIBONACCI.roll(1)),
        call(i(9, low=0, high=200, dtype=torch.uint8), i(9, low=0, high=200, dtype=torch.uint8)),
        call(i(3), i()),
    ],
    "aten.i0.default": BESSEL,
    "aten.lcm.default": [
        call(i(3, 4), i(4)),
        call(i(20, low=-1000, high=1000, dtype=I32), i(20, low=-1000, high=1000, dtype=I32)),
        call(torch.zeros(3, dtype=I64), i(3, low=0, high=1)),
    ],
    "aten.nextafter.default": [
        call(f(3, 4), f(4)),
        call(TINY, TINY.roll(1)),
        call(TINY, torch.zeros(10)),
        call(torch.zeros(3), torch.tensor([1.0, -1.0, 0.0])),
        call(f(5, dtype=F64), f(5, dtype=F64)),
        call(f(5, dtype=torch.bfloat16), f(5, dtype=torch.bfloat16)),
    ],
    "aten.real.default": unary(others=INTEGERS),
    "aten.resolve_conj.default": unary(others=INTEGERS),
    "aten.resolve_neg.default": unary(others=INTEGERS),
    "aten.special_i0.default": BESSEL,
    "aten.special_i0e.default": BESSEL,
    "aten.special_i1.default": BESSEL,
    "aten.special_i1e.default": BESSEL,
    "aten.special_modified_bessel_i0.default": [call(f(3, 4)), call(FAR), call(f(9, dtype=F64))],
    "aten.special_modified_bessel_i1.default": [call(f(3, 4)), call(FAR), call(f(9, dtype=F64))],
    "aten.special_ndtri.default": [
        call(f(20, low=0.001, high=0.999)),
        call(torch.tensor([0.0, 1.0, 0.5, -0.1, 1.1, NAN, 1e-7, 1e-9, 1e-30, 0.9999999])),
        call(torch.tensor([1e-300, 1e-100, 1e-10, 0.3, 1 - 1e-12], dtype=F64)),
        call(i(9, low=0, high=1)),
    ],
    "aten.special_spherical_bessel_j0.default": [call(f(3, 4)), call(torch.tensor([0.0, INF, -INF, NAN, 1e-3]))],
    "aten.linspace.Scalar_Tensor": linspaces((False, True)),
    "aten.linspace.Tensor_Scalar": linspaces((True, False)),
    "aten.linspace.Tensor_Tensor": linspaces((True, True)),
    "aten.logspace.Scalar_Tensor": linspaces((False, True), 2.0),
    "aten.logspace.Tensor_Scalar": linspaces((True, False), 2.0),
    "aten.logspace.Tensor_Tensor": linspaces((True, True), 2.0),
}
for _kind in "tuvw":
    for _name in (f"special_chebyshev_polynomial_{_kind}", f"special_shifted_chebyshev_polynomial_{_kind}"):
        SAMPLES[f"aten.{_name}.default"] = CHEBYSHEV
        SAMPLES[f"aten.{_name}.n_scalar"] = [call(POINTS, 3), call(f(3, 4), 2.0), call(POINTS, 0)]
        SAMPLES[f"aten.{_name}.x_scalar"] = [call(0.5, DEGREES), call(1, DEGREES), call(-1.5, DEGREES)]

STATIC = {name: "the tensors are numbers" for name in SAMPLES if "space" in name}
