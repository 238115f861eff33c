#include "schedule/strided_image.h"

#include <algorithm>

#include "schedule/contraction.h"

namespace tenon {

using namespace loops;

namespace {

// The step of an index from one element of the variable to the next. 0 if it varies.
int64_t step_by(const IR& ir, const Expr& index, VarRef var) {
  const Result<Expr> slope = differentiate(index, ir.var(var).symbol());
  return slope.ok() && slope->is_constant() ? slope->constant() : 0;
}

Vars vars_in(const IR& ir, const Expr& index, const Vars& vars) {
  Vars found;
  std::ranges::copy_if(vars, std::back_inserter(found),
                       [&](VarRef var) { return depends_on(index, ir.var(var).symbol()); });
  return found;
}

}  // namespace

std::optional<IR> with_dense_image(const IR& source, NodeRef view) {
  const Node node = source.node(view);
  const auto* of = node.as<View>();
  const Piece* const piece = of ? of->only_piece() : nullptr;
  if (!piece || !piece->where.empty() || piece->index.empty()) return {};
  Vars layout;
  for (const Expr& index : piece->index) {
    const Vars own = vars_in(source, index, node.vars);
    if (own.size() > 1 || (own.size() == 1 && is_in(layout, own[0]))) return {};
    layout.insert(layout.end(), own.begin(), own.end());
  }
  if (layout.empty() || layout.size() != node.vars.size()) return {};
  if (step_by(source, piece->index.back(), layout.back()) < 2) return {};
  IR ir = source;
  const NodeRef image = ir.add_view(*of, layout, ir.unused_node_name(node.name + "_dense"));
  const NodeRef window = ir.add_copy(image, node.vars, ir.unused_node_name(node.name + "_window"));
  std::vector<NodeRef> order = ir.order();
  order.resize(order.size() - 2);
  order.insert(std::ranges::find(order, view), {image, window});
  ir.set_order(std::move(order));
  for (NodeRef reader : ir.consumers(view)) ir.set_input(reader, view, window);
  return ir.without(view);
}

}  // namespace tenon
