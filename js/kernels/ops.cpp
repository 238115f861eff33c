// The op table of the module: the families of ops on single elements, and what composites of them expand to. The
// compiler's own table is src/ops/table.cpp.
#include <algorithm>

#include "graph/op.h"
#include "ops/families.h"
#include "support/text.h"

namespace tenon {

std::span<const OpDef* const> op_table() {
  static const ops::OpRefs all = [] {
    ops::OpRefs collected;
    for (const ops::OpRefs& family : {ops::fill_ops(), ops::unary_ops(), ops::binary_ops(), ops::comparison_ops(),
                                      ops::select_ops(), ops::activation_ops()}) {
      collected.insert(collected.end(), family.begin(), family.end());
    }
    return collected;
  }();
  return all;
}

const OpDef* find_op(std::string_view name) {
  const auto table = op_table();
  const auto found = std::ranges::find_if(table, [&](const OpDef* op) { return op->name.get() == name; });
  return found == table.end() ? nullptr : *found;
}

const OpDef& op_named(std::string_view name) {
  if (const OpDef* op = find_op(name)) return *op;
  std::vector<std::string_view> names;
  for (const OpDef* op : op_table()) names.push_back(op->name);
  fail("there is no op '{}'{}", name, did_you_mean(name, names));
}

}  // namespace tenon
