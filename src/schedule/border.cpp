#include "schedule/border.h"

#include <algorithm>

#include "schedule/contraction.h"

namespace tenon {

using namespace loops;

namespace {

struct Reach {
  Expr low;
  Expr high;
};

class Border {
 public:
  Border(const IR& ir, NodeRef ref) : ir_(ir), ref_(ref), node_(ir.node(ref)) {}

  std::optional<IR> run() {
    const auto* view = node_.as<View>();
    if (!view || !view->only_piece() || view->pieces[0].where.empty()) return {};
    const Piece& piece = view->pieces[0];
    const auto is_along_one = [&](const Constraint& guard) { return is_in(piece.index, guard.expr); };
    if (!std::ranges::all_of(piece.where, is_along_one)) return {};
    for (const Expr& index : piece.index) {
      if (!add_dimension(index)) return {};
    }
    for (const Constraint& guard : piece.where) {
      const auto position = std::ranges::find(piece.index, guard.expr) - piece.index.begin();
      border_.where.push_back({border_.index[static_cast<size_t>(position)], guard.bound});
    }
    return rewritten(*view, piece);
  }

 private:
  // The least and the greatest value of an index. Empty if the index is not a linear function of the variables.
  std::optional<Reach> reach_of(const Expr& index) const {
    Reach reach{index, index};
    for (VarRef var : node_.vars) {
      const Symbol symbol = ir_.var(var).symbol();
      const Result<Expr> slope = differentiate(index, symbol);
      if (!slope.ok() || !slope->is_constant()) return {};
      const Expr first = 0, last = ir_.var(var).size - 1;
      reach.low = substitute(reach.low, {{symbol, slope->constant() < 0 ? last : first}});
      reach.high = substitute(reach.high, {{symbol, slope->constant() < 0 ? first : last}});
    }
    return reach;
  }

  std::optional<VarRef> variable_of(const Expr& index) const {
    const auto found =
        std::ranges::find_if(node_.vars, [&](VarRef var) { return index == Expr(ir_.var(var).symbol()); });
    return found == node_.vars.end() ? std::nullopt : std::optional(*found);
  }

  bool is_guarded(const Expr& index) const {
    const std::vector<Constraint>& guards = node_.as<View>()->pieces[0].where;
    return std::ranges::find(guards, index, &Constraint::expr) != guards.end();
  }

  bool add_dimension(const Expr& index) {
    if (index.is_constant() && !is_guarded(index)) {
      border_.index.push_back(index);
      return true;
    }
    const std::optional<VarRef> plain = variable_of(index);
    if (plain && !is_guarded(index)) {
      vars_.push_back(*plain);
      border_.index.push_back(index);
      window_.index.push_back(index);
      return true;
    }
    const std::optional<Reach> reach = reach_of(index);
    if (!reach) return false;
    const VarRef var = ir_.add_var(unused_var_name(ir_, "p"), reach->high - reach->low + 1);
    vars_.push_back(var);
    border_.index.push_back(Expr(ir_.var(var).symbol()) + reach->low);
    window_.index.push_back(index - reach->low);
    return true;
  }

  IR rewritten(const View& view, const Piece& piece) {
    border_.input = piece.input;
    window_.input = ir_.add_view({{border_}, view.fill, {}}, vars_, ir_.unused_node_name(node_.name + "_border"));
    const NodeRef window =
        ir_.add_view({{window_}, view.fill, {}}, node_.vars, ir_.unused_node_name(node_.name + "_window"));
    std::vector<NodeRef> order = ir_.order();
    order.resize(order.size() - 2);
    order.insert(std::ranges::find(order, ref_), {window_.input, window});
    ir_.set_order(std::move(order));
    for (NodeRef reader : ir_.consumers(ref_)) ir_.set_input(reader, ref_, window);
    return ir_.without(ref_);
  }

  IR ir_;
  NodeRef ref_;
  Node node_;
  std::vector<VarRef> vars_ = {};
  Piece border_ = {};
  Piece window_ = {};
};

}  // namespace

std::optional<IR> with_border(const IR& ir, NodeRef view) { return Border(ir, view).run(); }

}  // namespace tenon
