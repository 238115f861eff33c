#include "graph/rewrite.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/node_symbols.h"

namespace tenon {

Rewriter::Rewriter(const Graph& source, const std::function<bool(const Leaf&)>& keep)
    : source_(&source), target_(source.name()), map_(source.value_count()) {
  for (const auto& [symbol, range] : source.symbols()) target_.declare_symbol(symbol, range);
  for (const bool inputs : {true, false}) {
    for (const Leaf& leaf : source.leaves()) {
      if ((leaf.kind == LeafKind::kInput) != inputs || (keep && !keep(leaf))) continue;
      const ValueRef copied = target_.copy_leaf(leaf, source.type(leaf.value));
      target_.set_value_name(copied, source.value_name(leaf.value));
      replace(leaf.value, copied);
    }
  }
}

ValueRef Rewriter::map(ValueRef old) const {
  if (!old) return old;
  check(static_cast<bool>(map_[old.id]), "a pass uses a value that it left out");
  return map_[old.id];
}

std::vector<ValueRef> Rewriter::map(const std::vector<ValueRef>& old) const {
  std::vector<ValueRef> mapped;
  mapped.reserve(old.size());
  for (ValueRef value : old) mapped.push_back(map(value));
  return mapped;
}

void Rewriter::replace(ValueRef old, ValueRef replacement) {
  if (source_->type(old) != target_.type(replacement)) {
    check(false, "a pass replaces {} by {}", to_string(source_->type(old)), to_string(target_.type(replacement)));
  }
  map_[old.id] = replacement;
  if (target_.value_name(replacement).empty()) target_.set_value_name(replacement, source_->value_name(old));
}

void Rewriter::copy(const Node& node) {
  const NodeRef copied = target_.add_node(*node.op, map(node.operands), node.attrs, node.location);
  replace(node, target_.node(copied).results);
}

void Rewriter::replace(const Node& node, const std::vector<ValueRef>& results) {
  check(results.size() == node.results.size(), "{} has {} results, the pass gives {}", node.op->name.get(),
        node.results.size(), results.size());
  for (size_t i = 0; i < results.size(); ++i) replace(node.results[i], results[i]);
}

void Rewriter::replace_or_copy(const Node& node, Value result) { result ? replace(node, {result.ref()}) : copy(node); }

Graph Rewriter::finish() {
  target_.set_outputs(map(source_->outputs()));
  for (const Update& update : source_->updates()) target_.add_update(map(update.target), map(update.value));
  return std::move(target_);
}

namespace {

// Adds a node to `graph`, expanding it where wanted, and what it expands to.
class Expander {
 public:
  Expander(Graph& graph, const std::function<bool(const OpDef&)>& wanted) : graph_(graph), wanted_(wanted) {}

  std::vector<ValueRef> add(const Node& node, const std::vector<ValueRef>& operands) {
    if (!node.op->is_composite() || !wanted_(*node.op)) {
      return graph_.node(graph_.add_node(*node.op, operands, node.attrs, node.location)).results;
    }
    // The expansion is built aside, so that what it contains can be expanded in turn.
    Graph body;
    std::set<Symbol> symbols;
    for (const Attr& attr : node.attrs) add_symbols(attr, symbols);
    for (ValueRef operand : operands) {
      if (operand) add_symbols(graph_.type(operand), symbols);
    }
    declare_symbols(body, graph_, symbols);
    const OpView view = view_of(graph_, *node.op, operands, node.attrs);
    const std::vector<ValueRef> results = expand(body, node, view.types());
    std::vector<ValueRef> actual;
    std::ranges::copy_if(operands, std::back_inserter(actual), [](ValueRef operand) { return !!operand; });
    return inline_body(body, actual, results);
  }

 private:
  std::vector<ValueRef> inline_body(const Graph& body, const std::vector<ValueRef>& actual,
                                    const std::vector<ValueRef>& results) {
    std::vector<ValueRef> map(body.value_count());
    const std::vector<ValueRef> formal = body.inputs();
    for (size_t i = 0; i < formal.size(); ++i) map[formal[i].id] = actual[i];
    for (const Leaf& leaf : body.leaves()) {
      if (leaf.kind == LeafKind::kConstant) map[leaf.value.id] = graph_.add_constant(leaf.data);
    }
    for (const Node& node : body.nodes()) {
      std::vector<ValueRef> operands;
      for (ValueRef operand : node.operands) operands.push_back(operand ? map[operand.id] : operand);
      const std::vector<ValueRef> added = add(node, operands);
      for (size_t i = 0; i < added.size(); ++i) map[node.results[i].id] = added[i];
    }
    std::vector<ValueRef> mapped;
    for (ValueRef result : results) mapped.push_back(map[result.id]);
    return mapped;
  }

  Graph& graph_;
  const std::function<bool(const OpDef&)>& wanted_;
};

}  // namespace

Graph expand_where(const Graph& graph, const std::function<bool(const OpDef&)>& wanted, RewriteMap* moved) {
  Rewriter rewriter(graph);
  Expander expander(rewriter.target(), wanted);
  for (const Node& node : graph.nodes()) rewriter.replace(node, expander.add(node, rewriter.map(node.operands)));
  if (moved) {
    for (uint32_t id = 0; id < graph.value_count(); ++id) moved->new_values_.push_back(rewriter.map(ValueRef{id}));
  }
  return rewriter.finish();
}

}  // namespace tenon
