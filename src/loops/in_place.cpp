#include "loops/in_place.h"

#include <algorithm>

#include "loops/box.h"

namespace tenon::loops {
namespace {

Expr element_count(const IR& ir, NodeRef array) {
  Expr count = 1;
  for (VarRef var : ir.node(array).vars) count *= ir.var(var).size;
  return count;
}

class InPlace {
 public:
  explicit InPlace(const LoopTree& tree) : tree_(tree), ir_(tree.ir), box_(tree.ir.ranges()), times_(tree.size()) {
    for (const Var& var : ir_.vars()) box_.add(var.symbol(), 0, var.size - 1);
    size_t time = 0;
    tree_.walk([&](TreeRef ref, int) { times_[ref.id] = time++; });
  }

  bool may_overlay(NodeRef write, NodeRef read) const {
    if (ir_.node(write).dtype != ir_.node(read).dtype) return false;
    if (element_count(ir_, write) != element_count(ir_, read)) return false;
    const Expr position = position_in(write, own_index(write));
    return std::ranges::all_of(ir_.consumers(read), [&](NodeRef reader) {
      return comes_before(reader, write) && reads_at(position, reader, read);
    });
  }

 private:
  std::vector<Expr> own_index(NodeRef array) const {
    std::vector<Expr> index;
    for (VarRef var : ir_.node(array).vars) index.emplace_back(ir_.var(var).symbol());
    return index;
  }

  // The position in the memory of a whole array, over variables.
  Expr position_in(NodeRef array, const std::vector<Expr>& index) const {
    std::vector<Expr> terms;
    Expr stride = 1;
    for (size_t i = index.size(); i-- > 0;) {
      terms.push_back(index[i] * stride);
      stride *= ir_.var(ir_.node(array).vars[i]).size;
    }
    return box_.simplify(symbolic::sum(terms));
  }

  // The initial value of a scatter is read before its loops. A lookup may read any element.
  bool reads_at(const Expr& position, NodeRef reader, NodeRef read) const {
    const Node& node = ir_.node(reader);
    if (node.as<Scatter>()) return false;
    if (std::ranges::any_of(node.lookups(), [&](const Lookup& lookup) { return lookup.indices == read; })) return false;
    const auto* view = node.as<View>();
    if (!view) return position_in(read, own_index(read)) == position;
    return std::ranges::all_of(view->pieces, [&](const Piece& piece) {
      return piece.input != read || position_in(read, piece.index) == position;
    });
  }

  bool comes_before(NodeRef reader, NodeRef write) const {
    const TreeRef from = latest(reader), to = tree_.find(write);
    if (times_[from.id] > times_[to.id]) return false;
    const std::vector<TreeRef> around = tree_.path(tree_.lca(from, to));
    return std::ranges::all_of(around, [&](TreeRef loop) { return ir_.node(write).has(tree_.loop(loop).var); });
  }

  // A backend may compute a product when the sum that reads it runs.
  TreeRef latest(NodeRef reader) const {
    const TreeRef leaf = tree_.find(reader);
    const std::vector<NodeRef> next = ir_.consumers(reader);
    if (next.size() != 1 || !ir_.node(next[0]).as<Reduce>()) return leaf;
    const TreeRef sum = tree_.find(next[0]);
    return tree_.parent(sum) == tree_.parent(leaf) ? sum : leaf;
  }

  const LoopTree& tree_;
  const IR& ir_;
  Box box_;
  std::vector<size_t> times_;  // by ref: the position in a walk of the tree
};

}  // namespace

std::vector<InPlacePair> in_place_pairs(const LoopTree& tree) {
  const InPlace in_place(tree);
  std::vector<InPlacePair> pairs;
  for (NodeRef write : tree.ir.writes()) {
    for (NodeRef read : tree.ir.reads()) {
      if (!in_place.may_overlay(write, read)) continue;
      pairs.push_back({tree.ir.node(read).as<Read>()->slot, tree.ir.node(write).as<Write>()->slot});
    }
  }
  return pairs;
}

}  // namespace tenon::loops
