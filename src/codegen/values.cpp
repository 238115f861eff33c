#include "codegen/values.h"

#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>
#include <cmath>

#include "codegen/math.h"

namespace tenon::codegen {
namespace {

using llvm::Value;
using llvm::Intrinsic::ID;

bool is_narrow(DType dtype) { return is_float(dtype) && size_of(dtype) == 2; }
bool is_unsigned(DType dtype) { return dtype == DType::kU8 || dtype == DType::kBool; }

struct RealIntrinsic {
  std::string_view op;
  ID id;
};
constexpr RealIntrinsic kIntrinsics[] = {
    {"abs", llvm::Intrinsic::fabs},  {"sqrt", llvm::Intrinsic::sqrt},   {"floor", llvm::Intrinsic::floor},
    {"ceil", llvm::Intrinsic::ceil}, {"trunc", llvm::Intrinsic::trunc}, {"rint", llvm::Intrinsic::nearbyint},
};

constexpr std::string_view kWhole[] = {"floor", "ceil", "trunc", "rint"};  // integers are already
constexpr std::string_view kDivisions[] = {"floor_div", "trunc_div", "fmod", "remainder"};

template <class Range>
bool is_in(const Range& names, std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

}  // namespace

int64_t lanes_of(const Value* value) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? vector->getNumElements() : 1;
}

// ---- types and literals ---------------------------------------------------------------------------------------------

llvm::Type* Values::type(DType dtype, int64_t lanes) const {
  llvm::Type* const type = dtype == DType::kF64    ? b_.getDoubleTy()
                           : dtype == DType::kF32  ? b_.getFloatTy()
                           : dtype == DType::kBool ? static_cast<llvm::Type*>(b_.getInt1Ty())
                                                   : b_.getIntNTy(static_cast<unsigned>(size_of(dtype) * 8));
  return lanes == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
}

llvm::Type* Values::memory_type(DType dtype, int64_t lanes) const {
  return type(dtype == DType::kBool ? DType::kU8 : dtype, lanes);
}

Value* Values::from_memory(Value* value, DType dtype) {
  return dtype == DType::kBool ? b_.CreateIsNotNull(value) : value;
}

Value* Values::to_memory(Value* value, DType dtype) {
  return dtype == DType::kBool ? b_.CreateZExt(value, memory_type(dtype, lanes_of(value))) : value;
}

Value* Values::literal(DType dtype, const loops::Scalar& value, int64_t lanes) const {
  if (is_integral(dtype)) return number(type(dtype, lanes), wrap_to(dtype, std::get<int64_t>(value)));
  const double real = std::get<double>(value);
  if (!is_narrow(dtype)) return number(type(dtype, lanes), round_to(dtype, real));
  std::byte bits[2];
  store_real(dtype, bits, real);
  return number(type(dtype, lanes), load_integer(DType::kI16, bits));
}

Value* Values::splat(Value* value, int64_t lanes) {
  return lanes == lanes_of(value) ? value : b_.CreateVectorSplat(static_cast<unsigned>(lanes), value);
}

llvm::Type* Values::like(Value* value, llvm::Type* element) const {
  const int64_t lanes = lanes_of(value);
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
}

// ---- ops ------------------------------------------------------------------------------------------------------------

Value* Values::apply(const OpDef& op, DType operands, std::span<Value* const> x) {
  const std::string_view name = op.name;
  if (name == "where") return b_.CreateSelect(x[0], x[1], x[2]);
  Value* result = compare(name, operands, x);
  if (!result) result = is_float(operands) ? real(name, operands, x) : integer(name, operands, x);
  if (!result) fail("there is no machine code for {} of {}", name, name_of(operands));
  return result;
}

Value* Values::compare(std::string_view op, DType dtype, Pair x) {
  using P = llvm::CmpInst::Predicate;
  struct Comparison {
    std::string_view op;
    P real, with_sign, without_sign;
  };
  constexpr Comparison kComparisons[] = {
      {"eq", P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {"ne", P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {"lt", P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {"le", P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {"gt", P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {"ge", P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
  };
  const auto found = std::ranges::find(kComparisons, op, &Comparison::op);
  if (found == std::end(kComparisons)) return nullptr;
  if (is_float(dtype)) return b_.CreateFCmp(found->real, x[0], x[1]);
  return b_.CreateICmp(is_unsigned(dtype) ? found->without_sign : found->with_sign, x[0], x[1]);
}

// NaN wins, from either side: where x is NaN, no comparison takes y. In a fold x is what the next step waits for, and
// only one instruction of three does.
Value* Values::extreme(Value* takes_second, Value* x, Value* y) {
  Value* const nan = llvm::ConstantFP::getQNaN(x->getType());
  return b_.CreateSelect(b_.CreateFCmpUNO(y, y), nan, b_.CreateSelect(takes_second, y, x));
}

Value* Values::real(std::string_view op, DType dtype, Pair x) {
  if (op == "add") return b_.CreateFAdd(x[0], x[1]);
  if (op == "sub") return b_.CreateFSub(x[0], x[1]);
  if (op == "mul") return b_.CreateFMul(x[0], x[1]);
  if (op == "div") return b_.CreateFDiv(x[0], x[1]);
  if (op == "neg") return b_.CreateFNeg(x[0]);
  if (op == "maximum") return extreme(b_.CreateFCmpOGT(x[1], x[0]), x[0], x[1]);
  if (op == "minimum") return extreme(b_.CreateFCmpOLT(x[1], x[0]), x[0], x[1]);
  if (op == "copysign") return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x[0], x[1]);
  if (op == "sign") {
    Value* const zero = number(x[0]->getType(), 0.0);
    Value* const below = b_.CreateSelect(b_.CreateFCmpOLT(x[0], zero), number(x[0]->getType(), -1.0), zero);
    return b_.CreateSelect(b_.CreateFCmpOGT(x[0], zero), number(x[0]->getType(), 1.0), below);
  }
  if (op == "fmod") return b_.CreateFRem(x[0], x[1]);
  const auto intrinsic = std::ranges::find(kIntrinsics, op, &RealIntrinsic::op);
  if (intrinsic != std::end(kIntrinsics)) return unary(intrinsic->id, x[0]);
  if (is_in(kDivisions, op)) {
    Value* const wide[] = {cast(x[0], dtype, DType::kF64), cast(x[1], dtype, DType::kF64)};
    return cast(wide_real(op, wide), DType::kF64, dtype);
  }
  return is_math(op) ? emit_math(b_, op, x, target_) : nullptr;
}

// As real_floor_div and real_remainder of runtime/scalar_functions.h.
Value* Values::wide_real(std::string_view op, Pair x) {
  Value* const zero = number(x[0]->getType(), 0.0);
  if (op == "trunc_div") return unary(llvm::Intrinsic::trunc, b_.CreateFDiv(x[0], x[1]));
  Value* const rest = b_.CreateFRem(x[0], x[1]);
  Value* const signs_differ = b_.CreateXor(b_.CreateFCmpOLT(rest, zero), b_.CreateFCmpOLT(x[1], zero));
  Value* const corrects = b_.CreateAnd(b_.CreateFCmpUNE(rest, zero), signs_differ);
  if (op == "remainder") return b_.CreateSelect(corrects, b_.CreateFAdd(rest, x[1]), rest);
  Value* const exact = b_.CreateFDiv(x[0], x[1]);
  Value* quotient = b_.CreateFDiv(b_.CreateFSub(x[0], rest), x[1]);
  quotient = b_.CreateSelect(corrects, b_.CreateFSub(quotient, number(zero->getType(), 1.0)), quotient);
  Value* const below = unary(llvm::Intrinsic::floor, quotient);
  Value* const is_above = b_.CreateFCmpOGT(b_.CreateFSub(quotient, below), number(zero->getType(), 0.5));
  Value* result = b_.CreateSelect(is_above, b_.CreateFAdd(below, number(zero->getType(), 1.0)), below);
  Value* const signed_zero = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, zero, exact);
  result = b_.CreateSelect(b_.CreateFCmpOEQ(quotient, zero), signed_zero, result);
  return b_.CreateSelect(b_.CreateFCmpOEQ(x[1], zero), exact, result);
}

Value* Values::integer(std::string_view op, DType dtype, Pair x) {
  const bool is_bool = dtype == DType::kBool;
  if (op == "bitwise_or" || (op == "add" && is_bool)) return b_.CreateOr(x[0], x[1]);
  if (op == "bitwise_and" || (op == "mul" && is_bool)) return b_.CreateAnd(x[0], x[1]);
  if (op == "bitwise_xor") return b_.CreateXor(x[0], x[1]);
  if (op == "add") return b_.CreateAdd(x[0], x[1]);
  if (op == "sub") return b_.CreateSub(x[0], x[1]);
  if (op == "mul") return b_.CreateMul(x[0], x[1]);
  if (op == "neg") return b_.CreateNeg(x[0]);
  if (is_in(kWhole, op)) return x[0];
  using P = llvm::CmpInst::Predicate;
  if (op == "maximum") {
    return b_.CreateSelect(b_.CreateICmp(is_unsigned(dtype) ? P::ICMP_UGE : P::ICMP_SGE, x[0], x[1]), x[0], x[1]);
  }
  if (op == "minimum") {
    return b_.CreateSelect(b_.CreateICmp(is_unsigned(dtype) ? P::ICMP_ULE : P::ICMP_SLE, x[0], x[1]), x[0], x[1]);
  }
  Value* const zero = number(x[0]->getType(), int64_t{0});
  if (op == "abs")
    return is_unsigned(dtype) ? x[0] : b_.CreateSelect(b_.CreateICmpSLT(x[0], zero), b_.CreateNeg(x[0]), x[0]);
  if (op == "sign") {
    Value* const above = is_unsigned(dtype) ? b_.CreateICmpUGT(x[0], zero) : b_.CreateICmpSGT(x[0], zero);
    Value* const below = is_unsigned(dtype) ? zero : b_.CreateSExt(b_.CreateICmpSLT(x[0], zero), x[0]->getType());
    return b_.CreateSelect(above, number(x[0]->getType(), int64_t{1}), below);
  }
  if (op == "shift_left" || op == "shift_right") return shift(op, dtype, x[0], x[1]);
  if (op == "pow") return integer_pow(dtype, x[0], x[1]);
  return is_in(kDivisions, op) ? quotient(op, dtype, x[0], x[1]) : nullptr;
}

// A division by -1 is a negation, which wraps for the smallest integer. The divisor is not 0: lanes that are not needed
// may have one, and then get 1.
Value* Values::quotient(std::string_view op, DType dtype, Value* x, Value* y) {
  llvm::Type* const type = x->getType();
  Value* const zero = number(type, int64_t{0});
  Value* const one = number(type, int64_t{1});
  if (is_unsigned(dtype)) {
    Value* const divisor = b_.CreateSelect(b_.CreateICmpEQ(y, zero), one, y);
    return op == "fmod" || op == "remainder" ? b_.CreateURem(x, divisor) : b_.CreateUDiv(x, divisor);
  }
  Value* const is_minus_one = b_.CreateICmpEQ(y, number(type, int64_t{-1}));
  Value* const divisor = b_.CreateSelect(b_.CreateOr(is_minus_one, b_.CreateICmpEQ(y, zero)), one, y);
  Value* const rest = b_.CreateSelect(is_minus_one, zero, b_.CreateSRem(x, divisor));
  if (op == "fmod") return rest;
  Value* const whole = b_.CreateSelect(is_minus_one, b_.CreateNeg(x), b_.CreateSDiv(x, divisor));
  if (op == "trunc_div") return whole;
  Value* const signs_differ = b_.CreateICmpSLT(b_.CreateXor(rest, y), zero);
  Value* const corrects = b_.CreateAnd(b_.CreateICmpNE(rest, zero), signs_differ);
  if (op == "remainder") return b_.CreateSelect(corrects, b_.CreateAdd(rest, y), rest);
  return b_.CreateSelect(corrects, b_.CreateSub(whole, one), whole);
}

// In 64 bits; a narrow dtype loses its bits when the result wraps.
Value* Values::shift(std::string_view op, DType dtype, Value* x, Value* y) {
  Value* const wide = cast(x, dtype, DType::kI64);
  Value* const by = cast(y, dtype, DType::kI64);
  Value* const fits = b_.CreateICmpULT(by, number(by->getType(), int64_t{64}));
  Value* const zero = number(by->getType(), int64_t{0});
  if (op == "shift_left") {
    Value* const shifted = b_.CreateShl(wide, b_.CreateSelect(fits, by, zero));
    return cast(b_.CreateSelect(fits, shifted, zero), DType::kI64, dtype);
  }
  return cast(b_.CreateAShr(wide, b_.CreateSelect(fits, by, number(by->getType(), int64_t{63}))), DType::kI64, dtype);
}

// As integer_pow of runtime/scalar_functions.h; the exponent's 64 bits are 64 steps without a branch.
Value* Values::integer_pow(DType dtype, Value* x, Value* y) {
  Value* base = cast(x, dtype, DType::kI64);
  Value* const exponent = cast(y, dtype, DType::kI64);
  llvm::Type* const type = base->getType();
  Value* const zero = number(type, int64_t{0});
  Value* const one = number(type, int64_t{1});
  Value* const is_negative = b_.CreateICmpSLT(exponent, zero);
  Value* const is_unit = b_.CreateOr(b_.CreateICmpEQ(base, one), b_.CreateICmpEQ(base, number(type, int64_t{-1})));
  Value* left = b_.CreateSelect(is_negative, b_.CreateNeg(exponent), exponent);
  Value* const no_power = b_.CreateAnd(is_negative, b_.CreateNot(is_unit));
  Value* power = one;
  const int64_t bits = std::max<int64_t>(size_of(dtype) * 8, 8);
  for (int64_t bit = 0; bit < bits; ++bit) {
    Value* const is_odd = b_.CreateTrunc(left, like(left, b_.getInt1Ty()));
    power = b_.CreateSelect(is_odd, b_.CreateMul(power, base), power);
    base = b_.CreateMul(base, base);
    left = b_.CreateLShr(left, one);
  }
  return cast(b_.CreateSelect(no_power, zero, power), DType::kI64, dtype);
}

Value* Values::mul_add(Value* x, Value* y, Value* z) {
  if (!target_.has_fma) return b_.CreateFAdd(b_.CreateFMul(x, y), z);
  return b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

// Halves are folded together until one lane is left.
Value* Values::fold_lanes(const OpDef& op, DType dtype, Value* x) {
  for (int64_t lanes = lanes_of(x) / 2; lanes >= 1; lanes /= 2) {
    if (lanes == 1) {
      Value* const both[] = {b_.CreateExtractElement(x, uint64_t{0}), b_.CreateExtractElement(x, uint64_t{1})};
      return apply(op, dtype, both);
    }
    std::vector<int> low, high;
    for (int lane = 0; lane < lanes; ++lane) low.push_back(lane), high.push_back(static_cast<int>(lane + lanes));
    Value* const halves[] = {b_.CreateShuffleVector(x, low), b_.CreateShuffleVector(x, high)};
    x = apply(op, dtype, halves);
  }
  return x;
}

// ---- casts ----------------------------------------------------------------------------------------------------------

Value* Values::bits_as(Value* x, DType from, DType to) {
  if (from == DType::kBool && to != from) return b_.CreateZExt(x, type(to, lanes_of(x)));
  return b_.CreateBitCast(x, type(to, lanes_of(x)));
}

Value* Values::cast(Value* x, DType from, DType to) {
  if (from == to) return x;
  if (is_narrow(from)) return cast(to_float(x, from), DType::kF32, to);
  llvm::Type* const result = type(to, lanes_of(x));
  if (is_narrow(to)) return to_narrow(is_float(from) ? x : cast(x, from, DType::kF64), to);
  if (to == DType::kBool) {
    return is_float(from) ? b_.CreateFCmpUNE(x, number(x->getType(), 0.0)) : b_.CreateIsNotNull(x);
  }
  if (is_float(from) && is_float(to)) return b_.CreateFPCast(x, result);
  if (is_float(from)) return to_integer(x, to);
  if (is_float(to)) return is_unsigned(from) ? b_.CreateUIToFP(x, result) : b_.CreateSIToFP(x, result);
  return b_.CreateIntCast(x, result, !is_unsigned(from));
}

// NaN and what does not fit 64 bits give the smallest int64, which then wraps.
Value* Values::to_integer(Value* x, DType to) {
  llvm::Type* const wide = like(x, b_.getInt64Ty());
  Value* const fits = b_.CreateAnd(b_.CreateFCmpOGE(x, number(x->getType(), -0x1p63)),
                                   b_.CreateFCmpOLT(x, number(x->getType(), 0x1p63)));
  Value* const inside = b_.CreateSelect(fits, x, number(x->getType(), 0.0));
  Value* const whole = b_.CreateSelect(fits, b_.CreateFPToSI(inside, wide), number(wide, kInt64Min));
  return cast(whole, DType::kI64, to);
}

Value* Values::to_float(Value* x, DType from) {
  if (from == DType::kF16) return float_from_half(x);
  llvm::Type* const bits = like(x, b_.getInt32Ty());
  return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(x, bits), number(bits, int64_t{16})), like(x, b_.getFloatTy()));
}

Value* Values::to_narrow(Value* x, DType to) {
  if (x->getType()->getScalarType()->isDoubleTy()) x = rounded_to_odd(x);
  return to == DType::kF16 ? half_from_float(x) : brain_from_float(x);
}

// Cut off towards zero, with the last bit set where something was: then a further rounding cannot be wrong.
Value* Values::rounded_to_odd(Value* x) {
  Value* const close = b_.CreateFPTrunc(x, like(x, b_.getFloatTy()));
  llvm::Type* const type = like(x, b_.getInt32Ty());
  Value* const back = b_.CreateFPExt(close, x->getType());
  Value* const is_inexact = b_.CreateFCmpONE(back, x);
  Value* const is_above = b_.CreateFCmpOGT(unary(llvm::Intrinsic::fabs, back), unary(llvm::Intrinsic::fabs, x));
  Value* const bits = b_.CreateBitCast(close, type);
  Value* const cut = b_.CreateSub(bits, b_.CreateZExt(is_above, type));
  Value* const odd = b_.CreateSelect(is_inexact, b_.CreateOr(cut, number(type, int64_t{1})), bits);
  return b_.CreateBitCast(odd, close->getType());
}

Value* Values::brain_from_float(Value* x) {
  llvm::Type* const type = like(x, b_.getInt32Ty());
  Value* const bits = b_.CreateBitCast(x, type);
  Value* const upper = b_.CreateLShr(bits, number(type, int64_t{16}));
  Value* const is_odd = b_.CreateAnd(upper, number(type, int64_t{1}));
  Value* const up = b_.CreateAdd(b_.CreateAdd(bits, number(type, int64_t{0x7fff})), is_odd);
  Value* const near = b_.CreateLShr(up, number(type, int64_t{16}));
  Value* const result = b_.CreateSelect(b_.CreateFCmpUNO(x, x), number(type, int64_t{0x7fc0}), near);
  return b_.CreateTrunc(result, like(x, b_.getInt16Ty()));
}

Value* Values::float_from_half(Value* x) {
  if (target_.has_f16) return b_.CreateFPExt(b_.CreateBitCast(x, like(x, b_.getHalfTy())), like(x, b_.getFloatTy()));
  llvm::Type* const type = like(x, b_.getInt32Ty());
  llvm::Type* const real = like(x, b_.getFloatTy());
  Value* const bits = b_.CreateZExt(x, type);
  Value* const magnitude = b_.CreateShl(b_.CreateAnd(bits, number(type, int64_t{0x7fff})), number(type, int64_t{13}));
  Value* const scaled = b_.CreateFMul(b_.CreateBitCast(magnitude, real), number(real, 0x1p112));
  Value* const is_special = b_.CreateICmpUGE(magnitude, number(type, int64_t{0x7c00 << 13}));
  Value* const special = b_.CreateOr(magnitude, number(type, int64_t{0x7f800000}));
  Value* const result = b_.CreateSelect(is_special, special, b_.CreateBitCast(scaled, type));
  Value* const sign = b_.CreateShl(b_.CreateAnd(bits, number(type, int64_t{0x8000})), number(type, int64_t{16}));
  return b_.CreateBitCast(b_.CreateOr(result, sign), real);
}

// Without the instruction: a normal result rounds in integers; adding 0.5 shifts a subnormal one into place.
Value* Values::half_from_float(Value* x) {
  if (target_.has_f16) return b_.CreateBitCast(b_.CreateFPTrunc(x, like(x, b_.getHalfTy())), like(x, b_.getInt16Ty()));
  llvm::Type* const type = like(x, b_.getInt32Ty());
  Value* const bits = b_.CreateBitCast(x, type);
  Value* const magnitude = b_.CreateAnd(bits, number(type, int64_t{0x7fffffff}));
  Value* const is_odd = b_.CreateAnd(b_.CreateLShr(magnitude, number(type, int64_t{13})), number(type, int64_t{1}));
  Value* const rebased = b_.CreateAdd(b_.CreateAdd(magnitude, number(type, int64_t{0xfff - (112 << 23)})), is_odd);
  Value* const normal = b_.CreateLShr(rebased, number(type, int64_t{13}));
  Value* const half = number(x->getType(), 0.5);
  Value* const shifted = b_.CreateFAdd(b_.CreateBitCast(magnitude, x->getType()), half);
  Value* const subnormal = b_.CreateSub(b_.CreateBitCast(shifted, type), number(type, int64_t{0x3f000000}));
  Value* result = b_.CreateSelect(b_.CreateICmpULT(magnitude, number(type, int64_t{113 << 23})), subnormal, normal);
  Value* const is_nan = b_.CreateICmpUGT(magnitude, number(type, int64_t{0x7f800000}));
  Value* const special = b_.CreateSelect(is_nan, number(type, int64_t{0x7e00}), number(type, int64_t{0x7c00}));
  result = b_.CreateSelect(b_.CreateICmpUGE(magnitude, number(type, int64_t{0x477ff000})), special, result);
  Value* const sign = b_.CreateAnd(b_.CreateLShr(bits, number(type, int64_t{16})), number(type, int64_t{0x8000}));
  return b_.CreateTrunc(b_.CreateOr(result, sign), like(x, b_.getInt16Ty()));
}

}  // namespace tenon::codegen
