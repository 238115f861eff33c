// Inside of codegen's math: the functions by family. math.cpp finds them by name.
#pragma once

#include "codegen/math_builder.h"

namespace tenon::codegen::math {

// ---- math_exp.cpp ---------------------------------------------------------------------------------------------------

Real exp(Real x);
Real exp2(Real x);
Real expm1(Real x);
Real sigmoid(Real x);
Real sinh(Real x);
Real cosh(Real x);
Real tanh(Real x);

// exp(x + low) * factor, for x within what has a finite result; low is small beside x. The product alone rounds to a
// subnormal number.
Real exp_times(Real x, Real low, const TwoReals& factor);
// 2^(x + low), for |x| <= 1100.
Real exp2_of_sum(Real x, Real low);
// 2^x in f64 to the precision that f32 needs, for |x| <= 1000.
Real short_exp2(Real x);
// 1 - exp(-x), for x from 0 to at most 60.
Real one_minus_exp(Real x);

// ---- math_log.cpp ---------------------------------------------------------------------------------------------------

Real log(Real x);
Real log2(Real x);
Real log10(Real x);
Real log1p(Real x);
Real asinh(Real x);
Real acosh(Real x);
Real atanh(Real x);
Real logaddexp(Real x, Real y);

// A positive number as mantissa * 2^exponent, where the mantissa is about 1: from sqrt(1/2) to sqrt(2).
struct Scaled {
  Real mantissa;
  Real exponent;
};
Scaled split_exponent(Real x);  // subnormal too
Scaled split_normal(Real x);    // not subnormal

// ---- math_trig.cpp --------------------------------------------------------------------------------------------------

// These three may branch: see emit_math().
Real sin(Real x);
Real cos(Real x);
Real tan(Real x);
Real asin(Real x);
Real acos(Real x);
Real atan(Real x);
Real atan2(Real y, Real x);
Real hypot(Real x, Real y);

// ---- math_special.cpp -----------------------------------------------------------------------------------------------

Real erf(Real x);
Real erfc(Real x);
Real erfinv(Real x);
Real pow(Real x, Real y);

}  // namespace tenon::codegen::math
