#include "runtime/functions.h"

#include "runtime/scalar_functions.h"

// With double, the error is 4 ulp and more below 0; most systems have a wider type.
double tenon_lgamma_f64(double x) {
  int sign = 0;
  return static_cast<double>(::lgammal_r(x, &sign));
}

double tenon_digamma_f64(double x) { return tenon::digamma(x); }
double tenon_trigamma_f64(double x) { return tenon::trigamma(x); }
float tenon_lgamma_f32(float x) { return static_cast<float>(tenon::log_gamma(x)); }
float tenon_digamma_f32(float x) { return static_cast<float>(tenon_digamma_f64(x)); }
float tenon_trigamma_f32(float x) { return static_cast<float>(tenon_trigamma_f64(x)); }
