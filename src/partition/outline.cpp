#include "partition/outline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "graph/node_symbols.h"
#include "graph/rewrite.h"
#include "graph/value_names.h"
#include "support/cursor.h"

namespace tenon {
namespace {

class Outliner {
 public:
  Outliner(const Graph& graph, const Partition& partition, const std::function<bool(uint32_t)>& is_outlined,
           const std::function<bool(const Leaf&)>& is_frozen)
      : graph_(graph),
        partition_(partition),
        names_(value_names(graph)),
        definers_(definers_of(graph)),
        is_inside_(graph.value_count()) {
    for (const Leaf& leaf : graph.leaves()) {
      is_inside_[leaf.value.id] =
          leaf.kind == LeafKind::kConstant || (leaf.kind != LeafKind::kInput && is_frozen(leaf));
    }
    for (const Segment& segment : partition.segments) is_outlined_.push_back(is_outlined(segment.claimant));
  }

  Outlined run() {
    const std::vector<bool> is_read = read_outside();
    Rewriter rewriter(graph_, [&](const Leaf& leaf) { return is_read[leaf.value.id]; });
    std::vector<OutlinedSegment> segments;
    for (size_t i = 0; i < partition_.segments.size(); ++i) {
      const Segment& segment = partition_.segments[i];
      if (!is_outlined_[i]) {
        for (NodeRef node : segment.nodes) rewriter.copy(graph_.node(node));
      } else if (!segment.outputs.empty()) {
        const std::set<Symbol> symbols = symbols_of(segment);
        const std::optional<TensorType> sizes = untold(segment, symbols);
        add_segment_node(segment, sizes, segments.size(), rewriter);
        Graph body = body_of(segment, symbols, sizes, segments.size());
        segments.push_back({partition_.claimants[segment.claimant], std::move(body)});
      }
    }
    for (uint32_t id = 0; id < graph_.value_count(); ++id) keep_name({id}, rewriter);
    return {rewriter.finish(), std::move(segments)};
  }

 private:
  // By value: the graph with segment nodes has it as a leaf.
  std::vector<bool> read_outside() const {
    std::vector<bool> is_read(graph_.value_count());
    for (ValueRef input : graph_.inputs()) is_read[input.id] = true;
    for (ValueRef output : graph_.outputs()) is_read[output.id] = true;
    for (const Update& update : graph_.updates()) is_read[update.target.id] = is_read[update.value.id] = true;
    for (size_t i = 0; i < partition_.segments.size(); ++i) {
      for (ValueRef input : partition_.segments[i].inputs) {
        if (!is_outlined_[i] || !is_inside_[input.id]) is_read[input.id] = true;
      }
    }
    return is_read;
  }

  // An empty tensor with the sizes that no input of the body tells.
  std::optional<TensorType> untold(const Segment& segment, std::set<Symbol> symbols) const {
    for (ValueRef input : segment.inputs) {
      if (is_inside_[input.id]) continue;
      for (const Expr& size : graph_.type(input).shape) {
        if (size.kind() == symbolic::Kind::kSymbol) symbols.erase(size.symbol());
      }
    }
    for (const auto& [symbol, definer] : definers_) {
      if (std::ranges::binary_search(segment.nodes, definer)) symbols.erase(symbol);
    }
    if (symbols.empty()) return std::nullopt;
    TensorType type{DType::kU8, {}};
    for (Symbol symbol : symbols) type.shape.emplace_back(symbol);
    type.shape.emplace_back(0);
    return type;
  }

  void add_segment_node(const Segment& segment, const std::optional<TensorType>& sizes, size_t number,
                        Rewriter& rewriter) const {
    std::vector<ValueRef> operands;
    for (ValueRef input : segment.inputs) {
      if (!is_inside_[input.id]) operands.push_back(rewriter.map(input));
    }
    if (sizes) operands.push_back(Builder(rewriter.target()).full(Expr(0), sizes->shape, sizes->dtype).ref());
    std::vector<TensorType> types;
    for (ValueRef output : segment.outputs) types.push_back(graph_.type(output));
    const OpDef& op = op_named("segment");
    std::vector<Attr> attrs = complete_attrs(op, {{"device", partition_.claimants[segment.claimant]},
                                                  {"number", static_cast<int64_t>(number)},
                                                  {"types", types_to_string(types)}});
    const Location& location = graph_.node(segment.nodes[0]).location;
    const NodeRef node = rewriter.target().add_node(op, std::move(operands), std::move(attrs), location);
    for (size_t i = 0; i < segment.outputs.size(); ++i)
      rewriter.replace(segment.outputs[i], rewriter.target().node(node).results[i]);
  }

  Graph body_of(const Segment& segment, const std::set<Symbol>& symbols, const std::optional<TensorType>& sizes,
                size_t number) const {
    Graph body(fmt::format("segment{}", number));
    declare_symbols(body, graph_, symbols);
    std::map<ValueRef, ValueRef> inside;
    for (const bool are_inputs : {false, true}) {  // Leaves first: their names are given.
      for (ValueRef input : segment.inputs) {
        if (is_inside_[input.id] == are_inputs) continue;
        inside[input] = are_inputs ? add_input(input, body) : body.copy_leaf(*graph_.leaf(input), graph_.type(input));
      }
    }
    if (sizes) body.add_input(free_name("sizes", body), *sizes);
    for (NodeRef ref : segment.nodes) copy_node(graph_.node(ref), inside, body);
    for (const auto& [outer, inner] : inside) keep_name(outer, inner, body);
    std::vector<ValueRef> outputs;
    for (ValueRef output : segment.outputs) outputs.push_back(inside.at(output));
    body.set_outputs(std::move(outputs));
    return body;
  }

  static void copy_node(const Node& node, std::map<ValueRef, ValueRef>& inside, Graph& body) {
    std::vector<ValueRef> operands;
    for (ValueRef operand : node.operands) operands.push_back(operand ? inside.at(operand) : ValueRef());
    const NodeRef copy = body.add_node(*node.op, std::move(operands), node.attrs, node.location);
    for (size_t i = 0; i < node.results.size(); ++i) inside[node.results[i]] = body.node(copy).results[i];
  }

  ValueRef add_input(ValueRef value, Graph& body) const {
    std::string name = names_[value.id].substr(1);
    if (!is_identifier(name)) name = "in" + name;
    return body.add_input(free_name(std::move(name), body), graph_.type(value));
  }

  static std::string free_name(std::string name, const Graph& body) {
    while (body.leaf_named(name) != nullptr) name += "_";
    return name;
  }

  std::set<Symbol> symbols_of(const Segment& segment) const {
    std::set<Symbol> symbols;
    for (ValueRef input : segment.inputs) add_symbols(graph_.type(input), symbols);
    for (NodeRef node : segment.nodes) symbols.merge(tenon::symbols_of(graph_, graph_.node(node)));
    return symbols;
  }

  void keep_name(ValueRef outer, ValueRef inner, Graph& graph) const {
    const std::string_view name = std::string_view(names_[outer.id]).substr(1);
    if (is_identifier(name)) graph.set_value_name(inner, std::string(name));
  }

  void keep_name(ValueRef outer, Rewriter& rewriter) const {
    if (const ValueRef mapped = rewriter.find(outer)) keep_name(outer, mapped, rewriter.target());
  }

  const Graph& graph_;
  const Partition& partition_;
  std::vector<std::string> names_;
  std::map<Symbol, NodeRef> definers_;  // of sizes that depend on data
  std::vector<bool> is_inside_;         // by value: a leaf that bodies have themselves
  std::vector<bool> is_outlined_;       // by segment
};

// Puts a body's nodes in the place of the segment node, with the leaves that the graph lacks.
void inline_body(const Graph& body, const Node& segment, Rewriter& rewriter) {
  Graph& target = rewriter.target();
  std::vector<ValueRef> map(body.value_count());
  const std::vector<ValueRef> inputs = body.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) map[inputs[i].id] = rewriter.map(segment.operands[i]);
  for (const Leaf& leaf : body.leaves()) {
    if (leaf.kind == LeafKind::kInput) continue;
    const Leaf* known = leaf.kind == LeafKind::kConstant ? nullptr : target.leaf_named(leaf.name);
    map[leaf.value.id] = known != nullptr ? known->value : target.copy_leaf(leaf, body.type(leaf.value));
    if (known == nullptr) target.set_value_name(map[leaf.value.id], body.value_name(leaf.value));
  }
  for (const Node& node : body.nodes()) {
    std::vector<ValueRef> operands;
    for (ValueRef operand : node.operands) operands.push_back(operand ? map[operand.id] : ValueRef());
    const NodeRef copy = target.add_node(*node.op, std::move(operands), node.attrs, node.location);
    for (size_t i = 0; i < node.results.size(); ++i) {
      map[node.results[i].id] = target.node(copy).results[i];
      target.set_value_name(target.node(copy).results[i], body.value_name(node.results[i]));
    }
  }
  for (size_t i = 0; i < segment.results.size(); ++i) rewriter.replace(segment.results[i], map[body.outputs()[i].id]);
}

}  // namespace

Outlined outline(const Graph& graph, const Partition& partition, const std::function<bool(uint32_t)>& is_outlined,
                 const std::function<bool(const Leaf&)>& is_frozen) {
  return Outliner(graph, partition, is_outlined, is_frozen).run();
}

Graph inlined(const Outlined& outlined) {
  Rewriter rewriter(outlined.graph);
  for (const Node& node : outlined.graph.nodes()) {
    if (role_of(*node.op) != Role::kSegment) {
      rewriter.copy(node);
      continue;
    }
    const int64_t number = view_of(outlined.graph, *node.op, node.operands, node.attrs).integer("number");
    inline_body(outlined.segments.at(static_cast<size_t>(number)).body, node, rewriter);
  }
  return rewriter.finish();
}

}  // namespace tenon
