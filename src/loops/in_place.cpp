#include "loops/in_place.h"

#include <algorithm>

#include "loops/box.h"

namespace tenon::loops {
namespace {

class InPlace {
 public:
  explicit InPlace(const LoopTree& tree) : tree_(tree), ir_(tree.ir), box_(box_of(tree.ir)), times_(tree.size()) {
    size_t time = 0;
    tree_.walk([&](TreeRef ref, int) { times_[ref.id] = time++; });
  }

  bool may_overlay(NodeRef write, NodeRef read) const {
    const TensorType written = ir_.type(write), type = ir_.type(read);
    if (written.dtype != type.dtype || element_count(written.shape) != element_count(type.shape)) return false;
    const Expr position = position_in(write, ir_.own_index(write));
    return std::ranges::all_of(ir_.consumers(read), [&](NodeRef reader) {
      return comes_before(reader, write) && reads_at(position, reader, read);
    });
  }

 private:
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
    if (!view) return position_in(read, ir_.own_index(read)) == position;
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
