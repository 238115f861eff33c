#include "loops/work.h"

#include <algorithm>
#include <set>

namespace tenon::loops {

// ---- operations -----------------------------------------------------------------------------------------------------

Expr flops(const LoopTree& tree) {
  Expr total = 0;
  for (NodeRef ref : tree.ir.order()) {
    const Node& node = tree.ir.node(ref);
    const auto* compute = node.as<Compute>();
    const auto* scatter = node.as<Scatter>();
    const bool counts = (compute && !compute->op->attr_named("dtype")) || node.as<Reduce>() || node.as<Scan>() ||
                        (scatter && scatter->op);
    if (!counts) continue;
    Expr elements = 1;
    for (VarRef var : tree.ir.iteration_vars(ref)) elements *= tree.ir.var(var).size;
    total += elements;
  }
  return total;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

namespace {

// The variables that an index of a view depends on, directly or through lookups.
std::set<VarRef> vars_in(const IR& ir, const Node& view, const Expr& index) {
  std::set<VarRef> vars;
  for (Symbol symbol : symbols_of(index)) {
    if (const auto var = ir.var_named(symbol.name())) vars.insert(*var);
    for (const Lookup& lookup : view.lookups()) {
      if (lookup.symbol != symbol) continue;
      const std::vector<VarRef>& looked_up = ir.node(lookup.indices).vars;
      vars.insert(looked_up.begin(), looked_up.end());
    }
  }
  return vars;
}

// The number of indices of a variable for which a piece applies. Constraints on that variable alone limit it.
Expr index_count(const IR& ir, const Piece& piece, const Var& var) {
  Expr count = var.size;
  for (const Constraint& constraint : piece.where) {
    const Expr rest = constraint.expr - Expr(var.symbol());
    const bool is_alone = std::ranges::includes(ir.size_symbols(), symbols_of(rest));
    if (is_alone) count = min(count, constraint.bound);
  }
  return count;
}

Expr index_count(const IR& ir, const Piece& piece, const std::set<VarRef>& vars) {
  Expr count = 1;
  for (VarRef var : vars) count *= index_count(ir, piece, ir.var(var));
  return count;
}

// The most elements that a piece reads: no more than the indices of its variables, and no more than each dimension has.
Expr elements_named(const IR& ir, const Node& view, const Piece& piece) {
  const Node& input = ir.node(piece.input);
  std::set<VarRef> all;
  Expr of_dimensions = 1;
  for (size_t dim = 0; dim < piece.index.size(); ++dim) {
    const std::set<VarRef> vars = vars_in(ir, view, piece.index[dim]);
    all.insert(vars.begin(), vars.end());
    of_dimensions *= min(ir.var(input.vars[dim]).size, index_count(ir, piece, vars));
  }
  return min(of_dimensions, index_count(ir, piece, all));
}

// Every reader except a view reads the whole array.
Expr elements_read(const IR& ir, NodeRef read) {
  const Expr whole = element_count(ir.type(read).shape);
  Expr named = 0;
  for (NodeRef ref : ir.consumers(read)) {
    const Node& node = ir.node(ref);
    const auto* view = node.as<View>();
    const bool is_looked_up =
        std::ranges::any_of(node.lookups(), [&](const Lookup& lookup) { return lookup.indices == read; });
    if (!view || is_looked_up) return whole;
    for (const Piece& piece : view->pieces) {
      if (piece.input == read) named += elements_named(ir, node, piece);
    }
  }
  return min(whole, named);
}

}  // namespace

Expr bytes(const LoopTree& tree) {
  Expr total = 0;
  for (NodeRef read : tree.ir.reads()) total += elements_read(tree.ir, read) * size_of(tree.ir.node(read).dtype);
  for (NodeRef write : tree.ir.writes()) {
    total += element_count(tree.ir.type(write).shape) * size_of(tree.ir.node(write).dtype);
  }
  return total;
}

}  // namespace tenon::loops
