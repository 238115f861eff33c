"""Folds, scans, softmax, statistics."""

import torch
from core_aten_samples import F32, F64, I32, INF, NAN, b, call, distinct, f, i

NANS = torch.tensor([[1.0, NAN, 3.0, -2.0], [NAN, NAN, NAN, NAN], [4.0, 0.5, INF, NAN]])
WHOLE = [call(f(3, 4)), call(f()), call(i(3, 4)), call(f(2, 3, 2, dtype=F64)), call(NANS)]
SHAPES = [call(f(3, 4), 0), call(f(3, 4), -1, True), call(f(2, 3, 4), 1), call(i(3, 4), 1), call(f(), 0), call(NANS, 1)]
LISTS = [call(f(2, 3, 4), [0, 2]), call(f(3, 4), [1], True), call(f(3, 4), []), call(f(), []), call(NANS, [-1])]
TRUTHS = [call(b(3, 4)), call(torch.zeros(3)), call(i(3, low=0, high=1)), call(i(4, dtype=torch.uint8)), call(b(0))]
TRUTHS_ALONG = [call(b(3, 4), 0), call(f(3, 4), -1, True), call(i(2, 2, low=0, dtype=torch.uint8), 1), call(b(3, 0), 1)]
VARIANCES = [call(f(3, 4)), call(f(3, 4), False), call(f(9, dtype=F64)), call(f(1), False)]
VARIANCES_ALONG = [
    call(f(3, 4), [0]),
    call(f(3, 4), [-1], False, True),
    call(f(2, 3, 4), [0, 2], True, False),
    call(f(3, 4), None),
    call(f(3, 4, dtype=F64), [1]),
]
CORRECTIONS = [
    call(f(3, 4)),
    call(f(3, 4), [0], correction=0),
    call(f(3, 4), [1], correction=2, keepdim=True),
    call(f(9, dtype=F64), None, correction=0.5),
]
ORDERS = [0, 1, 2, 3.5, INF, -INF, -1]
NORMS = [call(f(3, 4), p) for p in ORDERS] + [call(f(), 2), call(f(5, dtype=F64), 1.5)]
NORMS_ALONG = [call(f(3, 4), p, [1]) for p in [*ORDERS, None]] + [call(f(2, 3, 4), 2, [0, 2], True)]
SOFTMAX = [call(f(3, 4), 1), call(f(3, 4), 0), call(f(5), -1), call(f(2, 3, 4), 1, F64), call(i(3, 4), -1, F32)]
SOFTMAX += [call(f(), 0), call(f(3, 4, dtype=torch.bfloat16), -1, F32), call(f(0, 3), 1)]
SCANS = [call(distinct(3, 4), 0), call(distinct(9), -1), call(i(5), 0), call(f(), 0)]
TYPED_SCANS = [
    call(f(3, 4), 1, dtype=F64),
    call(b(9), 0),
    call(i(9, dtype=I32), 0),
    call(i(3, 4, dtype=I32), 0, dtype=F32),
]
MEDIANS = [call(distinct(3, 5)), call(distinct(6)), call(f()), call(NANS), call(i(7))]
MEDIANS_ALONG = [
    call(distinct(3, 5), 1),
    call(distinct(3, 4), 0, True),
    call(distinct(2, 3, 4), 1),
    call(f(), 0),
    call(torch.tensor([[3.0, NAN, 1.0], [5.0, 4.0, 6.0]]), 1),
]
HOWS = ["linear", "lower", "higher", "midpoint", "nearest"]
QUANTILES = [call(f(3, 4), torch.tensor([0.0, 0.3, 1.0]), 1, interpolation=how) for how in HOWS]
QUANTILES += [
    call(f(3, 4), torch.tensor([0.1, 0.5])),
    call(f(2, 3, 4), torch.tensor([0.1, 0.5]), 1, True),
    call(f(2, 3), torch.tensor(0.25), 0),
    call(f(2, 3), torch.tensor([0.25]), None, True),
    call(f(3, 4, dtype=F64), torch.tensor([0.4], dtype=F64), 0),
    call(NANS, torch.tensor([0.4, 0.8]), 1),
]
QUANTILE_SCALARS = [call(f(9), 0.3, interpolation=how) for how in HOWS]
QUANTILE_SCALARS += [
    call(f(3, 4), 0.5, 1),
    call(f(3, 4), 0.25, 0, True),
    call(NANS, 0.6, 1),
    call(f(3, 4), 1.0, None, True),
]


def extremes_backward(x, dim, keepdim):
    _, indices = torch.max(x, dim, keepdim)
    return call(f(*indices.shape), dim, indices, list(x.shape), keepdim)


def cummax_backward(x, dim):
    return call(f(*x.shape), x, torch.cummax(x, dim)[1], dim)


SAMPLES = {
    "aten._aminmax.default": [call(f(3, 4)), call(i(5)), call(f())],
    "aten._aminmax.dim": [call(f(3, 4), 1), call(i(3, 4), 0, True)],
    "aten._is_all_true.default": [call(b(3)), call(torch.ones(3, dtype=torch.bool))],
    "aten._is_any_true.default": [call(b(3)), call(torch.zeros(3, dtype=torch.bool))],
    "aten._log_softmax_backward_data.default": [
        call(f(3, 4), torch.log_softmax(f(3, 4), 1), 1, F32),
        call(f(3, 4, dtype=F64), torch.log_softmax(f(3, 4, dtype=F64), 0), 0, F64),
        call(f(2, 3, 4), torch.log_softmax(f(2, 3, 4), -2), -2, F32),
    ],
    "aten._logcumsumexp.default": [call(f(3, 4), 1), call(f(9), 0), call(f(2, 3, dtype=F64), 0)],
    "aten._safe_softmax.default": [
        *SOFTMAX,
        call(torch.tensor([[1.0, -INF], [-INF, -INF]]), 1),
        call(torch.full([3], -INF), 0),
    ],
    "aten._softmax_backward_data.default": [
        call(f(3, 4), torch.softmax(f(3, 4), 1), 1, F32),
        call(f(3, 4, dtype=F64), torch.softmax(f(3, 4, dtype=F64), 0), 0, F64),
        call(f(2, 3, 4), torch.softmax(f(2, 3, 4), -2), -2, F32),
    ],
    "aten.all.default": TRUTHS,
    "aten.all.dim": TRUTHS_ALONG,
    "aten.all.dims": [call(b(2, 3, 4), [0, 2]), call(b(3, 4), []), call(b(3, 4)), call(i(2, 2, low=0), [1], True)],
    "aten.aminmax.default": [
        call(f(3, 4)),
        call(f(3, 4), dim=1),
        call(i(3, 4), dim=0, keepdim=True),
        call(NANS, dim=1),
    ],
    "aten.count_nonzero.default": [call(i(3, 4, low=0, high=1)), call(f(3, 4), 1), call(b(5)), call(NANS, 0)],
    "aten.count_nonzero.dim_IntList": [call(i(2, 3, 4, low=0, high=1), [0, 2]), call(b(3, 4), [1])],
    "aten.cummax.default": SCANS,
    "aten.cummaxmin_backward.default": [
        cummax_backward(f(3, 4), 1),
        cummax_backward(f(3, 4), 0),
        cummax_backward(f(9), 0),
    ],
    "aten.cummin.default": SCANS,
    "aten.cumprod.default": [*SCANS, *TYPED_SCANS],
    "aten.cumulative_trapezoid.dx": [call(f(3, 4)), call(f(3, 4), dx=0.5, dim=0), call(i(5), dx=2)],
    "aten.cumulative_trapezoid.x": [call(f(3, 4), f(4)), call(f(3, 4), f(3), dim=0), call(f(3, 4), f(3, 4))],
    "aten.diff.default": [
        call(f(3, 4)),
        call(f(3, 4), 2, 0),
        call(i(9), 1, -1, i(2), i(1)),
        call(b(9)),
        call(f(3, 4), 1, 1, f(3, 1)),
        call(f(3), 4),
    ],
    "aten.dist.default": [call(f(3, 4), f(3, 4)), call(f(3, 4), f(4), 1), call(f(3), f(3), INF), call(f(3), f(3), 0)],
    "aten.frobenius_norm.dim": [call(f(3, 4), [0, 1]), call(f(2, 3, 4), [1], True), call(f(3, 4), [])],
    "aten.linalg_matrix_norm.default": [
        *(call(f(2, 3, 4), p) for p in (1, -1, INF, -INF)),
        call(f(3, 4), 1, [1, 0], True),
        call(f(2, 3, 4), INF, [0, 2]),
        call(f(3, 4), 1, dtype=F64),
    ],
    "aten.linalg_matrix_norm.str_ord": [call(f(3, 4)), call(f(2, 3, 4), "fro", [0, 2], True)],
    "aten.linalg_norm.default": [
        call(f(3, 4)),
        call(f(5), 3),
        call(f(3, 4), INF),
        call(f(3, 4), 1, [1]),
        call(f(2, 3, 4), -1, [0, 1], True),
        call(f(2, 3, 4), None, [2]),
        call(f(3, 4), None, dtype=F64),
    ],
    "aten.linalg_norm.ord_str": [call(f(3, 4), "fro"), call(f(2, 3, 4), "fro", [1, 2], True)],
    "aten.linalg_vector_norm.default": [
        *(call(f(3, 4), p) for p in ORDERS),
        call(f(2, 3, 4), 2, [0, 2], True),
        call(f(3, 4), 1, [1], dtype=F64),
        call(f()),
    ],
    "aten.log_softmax.int": SOFTMAX,
    "aten.logcumsumexp.default": [call(f(3, 4), 1), call(f(9), 0), call(f(2, 3, dtype=F64), 0)],
    "aten.logsumexp.default": [
        call(f(3, 4), [1]),
        call(f(3, 4), [0], True),
        call(f(2, 3, 4), [0, 2]),
        call(i(3, 4), [1]),
    ],
    "aten.max.default": [*WHOLE, call(b(4))],
    "aten.median.default": MEDIANS,
    "aten.median.dim": MEDIANS_ALONG,
    "aten.min.default": [*WHOLE, call(b(4))],
    "aten.nanmean.default": [call(NANS), call(NANS, 1), call(NANS, [0], True), call(f(3, 4), dtype=F64)],
    "aten.nanmedian.default": MEDIANS,
    "aten.nanmedian.dim": [*MEDIANS_ALONG, call(torch.tensor([[3.0, NAN, 1.0, 2.0], [NAN, NAN, 6.0, NAN]]), 1)],
    "aten.nanquantile.default": QUANTILES,
    "aten.nanquantile.scalar": QUANTILE_SCALARS,
    "aten.nansum.default": [
        call(NANS),
        call(NANS, 1),
        call(NANS, [0], True),
        call(i(3, 4), 0),
        call(NANS, 1, dtype=F64),
    ],
    "aten.norm.Scalar": [call(f(3, 4)), *NORMS],
    "aten.norm.ScalarOpt_dim": NORMS_ALONG,
    "aten.norm.ScalarOpt_dim_dtype": [
        call(f(3, 4), 2, [1], False, dtype=F64),
        call(f(3, 4), None, [0], True, dtype=F32),
    ],
    "aten.norm.ScalarOpt_dtype": [call(f(3, 4), 2, dtype=F64), call(f(3, 4), 1, dtype=F32)],
    "aten.quantile.default": QUANTILES,
    "aten.quantile.scalar": QUANTILE_SCALARS,
    "aten.renorm.default": [call(f(3, 4), 2, 0, 1.0), call(f(2, 3, 4), 1, 1, 5.0), call(f(3, 4), 2, -1, 100.0)],
    "aten.softmax.int": SOFTMAX,
    "aten.special_log_softmax.default": [call(f(3, 4), 1), call(f(3, 4), 0, dtype=F64)],
    "aten.special_logsumexp.default": [call(f(3, 4), [1]), call(f(3, 4), [0], True)],
    "aten.special_softmax.default": SOFTMAX,
    "aten.std.correction": CORRECTIONS,
    "aten.std.default": VARIANCES,
    "aten.std.dim": VARIANCES_ALONG,
    "aten.std_mean.correction": CORRECTIONS,
    "aten.std_mean.default": VARIANCES,
    "aten.std_mean.dim": VARIANCES_ALONG,
    "aten.sum.default": [*WHOLE, call(b(5)), call(f(3), dtype=F64), call(i(3, dtype=I32), dtype=I32), call(f(0))],
    "aten.sum_to_size.default": [call(f(2, 3, 4), [3, 1]), call(f(3, 4), [3, 4]), call(f(3, 4), [1]), call(b(), [])],
    "aten.trace.default": [call(f(3, 3)), call(f(3, 4)), call(i(3, 2))],
    "aten.trapezoid.dx": [call(f(3, 4)), call(f(3, 4), dx=0.5, dim=0), call(i(5), dx=2)],
    "aten.trapezoid.x": [call(f(3, 4), f(4)), call(f(3, 4), f(3), dim=0), call(f(3, 4), f(3, 4))],
    "aten.trapz.dx": [call(f(3, 4)), call(f(3, 4), dx=0.5, dim=0)],
    "aten.trapz.x": [call(f(3, 4), f(4)), call(f(3, 4), f(3), dim=0)],
    "aten.value_selecting_reduction_backward.default": [
        extremes_backward(f(3, 4), 1, False),
        extremes_backward(f(3, 4), 0, True),
        extremes_backward(f(2, 3, 4), -2, False),
    ],
    "aten.var.default": VARIANCES,
    "aten.var_mean.correction": CORRECTIONS,
    "aten.var_mean.default": VARIANCES,
    "aten.var_mean.dim": VARIANCES_ALONG,
}

STATIC = {name: "neighbours need a size of at least 1" for name in SAMPLES if "trap" in name}
