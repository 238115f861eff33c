// The op table: every family's records, in the order of docs/ops.md, and lookup by name.
#include <unordered_map>

#include "graph/op.h"
#include "ops/families.h"
#include "support/text.h"

namespace tenon {
namespace {

using namespace ops;

std::vector<OpRefs> op_families() {
  return {fill_ops(),      unary_ops(),      binary_ops(),      comparison_ops(), select_ops(),        activation_ops(),
          reduction_ops(), statistics_ops(), scan_ops(),        softmax_ops(),    normalization_ops(), matmul_ops(),
          grouped_ops(),   linalg_ops(),     convolution_ops(), window_ops(),     pooling_ops(),       attention_ops(),
          resample_ops(),  view_ops(),       rearranging_ops(), pad_ops(),        join_ops(),          index_ops(),
          lookup_ops(),    scatter_ops(),    sort_ops(),        random_ops(),     quantization_ops(),  external_ops(),
          tile_ops()};
}

using Index = std::unordered_map<std::string_view, const OpDef*>;

const Index& ops_by_name() {
  static const Index index = [] {
    Index result;
    for (const OpDef* op : op_table()) {
      check(result.emplace(op->name, op).second, "op '{}' is in the table twice", op->name.get());
    }
    return result;
  }();
  return index;
}

}  // namespace

std::span<const OpDef* const> op_table() {
  static const OpRefs all = [] {
    OpRefs collected;
    for (const OpRefs& family : op_families()) collected.insert(collected.end(), family.begin(), family.end());
    return collected;
  }();
  return all;
}

const OpDef* find_op(std::string_view name) {
  const auto found = ops_by_name().find(name);
  return found == ops_by_name().end() ? nullptr : found->second;
}

const OpDef& op_named(std::string_view name) {
  if (const OpDef* op = find_op(name)) return *op;
  std::vector<std::string_view> names;
  for (const OpDef* op : op_table()) names.push_back(op->name);
  fail("there is no op '{}'{}", name, did_you_mean(name, names));
}

}  // namespace tenon
