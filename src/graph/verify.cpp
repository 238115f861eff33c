#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/graph.h"
#include "graph/limits.h"
#include "graph/node_symbols.h"
#include "support/cursor.h"

namespace tenon {
namespace {

// One check each; every one throws an Error that names the place.
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.value_count(), false) {}

  void run() {
    if (!is_identifier(graph_.name())) fail("'{}' cannot name a graph", graph_.name());
    for (const Leaf& leaf : graph_.leaves()) verify_leaf(leaf);
    for (uint32_t id = 0; id < graph_.nodes().size(); ++id) verify_node(NodeRef{id});
    for (ValueRef output : graph_.outputs()) require_defined(output, "an output");
    for (const Update& update : graph_.updates()) verify_update(update);
  }

 private:
  void require_defined(ValueRef value, std::string_view what) const {
    if (!graph_.owns(value) || !defined_[value.id]) fail("{} is used before it is defined", what);
  }

  void define(ValueRef value) {
    if (!graph_.owns(value) || defined_[value.id]) fail("a value is defined twice");
    defined_[value.id] = true;
  }

  void verify_leaf(const Leaf& leaf) {
    define(leaf.value);
    check_limits(graph_.type(leaf.value), fmt::format("{} '{}'", name_of(leaf.kind), leaf.name));
    for (const Expr& size : graph_.type(leaf.value).shape) {
      for (const Symbol& symbol : symbols_of(size)) bound_.insert(symbol);
    }
    if (leaf.kind != LeafKind::kConstant && !names_.insert(leaf.name).second)
      fail("two leaves are named '{}'", leaf.name);
    if (leaf.kind == LeafKind::kConstant && !leaf.data.defined()) fail("a constant has no data");
    if (leaf.data.defined() && !data_fits(graph_.type(leaf.value), leaf.data)) {
      fail("{} '{}' is {}, but its data is {}", name_of(leaf.kind), leaf.name, to_string(graph_.type(leaf.value)),
           to_string(type_of(leaf.data)));
    }
  }

  void verify_node(NodeRef ref) {
    const Node& node = graph_.node(ref);
    for (ValueRef operand : node.operands) {
      if (operand) require_defined(operand, fmt::format("an operand of {}", node.op->name.get()));
    }
    verify_attrs(node);
    verify_symbols(node);
    verify_types(node);
    bind_found_sizes(node);
    for (ValueRef result : node.results) {
      define(result);
      if (graph_.producer(result) != ref) fail("a result of {} names another producer", node.op->name.get());
    }
  }

  void verify_attrs(const Node& node) const {
    const auto& defs = node.op->attrs;
    if (defs.size() != node.attrs.size()) fail_at(node.location, "{} has incomplete attributes", node.op->name.get());
    for (size_t i = 0; i < defs.size(); ++i) {
      const bool none_allowed = !defs[i].fallback.required && std::holds_alternative<None>(defs[i].fallback.value);
      const bool none = std::holds_alternative<None>(node.attrs[i]);
      if (!(none ? none_allowed : has_kind(node.attrs[i], defs[i].kind))) {
        fail_at(node.location, "{}: attribute '{}' is of the wrong kind", node.op->name.get(), defs[i].name);
      }
    }
  }

  // A symbol stands for a size of a leaf, or for one that this or an earlier node finds out.
  void verify_symbols(const Node& node) {
    const auto require = [&](const Expr& expr) {
      if (expr.is_constant()) return;
      for (const Symbol& symbol : symbols_of(expr)) {
        if (!bound_.contains(symbol)) {
          fail_at(node.location, "{}: nothing before it binds the symbol {}", node.op->name.get(), symbol.name());
        }
      }
    };
    for (size_t i = 0; i < node.attrs.size(); ++i) {
      if (const auto* expr = std::get_if<Expr>(&node.attrs[i])) {
        const bool defines = node.op->attrs[i].kind == AttrKind::kSymbol && !expr->is_constant();
        defines ? void(bound_.insert(expr->symbol())) : require(*expr);
      }
      if (const auto* exprs = std::get_if<std::vector<Expr>>(&node.attrs[i])) std::ranges::for_each(*exprs, require);
    }
  }

  // A call or a device finds out the sizes of its results.
  void bind_found_sizes(const Node& node) {
    const Role role = role_of(*node.op);
    if (role != Role::kExternal && role != Role::kSegment) return;
    for (ValueRef result : node.results) add_symbols(graph_.type(result), bound_);
  }

  void verify_types(const Node& node) const {
    const OpView view = view_of(graph_, *node.op, node.operands, node.attrs);
    const std::vector<TensorType> inferred = infer(*node.op, view.types(), node.attrs, Facts(graph_.symbols()));
    const auto same = [&](const TensorType& type, ValueRef result) { return type == graph_.type(result); };
    if (!std::ranges::equal(inferred, node.results, same)) {
      fail_at(node.location, "the result types of {} do not follow from its operands", node.op->name.get());
    }
  }

  void verify_update(const Update& update) {
    if (!updated_.insert(update.target).second) fail("a leaf is updated twice");
    require_defined(update.target, "the target of an update");
    require_defined(update.value, "the value of an update");
    const Leaf* leaf = graph_.leaf(update.target);
    if (!leaf || leaf->kind == LeafKind::kParameter || leaf->kind == LeafKind::kConstant) {
      fail("only a buffer or an input can be updated");
    }
    if (graph_.type(update.target) != graph_.type(update.value))
      fail("the update of '{}' changes its type", leaf->name);
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::set<std::string> names_;
  std::set<Symbol> bound_;
  std::set<ValueRef> updated_;
};

}  // namespace

Status verify(const Graph& graph) {
  return attempt([&] { Verifier(graph).run(); });
}

}  // namespace tenon
