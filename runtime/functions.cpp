#include "runtime/functions.h"

#include <iterator>

#include "runtime/scalar_functions.h"

// Of double, it has 4 ulp and more of error below 0; most systems have a wider type.
double tenon_lgamma_f64(double x) {
  int sign = 0;
  return static_cast<double>(::lgammal_r(x, &sign));
}

double tenon_digamma_f64(double x) { return tenon::digamma(x); }
double tenon_trigamma_f64(double x) { return tenon::trigamma(x); }
float tenon_lgamma_f32(float x) { return static_cast<float>(tenon::log_gamma(x)); }
float tenon_digamma_f32(float x) { return static_cast<float>(tenon::digamma(x)); }
float tenon_trigamma_f32(float x) { return static_cast<float>(tenon::trigamma(x)); }

namespace {

template <class Function>
tenon_function entry(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

const tenon_function kFunctions[] = {
    entry("tenon_lgamma_f64", tenon_lgamma_f64),     entry("tenon_lgamma_f32", tenon_lgamma_f32),
    entry("tenon_digamma_f64", tenon_digamma_f64),   entry("tenon_digamma_f32", tenon_digamma_f32),
    entry("tenon_trigamma_f64", tenon_trigamma_f64), entry("tenon_trigamma_f32", tenon_trigamma_f32),
};

}  // namespace

const tenon_function* tenon_functions(int64_t* count) {
  *count = std::size(kFunctions);
  return kFunctions;
}
