"""Tensors from nothing, and copies of a whole tensor."""

import torch
from aten_calls import check_type_only
from core_aten_samples import BOOL, F32, F64, I32, I64, b, call, f, i

SIZES = [call([2, 3]), call([], dtype=I64), call([0], dtype=BOOL), call([2], dtype=torch.bfloat16)]
LIKE = [call(f(2, 3)), call(i(3)), call(b(2)), call(f(2), dtype=I32), call(i(), dtype=F64)]
NEW = [call(f(2), [2, 3]), call(i(3), []), call(b(2), [0]), call(f(2), [3], dtype=I32)]
CONVERSIONS = [call(f(2, 3), dtype) for dtype in (F32, F64, I64, I32, BOOL, torch.float16)]
CONVERSIONS += [call(i(9, low=-1, high=1), BOOL), call(b(3), F32), call(f(3), F32, False, True)]
SAME = [call(f(2, 3)), call(i(3)), call(b())]
WINDOWS = [call(1), call(2), call(7), call(8), call(10, dtype=F64)]
PERIODIC = [call(7, True), call(7, False), call(1, False), call(2, False), call(8, False, dtype=F64)]
TRIANGLES = [call(3, 4), call(4, 3, 1), call(4, 3, -2), call(3, 3, dtype=I32), call(0, 2), call(3, 3, -5)]

SAMPLES = {
    "aten.arange.default": [call(5), call(4.5), call(0), call(3, dtype=F32), call(7.5, dtype=I64)],
    "aten.arange.start": [call(2, 5), call(0.5, 4), call(5, 5), call(-3, 3, dtype=F64)],
    "aten.contiguous.default": [*SAME, call(f(1, 2, 2, 2), memory_format=torch.channels_last)],
    "aten.detach.default": SAME,
    "aten.empty_like.default": LIKE,
    "aten.empty_permuted.default": [call([2, 3], [1, 0]), call([2, 3], [0, 1], dtype=I32)],
    "aten.eye.default": [call(3), call(1), call(0), call(3, dtype=I64), call(2, dtype=BOOL)],
    "aten.eye.m": [call(2, 3), call(3, 2, dtype=F64), call(0, 2)],
    "aten.fill.Tensor": [call(f(2, 3), f()), call(i(3), i()), call(f(2), i()), call(i(2), f())],
    "aten.lift.default": SAME,
    "aten.lift_fresh.default": SAME,
    "aten.lift_fresh_copy.default": SAME,
    "aten.linspace.default": [call(0, 1, 5), call(-2.5, 3, 4), call(1, 1, 1), call(0, 1, 0), call(3, -1, 9, dtype=F64)],
    "aten.logspace.default": [call(0, 2, 5), call(-1, 1, 4, 2.0), call(1, 1, 1), call(0, 3, 7, dtype=F64)],
    "aten.new_empty.default": NEW,
    "aten.new_empty_strided.default": [call(f(2), [2, 3], [1, 2]), call(i(2), [2], [1], dtype=F32)],
    "aten.new_full.default": [call(f(2), [2, 3], 1.5), call(i(2), [3], 2), call(i(2), [2], 2.5, dtype=F32)],
    "aten.new_ones.default": NEW,
    "aten.new_zeros.default": NEW,
    "aten.ones.default": SIZES,
    "aten.ones_like.default": LIKE,
    "aten.to.device": [call(x, torch.device("cpu"), *rest) for (x, *rest), _ in CONVERSIONS],
    "aten.to.dtype": CONVERSIONS,
    "aten.to.dtype_layout": [call(f(2, 3)), call(f(2, 3), dtype=F64, copy=True), call(i(3), dtype=F32, device="cpu")],
    "aten.to.other": [call(f(2, 3), f(2, dtype=F64)), call(f(2), i(3)), call(i(3), i(1))],
    "aten.tril_indices.default": TRIANGLES,
    "aten.triu_indices.default": TRIANGLES,
    "aten.type_as.default": [call(f(2, 3), f(2, dtype=F64)), call(f(2), i(3)), call(i(3), b(1))],
    "aten.zero.default": [call(f(2, 3)), call(i(2)), call(b(2))],
    "aten.zeros.default": SIZES,
    "aten.zeros_like.default": LIKE,
    "prims.convert_element_type.default": [call(x, dtype) for (x, dtype, *_), _ in CONVERSIONS],
    "aten.hamming_window.periodic_alpha": [call(7, True, 0.6), call(6, False, 0.5)],
    "aten.hamming_window.periodic_alpha_beta": [call(7, True, 0.6, 0.4), call(6, False, 0.5, 0.25, dtype=F64)],
}
for _window in ("bartlett", "blackman", "hamming", "hann"):
    SAMPLES[f"aten.{_window}_window.default"] = WINDOWS
    SAMPLES[f"aten.{_window}_window.periodic"] = PERIODIC

EMPTY = ["empty_like", "empty_permuted", "new_empty", "new_empty_strided"]
CHECKS = {f"aten.{name}.default": check_type_only for name in EMPTY}

STATIC = {name: "there is no tensor" for name in SAMPLES if "window" in name or "_indices" in name}
STATIC |= {
    f"aten.{name}": "there is no tensor"
    for name in ("arange.default", "arange.start", "eye.default", "eye.m", "linspace.default", "logspace.default")
}
STATIC |= {"aten.ones.default": "there is no tensor", "aten.zeros.default": "there is no tensor"}
