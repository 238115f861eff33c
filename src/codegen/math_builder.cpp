#include "codegen/math_builder.h"

#include <llvm/IR/Intrinsics.h>

namespace tenon::codegen {
namespace {

using llvm::CmpInst;

llvm::Type* with_scalar(llvm::Type* shape, llvm::Type* scalar) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(shape);
  return vector == nullptr ? scalar : llvm::FixedVectorType::get(scalar, vector->getNumElements());
}

Mask compare(CmpInst::Predicate predicate, Real x, RealOperand y) {
  return {{x.context, x.builder().CreateFCmp(predicate, x.value, y.beside(x).value)}};
}

// Halves of the digits each: products of halves are exact.
TwoReals split(Real x) {
  const Real shifted = x * x.pick(0x1p12 + 1, 0x1p27 + 1);
  const Real high = shifted - (shifted - x);
  return {high, x - high};
}

}  // namespace

Real operator+(Real x, RealOperand y) { return {{x.context, x.builder().CreateFAdd(x.value, y.beside(x).value)}}; }
Real operator-(Real x, RealOperand y) { return {{x.context, x.builder().CreateFSub(x.value, y.beside(x).value)}}; }
Real operator*(Real x, RealOperand y) { return {{x.context, x.builder().CreateFMul(x.value, y.beside(x).value)}}; }
Real operator/(Real x, RealOperand y) { return {{x.context, x.builder().CreateFDiv(x.value, y.beside(x).value)}}; }
Real operator-(Real x) { return {{x.context, x.builder().CreateFNeg(x.value)}}; }

Bits operator+(Bits x, Bits y) { return {{x.context, x.builder().CreateAdd(x.value, y.value)}}; }
Bits operator-(Bits x, Bits y) { return {{x.context, x.builder().CreateSub(x.value, y.value)}}; }
Bits operator*(Bits x, Bits y) { return {{x.context, x.builder().CreateMul(x.value, y.value)}}; }
Bits operator&(Bits x, Bits y) { return {{x.context, x.builder().CreateAnd(x.value, y.value)}}; }
Bits operator|(Bits x, Bits y) { return {{x.context, x.builder().CreateOr(x.value, y.value)}}; }
Bits operator^(Bits x, Bits y) { return {{x.context, x.builder().CreateXor(x.value, y.value)}}; }
Bits operator<<(Bits x, int count) { return {{x.context, x.builder().CreateShl(x.value, count)}}; }
Bits operator>>(Bits x, int count) { return {{x.context, x.builder().CreateLShr(x.value, count)}}; }

Mask operator<(Real x, RealOperand y) { return compare(CmpInst::FCMP_OLT, x, y); }
Mask operator<=(Real x, RealOperand y) { return compare(CmpInst::FCMP_OLE, x, y); }
Mask operator>(Real x, RealOperand y) { return compare(CmpInst::FCMP_OGT, x, y); }
Mask operator>=(Real x, RealOperand y) { return compare(CmpInst::FCMP_OGE, x, y); }
Mask operator==(Real x, Real y) { return compare(CmpInst::FCMP_OEQ, x, y); }
Mask is_nan(Real x) { return compare(CmpInst::FCMP_UNO, x, x); }
Mask operator!=(Bits x, uint64_t y) { return {{x.context, x.builder().CreateICmpNE(x.value, x.constant(y).value)}}; }
Mask operator&(Mask x, Mask y) { return {{x.context, x.builder().CreateAnd(x.value, y.value)}}; }
Mask operator|(Mask x, Mask y) { return {{x.context, x.builder().CreateOr(x.value, y.value)}}; }
Mask operator!(Mask x) { return {{x.context, x.builder().CreateNot(x.value)}}; }

Real select(Mask mask, Real x, RealOperand y) {
  return {{x.context, x.builder().CreateSelect(mask.value, x.value, y.beside(x).value)}};
}
Real select(Mask mask, double x, Real y) { return select(mask, y.constant(x), y); }
Bits select(Mask mask, Bits x, Bits y) { return {{x.context, x.builder().CreateSelect(mask.value, x.value, y.value)}}; }

Real at_most(Real x, double limit) { return select(x > limit, limit, x); }
Real at_least(Real x, double limit) { return select(x < limit, limit, x); }

Real mul_add(Real x, RealOperand y, RealOperand z) {
  if (!x.context->target.has_fma) return x * y + z;
  return {{x.context, x.builder().CreateIntrinsic(llvm::Intrinsic::fma, {x.value->getType()},
                                                  {x.value, y.beside(x).value, z.beside(x).value})}};
}

Real sqrt(Real x) { return {{x.context, x.builder().CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x.value)}}; }

Bits bits_of(Real x) {
  llvm::Type* scalar = x.builder().getIntNTy(x.value->getType()->getScalarSizeInBits());
  return {{x.context, x.builder().CreateBitCast(x.value, with_scalar(x.value->getType(), scalar))}};
}

Real real_of(Bits x) {
  llvm::Type* scalar = x.is_64() ? x.builder().getDoubleTy() : x.builder().getFloatTy();
  return {{x.context, x.builder().CreateBitCast(x.value, with_scalar(x.value->getType(), scalar))}};
}

Real abs(Real x) { return {{x.context, x.builder().CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x.value)}}; }
Bits sign_of(Real x) { return bits_of(x) & sign_bit(x.is_f64()); }
Real flip(Real x, Bits sign) { return real_of(bits_of(x) ^ sign); }
Real with_sign(Real magnitude, Bits sign) { return real_of(bits_of(magnitude) | sign); }

Real to_f64(Real x) {
  return {{x.context, x.builder().CreateFPExt(x.value, with_scalar(x.value->getType(), x.builder().getDoubleTy()))}};
}

Real to_f32(Real x) {
  return {{x.context, x.builder().CreateFPTrunc(x.value, with_scalar(x.value->getType(), x.builder().getFloatTy()))}};
}

TwoReals two_sum(Real x, Real y) {
  const Real sum = x + y;
  const Real second = sum - x;
  return {sum, (x - (sum - second)) + (y - second)};
}

TwoReals fast_two_sum(Real x, Real y) {
  const Real sum = x + y;
  return {sum, y - (sum - x)};
}

TwoReals two_product(Real x, Real y) {
  const Real product = x * y;
  if (x.context->target.has_fma) return {product, mul_add(x, y, -product)};
  const TwoReals a = split(x), b = split(y);
  return {product, ((a.high * b.high - product) + a.high * b.low + a.low * b.high) + a.low * b.low};
}

Real evaluate(std::span<const double> coefficients, Real x) {
  Real sum = x.constant(coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) sum = mul_add(sum, x, coefficients[i]);
  return sum;
}

TwoReals evaluate_in_two(std::span<const double> coefficients, Real x) {
  return two_sum(x.constant(coefficients[0]), evaluate(coefficients.subspan(1), x) * x);
}

TwoReals quotient(const TwoReals& x, const TwoReals& y) {
  const Real high = x.high / y.high;
  const TwoReals check = two_product(high, y.high);
  const Real rest = ((x.high - check.high) - check.low) + (x.low - high * y.low);
  return {high, rest / y.high};
}

}  // namespace tenon::codegen
