#include "capture/traced_memory.h"

#include <algorithm>
#include <array>

namespace tenon {
namespace {

constexpr std::array<std::string_view, 3> kMemoryCalls = {"aten.as_strided.default", "aten.as_strided_copy.default",
                                                          "aten.as_strided_scatter.default"};

// Calls that give the elements of their first operand in the same order. Where the operand lies in order, so does the
// result.
constexpr std::array<std::string_view, 11> kReshapes = {
    "aten._unsafe_view.default", "aten.alias.default",     "aten.detach.default", "aten.flatten.using_ints",
    "aten.reshape.default",      "aten.squeeze.default",   "aten.squeeze.dim",    "aten.squeeze.dims",
    "aten.unflatten.int",        "aten.unsqueeze.default", "aten.view.default"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool counts_places(std::string_view target) { return contains(kMemoryCalls, target); }

bool lies_in_order(const TracedTensor& tensor) {
  if (!tensor.offset.is_constant(0) || tensor.sizes.size() != tensor.strides.size()) return false;
  Expr expected = 1;
  for (size_t dim = tensor.sizes.size(); dim-- > 0;) {
    if (!tensor.sizes[dim].is_constant(1) && tensor.strides[dim] != expected) return false;
    expected *= tensor.sizes[dim];
  }
  return true;
}

bool lies_in_order(const std::function<std::optional<TracedTensor>()>& next) {
  while (const std::optional<TracedTensor> tensor = next()) {
    if (lies_in_order(*tensor)) return true;
    if (!contains(kReshapes, tensor->target)) return false;
  }
  return false;
}

}  // namespace tenon
