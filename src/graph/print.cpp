#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "graph/graph.h"
#include "graph/text.h"
#include "graph/value_names.h"
#include "support/cursor.h"
#include "support/text.h"

namespace tenon {
namespace {

bool is_splat(const Tensor& tensor) {
  if (tensor.numel() == 0) return false;
  if (std::ranges::all_of(tensor.strides(), [](int64_t stride) { return stride == 0; })) return true;
  bool same = true;
  for (int64_t i = 1; i < tensor.numel() && same; ++i) {
    same = element_bits(tensor, tensor.offset(i)) == element_bits(tensor, tensor.offset(0));
  }
  return same;
}

std::string elements_to_string(const Tensor& tensor) {
  if (is_splat(tensor)) return element_to_string(tensor, tensor.offset(0));
  std::string text = "[";
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    if (i > 0) text += ", ";
    text += element_to_string(tensor, tensor.offset(i));
  }
  return text + "]";
}

class Namer {
 public:
  std::string name(const std::string& wish) {
    if (!is_identifier(wish)) return "%" + std::to_string(unnamed_++);
    // A wish that is taken gets a suffix, and so does one that looks like an earlier wish with its suffix.
    std::string name = wish;
    while (!taken_.emplace(name, 0).second) name = wish + "_" + std::to_string(++taken_[wish]);
    return "%" + name;
  }

 private:
  std::unordered_map<std::string, int> taken_;  // name -> last suffix tried
  int unnamed_ = 0;
};

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph), names_(value_names(graph)) {}

  std::string graph() {
    std::string text = "graph " + graph_.name() + "(" + typed(graph_.inputs()) + ") {\n";
    for (const auto& [symbol, range] : graph_.symbols()) text += "  " + symbol_line(symbol, range) + "\n";
    for (const Leaf& leaf : graph_.leaves()) {
      if (leaf.kind != LeafKind::kInput) text += "  " + this->leaf(leaf) + "\n";
    }
    for (const Node& node : graph_.nodes()) text += "  " + this->node(node) + "\n";
    for (const Update& update : graph_.updates())
      text += "  update " + name(update.target) + " = " + name(update.value) + "\n";
    return text + "  return" + (graph_.outputs().empty() ? "" : " ") + list(graph_.outputs()) + "\n}\n";
  }

  std::string node(const Node& node) const {
    std::string text =
        typed(node.results) + " = " + std::string(node.op->name.get()) + "(" + list(node.operands) + ")" + attrs(node);
    if (node.location.known()) text += " @ " + location(node.location);
    return text;
  }

 private:
  std::string name(ValueRef value) const { return value ? names_[value.id] : "none"; }
  std::string typed(ValueRef value) const { return name(value) + ": " + to_string(graph_.type(value)); }

  std::string typed(const std::vector<ValueRef>& values) const {
    return join(values, ", ", [&](ValueRef value) { return typed(value); });
  }
  std::string list(const std::vector<ValueRef>& values) const {
    return join(values, ", ", [&](ValueRef value) { return name(value); });
  }

  std::string leaf(const Leaf& leaf) const {
    const std::string data = leaf.kind == LeafKind::kConstant ? elements_to_string(leaf.data) : quote(leaf.name);
    return fmt::format("{} = {} {}", typed(leaf.value), name_of(leaf.kind), data);
  }

  // Attributes that have their default value are not printed.
  static std::string attrs(const Node& node) {
    std::string text;
    for (size_t i = 0; i < node.attrs.size(); ++i) {
      const AttrDef& def = node.op->attrs[i];
      if (!def.fallback.required && equal(def.fallback.value, node.attrs[i])) continue;
      text += (text.empty() ? " {" : ", ") + std::string(def.name) + "=" + to_string(node.attrs[i]);
    }
    return text.empty() ? text : text + "}";
  }

  static std::string location(const Location& location) {
    std::string text = quote(location.file);
    if (location.line > 0) text += ":" + std::to_string(location.line);
    if (location.line > 0 && location.column > 0) text += ":" + std::to_string(location.column);
    return text;
  }

  const Graph& graph_;
  std::vector<std::string> names_;
};

}  // namespace

std::string types_to_string(std::span<const TensorType> types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : "; ") + to_string(type);
  return text;
}

std::vector<std::string> value_names(const Graph& graph) {
  std::vector<std::string> names(graph.value_count());
  Namer namer;
  const auto add = [&](ValueRef value) { names[value.id] = namer.name(graph.value_name(value)); };
  for (const Leaf& leaf : graph.leaves()) add(leaf.value);
  for (const Node& node : graph.nodes()) std::ranges::for_each(node.results, add);
  return names;
}

std::string to_string(const Graph& graph) { return Printer(graph).graph(); }

std::string describe(const Graph& graph, NodeRef node) { return Printer(graph).node(graph.node(node)); }

}  // namespace tenon
