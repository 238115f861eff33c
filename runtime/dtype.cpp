#include <iterator>

#include "runtime/elements.h"

namespace {

constexpr char kNames[][5] = {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"};
static_assert(std::size(kNames) == std::size(tenon::runtime::kElementBytes));

bool is_known(tenon_dtype dtype) { return static_cast<unsigned>(dtype) < std::size(kNames); }

}  // namespace

size_t tenon_dtype_size(tenon_dtype dtype) {
  return is_known(dtype) ? static_cast<size_t>(tenon::runtime::size_of(dtype)) : 0;
}

const char* tenon_dtype_name(tenon_dtype dtype) { return is_known(dtype) ? kNames[dtype] : "unknown"; }
