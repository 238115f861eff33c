#include "codegen/functions.h"

#include <cmath>
#include <cstring>
#include <unordered_map>

namespace tenon::codegen {
namespace {

using Table = std::unordered_map<std::string_view, void*>;

template <class Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}

// A function of libm, for f64 and for f32.
#define OF_ONE(name) \
  {#name, address<double(double)>(std::name)}, { #name "f", address<float(float)>(std::name) }
#define OF_TWO(name) \
  {#name, address<double(double, double)>(std::name)}, { #name "f", address<float(float, float)>(std::name) }

Table make_table() {
  return {{"memcpy", address<void*(void*, const void*, size_t)>(std::memcpy)},
          {"memmove", address<void*(void*, const void*, size_t)>(std::memmove)},
          {"memset", address<void*(void*, int, size_t)>(std::memset)},
          {"fma", address<double(double, double, double)>(std::fma)},
          {"fmaf", address<float(float, float, float)>(std::fma)},
          OF_TWO(fmod),
          OF_TWO(pow),
          OF_TWO(atan2),
          OF_TWO(hypot),
          OF_ONE(exp),
          OF_ONE(exp2),
          OF_ONE(expm1),
          OF_ONE(log),
          OF_ONE(log2),
          OF_ONE(log10),
          OF_ONE(log1p),
          OF_ONE(sin),
          OF_ONE(cos),
          OF_ONE(tan),
          OF_ONE(asin),
          OF_ONE(acos),
          OF_ONE(atan),
          OF_ONE(sinh),
          OF_ONE(cosh),
          OF_ONE(tanh),
          OF_ONE(asinh),
          OF_ONE(acosh),
          OF_ONE(atanh),
          OF_ONE(erf),
          OF_ONE(erfc),
          OF_ONE(lgamma),
          OF_ONE(tgamma),
          OF_ONE(cbrt),
          OF_ONE(sqrt),
          OF_ONE(floor),
          OF_ONE(ceil),
          OF_ONE(trunc),
          OF_ONE(rint),
          OF_ONE(nearbyint),
          OF_ONE(round)};
}

#undef OF_ONE
#undef OF_TWO

}  // namespace

void* find_function(std::string_view name) {
  static const Table table = make_table();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace tenon::codegen
