// An Importer builds a Graph out of ATen calls: what every front door drives.
//
//     Importer importer("model");
//     AtenArg x = importer.input("x", type);
//     AtenArg y = importer.call({"aten.relu.default", {x}, {}, location, {type}});
//     Graph graph = importer.finish({y});
//
// PyTorch's tensors are variables: they can be written in place, and a view shares memory with what it is a view of. A
// Graph has values only. So the importer keeps, for each tensor of the model, the value that it has now; a write
// through a view also changes what it is a view of, and all its other views. Inputs and buffers that were written
// become updates of the graph.
//
// A call that the registry lacks or declines becomes an `external` node, which the fallback runs in PyTorch;
// `unsupported()` lists all of them, with the reasons. Where there is no fallback, `check_supported()` makes one error
// of the list. The operands of the node are the tensors among the arguments, and the sizes that are not known yet (as
// i64[]), in order. A call without results is there for its effect: it gives a token, u8[0], that becomes an output of
// the graph.
#pragma once

#include <deque>

#include "capture/aten.h"

namespace tenon {

struct AtenRequest {
  std::string target;  // "aten.relu.default", "_operator.mul"
  std::vector<AtenArg> positional = {};
  std::vector<std::pair<std::string, AtenArg>> named = {};
  Location location = {};
  // The types of the results, for a call that becomes external. One that Tenon has no dtype for is empty: it becomes a
  // token, u8[0], that stands for a tensor of the fallback.
  std::optional<std::vector<std::optional<TensorType>>> results = {};
  bool returns_list = false;  // several results, or a list of them
  // Why the call is external even if the registry has it: its arguments say something that no AtenArg can.
  std::string external_because = {};
};

struct UnsupportedCall {
  std::string target;
  std::string reason;
  Location location;
};

// "model.py:12: aten.foo.default: not in the registry", a line each.
std::string to_string(const std::vector<UnsupportedCall>& calls);
// Throws an Error that lists every call, unless there is none. `why` says why there is no fallback: "there is no
// PyTorch here".
void check_supported(const std::vector<UnsupportedCall>& calls, std::string_view why);

// What the calls that differ between training and inference (dropout, batch norm) do. A model that was recorded in one
// mode has them with their numbers, so it can be imported for the other, too.
enum class ModelMode : uint8_t { kAsRecorded, kTraining, kInference };
inline ModelMode mode_of(std::optional<bool> training) {
  if (!training) return ModelMode::kAsRecorded;
  return *training ? ModelMode::kTraining : ModelMode::kInference;
}

class Importer : private AtenImporter {
 public:
  explicit Importer(std::string name = "main", ModelMode mode = ModelMode::kAsRecorded)
      : graph_(std::make_shared<Graph>(std::move(name))), mode_(mode) {}
  Importer(const Importer&) = delete;

  // The graph so far: symbols are declared in it before the first call.
  Graph& graph() { return *graph_; }

  // PyTorch's names of inputs and of weights are apart, those of a graph are not: where another leaf has the name, it
  // is continued with underscores.
  AtenArg input(std::string name, TensorType type);
  // An input that is a number: f64, i64 or bool of rank 0. Every run may give another one.
  AtenArg number(std::string name, DType dtype);
  AtenArg parameter(std::string name, TensorType type, Tensor data = {});
  AtenArg buffer(std::string name, TensorType type, Tensor data = {});
  AtenArg constant(Tensor data);

  // Throws an Error where a call is malformed, and where an unsupported one cannot be external (the types of its
  // results are not known).
  AtenArg call(const AtenRequest& request);

  // After the run, the leaf that `target` is holds this value. What calls wrote in place needs no saying.
  void update(const AtenArg& target, const AtenArg& value);

  // How the value that a tensor has now is called in the graph's text, unless it has a name.
  void set_name(const AtenArg& tensor, const std::string& name);

  // The variable of the tensor that this one is a view of, through any number of views; its own where it is none.
  uint32_t base_of(const AtenTensor& tensor) const { return root_of(shown(tensor.variable)); }

  // The value that a tensor has now. A number becomes a tensor of rank 0.
  Value value_of(const AtenArg& argument);

  const std::vector<UnsupportedCall>& unsupported() const { return unsupported_; }
  // How many calls are external so far: a call's number is the `call` attribute of its node.
  size_t external_count() const { return unsupported_.size(); }

  // Ends the import. The graph has no nodes that nothing needs. Its outputs are these, and then the tokens of effects.
  Graph finish(const std::vector<AtenArg>& outputs);

  // From now on, random numbers come from this tensor, i64[2]: the same key gives the same numbers.
  void set_key(const AtenArg& key);

  // The name of the input that random numbers come from, i64[2], the last one; empty where the model has none, and
  // where every call was given its key.
  const std::string& key_input() const { return key_name_; }

 private:
  struct Variable {
    Value value;
    ValueRef leaf = {};    // of an input, parameter or buffer: what a write updates
    uint64_t version = 0;  // of a root: how often it was written. Of a view: of its root, when `value` was right.
    uint32_t parent = AtenTensor::kNone;
    uint32_t shown_as = AtenTensor::kNone;  // after an in-place view (`t_`): the view that the tensor now is
    // Of a view: the view of another parent, and the parent with other elements where the view is.
    std::function<Value(Value parent)> look = {};
    std::function<Value(Value parent, Value view)> put = {};
    bool is_number = false;
  };

  const std::shared_ptr<Graph>& shared_graph() const override { return graph_; }
  Value next_key(Builder& builder, const Expr& words) override;

  std::string unused_name(std::string name) const;
  AtenArg add_variable(Variable variable);
  AtenArg add_leaf(ValueRef leaf);
  uint32_t root_of(uint32_t variable) const;
  uint32_t shown(uint32_t variable) const;
  Value current(uint32_t variable);
  void assign(uint32_t variable, Value value);
  AtenArg resolved(const AtenArg& argument);  // with the current value of every tensor
  AtenArg as_variables(const AtenArg& result);
  AtenArg as_views(const AtenEntry& entry, const std::vector<AtenArg>& arguments, const AtenArg& result,
                   const Location& location);
  AtenRequest in_mode(AtenRequest request) const;
  void apply_mode(const AtenSignature& signature, std::vector<AtenArg>& arguments) const;
  AtenArg build(const AtenEntry& entry, bool writes_self, const AtenRequest& request);
  AtenArg external(const AtenRequest& request, std::string reason);

  std::shared_ptr<Graph> graph_;
  ModelMode mode_;
  std::deque<Variable> variables_;
  std::vector<UnsupportedCall> unsupported_;
  std::vector<ValueRef> effects_;  // the tokens of external calls without results
  std::string key_name_;
  ValueRef key_;
  Expr words_used_ = 0;
};

}  // namespace tenon
