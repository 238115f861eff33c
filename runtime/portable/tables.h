// The tables of a portable kernel, in place in its file.
#pragma once

#include <span>
#include <vector>

#include "format/kernel_generated.h"
#include "runtime/expr.h"
#include "runtime/scalar_ops.h"
#include "tenon/tenon.h"

namespace tenon::runtime::portable {

using namespace format::portable;  // NOLINT: these are its parts
using format::ExprOp;

inline constexpr uint32_t kNone = ~0u;

struct Tables {
  explicit Tables(const Kernel& kernel);  // throws a StatusError if a table is not aligned

  uint32_t size_count;  // of the symbols
  uint32_t symbol_count;
  uint32_t input_count;
  uint32_t output_count;
  std::span<const Expr> variables;
  std::span<const Buffer> buffers;
  std::span<const Loop> loops;
  std::span<const Step> steps;
  std::span<const Source> sources;
  std::span<const Lookup> lookups;
  std::span<const Guard> guards;
  std::span<const int64_t> constants;
  std::span<const Instruction> code;
  std::vector<std::string_view> op_names;
  std::vector<std::string_view> nodes;
  std::vector<const ScalarOp*> ops;  // null for an unknown name

  size_t argument_count() const { return size_t{input_count} + output_count; }
};

template <class T>
std::span<const T> part(std::span<const T> table, const Range& range) {
  return table.subspan(range.first(), range.count());
}

inline tenon_dtype dtype_of(format::DType dtype) { return static_cast<tenon_dtype>(dtype); }
inline uint32_t end_of(const Range& range) { return range.first() + range.count(); }

// Throws a StatusError if the kernel breaks a rule of the format.
void verify(const Tables& tables);

}  // namespace tenon::runtime::portable
