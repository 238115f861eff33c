#include "codegen/functions.h"

#include <cmath>
#include <cstring>
#include <unordered_map>

#include "runtime/functions.h"

namespace tenon::codegen {
namespace {

using Table = std::unordered_map<std::string_view, void*>;

template <class Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}

// The runtime's, and what LLVM calls where a target has no instruction: libm's functions of f64 and f32, and moves of
// memory.
Table make_table() {
  using F64 = double(double);
  using F32 = float(float);
  using F64s = double(double, double);
  using F32s = float(float, float);
  Table table = {
      {"memcpy", address<void*(void*, const void*, size_t)>(std::memcpy)},
      {"memmove", address<void*(void*, const void*, size_t)>(std::memmove)},
      {"memset", address<void*(void*, int, size_t)>(std::memset)},
      {"fma", address<double(double, double, double)>(std::fma)},
      {"fmaf", address<float(float, float, float)>(std::fma)},
      {"fmod", address<F64s>(std::fmod)},
      {"fmodf", address<F32s>(std::fmod)},
      {"floor", address<F64>(std::floor)},
      {"floorf", address<F32>(std::floor)},
      {"ceil", address<F64>(std::ceil)},
      {"ceilf", address<F32>(std::ceil)},
      {"trunc", address<F64>(std::trunc)},
      {"truncf", address<F32>(std::trunc)},
      {"rint", address<F64>(std::rint)},
      {"rintf", address<F32>(std::rint)},
      {"nearbyint", address<F64>(std::nearbyint)},
      {"nearbyintf", address<F32>(std::nearbyint)},
  };
  int64_t count = 0;
  const tenon_function* functions = tenon_functions(&count);
  for (int64_t i = 0; i < count; ++i) table.emplace(functions[i].name, functions[i].address);
  return table;
}

}  // namespace

void* find_function(std::string_view name) {
  static const Table table = make_table();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace tenon::codegen
