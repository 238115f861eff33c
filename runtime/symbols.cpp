#include "runtime/symbols.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "runtime/functions.h"
#include "runtime/short_name.h"

namespace tenon::runtime {
namespace {

struct Symbol {
  ShortName<20> name;
  void* address;
};

template <class Function>
Symbol entry(ShortName<20> name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

using F64 = double(double);
using F32 = float(float);
using F64s = double(double, double);
using F32s = float(float, float);

// The runtime's functions, and those that LLVM calls if a target has no instruction: memory moves, and libm's functions
// of f64 and f32.
const Symbol kSymbols[] = {
    entry("tenon_lgamma_f64", tenon_lgamma_f64),
    entry("tenon_lgamma_f32", tenon_lgamma_f32),
    entry("tenon_digamma_f64", tenon_digamma_f64),
    entry("tenon_digamma_f32", tenon_digamma_f32),
    entry("tenon_trigamma_f64", tenon_trigamma_f64),
    entry("tenon_trigamma_f32", tenon_trigamma_f32),
    entry<void*(void*, const void*, size_t)>("memcpy", std::memcpy),
    entry<void*(void*, const void*, size_t)>("memmove", std::memmove),
    entry<void*(void*, int, size_t)>("memset", std::memset),
    entry<double(double, double, double)>("fma", std::fma),
    entry<float(float, float, float)>("fmaf", std::fma),
    entry<F64s>("fmod", std::fmod),
    entry<F32s>("fmodf", std::fmod),
    entry<F64>("floor", std::floor),
    entry<F32>("floorf", std::floor),
    entry<F64>("ceil", std::ceil),
    entry<F32>("ceilf", std::ceil),
    entry<F64>("trunc", std::trunc),
    entry<F32>("truncf", std::trunc),
    entry<F64>("rint", std::rint),
    entry<F32>("rintf", std::rint),
    entry<F64>("nearbyint", std::nearbyint),
    entry<F32>("nearbyintf", std::nearbyint),
};

}  // namespace

void* find_function(std::string_view name) {
  const auto* const found = std::ranges::find(kSymbols, name, &Symbol::name);
  return found == std::end(kSymbols) ? nullptr : found->address;
}

}  // namespace tenon::runtime
