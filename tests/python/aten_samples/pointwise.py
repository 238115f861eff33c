"""Element by element."""

import torch
from aten_calls import check_number
from core_aten_samples import (
    BITWISE,
    BITWISE_SCALAR,
    BOOLS,
    COMPARED,
    COMPARED_TENSORS,
    F64,
    I32,
    INF,
    INTEGERS,
    MIXED,
    NAN,
    SCALED,
    b,
    binary,
    call,
    f,
    i,
    unary,
)

HALF = [call(f(9, low=0.1, high=0.9, dtype=torch.float16)), call(f(9, low=0.1, high=0.9, dtype=torch.bfloat16))]
UNIT = unary(0.05, 0.95)
ALL = unary(others=INTEGERS + HALF)
SPECIALS = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.5])
SHIFTS = [call(i(3, 4), i(4, low=0, high=5)), call(i(3, dtype=I32), i(3, low=0, high=5, dtype=I32))]
SHIFT_SCALARS = [call(i(3, 4), 3), call(i(3, dtype=I32), 2)]
DIVISIONS = [
    call(f(3, 4), f(4, low=0.5)),
    call(i(20), i(20, low=1)),
    call(i(20), i(20, high=-1)),
    call(b(3), i(3, low=1)),
]
DIVISION_SCALARS = [call(f(20), 1.25), call(f(20), -2), call(i(20), 4), call(i(20), -4), call(i(9), 2.5), call(b(3), 2)]
MODES = [call(*args, rounding_mode=mode) for args, _ in DIVISIONS for mode in (None, "floor", "trunc")]
MODE_SCALARS = [call(*args, rounding_mode=mode) for args, _ in DIVISION_SCALARS for mode in (None, "floor", "trunc")]
POWERS = [call(f(3, 4, low=0.1), f(4)), call(i(9, low=1), i(9, low=0, high=4)), call(f(3, low=0.1), i(3))]
LOGARITHMS = binary(
    call(SPECIALS, f(6, low=0.1)),
    call(torch.zeros(6), SPECIALS),
    call(i(3), i(3, low=1)),
    call(f(3, dtype=F64), f(3, low=0.1)),
    low=0.1,
)
LOGARITHM_OTHER = [call(f(3, 4), 2.5), call(torch.zeros(3), NAN), call(i(3), 2), call(torch.tensor([0.0, 1.0]), 0)]
LOGARITHM_SELF = [call(2.5, f(3, 4, low=0.1)), call(0, SPECIALS), call(2, i(3, low=1))]
CLOSE = [
    call(f(3, 4), f(3, 4)),
    call(torch.tensor([1.0, 1.0, NAN, INF, INF]), torch.tensor([1.000001, 1.1, NAN, INF, -INF])),
    call(torch.tensor([1.0, NAN, 2.0]), torch.tensor([1.0, NAN, 2.1]), 0.1, 0.0, True),
    call(i(9, low=0, high=2), i(9, low=0, high=2)),
    call(i(9, low=10, high=20), i(9, low=10, high=20), 0.2, 1.5),
    call(b(4), b(4)),
]
BOUNDS = [call(f(3, 4), f(4)), call(i(9), i(9)), call(f(3), f())]
SAME = [call(f(3), f(3)), call(i(3), i(3)), call(SPECIALS, torch.ones(6))]
CONDITION = b(3, 4)

SAMPLES = {
    "aten.__and__.Scalar": BITWISE_SCALAR,
    "aten.__and__.Tensor": BITWISE,
    "aten.__lshift__.Scalar": SHIFT_SCALARS,
    "aten.__lshift__.Tensor": SHIFTS,
    "aten.__or__.Scalar": BITWISE_SCALAR,
    "aten.__or__.Tensor": BITWISE,
    "aten.__rshift__.Scalar": SHIFT_SCALARS,
    "aten.__rshift__.Tensor": SHIFTS,
    "aten.__xor__.Scalar": BITWISE_SCALAR,
    "aten.__xor__.Tensor": BITWISE,
    "aten.absolute.default": unary(others=INTEGERS),
    "aten.addcdiv.default": [
        call(f(3, 4), f(4), f(3, 1, low=0.5)),
        call(f(3), f(3), f(3, low=0.5), value=2),
        call(f(3), f(), f(3, low=1), value=-0.5),
    ],
    "aten.addcmul.default": [
        call(f(3, 4), f(4), f(3, 1)),
        call(f(3), f(3), f(3), value=0.5),
        call(i(3), i(3), i(3), value=2),
        call(i(3), i(3), i(3)),
        call(f(3), f(3), f()),
        call(f(3), i(3), i(3), value=0.5),
    ],
    "aten.allclose.default": CLOSE,
    "aten.arctan2.default": binary(*MIXED),
    "aten.bitwise_and.Scalar_Tensor": [call(y, x) for (x, y), _ in BITWISE_SCALAR],
    "aten.bitwise_left_shift.Scalar_Tensor": [call(3, i(3, low=0, high=5)), call(-2, i(3, low=0, high=5))],
    "aten.bitwise_left_shift.Tensor": SHIFTS,
    "aten.bitwise_left_shift.Tensor_Scalar": SHIFT_SCALARS,
    "aten.bitwise_or.Scalar_Tensor": [call(y, x) for (x, y), _ in BITWISE_SCALAR],
    "aten.bitwise_right_shift.Scalar_Tensor": [call(30, i(3, low=0, high=5)), call(-20, i(3, low=0, high=5))],
    "aten.bitwise_right_shift.Tensor": SHIFTS,
    "aten.bitwise_right_shift.Tensor_Scalar": SHIFT_SCALARS,
    "aten.bitwise_xor.Scalar_Tensor": [call(y, x) for (x, y), _ in BITWISE_SCALAR],
    "aten.clamp_max.Tensor": BOUNDS,
    "aten.clamp_max.default": [call(f(3, 4), 0.5), call(i(9), 2), call(i(9), 1.5), call(SPECIALS, 0)],
    "aten.clamp_min.Tensor": BOUNDS,
    "aten.clamp_min.default": [call(f(3, 4), 0.5), call(i(9), 2), call(i(9), 1.5), call(SPECIALS, 0)],
    "aten.clip.Tensor": [call(f(3, 4), f(4), f(3, 1)), call(f(3), None, f(3)), call(i(3), i(3))],
    "aten.clip.default": [call(f(3, 4), -1, 0.5), call(i(9), None, 3), call(i(9), -2.5, 2), call(f(3), 1)],
    "aten.copysign.Scalar": [call(f(3, 4), -1.0), call(i(3), 2), call(SPECIALS, -0.0)],
    "aten.copysign.Tensor": binary(*MIXED, call(SPECIALS, -SPECIALS)),
    "aten.deg2rad.default": ALL,
    "aten.digamma.default": unary(0.1, 5, INTEGERS[:0]),
    "aten.divide.Scalar": DIVISION_SCALARS,
    "aten.divide.Scalar_mode": MODE_SCALARS,
    "aten.divide.Tensor": DIVISIONS,
    "aten.divide.Tensor_mode": MODES,
    "aten.equal.default": [call(f(3), f(3)), call(torch.ones(3), torch.ones(3)), call(SPECIALS, SPECIALS)],
    "aten.erfc.default": ALL,
    "aten.erfinv.default": unary(-0.9, 0.9),
    "aten.exp2.default": ALL,
    "aten.fix.default": unary(),
    "aten.float_power.Scalar": [call(2.5, f(3, 4)), call(2, i(3)), call(3, f(3))],
    "aten.float_power.Tensor_Scalar": [call(f(3, 4, low=0.1), 2.5), call(i(3, low=1), 2), call(i(3, low=1), -1)],
    "aten.float_power.Tensor_Tensor": POWERS,
    "aten.floor_divide.Scalar": DIVISION_SCALARS,
    "aten.floor_divide.default": DIVISIONS,
    "aten.fmax.default": binary(*MIXED, call(SPECIALS, torch.ones(6))),
    "aten.fmin.default": binary(*MIXED, call(SPECIALS, torch.ones(6))),
    "aten.frac.default": [*unary(), call(f(9, dtype=F64))],
    "aten.heaviside.default": [*SAME, call(i(20, low=-1, high=1), i(1)), call(SPECIALS, f(1))],
    "aten.hypot.default": binary(call(SPECIALS, torch.full([6], NAN))),
    "aten.isclose.default": CLOSE,
    "aten.isfinite.default": unary(others=INTEGERS),
    "aten.isneginf.default": unary(others=INTEGERS + BOOLS),
    "aten.isposinf.default": unary(others=INTEGERS + BOOLS),
    "aten.isreal.default": unary(others=INTEGERS + BOOLS),
    "aten.ldexp.Tensor": [call(f(3, 4), i(4)), call(f(3), f(3)), call(i(3), i(3, low=0)), call(f(2, dtype=F64), i(2))],
    "aten.lerp.Scalar": [call(f(3, 4), f(4), 0.25), call(f(3), f(3), 1.0), call(f(3, dtype=F64), f(3, dtype=F64), 2)],
    "aten.lerp.Tensor": [call(f(3, 4), f(4), f(3, 1)), call(f(3), f(3), f())],
    "aten.lgamma.default": unary(0.1, 5, INTEGERS),
    "aten.logaddexp.default": binary(call(SPECIALS, SPECIALS)),
    "aten.logaddexp2.default": binary(call(SPECIALS, SPECIALS), call(SPECIALS, torch.ones(6))),
    "aten.logit.default": [
        *UNIT,
        call(f(9, low=-0.5, high=1.5)),
        call(f(9, low=-0.5, high=1.5), 0.1),
        call(torch.tensor([0.0, 1.0, NAN]), 1e-6),
        call(torch.tensor([0, 1])),
    ],
    "aten.masked_fill.Scalar": [
        call(f(3, 4), b(3, 4), -INF),
        call(f(3, 4), b(4), 2),
        call(i(3), b(3), 7),
        call(f(4), b(3, 4), 0.5),
        call(b(3), b(3), True),
    ],
    "aten.masked_fill.Tensor": [call(f(3, 4), b(4), f()), call(i(3), b(3), i()), call(f(3), b(3), i())],
    "aten.max.other": binary(*MIXED, call(SPECIALS, torch.ones(6))),
    "aten.min.other": binary(*MIXED, call(SPECIALS, torch.ones(6))),
    "aten.multiply.Scalar": [call(f(3), 2), call(i(3), 1.5), call(b(3), 2)],
    "aten.multiply.Tensor": binary(*MIXED),
    "aten.mvlgamma.default": [call(f(3, 4, low=2, high=5), 2), call(f(3, low=2), 3), call(f(low=1, high=2), 1)],
    "aten.nan_to_num.default": [
        call(SPECIALS),
        call(SPECIALS, 1.0),
        call(SPECIALS, 0.5, 2.0, -3.0),
        call(SPECIALS.double(), None, None, 7.0),
        call(SPECIALS.half()),
        call(SPECIALS.bfloat16()),
        call(i(3)),
    ],
    "aten.negative.default": unary(others=INTEGERS),
    "aten.polygamma.default": [
        call(0, f(3, 4, low=0.5)),
        call(1, f(3, low=0.5)),
        call(1, f(3, low=0.5, dtype=F64)),
        *(call(n, f(9, dtype=F64)) for n in (2, 3, 5, 10)),
        call(2, torch.tensor([0.0, -1.0, NAN, INF, 0.25, -7.5])),
    ],
    "aten.positive.default": unary(others=INTEGERS),
    "aten.rad2deg.default": ALL,
    "aten.remainder.Scalar_Tensor": [call(7, i(9, low=1)), call(-7.5, f(9, low=0.5)), call(5, f(3, low=1))],
    "aten.round.decimals": [call(f(9), decimals=1), call(f(9) * 100, decimals=-1), call(f(9), decimals=0)],
    "aten.rsub.Scalar": [call(f(3), 2), call(i(3), 1.5), call(f(3), 1.5, 2), call(i(3), 2, 3), call(i(3), 0.5, 0.5)],
    "aten.rsub.Tensor": binary(*MIXED, *SCALED),
    "aten.sgn.default": unary(others=INTEGERS + BOOLS),
    "aten.signbit.default": unary(others=INTEGERS + BOOLS),
    "aten.sinc.default": ALL,
    "aten.special_entr.default": unary(-1, 3, INTEGERS),
    "aten.special_erfcx.default": [*unary(), call(torch.tensor([-30.0, 5.0, 19.9, 20.1, 100.0, 1e10]))],
    "aten.special_log_ndtr.default": [*unary(), call(torch.tensor([-1e4, -40.0, -20.1, -19.9, 5.0, 30.0]))],
    "aten.special_multigammaln.default": [call(f(3, 4, low=2, high=5), 2), call(f(3, low=2), 3)],
    "aten.special_ndtr.default": ALL,
    "aten.special_polygamma.default": [call(0, f(3, 4, low=0.5)), call(1, f(3, low=0.5))],
    "aten.special_round.default": [call(f(9)), call(f(9), decimals=2)],
    "aten.special_xlog1py.default": LOGARITHMS,
    "aten.special_xlog1py.other_scalar": LOGARITHM_OTHER,
    "aten.special_xlog1py.self_scalar": LOGARITHM_SELF,
    "aten.special_xlogy.default": LOGARITHMS,
    "aten.special_xlogy.other_scalar": LOGARITHM_OTHER,
    "aten.special_xlogy.self_scalar": LOGARITHM_SELF,
    "aten.square.default": unary(others=INTEGERS + BOOLS),
    "aten.subtract.Scalar": [call(f(3), 2), call(i(3), 1.5), call(f(3), 1.5, 2)],
    "aten.subtract.Tensor": binary(*MIXED, *SCALED),
    "aten.true_divide.Scalar": DIVISION_SCALARS,
    "aten.true_divide.Tensor": DIVISIONS,
    "aten.where.Scalar": [call(CONDITION, 1, 2), call(CONDITION, 1.5, 2), call(b(3), True, False)],
    "aten.where.ScalarOther": [call(CONDITION, f(4), 2), call(CONDITION, i(4), 1.5), call(b(3), f(3), -INF)],
    "aten.where.ScalarSelf": [call(CONDITION, 2, f(4)), call(CONDITION, 1.5, i(4)), call(b(3), -INF, f(3))],
    "aten.xlogy.Scalar_Other": LOGARITHM_OTHER,
    "aten.xlogy.Scalar_Self": LOGARITHM_SELF,
    "aten.xlogy.Tensor": LOGARITHMS,
}
for _name, _other in [
    ("not_equal", "ne"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
]:
    SAMPLES[f"aten.{_name}.Scalar"] = COMPARED
    SAMPLES[f"aten.{_name}.Tensor"] = COMPARED_TENSORS
for _name in ("arccos", "arcsin", "arctanh"):
    SAMPLES[f"aten.{_name}.default"] = unary(-1.5, 1.5, INTEGERS)
for _name in ("arcsinh", "arctan", "special_erf", "special_erfc", "special_exp2", "special_expit", "special_expm1"):
    SAMPLES[f"aten.{_name}.default"] = unary(others=INTEGERS)
SAMPLES |= {
    "aten.arccosh.default": unary(0.5, 4, INTEGERS),
    "aten.special_digamma.default": unary(0.1, 5),
    "aten.special_erfinv.default": unary(-0.9, 0.9),
    "aten.special_gammaln.default": unary(0.1, 5),
    "aten.special_log1p.default": unary(-1, 5, INTEGERS),
    "aten.special_logit.default": SAMPLES["aten.logit.default"],
    "aten.special_psi.default": unary(0.1, 5),
    "aten.special_sinc.default": ALL,
}

# Whether all elements agree is only known at run time.
CHECKS = {"aten.allclose.default": check_number, "aten.equal.default": check_number}
