#include "codegen/values.h"

#include <llvm/IR/IntrinsicsWebAssembly.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>

#include <algorithm>
#include <cmath>

#include "codegen/math.h"

namespace tenon::codegen {
namespace {

using llvm::Value;

constexpr int kCurrentRounding = 4;  // of AVX-512: as MXCSR says

bool is_unsigned(DType dtype) { return dtype == DType::kU8 || dtype == DType::kBool; }

// The instruction that a primitive is, for floats and for integers; 0: it is none.
struct Instruction {
  Primitive primitive;
  unsigned real;
  unsigned integer;
};
using Binary = llvm::Instruction::BinaryOps;
constexpr Instruction kBinary[] = {
    {Primitive::kAdd, Binary::FAdd, Binary::Add}, {Primitive::kSub, Binary::FSub, Binary::Sub},
    {Primitive::kMul, Binary::FMul, Binary::Mul}, {Primitive::kDiv, Binary::FDiv, 0},
    {Primitive::kFmod, Binary::FRem, 0},          {Primitive::kBitwiseAnd, 0, Binary::And},
    {Primitive::kBitwiseOr, 0, Binary::Or},       {Primitive::kBitwiseXor, 0, Binary::Xor}};
constexpr Instruction kIntrinsics[] = {
    {Primitive::kAbs, llvm::Intrinsic::fabs, 0},    {Primitive::kSqrt, llvm::Intrinsic::sqrt, 0},
    {Primitive::kFloor, llvm::Intrinsic::floor, 0}, {Primitive::kCeil, llvm::Intrinsic::ceil, 0},
    {Primitive::kTrunc, llvm::Intrinsic::trunc, 0}, {Primitive::kRint, llvm::Intrinsic::nearbyint, 0}};

bool is_number(Value* x) {
  const llvm::APFloat* number = nullptr;
  return match(x, llvm::PatternMatch::m_APFloat(number)) && !number->isNaN();
}

// x, cut off at a number by `extreme`.
struct CutOff {
  Value* x;
  double at;
};

std::optional<CutOff> cut_off(Value* value, llvm::CmpInst::Predicate takes_limit) {
  using namespace llvm::PatternMatch;
  const llvm::APFloat* limit = nullptr;
  Value* x = nullptr;
  llvm::CmpInst::Predicate found{};
  const bool is_extreme =
      match(value, m_Select(m_FCmp(found, m_APFloat(limit), m_Value(x)), m_APFloat(limit), m_Deferred(x)));
  if (!is_extreme || found != takes_limit) return {};
  return CutOff{x, limit->convertToDouble()};
}

auto m_nearest(Value*& x) {
  return llvm::PatternMatch::m_Intrinsic<llvm::Intrinsic::nearbyint>(llvm::PatternMatch::m_Value(x));
}

// Whether it has no fraction: it was rounded, and a whole number was added.
bool is_whole(Value* x) {
  Value* rounded = nullptr;
  const llvm::APFloat* term = nullptr;
  return match(x, m_nearest(rounded)) ||
         (match(x, llvm::PatternMatch::m_FAdd(m_nearest(rounded), llvm::PatternMatch::m_APFloat(term))) &&
          term->isInteger());
}

// Of x + 0, x: for a use in which zeros of both signs are equal.
Value* without_zero(Value* x) {
  Value* term = nullptr;
  const bool adds =
      match(x, llvm::PatternMatch::m_FAdd(llvm::PatternMatch::m_Value(term), llvm::PatternMatch::m_PosZeroFP()));
  return adds ? term : x;
}

const Instruction* find(std::span<const Instruction> table, Primitive primitive) {
  const auto found = std::ranges::find(table, primitive, &Instruction::primitive);
  return found == table.end() ? nullptr : &*found;
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
  if (!is_narrow_float(dtype)) return number(type(dtype, lanes), round_to(dtype, real));
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
  const ScalarFn& fn = scalar_fn(op, operands);
  std::vector<Value*> values;
  for (const ScalarStep& step : fn.steps()) {
    if (step.primitive == Primitive::kOperand) {
      values.push_back(x[step.operands[0]]);
      continue;
    }
    const DType dtype = dtype_of(step.type, operands);
    if (step.primitive == Primitive::kConstant) {
      const int64_t lanes = lanes_of(x[0]);
      values.push_back(is_float(dtype) ? literal(dtype, step.number, lanes)
                                       : literal(dtype, static_cast<int64_t>(step.number), lanes));
      continue;
    }
    std::vector<Value*> of;
    for (size_t i = 0; i < definition_of(step.primitive).operands; ++i) of.push_back(values[step.operands[i]]);
    values.push_back(step.primitive == Primitive::kWiden ? cast(of[0], operands, dtype)
                                                         : apply(step.primitive, fn.operand_dtype(step, operands), of));
  }
  const bool is_wide = fn.steps()[fn.result()].type == ScalarType::kWide;
  Value* const result = values[fn.result()];
  return is_wide ? cast(result, dtype_of(ScalarType::kWide, operands), operands) : result;
}

Value* Values::apply(Primitive primitive, DType dtype, std::span<Value* const> x) {
  if (primitive == Primitive::kWhere) return b_.CreateSelect(x[0], x[1], x[2]);
  if (definition_of(primitive).lanes == PrimitiveLanes::kMask) return compare(primitive, dtype, x);
  return is_float(dtype) ? real(primitive, x) : integer(in_dtype(primitive, dtype), dtype, x);
}

Value* Values::compare(Primitive primitive, DType dtype, Operands x) {
  using P = llvm::CmpInst::Predicate;
  struct Comparison {
    P real, with_sign, without_sign;
  };
  constexpr Comparison kComparisons[] = {
      {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
  };
  const Comparison& found = kComparisons[static_cast<size_t>(primitive) - static_cast<size_t>(Primitive::kEq)];
  if (is_float(dtype)) return b_.CreateFCmp(found.real, x[0], x[1]);
  return b_.CreateICmp(is_unsigned(dtype) ? found.without_sign : found.with_sign, x[0], x[1]);
}

// NaN wins, from either side: where x is NaN, no comparison takes y. In a fold x is what the next step waits for, and
// only one instruction of three does.
Value* Values::extreme(Value* takes_second, Value* x, Value* y) {
  if (is_number(y)) return b_.CreateSelect(takes_second, y, x);
  Value* const nan = llvm::ConstantFP::getQNaN(x->getType());
  return b_.CreateSelect(b_.CreateFCmpUNO(y, y), nan, b_.CreateSelect(takes_second, y, x));
}

Value* Values::real(Primitive primitive, Operands x) {
  const Instruction* const binary = find(kBinary, primitive);
  if (binary && binary->real) return b_.CreateBinOp(static_cast<Binary>(binary->real), x[0], x[1]);
  if (const Instruction* const intrinsic = find(kIntrinsics, primitive)) return unary(intrinsic->real, x[0]);
  switch (primitive) {
    case Primitive::kNeg:
      return b_.CreateFNeg(x[0]);
    case Primitive::kMaximum:
      return extreme(b_.CreateFCmpOGT(x[1], x[0]), x[0], x[1]);
    case Primitive::kMinimum:
      return extreme(b_.CreateFCmpOLT(x[1], x[0]), x[0], x[1]);
    case Primitive::kCopysign:
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x[0], x[1]);
    default:
      return emit_math(b_, primitive, x, target_);
  }
}

Value* Values::integer(Primitive primitive, DType dtype, Operands x) {
  const Instruction* const binary = find(kBinary, primitive);
  if (binary && binary->integer) return b_.CreateBinOp(static_cast<Binary>(binary->integer), x[0], x[1]);
  switch (primitive) {
    case Primitive::kNeg:
      return b_.CreateNeg(x[0]);
    case Primitive::kAbs:
      return is_unsigned(dtype) ? x[0] : b_.CreateSelect(b_.CreateIsNeg(x[0]), b_.CreateNeg(x[0]), x[0]);
    case Primitive::kMaximum:
      return b_.CreateSelect(compare(Primitive::kGe, dtype, x), x[0], x[1]);
    case Primitive::kMinimum:
      return b_.CreateSelect(compare(Primitive::kLe, dtype, x), x[0], x[1]);
    case Primitive::kShiftLeft:
    case Primitive::kShiftRight:
      return shift(primitive, dtype, x[0], x[1]);
    case Primitive::kTruncDiv:
    case Primitive::kFmod:
      return quotient(primitive, dtype, x[0], x[1]);
    case Primitive::kPow:
      return integer_pow(dtype, x[0], x[1]);
    default:
      check(false, "{} has no machine code for {}", definition_of(primitive).name, name_of(dtype));
      return nullptr;
  }
}

// A division by -1 is a negation, which wraps for the smallest integer. The divisor is not 0: lanes that are not needed
// may have one, and then get 1.
Value* Values::quotient(Primitive primitive, DType dtype, Value* x, Value* y) {
  llvm::Type* const type = x->getType();
  Value* const zero = number(type, int64_t{0});
  Value* const one = number(type, int64_t{1});
  const bool is_rest = primitive == Primitive::kFmod;
  if (is_unsigned(dtype)) {
    Value* const divisor = b_.CreateSelect(b_.CreateICmpEQ(y, zero), one, y);
    return is_rest ? b_.CreateURem(x, divisor) : b_.CreateUDiv(x, divisor);
  }
  Value* const is_minus_one = b_.CreateICmpEQ(y, number(type, int64_t{-1}));
  Value* const divisor = b_.CreateSelect(b_.CreateOr(is_minus_one, b_.CreateICmpEQ(y, zero)), one, y);
  return is_rest ? b_.CreateSelect(is_minus_one, zero, b_.CreateSRem(x, divisor))
                 : b_.CreateSelect(is_minus_one, b_.CreateNeg(x), b_.CreateSDiv(x, divisor));
}

// In 64 bits; a narrow dtype loses its bits when the result wraps.
Value* Values::shift(Primitive primitive, DType dtype, Value* x, Value* y) {
  Value* const wide = cast(x, dtype, DType::kI64);
  Value* const by = cast(y, dtype, DType::kI64);
  Value* const fits = b_.CreateICmpULT(by, number(by->getType(), int64_t{64}));
  Value* const zero = number(by->getType(), int64_t{0});
  if (primitive == Primitive::kShiftLeft) {
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
  const auto register_bits = 8 * static_cast<uint64_t>(target_.vector_bytes);
  const bool is_register = x->getType()->isVectorTy() && x->getType()->getPrimitiveSizeInBits() == register_bits;
  if (target_.has_relaxed_fma && is_register)
    return b_.CreateIntrinsic(llvm::Intrinsic::wasm_relaxed_madd, {x->getType()}, {x, y, z});
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
  if (is_narrow_float(from)) return cast(to_float(x, from), DType::kF32, to);
  llvm::Type* const result = type(to, lanes_of(x));
  if (is_narrow_float(to)) return to_narrow(is_float(from) ? x : cast(x, from, DType::kF64), to);
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
  if (size_of(to) == 1 && x->getType()->getScalarType()->isFloatTy()) return to_byte(x, to);
  llvm::Type* const wide = like(x, b_.getInt64Ty());
  Value* const fits = b_.CreateAnd(b_.CreateFCmpOGE(x, number(x->getType(), -0x1p63)),
                                   b_.CreateFCmpOLT(x, number(x->getType(), 0x1p63)));
  Value* const inside = b_.CreateSelect(fits, x, number(x->getType(), 0.0));
  Value* const whole = b_.CreateSelect(fits, b_.CreateFPToSI(inside, wide), number(wide, kInt64Min));
  return cast(whole, DType::kI64, to);
}

// Of what is cut off between numbers of 32 bits and below and above 0, as `quantize` does: then there is no other case
// than NaN, which gives 0. A maximum with 0 that takes 0 for NaN says so in one instruction.
Value* Values::clamped_to_byte(Value* x, DType to) {
  using P = llvm::CmpInst::Predicate;
  const std::optional<CutOff> high = cut_off(x, P::FCMP_OLT);
  const std::optional<CutOff> low = high ? cut_off(high->x, P::FCMP_OGT) : std::nullopt;
  if (!low || !(low->at >= -0x1p30 && low->at <= 0 && high->at >= 0 && high->at <= 0x1p30)) return nullptr;
  Value* y = without_zero(low->x);
  const auto limit = [&](double at) { return number(y->getType(), at); };
  if (low->at < 0) y = b_.CreateSelect(b_.CreateFCmpORD(y, y), y, limit(0));
  const bool saturates = low->at == 0 && high->at == 255 && to == DType::kU8 && has_nearest(y);
  if (saturates && is_whole(y)) return saturated_byte(y);
  y = b_.CreateSelect(b_.CreateFCmpOGT(y, limit(low->at)), y, limit(low->at));
  y = b_.CreateSelect(b_.CreateFCmpOLT(y, limit(high->at)), y, limit(high->at));
  return cast(b_.CreateFPToSI(y, like(y, b_.getInt32Ty())), DType::kI32, to);
}

// Whether an instruction converts so many floats to the nearest integers.
bool Values::has_nearest(const Value* x) const {
  const int64_t lanes = lanes_of(x);
  const bool is_vector = lanes == 4 || lanes == 8 || lanes == 16;
  return target_.arch == Arch::kX86 && is_vector && 4 * lanes <= target_.vector_bytes;
}

// The nearest integer, cut off at 0 and 255. One that has more than 32 bits becomes 2^31, which without a sign is above
// 255, too.
Value* Values::saturated_byte(Value* x) {
  Value* rounded = x;
  if (!match(x, m_nearest(rounded))) rounded = x;
  Value* const zero = number(x->getType(), 0.0);
  Value* const whole = nearest(b_.CreateSelect(b_.CreateFCmpOGT(rounded, zero), rounded, zero));
  if (lanes_of(x) == 16) {
    Value* const none = llvm::Constant::getNullValue(like(x, b_.getInt8Ty()));
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_pmovus_db_512, {}, {whole, none, b_.getInt16(0xffff)});
  }
  Value* const low = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, whole, number(whole->getType(), int64_t{255}));
  return cast(low, DType::kI32, DType::kU8);
}

Value* Values::nearest(Value* x) {
  using namespace llvm::Intrinsic;
  const int64_t lanes = lanes_of(x);
  if (lanes < 16) return b_.CreateIntrinsic(lanes == 4 ? x86_sse2_cvtps2dq : x86_avx_cvt_ps2dq_256, {}, {x});
  Value* const none = llvm::Constant::getNullValue(like(x, b_.getInt32Ty()));
  return b_.CreateIntrinsic(x86_avx512_mask_cvtps2dq_512, {},
                            {x, none, b_.getInt16(0xffff), b_.getInt32(kCurrentRounding)});
}

// 32 bits are enough for the lowest 8: a float of 2^31 or more is a multiple of 256, and gives 0 like NaN.
Value* Values::to_byte(Value* x, DType to) {
  if (Value* const clamped = clamped_to_byte(x, to)) return clamped;
  Value* const fits = b_.CreateFCmpOLT(unary(llvm::Intrinsic::fabs, x), number(x->getType(), 0x1p31));
  Value* const inside = b_.CreateSelect(fits, x, number(x->getType(), 0.0));
  return cast(b_.CreateFPToSI(inside, like(x, b_.getInt32Ty())), DType::kI32, to);
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
  if (flushes_subnormals && target_.has_bf16_dot && target_.arch == Arch::kX86 && lanes_of(x) == 16) {
    Value* const near = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {x});
    return b_.CreateBitCast(near, like(x, b_.getInt16Ty()));
  }
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

// Folds a value into a total that may be wider. In logaddexp only the total must be wide: the amount that a term adds
// is small, and exact enough in f32.
Value* Values::added(const OpDef& op, Value* total, DType wide, Value* value, DType dtype) {
  Value* const x = cast(value, dtype, wide);
  Value* const both[] = {total, x};
  if (wide == dtype || op.name.get() != "logaddexp") return apply(op, wide, both);
  Value* const are_equal = b_.CreateFCmpOEQ(total, x);  // the difference of equal infinities is NaN
  Value* const apart = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, b_.CreateFSub(total, x));
  Value* const below = b_.CreateSelect(are_equal, llvm::Constant::getNullValue(x->getType()), b_.CreateFNeg(apart));
  Value* more = cast(below, wide, dtype);
  for (const char* name : {"exp", "log1p"}) {
    Value* const operand[] = {more};
    more = apply(op_named(name), dtype, operand);
  }
  Value* const larger = b_.CreateSelect(b_.CreateFCmpOGT(total, x), total, x);
  return b_.CreateFAdd(larger, cast(more, dtype, wide));
}

}  // namespace tenon::codegen
