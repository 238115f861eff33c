"""The zeta function, the derivatives of digamma, the incomplete gamma functions."""

import torch
from core_aten_samples import F64, INF, NAN, call, f, i

ORDERS = torch.tensor([1e-3, 0.5, 1.0, 3.0, 9.0, 15.0, 15.1, 40.0, 300.0], dtype=F64)
RATIOS = torch.tensor([0.01, 0.3, 0.9, 1.0, 1.05, 1.5, 4.0], dtype=F64)
ENDS = (
    torch.tensor([0.0, 0.0, 1.0, -1.0, 1.0, INF, 1.0, INF, NAN]),
    torch.tensor([0.0, 1.0, 0.0, 1.0, -1.0, 1.0, INF, INF, 1.0]),
)
INCOMPLETE = [
    call(ORDERS[:, None].float(), (ORDERS[:, None] * RATIOS).float()),
    call(ORDERS[:, None], ORDERS[:, None] * RATIOS),
    call(*ENDS),
    call(f(3, 4, low=0.1), f(4, low=0.1)),
    call(f(9, low=0.1, dtype=torch.bfloat16), f(9, low=0.1, dtype=torch.bfloat16)),
]
ZETA = [
    call(torch.tensor([[1.5], [2.0], [5.0], [40.0]], dtype=F64), torch.tensor([1e-3, 0.5, 1.0, 7.3, 1e4], dtype=F64)),
    call(torch.tensor([2.0, 3.0, 7.0, 4.0]), torch.tensor([-0.5, -2.5, -19.25, -1.75])),
    call(torch.tensor([1.0, 0.5, 2.0, 2.5, 2.0, NAN, 200.0]), torch.tensor([1.0, 1.0, -3.0, -2.5, 0.0, 1.0, 2.0])),
    call(f(3, 4, low=1.1, high=6), f(4, low=0.1)),
    call(i(3, low=2, high=5), i(3, low=1, high=9)),
]

SAMPLES = {
    "aten.igamma.default": INCOMPLETE,
    "aten.igammac.default": INCOMPLETE,
    "aten.special_gammainc.default": INCOMPLETE,
    "aten.special_gammaincc.default": INCOMPLETE,
    "aten.special_zeta.default": ZETA,
    "aten.special_zeta.self_scalar": [call(2.0, f(5, low=0.1)), call(3, f(5, dtype=F64))],
    "aten.special_zeta.other_scalar": [call(f(5, low=1.1), 2.0), call(f(5, low=1.1, dtype=F64), 1)],
}
