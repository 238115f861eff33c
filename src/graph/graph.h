// Graph: the tensor program of a model, in SSA form.
//
// A graph has leaves (inputs, parameters, buffers, constants), nodes in topological order, outputs, and updates. A node
// applies an op of the table to earlier values; its result types follow from the op's rule and are never chosen. The
// graph only grows: passes build a new one (see graph/rewrite.h).
//
//     graph mlp(%x: f32[N, 4]) {
//       symbol N in [1, 64]
//       %w: f32[2, 4] = parameter "fc.weight"
//       %half: f32[] = constant 0.5
//       %y: f32[N, 2] = linear(%x, %w, none) @ "model.py":12
//       %z: f32[N, 2] = mul(%y, %half)
//       return %z
//     }
//
// Weights are held by reference: a leaf's Tensor shares its memory with the owner, and copying a graph copies no
// elements. A leaf of a parsed text has no data: bind it before evaluation.
//
// An update says that a buffer or an input holds a new value after the run. All updates happen at the end, after every
// read, so the graph itself stays free of side effects.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/attr.h"
#include "graph/op.h"
#include "graph/type.h"
#include "support/diagnostic.h"
#include "support/ref.h"

namespace tenon {

using ValueRef = Ref<struct ValueTag>;
using NodeRef = Ref<struct GraphNodeTag>;

enum class LeafKind : uint8_t { kInput, kParameter, kBuffer, kConstant };
std::string_view name_of(LeafKind kind);

struct Leaf {
  LeafKind kind;
  std::string name;  // of an input, parameter or buffer: unique among them. Empty for a constant.
  ValueRef value;
  Tensor data;       // of a constant always; of a parameter or buffer once bound; of an input never
  uint32_t ordinal;  // among the inputs, or among the other leaves
};

struct Node {
  const OpDef* op;
  std::vector<ValueRef> operands;  // an empty ref is an absent optional operand
  std::vector<Attr> attrs;         // in the order of the op's record, complete
  std::vector<ValueRef> results;
  Location location;  // where in the model it comes from
};

// The value that a buffer or an input holds after the run.
struct Update {
  ValueRef target;
  ValueRef value;
};

class Graph {
 public:
  explicit Graph(std::string name = "main") : name_(std::move(name)) {}

  // ---- building. Every function throws an Error for a user's mistake and leaves the graph as it was. ----
  ValueRef add_input(std::string name, TensorType type);
  ValueRef add_parameter(std::string name, TensorType type, Tensor data = {});
  ValueRef add_buffer(std::string name, TensorType type, Tensor data = {});
  ValueRef add_constant(Tensor data);
  ValueRef copy_leaf(const Leaf& leaf, const TensorType& type);  // of another graph: shares its data
  NodeRef add_node(const OpDef& op, std::vector<ValueRef> operands, std::vector<Attr> attrs, Location location = {});
  void add_update(ValueRef target, ValueRef value);
  void clear_updates() { updates_.clear(); }
  void set_outputs(std::vector<ValueRef> outputs);
  // Sets the range of a symbol. A symbol that is not declared is at least 0, as a size is. Declare symbols before the
  // first node: the types of nodes may depend on them.
  void declare_symbol(Symbol symbol, symbolic::Interval range);
  // Gives a parameter or buffer its data. The type must match.
  void bind(std::string_view name, Tensor data);
  // A name for printing. If it is taken, the printed name gets a suffix.
  void set_value_name(ValueRef value, std::string name) { values_[value.id].name = std::move(name); }

  // ---- reading ----
  const std::string& name() const { return name_; }
  const std::vector<Leaf>& leaves() const { return leaves_; }
  std::vector<ValueRef> inputs() const;
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(NodeRef ref) const { return nodes_[ref.id]; }
  const std::vector<ValueRef>& outputs() const { return outputs_; }
  const std::vector<Update>& updates() const { return updates_; }
  const symbolic::Ranges& symbols() const { return symbols_; }
  symbolic::Ranges ranges() const;  // of every symbol that occurs, declared or not

  size_t value_count() const { return values_.size(); }
  const TensorType& type(ValueRef value) const { return values_[value.id].type; }
  const std::string& value_name(ValueRef value) const { return values_[value.id].name; }
  NodeRef producer(ValueRef value) const { return values_[value.id].node; }  // empty for a leaf
  const Leaf* leaf(ValueRef value) const;                                    // null for a node's result
  const Leaf* leaf_named(std::string_view name) const;
  bool owns(ValueRef value) const { return value.id < values_.size(); }

  // The same structure: inputs, other leaves (constants by their bits, the others by name and type), nodes, updates and
  // outputs, each in the same order. Names of values, locations and bound data do not count.
  bool operator==(const Graph& other) const;

 private:
  friend struct GraphTestPeer;  // breaks invariants, to test the verifier

  struct ValueInfo {
    TensorType type;
    NodeRef node;       // empty for a leaf
    uint32_t position;  // among the node's results, or among the leaves
    std::string name;
  };

  ValueRef add_leaf(LeafKind kind, std::string name, TensorType type, Tensor data);
  ValueRef add_value(TensorType type, NodeRef node, uint32_t position);
  bool same_value(ValueRef mine, const Graph& other, ValueRef theirs) const;
  bool same_node(const Node& mine, const Graph& other, const Node& theirs) const;

  std::string name_;
  std::vector<Leaf> leaves_;
  uint32_t input_count_ = 0;
  std::vector<Node> nodes_;
  std::deque<ValueInfo> values_;  // a deque: types stay where they are while the graph grows
  std::vector<ValueRef> outputs_;
  std::vector<Update> updates_;
  symbolic::Ranges symbols_;
  std::map<std::string, uint32_t, std::less<>> leaves_by_name_;
};

// Whether running the graph changes the leaf's data, directly or through a leaf that shares its memory.
bool is_updated(const Graph& graph, const Leaf& leaf);

// Whether the node is a function of one element of each operand, with one result.
bool is_pointwise(const Node& node);
// The values that a run leaves: outputs, and new values of updates.
std::vector<ValueRef> kept_values(const Graph& graph);
// The nodes that read each value, by value. A node is listed once for each of its operands.
std::vector<std::vector<uint32_t>> users_of(const Graph& graph);

// The text form (above). print(parse(text)) is canonical, and parse(print(graph)) == graph. `file` names the text in
// diagnostics, which carry line and column.
std::string to_string(const Graph& graph);
Result<Graph> parse_graph(std::string_view text, std::string file = {});
// Parts of it: "f32[N, 784]", and what stands between a node's braces: "dim=0, keepdim=true".
Result<TensorType> parse_type(std::string_view text);
// Types with semicolons between them, as an attribute of an op whose results follow from nothing else.
std::string types_to_string(std::span<const TensorType> types);
std::vector<TensorType> parse_types(std::string_view text);  // throws an Error
Result<NamedAttrs> parse_attrs(const OpDef& op, std::string_view text);

// One node as `to_string(graph)` writes it, for messages.
std::string describe(const Graph& graph, NodeRef node);

// Checks every invariant above anew, including each node's types. Passes are verified with it.
Status verify(const Graph& graph);

// The op's view of a node, or of a node that is being made. The graph and the attributes must outlive it.
OpView view_of(const Graph& graph, const OpDef& op, std::span<const ValueRef> operands, std::span<const Attr> attrs);

}  // namespace tenon
