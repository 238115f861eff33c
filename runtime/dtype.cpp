#include <iterator>

#include "tenon/tenon.h"

namespace {

struct DTypeInfo {
  const char* name;
  size_t bytes;
};
constexpr DTypeInfo kDTypes[] = {{"f64", 8}, {"f32", 4}, {"f16", 2}, {"bf16", 2}, {"i64", 8},
                                 {"i32", 4}, {"i16", 2}, {"i8", 1},  {"u8", 1},   {"bool", 1}};

}  // namespace

size_t tenon_dtype_size(tenon_dtype dtype) {
  return static_cast<unsigned>(dtype) < std::size(kDTypes) ? kDTypes[dtype].bytes : 0;
}

const char* tenon_dtype_name(tenon_dtype dtype) {
  return static_cast<unsigned>(dtype) < std::size(kDTypes) ? kDTypes[dtype].name : "unknown";
}
