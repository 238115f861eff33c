"""Sizes, and numbers that are computed from them."""

import torch
from aten_calls import check_number
from core_aten_samples import F32, b, call, f, i

INTEGERS = [call(7, 3), call(-7, 3), call(7, -3), call(0, 5)]
REALS = [call(7.5, 2.0), call(-7.5, 2), call(3, 0.5)]
NUMBERS = INTEGERS + REALS
EQUALS = [call(3, 3), call(3.0, 3)]
TRUTHS = [call(True, False), call(True, True), call(6, 3)]
ROUNDED = [call(2.5), call(-2.5), call(7), call(-0.25)]
POSITIVE = [call(0.25), call(4), call(0.5)]
FLAGS = [call(f(2, 3)), call(i(3)), call(b(2)), call(i(2, dtype=torch.uint8))]

OPERATORS = {
    "add": NUMBERS,
    "and_": TRUTHS,
    "eq": NUMBERS + EQUALS,
    "floordiv": NUMBERS,
    "ge": NUMBERS + EQUALS,
    "getitem": [call([4, 5, 6], 1), call([4, 5, 6], -1), call([f(2, 3), f(3)], 0)],
    "gt": NUMBERS + EQUALS,
    "le": NUMBERS + EQUALS,
    "lshift": [call(5, 2), call(-3, 4)],
    "lt": NUMBERS + EQUALS,
    "mod": NUMBERS,
    "mul": NUMBERS,
    "ne": NUMBERS + EQUALS,
    "neg": [call(3), call(-2.5), call(0)],
    "or_": TRUTHS,
    "pos": [call(3), call(-2.5)],
    "pow": [call(3, 2), call(-2, 3), call(2, 0), call(2.5, 2), call(2, 0.5)],
    "rshift": [call(37, 2), call(-3, 1)],
    "sub": NUMBERS,
    "truediv": NUMBERS,
}
SAMPLES = {f"{module}.{name}": calls for module in ("operator", "_operator") for name, calls in OPERATORS.items()}
for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "lt", "eq"):
    SAMPLES[f"_operator.{_name}"] = [*NUMBERS, call(f(3, 4), f(4, low=0.5)), call(i(3), 2), call(2, f(3, low=0.5))]

FUNCTIONS = ("acos", "asin", "atan", "cos", "cosh", "log2", "sin", "sinh", "sqrt", "tan", "tanh")
SAMPLES |= {f"math.{name}": POSITIVE[::2] for name in FUNCTIONS}
SAMPLES |= {f"torch._sym_{name}": POSITIVE[::2] for name in FUNCTIONS}
SAMPLES |= {
    "math.ceil": ROUNDED,
    "math.exp": POSITIVE,
    "math.floor": ROUNDED,
    "math.trunc": ROUNDED,
    "torch.sym_float": [call(3), call(2.5)],
    "torch.sym_int": ROUNDED,
    "torch.sym_ite": [call(True, 2, 3), call(False, 2, 3), call(True, 2.5, 1.5)],
    "torch.sym_max": NUMBERS,
    "torch.sym_min": NUMBERS,
    "torch.sym_not": [call(True), call(False)],
    "torch.sym_sqrt": POSITIVE,
    "torch.sym_sum": [call([1, 2, 3]), call([5])],
    "aten._assert_async.default": [call(torch.tensor(True)), call(torch.ones(1))],
    "aten._assert_async.msg": [call(torch.tensor(True), "no"), call(torch.ones(1), "no")],
    "aten._assert_scalar.default": [call(True, "no"), call(3, "no")],
    "aten._assert_tensor_metadata.default": [call(f(2, 3)), call(f(2, 3), None, None, F32)],
    "aten._functional_assert_async.msg": [call(torch.tensor(True), "no", f(2)), call(torch.ones(1), "no", f(1))],
    "aten._functional_assert_scalar.default": [call(True, "no", f(2)), call(3, "no", f(1))],
    "aten._functional_sym_constrain_range.default": [call(3, 1, 5, f(2)), call(3, None, None, f(1))],
    "aten._functional_sym_constrain_range_for_size.default": [call(3, 1, 5, f(2)), call(3, None, None, f(1))],
    "aten.dim.default": FLAGS,
    "aten.is_complex.default": FLAGS,
    "aten.is_conj.default": FLAGS,
    "aten.is_contiguous.default": FLAGS,
    "aten.is_floating_point.default": FLAGS,
    "aten.is_neg.default": FLAGS,
    "aten.is_nonzero.default": [call(f()), call(torch.zeros(1)), call(i(1, 1))],
    "aten.is_same_size.default": [call(f(2, 3), f(2, 3)), call(f(2, 3), f(3, 2)), call(f(2), f(2, 1))],
    "aten.is_signed.default": FLAGS,
    "aten.item.default": [call(f()), call(i(1, 1)), call(b())],
    "aten.numel.default": [call(f(2, 3)), call(f()), call(f(4, 0))],
    "aten.size.int": [call(f(2, 3), 0), call(f(2, 3), -1)],
    "aten.storage_offset.default": [call(f(2, 3)), call(f())],
    "aten.stride.int": [call(f(2, 3, 4), 0), call(f(2, 3, 4), -1)],
    "aten.sym_constrain_range.default": [call(3, min=1, max=5), call(3)],
    "aten.sym_constrain_range_for_size.default": [call(3, min=1, max=5), call(3)],
}

CHECKS = {"aten.is_nonzero.default": check_number, "aten.item.default": check_number}

STATIC = {name: "there is no tensor" for name in SAMPLES if not name.startswith("aten.")}
for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "lt", "eq", "getitem"):
    STATIC.pop(f"_operator.{_name}")
STATIC.pop("operator.getitem")
NO_SIZES = ["_assert_async.default", "_assert_async.msg", "_assert_scalar.default", "sym_constrain_range.default"]
STATIC |= {f"aten.{name}": "there is no size" for name in [*NO_SIZES, "sym_constrain_range_for_size.default"]}
