#include <fmt/format.h>

#include <algorithm>

#include "graph/graph.h"
#include "graph/text.h"
#include "loops/ir.h"
#include "loops/key.h"
#include "support/text.h"

namespace tenon::loops {
namespace {

std::string scalar_to_string(const Scalar& scalar, DType dtype) {
  if (const auto* real = std::get_if<double>(&scalar)) return element_to_string(Tensor::scalar(DType::kF64, *real), 0);
  return element_to_string(Tensor::scalar(dtype, std::get<int64_t>(scalar)), 0);
}

// Nodes in the order in which they were added, but inputs before readers, and reads by slot.
std::vector<NodeRef> definition_order(const IR& ir) {
  std::vector<NodeRef> order;
  std::vector<bool> done(ir.nodes().size());
  const auto next_needed = [&](const Node& node) {
    const auto* read = node.as<Read>();
    if (read && read->slot > 0 && !done[ir.reads()[static_cast<size_t>(read->slot) - 1].id]) {
      return ir.reads()[static_cast<size_t>(read->slot) - 1];
    }
    const auto found = std::ranges::find_if(node.inputs, [&](NodeRef input) { return !done[input.id]; });
    return found == node.inputs.end() ? NodeRef() : *found;
  };
  std::vector<NodeRef> pending = ir.node_refs();
  std::ranges::reverse(pending);
  while (!pending.empty()) {
    check(pending.size() <= 2 * done.size(), "the nodes of {} read each other in a circle", ir.name());
    const NodeRef ref = pending.back();
    if (const NodeRef needed = done[ref.id] ? NodeRef() : next_needed(ir.node(ref))) {
      pending.push_back(needed);
      continue;
    }
    pending.pop_back();
    if (!done[ref.id]) order.push_back(ref);
    done[ref.id] = true;
  }
  return order;
}

class IrPrinter {
 public:
  enum Names { kOwn, kKey, kStructure };  // names of nodes, sizes, variables and lookups
  explicit IrPrinter(const IR& ir, Names names = kOwn) : ir_(ir), names_(names) {
    if (names == kKey) number_sizes();
    if (names == kStructure) number_all();
  }

  std::string kernel() {
    return "tenon loops 1\nkernel " + (is_identifier(ir_.name()) ? ir_.name() : quote(ir_.name())) + " " + body();
  }

  std::string body() {
    std::string text = "{\n";
    symbolic::Ranges declared;
    for (const auto& [symbol, range] : ir_.symbols()) {
      if (names_ != kStructure || symbols_.contains(symbol)) declared.emplace(name(symbol), range);
    }
    for (const auto& [symbol, range] : declared) text += "  " + symbol_line(symbol, range) + "\n";
    for (uint32_t id = 0; id < ir_.vars().size(); ++id) {
      text += fmt::format("  var {} = {}\n", name(VarRef{id}), expr(ir_.vars()[id].size));
    }
    std::vector<NodeRef> nodes = definition_order(ir_);
    for (NodeRef ref : nodes) text += "  " + node(ref) + loops(ir_.node(ref)) + "\n";
    std::erase_if(nodes, [&](NodeRef ref) { return ir_.node(ref).is_leaf(); });
    if (nodes != ir_.order()) text += "  order " + names(ir_.order()) + "\n";
    return text + "}\n";
  }

  std::string node(NodeRef ref) {
    const Node& node = ir_.node(ref);
    if (names_ == kStructure) number_lookups(node);
    const std::string vars = join(node.vars, ", ", [&](VarRef var) { return name(var); });
    const std::string action = std::visit([&](const auto& action) { return this->action(node, action); }, node.action);
    return fmt::format("{}: {}[{}] = {}", name(ref), name_of(node.dtype), vars, action);
  }

 private:
  std::string name(NodeRef ref) const {
    if (names_ == kOwn) return "%" + ir_.node(ref).name;
    return fmt::format("%{}", names_ == kKey ? ref.id : numbers_[ref.id]);
  }

  std::string name(VarRef var) const { return names_ == kStructure ? fmt::format("v{}", var.id) : ir_.var(var).name; }

  Symbol name(Symbol symbol) const {
    const auto found = symbols_.find(symbol);
    return found == symbols_.end() ? symbol : found->second.symbol();
  }

  // The k-th size argument gets the k-th name. Both are sorted by name.
  void number_sizes() {
    const std::vector<Symbol> sizes = ir_.size_symbols();
    for (size_t i = 0; i < sizes.size(); ++i) symbols_.emplace(sizes[i], Symbol(fmt::format("_size.{:06}", i)));
  }

  void number_all() {
    for (uint32_t id = 0; id < ir_.vars().size(); ++id)
      symbols_.emplace(ir_.vars()[id].symbol(), Symbol(name(VarRef{id})));
    for (const Var& var : ir_.vars()) {
      for (Symbol symbol : symbols_of(var.size)) symbols_.emplace(symbol, Symbol(fmt::format("s{}", symbols_.size())));
    }
    numbers_.resize(ir_.nodes().size());
    uint32_t number = 0;
    for (NodeRef ref : definition_order(ir_)) numbers_[ref.id] = number++;
  }

  // Two nodes may have lookups of one name.
  void number_lookups(const Node& node) {
    for (size_t i = 0; i < node.lookups().size(); ++i) {
      symbols_.insert_or_assign(node.lookups()[i].symbol, Symbol(fmt::format("l{}", i)));
    }
  }

  std::string expr(const Expr& expr) const {
    return to_string(symbols_.empty() || expr.is_constant() ? expr : substitute(expr, symbols_));
  }

  std::string names(const std::vector<NodeRef>& refs) const {
    return join(refs, ", ", [&](NodeRef ref) { return name(ref); });
  }

  std::string index(const std::vector<Expr>& index) const {
    return "[" + join(index, ", ", [&](const Expr& each) { return expr(each); }) + "]";
  }

  std::string action(const Node&, const Read& read) const { return fmt::format("read {}", read.slot); }
  std::string action(const Node& node, const Constant& constant) const {
    return "constant " + scalar_to_string(constant.value, node.dtype);
  }
  std::string action(const Node&, const Index& index) const { return "index " + expr(index.value); }
  std::string action(const Node& node, const Compute& compute) const {
    return fmt::format("{}({})", compute.op->name.get(), names(node.inputs));
  }
  std::string action(const Node& node, const Reduce& reduce) const {
    return fmt::format("reduce {}({})", reduce.op->name.get(), names(node.inputs));
  }
  std::string action(const Node& node, const Scan& scan) const {
    return fmt::format("scan {}({}) along {}", scan.op->name.get(), names(node.inputs), name(scan.along));
  }

  std::string action(const Node& node, const View& view) const {
    std::string text = "view " + join(view.pieces, " | ", [&](const Piece& piece) {
                         return name(piece.input) + index(piece.index) + where(piece.where);
                       });
    if (Constant{view.fill} != Constant{zero_of(node.dtype)})
      text += " else " + scalar_to_string(view.fill, node.dtype);
    return text + lookups(view.lookups);
  }

  std::string action(const Node& node, const Scatter& scatter) const {
    const std::string_view op = scatter.op ? scatter.op->name.get() : "set";
    return fmt::format("scatter {}({}, {}) at {}{}{}", op, name(node.inputs[0]), name(node.inputs[1]),
                       index(scatter.index), where(scatter.where), lookups(scatter.lookups));
  }

  std::string action(const Node& node, const Write& write) const {
    return fmt::format("write {} ({})", write.slot, names(node.inputs));
  }

  std::string where(const std::vector<Constraint>& constraints) const {
    if (constraints.empty()) return "";
    return " where " + join(constraints, " and ", [&](const Constraint& constraint) {
             return fmt::format("{} in {}", expr(constraint.expr), expr(constraint.bound));
           });
  }

  std::string lookups(const std::vector<Lookup>& lookups) const {
    if (lookups.empty()) return "";
    return " with " + join(lookups, ", ", [&](const Lookup& lookup) {
             return fmt::format("{} = {} in {}", name(lookup.symbol).name(), name(lookup.indices), expr(lookup.bound));
           });
  }

  std::string loops(const Node& node) const {
    if (node.loops.empty()) return "";
    return " for " + join(node.loops, ", ", [&](const LoopSpec& loop) {
             std::string text = (loop.fresh ? "new " : "") + name(loop.var);
             if (loop.step != 1) text += fmt::format(" by {}", loop.step);
             const std::string annotation = to_string(loop.annotation);
             return annotation.empty() ? text : text + " " + annotation;
           });
  }

  const IR& ir_;
  const Names names_;
  symbolic::Substitution symbols_;  // names of symbols in a key
  std::vector<uint32_t> numbers_;   // by node, in a structural key
};

}  // namespace

std::string to_string(const Annotation& annotation) {
  constexpr std::string_view kMarks[] = {"", "parallel", "vectorize", "unroll", "tile ", "block", "thread"};  // by Mark
  const std::string mark(kMarks[static_cast<size_t>(annotation.mark)]);
  return annotation.mark == Mark::kTile ? mark + quote(annotation.tile) : mark;
}

std::string to_string(const IR& ir) { return IrPrinter(ir).kernel(); }

std::string to_string(const IR& ir, NodeRef node) { return IrPrinter(ir).node(node); }

std::string key_of(const IR& ir) { return IrPrinter(ir, IrPrinter::kKey).body(); }

std::string structural_key_of(const IR& ir) { return IrPrinter(ir, IrPrinter::kStructure).body(); }

}  // namespace tenon::loops
