#include "graph/dtype.h"

#include "graph/runtime_dtype.h"
#include "runtime/elements.h"
#include "runtime/scalar_functions.h"
#include "support/diagnostic.h"

namespace tenon {
namespace {

struct Info {
  std::string_view name;
  int64_t size;
};

constexpr std::array<Info, 10> kInfo = {{{"f64", 8},
                                         {"f32", 4},
                                         {"f16", 2},
                                         {"bf16", 2},
                                         {"i64", 8},
                                         {"i32", 4},
                                         {"i16", 2},
                                         {"i8", 1},
                                         {"u8", 1},
                                         {"bool", 1}}};

const Info& info(DType dtype) { return kInfo[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view name_of(DType dtype) { return info(dtype).name; }
int64_t size_of(DType dtype) { return info(dtype).size; }

std::optional<DType> dtype_named(std::string_view name) {
  for (DType dtype : kAllDTypes) {
    if (name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

std::string to_string(DTypeSet set, std::string_view separator) {
  std::string text;
  for (DType dtype : kAllDTypes) {
    if (set.contains(dtype)) text.append(text.empty() ? "" : separator).append(name_of(dtype));
  }
  return text;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) {
    const bool two_halves = size_of(a) == 2 && size_of(b) == 2;
    return two_halves ? DType::kF32 : std::min(a, b);
  }
  if (a == DType::kBool) return b;
  if (b == DType::kBool) return a;
  const bool mixed_bytes = size_of(a) == 1 && size_of(b) == 1;
  return mixed_bytes ? DType::kI16 : std::min(a, b);
}

double load_real(DType dtype, const std::byte* element) { return runtime::load_real(code_of(dtype), element); }

int64_t load_integer(DType dtype, const std::byte* element) { return runtime::load_integer(code_of(dtype), element); }

void store_real(DType dtype, std::byte* element, double value) { runtime::store_real(code_of(dtype), element, value); }

void store_integer(DType dtype, std::byte* element, int64_t value) {
  runtime::store_integer(code_of(dtype), element, value);
}

int64_t truncate_to_integer(double value) { return to_integer(value); }

double round_to(DType dtype, double value) {
  check(is_float(dtype), "round_to({}): not a floating dtype", name_of(dtype));
  return runtime::round_to(code_of(dtype), value);
}

int64_t wrap_to(DType dtype, int64_t value) {
  std::byte element[8] = {};
  store_integer(dtype, element, value);
  return load_integer(dtype, element);
}

}  // namespace tenon
