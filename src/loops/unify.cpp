#include "loops/unify.h"

#include <algorithm>
#include <set>

#include "loops/box.h"

namespace tenon::loops {
namespace {

bool reads_one_place(const View& view) { return view.only_piece() && view.only_piece()->where.empty(); }

// ---- views of views -------------------------------------------------------------------------------------------------

class Composer {
 public:
  Composer(const IR& ir, std::vector<Node>& nodes) : ir_(ir), nodes_(nodes), box_(box_of(ir)) {}

  void run() {
    for (NodeRef ref : ir_.order()) {
      if (auto* view = std::get_if<View>(&nodes_[ref.id].action)) read_through(*view);
    }
  }

 private:
  // The views that this view reads are done already.
  void read_through(View& view) const {
    if (reads_one_place(view)) {
      const View* inner = view_without_lookups(view.pieces[0].input);
      if (!inner) return;
      View composed{{}, inner->fill, {}};
      for (const Piece& piece : inner->pieces) {
        std::optional<Piece> joined = join(view.pieces[0], piece);
        if (!joined) return;
        composed.pieces.push_back(std::move(*joined));
      }
      view = std::move(composed);
      return;
    }
    for (Piece& piece : view.pieces) {
      const View* inner = view_without_lookups(piece.input);
      if (!inner || !reads_one_place(*inner)) continue;
      if (std::optional<Piece> joined = join(piece, inner->pieces[0])) piece = std::move(*joined);
    }
  }

  const View* view_without_lookups(NodeRef ref) const {
    const View* view = nodes_[ref.id].as<View>();
    return view && view->lookups.empty() ? view : nullptr;
  }

  // The piece of `inner` that `outer` reads through the view between them.
  std::optional<Piece> join(const Piece& outer, const Piece& inner) const {
    symbolic::Substitution at;
    const std::vector<VarRef>& vars = nodes_[outer.input.id].vars;
    for (size_t i = 0; i < vars.size(); ++i) at.emplace(ir_.var(vars[i]).symbol(), outer.index[i]);
    Piece result{inner.input, {}, outer.where};
    for (const Constraint& constraint : inner.where) {
      result.where.push_back({box_.simplify(substitute(constraint.expr, at)), constraint.bound});
    }
    const std::vector<VarRef>& read = nodes_[inner.input.id].vars;
    for (size_t i = 0; i < inner.index.size(); ++i) {
      result.index.push_back(box_.simplify(substitute(inner.index[i], at)));
      const Constraint inside{result.index.back(), ir_.var(read[i]).size};
      if (std::ranges::find(result.where, inside) != result.where.end() || box_.contains(inside)) continue;
      if (result.where.empty()) return {};
      result.where.push_back(inside);  // Implied by the others, but the IR cannot prove it.
    }
    return result;
  }

  const IR& ir_;
  std::vector<Node>& nodes_;
  Box box_;
};

// ---- variables that are one -----------------------------------------------------------------------------------------

// Disjoint sets of variables, each with the nodes that have a variable of the set.
class VarClasses {
 public:
  VarClasses(const IR& ir, const std::vector<Node>& nodes)
      : ir_(ir), parents_(ir.vars().size()), users_(parents_.size()) {
    for (uint32_t id = 0; id < parents_.size(); ++id) parents_[id] = {id};
    for (uint32_t id = 0; id < nodes.size(); ++id) {
      const NodeRef ref{id};
      std::set<VarRef> vars(nodes[id].vars.begin(), nodes[id].vars.end());
      for (VarRef var : ir.iteration_vars(ref)) vars.insert(var);
      for (VarRef var : vars) users_[var.id].push_back(ref);
      vars_.emplace_back(vars.begin(), vars.end());
    }
  }

  VarRef find(VarRef var) const {
    while (parents_[var.id] != var) var = parents_[var.id];
    return var;
  }

  // Joins the sets of two variables, unless a node has both.
  void join(VarRef a, VarRef b) {
    a = find(a);
    b = find(b);
    if (a == b || ir_.var(a).size != ir_.var(b).size) return;
    if (users_[a.id].size() < users_[b.id].size()) std::swap(a, b);
    const auto has_a = [&](NodeRef node) { return std::ranges::find(vars_[node.id], a) != vars_[node.id].end(); };
    if (std::ranges::any_of(users_[b.id], has_a)) return;
    for (NodeRef node : users_[b.id]) std::ranges::replace(vars_[node.id], b, a);
    users_[a.id].insert(users_[a.id].end(), users_[b.id].begin(), users_[b.id].end());
    parents_[b.id] = a;
  }

 private:
  const IR& ir_;
  std::vector<VarRef> parents_;
  std::vector<std::vector<NodeRef>> users_;  // by root variable of a set
  std::vector<std::vector<VarRef>> vars_;    // by node: root variables of its variables
};

// ---- the kernel anew ------------------------------------------------------------------------------------------------

class Unifier {
 public:
  explicit Unifier(const IR& ir) : ir_(ir), nodes_(ir.nodes()) {
    for (uint32_t id = 0; id < ir.vars().size(); ++id) vars_by_symbol_.emplace(ir.vars()[id].symbol(), VarRef{id});
  }

  IR run() {
    Composer(ir_, nodes_).run();
    merge_variables();
    rename();
    skip_identities();
    return rebuild();
  }

 private:
  // First join variables that make a whole view disappear, then those that let nodes share loops.
  void merge_variables() {
    VarClasses classes(ir_, nodes_);
    for (const bool only_renaming : {true, false}) {
      for (const Node& node : nodes_) {
        const View* view = node.as<View>();
        if (!view || is_renaming(*view) != only_renaming) continue;
        for (const Piece& piece : view->pieces) merge_read(classes, piece);
      }
    }
    for (uint32_t id = 0; id < ir_.vars().size(); ++id) classes_.push_back(classes.find({id}));
  }

  std::optional<VarRef> as_var(const Expr& expr) const {
    if (expr.kind() != symbolic::Kind::kSymbol) return {};
    const auto found = vars_by_symbol_.find(expr.symbol());
    return found == vars_by_symbol_.end() ? std::nullopt : std::optional(found->second);
  }

  bool is_renaming(const View& view) const {
    return reads_one_place(view) &&
           std::ranges::all_of(view.pieces[0].index, [&](const Expr& index) { return as_var(index).has_value(); });
  }

  void merge_read(VarClasses& classes, const Piece& piece) const {
    const std::vector<VarRef>& vars = nodes_[piece.input.id].vars;
    for (size_t i = 0; i < vars.size(); ++i) {
      if (const auto var = as_var(piece.index[i])) classes.join(vars[i], *var);
    }
  }

  // Every variable is replaced by the first variable of its set, which has the shortest name.
  void rename() {
    std::vector<VarRef> first(ir_.vars().size());
    for (uint32_t id = 0; id < first.size(); ++id) {
      VarRef& chosen = first[classes_[id].id];
      if (!chosen) chosen = {id};
      classes_[id] = chosen;
      if (chosen.id != id) renamed_.emplace(ir_.vars()[id].symbol(), ir_.var(chosen).symbol());
    }
    for (Node& node : nodes_) {
      for_each_var(node, [&](VarRef& var) { var = classes_[var.id]; });
      if (!renamed_.empty()) for_each_expr(node, [&](Expr& expr) { expr = substitute(expr, renamed_); });
    }
  }

  // ---- views that are no longer any ----

  void skip_identities() {
    for (const Node& node : nodes_) {
      if (node.as<Scatter>()) ordered_.insert(node.inputs[1]);
    }
    aliases_ = ir_.node_refs();
    for (NodeRef ref : ir_.order()) {
      Node& node = nodes_[ref.id];
      redirect(node);
      if (const View* view = node.as<View>(); view && is_identity(ref, *view)) aliases_[ref.id] = view->pieces[0].input;
    }
  }

  // Replaces the inputs of a node by the nodes that replaced them.
  void redirect(Node& node) {
    const auto follow = [&](NodeRef& ref) { ref = aliases_[ref.id]; };
    const auto redirect_piece = [&](Piece& piece) { redirect(piece); };
    if (auto* view = std::get_if<View>(&node.action)) std::ranges::for_each(view->pieces, redirect_piece);
    for_each_lookup(node, [&](Lookup& lookup) { follow(lookup.indices); });
    std::ranges::for_each(node.inputs, follow);
  }

  void redirect(Piece& piece) const {
    const std::vector<VarRef>& before = nodes_[piece.input.id].vars;
    const NodeRef input = aliases_[piece.input.id];
    std::vector<Expr> index;
    for (VarRef var : nodes_[input.id].vars) {
      index.push_back(piece.index[static_cast<size_t>(std::ranges::find(before, var) - before.begin())]);
    }
    piece.input = input;
    piece.index = std::move(index);
  }

  bool is_identity(NodeRef ref, const View& view) const {
    const Node &node = nodes_[ref.id], &input = nodes_[view.pieces[0].input.id];
    if (node.vars.size() != input.vars.size() || !reads_own_index(ir_, view, input.vars)) return false;
    // A scatter writes in the order of the variables of its values.
    return node.vars == input.vars || !ordered_.contains(ref);
  }

  // ---- building ----

  IR rebuild() {
    mark_needed();
    for (const auto& [symbol, range] : ir_.symbols()) result_.declare_symbol(symbol, range);
    add_vars();
    moved_.resize(nodes_.size());
    for (NodeRef read : ir_.reads()) add(read);
    for (NodeRef ref : ir_.node_refs()) {
      if (nodes_[ref.id].is_leaf() && needed_[ref.id] && !nodes_[ref.id].as<Read>()) add(ref);
    }
    std::vector<NodeRef> order;
    for (NodeRef ref : ir_.order()) {
      if (!needed_[ref.id]) continue;
      order.push_back(ref);
      if (!nodes_[ref.id].as<Write>()) add(ref);
    }
    for (NodeRef write : ir_.writes()) add(write);
    for (NodeRef& ref : order) ref = moved_[ref.id];
    result_.set_order(std::move(order));
    return std::move(result_);
  }

  void mark_needed() {
    needed_.resize(nodes_.size());
    for (NodeRef ref : ir_.reads()) needed_[ref.id] = true;
    for (NodeRef ref : ir_.writes()) needed_[ref.id] = true;
    for (size_t i = ir_.order().size(); i-- > 0;) {
      const NodeRef ref = ir_.order()[i];
      if (!needed_[ref.id]) continue;
      if (const View* view = nodes_[ref.id].as<View>()) nodes_[ref.id].inputs = inputs_of(*view);
      for (NodeRef input : nodes_[ref.id].inputs) needed_[input.id] = true;
    }
  }

  static std::vector<NodeRef> inputs_of(const View& view) {
    std::vector<NodeRef> inputs;
    for (const Piece& piece : view.pieces) inputs.push_back(piece.input);
    for (const Lookup& lookup : view.lookups) inputs.push_back(lookup.indices);
    return inputs;
  }

  // Adds the variables of nodes, and unused variables whose sizes have symbols that would be lost.
  void add_vars() {
    std::set<VarRef> used;
    std::set<Symbol> sizes;
    for (size_t id = 0; id < nodes_.size(); ++id) {
      if (needed_[id]) used.insert(nodes_[id].vars.begin(), nodes_[id].vars.end());
    }
    for (VarRef var : used) std::ranges::copy(symbols_of(ir_.var(var).size), std::inserter(sizes, sizes.end()));
    vars_.resize(ir_.vars().size());
    for (uint32_t id = 0; id < vars_.size(); ++id) {
      const auto is_new = [&](Symbol symbol) { return sizes.insert(symbol).second; };
      const bool keeps_a_size = std::ranges::count_if(symbols_of(ir_.vars()[id].size), is_new) > 0;
      if (!used.contains({id}) && !keeps_a_size) continue;
      vars_[id] = result_.add_var(ir_.vars()[id].name, ir_.vars()[id].size);
    }
  }

  void add(NodeRef ref) {
    Node node = nodes_[ref.id];
    for_each_var(node, [&](VarRef& var) { var = vars_[var.id]; });
    for_each_ref(node, [&](NodeRef& input) { input = moved_[input.id]; });
    if (is_number(node.name)) node.name.clear();
    moved_[ref.id] = result_.add_node(std::move(node));
  }

  static bool is_number(const std::string& name) { return name.find_first_not_of("0123456789") == std::string::npos; }

  const IR& ir_;
  std::vector<Node> nodes_;  // the nodes being changed
  std::map<Symbol, VarRef> vars_by_symbol_;
  std::vector<VarRef> classes_;     // by variable: its replacement
  symbolic::Substitution renamed_;  // the same, for symbols
  std::set<NodeRef> ordered_;       // nodes whose variables must keep their order
  std::vector<NodeRef> aliases_;    // by node: its replacement
  std::vector<bool> needed_;
  std::vector<VarRef> vars_;    // by variable: the variable of the result
  std::vector<NodeRef> moved_;  // by node: the node of the result
  IR result_{ir_.name()};
};

}  // namespace

IR unify(const IR& ir) { return Unifier(ir).run(); }

}  // namespace tenon::loops
