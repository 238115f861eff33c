// Inside of codegen's math: numbers that are computed by the generated code, written as if they were computed here.
//
// A Real is float or double, a Bits the integers of the same width, a Mask their truth values; each is one number or a
// vector, whatever the operands were. `x * 2 + y` emits a multiplication and an addition that round once each, whatever
// the builder would allow for other code.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <limits>
#include <span>

#include "codegen/target.h"

namespace tenon::codegen {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct MathContext {
  llvm::IRBuilderBase& builder;
  const Target& target;
};

struct Lanes {
  MathContext* context;
  llvm::Value* value;

  llvm::IRBuilderBase& builder() const { return context->builder; }
};

struct Mask : Lanes {};

struct Real : Lanes {
  bool is_f64() const { return value->getType()->getScalarType()->isDoubleTy(); }
  // A number that depends on the precision.
  double pick(double f32, double f64) const { return is_f64() ? f64 : f32; }
  Real constant(double x) const { return {context, llvm::ConstantFP::get(value->getType(), x)}; }
};

struct Bits : Lanes {
  bool is_64() const { return value->getType()->getScalarSizeInBits() == 64; }
  Bits constant(uint64_t x) const { return {context, llvm::ConstantInt::get(value->getType(), x)}; }
};

// A second operand: what the first one computes with may be a plain number.
struct RealOperand {
  RealOperand(Real x) : real(x) {}      // NOLINT(google-explicit-constructor)
  RealOperand(double x) : number(x) {}  // NOLINT(google-explicit-constructor)
  Real beside(Real x) const { return real.value != nullptr ? real : x.constant(number); }

  Real real = {};
  double number = 0;
};

Real operator+(Real x, RealOperand y);
Real operator-(Real x, RealOperand y);
Real operator*(Real x, RealOperand y);
Real operator/(Real x, RealOperand y);
inline Real operator-(double x, Real y) { return y.constant(x) - y; }
inline Real operator/(double x, Real y) { return y.constant(x) / y; }
Real operator-(Real x);

Bits operator+(Bits x, Bits y);
Bits operator-(Bits x, Bits y);
Bits operator*(Bits x, Bits y);
Bits operator&(Bits x, Bits y);
Bits operator|(Bits x, Bits y);
Bits operator^(Bits x, Bits y);
inline Bits operator+(Bits x, uint64_t y) { return x + x.constant(y); }
inline Bits operator-(Bits x, uint64_t y) { return x - x.constant(y); }
inline Bits operator&(Bits x, uint64_t y) { return x & x.constant(y); }
inline Bits operator|(Bits x, uint64_t y) { return x | x.constant(y); }
Bits operator<<(Bits x, int count);
Bits operator>>(Bits x, int count);  // zeros come in

// Comparisons with NaN are false.
Mask operator<(Real x, RealOperand y);
Mask operator<=(Real x, RealOperand y);
Mask operator>(Real x, RealOperand y);
Mask operator>=(Real x, RealOperand y);
Mask operator==(Real x, Real y);
inline Mask operator==(Real x, double y) { return x == x.constant(y); }
Mask operator!=(Bits x, uint64_t y);
Mask operator&(Mask x, Mask y);
Mask operator|(Mask x, Mask y);
Mask operator!(Mask x);
Mask is_nan(Real x);

Real select(Mask mask, Real x, RealOperand y);
Real select(Mask mask, double x, Real y);
Bits select(Mask mask, Bits x, Bits y);

// x where it is NaN.
Real at_most(Real x, double limit);
Real at_least(Real x, double limit);

// x * y + z, rounded once where the target has an instruction for that, else twice.
Real mul_add(Real x, RealOperand y, RealOperand z);
Real sqrt(Real x);

Bits bits_of(Real x);
Real real_of(Bits x);
Real abs(Real x);
Bits sign_of(Real x);                       // its bit, all others 0
Real flip(Real x, Bits sign);               // -x where the sign's bit is set
Real with_sign(Real magnitude, Bits sign);  // of a magnitude that is not negative
Real to_f64(Real x);
Real to_f32(Real x);

// ---- layout of a Real -----------------------------------------------------------------------------------------------

inline int mantissa_bits(bool is_f64) { return is_f64 ? 52 : 23; }
inline uint64_t bias(bool is_f64) { return is_f64 ? 1023 : 127; }
inline uint64_t sign_bit(bool is_f64) { return is_f64 ? uint64_t{1} << 63 : uint64_t{1} << 31; }
inline uint64_t exponent_mask(bool is_f64) { return is_f64 ? 0x7ff0000000000000 : 0x7f800000; }
inline uint64_t bits_of_one(bool is_f64) { return bias(is_f64) << mantissa_bits(is_f64); }

// ---- sums and products of two parts ---------------------------------------------------------------------------------

// high + low, where low is below half an ulp of high.
struct TwoReals {
  Real high;
  Real low;
};

TwoReals two_sum(Real x, Real y);
TwoReals fast_two_sum(Real x, Real y);  // |x| >= |y|, or x is 0
TwoReals two_product(Real x, Real y);   // neither overflows when it is split in halves

// ---- polynomials ----------------------------------------------------------------------------------------------------

struct Polynomial {
  std::span<const double> f32;
  std::span<const double> f64;
};

// The lowest coefficient first.
Real evaluate(std::span<const double> coefficients, Real x);
inline Real evaluate(const Polynomial& polynomial, Real x) {
  return evaluate(x.is_f64() ? polynomial.f64 : polynomial.f32, x);
}
// The last sum is not rounded.
TwoReals evaluate_in_two(std::span<const double> coefficients, Real x);

// x / y, given both in two parts.
TwoReals quotient(const TwoReals& x, const TwoReals& y);

}  // namespace tenon::codegen
