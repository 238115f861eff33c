#include "backends/plugin/segment_form.h"

#include <algorithm>

#include "backends/interpreter/portable_kernel.h"
#include "graph/runtime_dtype.h"
#include "graph/value_names.h"

namespace tenon {
namespace {

// An attribute as numbers; none for texts, dtypes and sizes that are symbols.
struct NumbersOf {
  std::vector<double> operator()(const auto&) const { return {}; }
  std::vector<double> operator()(bool flag) const { return {flag ? 1.0 : 0.0}; }
  std::vector<double> operator()(int64_t number) const { return {static_cast<double>(number)}; }
  std::vector<double> operator()(double number) const { return {number}; }
  std::vector<double> operator()(const std::vector<int64_t>& all) const { return {all.begin(), all.end()}; }
  std::vector<double> operator()(const std::vector<double>& all) const { return all; }
  std::vector<double> operator()(const Expr& size) const { return (*this)(std::vector<Expr>{size}); }
  std::vector<double> operator()(const std::vector<Expr>& sizes) const {
    std::vector<double> numbers;
    for (const Expr& size : sizes) {
      if (!size.is_constant()) return {};
      numbers.push_back(static_cast<double>(size.constant()));
    }
    return numbers;
  }
};

}  // namespace

SegmentForm::SegmentForm(const Graph& graph) {
  const std::vector<std::string> names = value_names(graph);
  for (uint32_t id = 0; id < graph.value_count(); ++id) {
    const Leaf* const leaf = graph.leaf({id});
    const bool is_output = std::ranges::find(graph.outputs(), ValueRef{id}) != graph.outputs().end();
    int32_t role = is_output ? TENON_VALUE_OUTPUT : TENON_VALUE_TEMPORARY;
    const void* data = nullptr;
    if (leaf != nullptr && leaf->data.defined()) {
      role = TENON_VALUE_CONSTANT;
      data = constants_.emplace_back(leaf->data.contiguous()).data();
    } else if (leaf != nullptr) {
      role = TENON_VALUE_INPUT;
    }
    add_value(names[id], role, graph.type({id}), data);
  }
  for (const Node& node : graph.nodes()) add_node(node);
  finish(graph.name(), to_string(graph));
}

SegmentForm::SegmentForm(const Graph& graph, TileCode tiles) : SegmentForm(graph) {
  tiles_ = std::move(tiles);
  segment_.actions = tiles_.actions.data();
  segment_.action_count = tiles_.actions.size();
  segment_.action_scratch = static_cast<uint64_t>(tiles_.scratch_bytes);
}

SegmentForm::SegmentForm(const loops::LoopTree& tree, std::string object) {
  for (Symbol symbol : tree.ir.size_symbols()) sizes_.emplace_back(symbol);
  for (loops::NodeRef read : tree.ir.reads())
    add_value(tree.ir.node(read).name, TENON_VALUE_INPUT, tree.ir.type(read), nullptr);
  for (loops::NodeRef write : tree.ir.writes())
    add_value(tree.ir.node(write).name, TENON_VALUE_OUTPUT, tree.ir.type(write), nullptr);
  finish(tree.ir.name(), to_string(tree.ir));
  const std::string& kernel = texts_.emplace_back(portable_kernel(tree));
  segment_.kernel = kernel.data();
  segment_.kernel_bytes = kernel.size();
  const std::string& kept_object = texts_.emplace_back(std::move(object));
  segment_.object = kept_object.data();
  segment_.object_bytes = kept_object.size();
}

void SegmentForm::add_value(std::string name, int32_t role, const TensorType& type, const void* data) {
  std::vector<int64_t>& shape = shapes_.emplace_back();
  for (const Expr& size : type.shape) shape.push_back(size_of_dim(size));
  values_.push_back({.name = kept(std::move(name)),
                     .role = role,
                     .dtype = code_of(type.dtype),
                     .rank = type.rank(),
                     .shape = shape.data(),
                     .data = data});
}

int64_t SegmentForm::size_of_dim(const Expr& size) {
  if (size.is_constant()) return size.constant();
  const auto found = std::ranges::find(sizes_, size);
  const auto number = found - sizes_.begin();
  if (found == sizes_.end()) sizes_.push_back(size);
  return -1 - number;
}

void SegmentForm::add_node(const Node& node) {
  std::vector<uint32_t>& inputs = refs_.emplace_back();
  for (ValueRef operand : node.operands) inputs.push_back(operand.id);  // an absent operand is UINT32_MAX
  std::vector<uint32_t>& outputs = refs_.emplace_back();
  for (ValueRef result : node.results) outputs.push_back(result.id);
  attributes_.emplace_back();
  for (size_t i = 0; i < node.attrs.size(); ++i) add_attribute(node.op->attrs[i], node.attrs[i]);
  nodes_.push_back({.op = node.op->name.get().data(),
                    .inputs = inputs.data(),
                    .outputs = outputs.data(),
                    .attributes = attributes_.back().data(),
                    .input_count = static_cast<uint32_t>(inputs.size()),
                    .output_count = static_cast<uint32_t>(outputs.size()),
                    .attribute_count = static_cast<uint32_t>(attributes_.back().size()),
                    .line = static_cast<uint32_t>(std::max(node.location.line, 0)),
                    .file = kept(node.location.file)});
}

void SegmentForm::add_attribute(const AttrDef& def, const Attr& attr) {
  const std::vector<double>& numbers = numbers_.emplace_back(std::visit(NumbersOf(), attr));
  attributes_.back().push_back({.name = kept(std::string(def.name)),
                                .text = kept(to_string(attr)),
                                .count = numbers.size(),
                                .numbers = numbers.data()});
}

void SegmentForm::finish(const std::string& name, std::string text) {
  segment_ = {.size = sizeof(tenon_segment),
              .name = kept(name),
              .text = kept(std::move(text)),
              .values = values_.data(),
              .nodes = nodes_.data(),
              .value_count = values_.size(),
              .node_count = nodes_.size(),
              .size_count = sizes_.size()};
}

}  // namespace tenon
