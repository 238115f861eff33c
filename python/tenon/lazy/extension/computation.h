// A graph that the lazy device recorded, with the types of its parameters and, once it has run, Tenon's program of it.
//
// It is a TSComputation, for PyTorch has functions that cast every computation to one.
#pragma once

#include <torch/csrc/lazy/ts_backend/ts_backend_impl.h>
#include <torch/csrc/lazy/ts_backend/ts_lowering_context.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <unordered_set>

#include "compiled_graph.h"

namespace tenon::lazy_device {

using torch::lazy::BackendDataPtr;

// Bytes of tensors on each lazy device.
class HeldBytes {
 public:
  HeldBytes() = default;
  HeldBytes(int64_t ordinal, const at::Tensor& tensor)
      : ordinal_(ordinal), bytes_(tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0) {
    add(bytes_);
  }
  HeldBytes(HeldBytes&& other) noexcept { swap(other); }
  HeldBytes& operator=(HeldBytes&& other) noexcept {
    swap(other);
    return *this;
  }
  ~HeldBytes() { add(-bytes_); }

  static int64_t of(int64_t ordinal) {
    const std::lock_guard lock(mutex());
    return all()[ordinal];
  }

 private:
  void swap(HeldBytes& other) noexcept {
    std::swap(ordinal_, other.ordinal_);
    std::swap(bytes_, other.bytes_);
  }
  void add(int64_t bytes) const {
    if (bytes == 0) return;
    const std::lock_guard lock(mutex());
    all()[ordinal_] += bytes;
  }
  static std::mutex& mutex() {
    static auto* const mutex = new std::mutex;
    return *mutex;
  }
  static std::map<int64_t, int64_t>& all() {
    static auto* const all = new std::map<int64_t, int64_t>;
    return *all;
  }

  int64_t ordinal_ = 0;
  int64_t bytes_ = 0;
};

// The data of a tensor. What a failed run should have given holds the reason: whoever asks for it is told, and nobody
// else. (If the run itself raised an error, PyTorch would raise it once more at the next step, and lose that step.)
class Data : public torch::lazy::TSData {
 public:
  using Shape = torch::lazy::Shape;
  using BackendDevice = torch::lazy::BackendDevice;

  Data(const Shape& shape, const BackendDevice& device) : TSData(shape, device) {}
  Data(const at::Tensor& tensor, const Shape& shape, const BackendDevice& device) : TSData(tensor, shape, device) {
    held_ = HeldBytes(device.ordinal(), tensor);
  }

  void Assign(const torch::lazy::BackendData& other) override {
    TSData::Assign(other);
    failure = failure_of(other);
    held_ = HeldBytes(device().ordinal(), data());
  }

  bool HasValue() const override { return TSData::HasValue() || !failure.empty(); }

  static std::string failure_of(const torch::lazy::BackendData& data) {
    const auto* ours = dynamic_cast<const Data*>(&data);
    return ours == nullptr ? std::string() : ours->failure;
  }

  std::string failure;  // empty if there is none

 private:
  HeldBytes held_;
};

// A number travels as a tensor of rank 0: what the value is has no part in the program.
inline at::ScalarType number_type(const at::Scalar& number) {
  if (number.isBoolean()) return at::kBool;
  return number.isFloatingPoint() ? at::kDouble : at::kLong;
}

// What was recorded of a result may differ from what it turned out to be.
inline TensorTypeOf parameter_type(const BackendDataPtr& data) {
  auto& value = static_cast<torch::lazy::TSData&>(*data);
  if (value.scalar) return {number_type(*value.scalar), {}};
  if (value.HasValue()) return {value.data().scalar_type(), value.data().sizes().vec()};
  return {value.shape().scalar_type(), value.shape().sizes().vec()};
}

inline bool has_type(const BackendDataPtr& data, const TensorTypeOf& type) {
  auto& value = static_cast<torch::lazy::TSData&>(*data);
  if (value.scalar) return type.dtype == number_type(*value.scalar) && type.shape.empty();
  return type.dtype == value.data().scalar_type() && value.data().sizes() == c10::IntArrayRef(type.shape);
}

// What a run makes of a graph, for arguments of certain types.
struct GraphForm {
  std::vector<TensorTypeOf> types;             // of the arguments, as they are: PyTorch may have recorded others
  std::vector<size_t> sources;                 // which of the program's inputs each of them is
  std::shared_ptr<const CompiledGraph> graph;  // null where only TorchScript can run the graph
  std::set<size_t> overwritten;                // the inputs in whose memory results are

  bool takes(c10::ArrayRef<BackendDataPtr> arguments, const std::vector<size_t>& others) const {
    return others == sources && std::ranges::equal(arguments, types, has_type);
  }
};
using GraphFormPtr = std::shared_ptr<const GraphForm>;

class Computation : public torch::lazy::TSComputation {
 public:
  Computation(const std::shared_ptr<torch::jit::Graph>& graph, std::vector<TensorTypeOf> parameters,
              std::vector<torch::lazy::Shape> results)
      : TSComputation(graph), parameters(std::move(parameters)), results(std::move(results)) {}

  const std::vector<TensorTypeOf> parameters;
  const std::vector<torch::lazy::Shape> results;

  // Whether the last form takes these arguments.
  bool has_form(c10::ArrayRef<BackendDataPtr> arguments, const std::vector<size_t>& sources) {
    const std::lock_guard lock(mutex);
    return form && form->takes(arguments, sources);
  }

  std::mutex mutex;   // of `form`: held while the graph is compiled
  GraphFormPtr form;  // of the last run; null before the first
  int64_t last_run = 0;
};

// Lowers as the TorchScript backend does, and adds what its graphs do not say: the types of the parameters, and those
// of values, as they were recorded.
class Lowering : public torch::lazy::TSLoweringContext {
 public:
  using Nodes = c10::ArrayRef<const torch::lazy::Node*>;

  Lowering(const std::string& name, torch::lazy::BackendDevice device) : TSLoweringContext(name, std::move(device)) {}
  Lowering(const std::string& name, torch::lazy::BackendDevice device, Nodes nodes,
           torch::lazy::Util::EmissionMap emit_status)
      : TSLoweringContext(name, std::move(device), nodes, std::move(emit_status)), nodes_(nodes.vec()) {}

  size_t AddResult(const torch::lazy::Output& output) override {
    results_.push_back(output.node->shape(output.index));
    return TSLoweringContext::AddResult(output);
  }

  torch::lazy::ComputationPtr Build() override {
    std::unordered_set<const torch::jit::Value*> typed;  // many nodes may be one value, which a number often is
    for (const torch::lazy::Node* node : nodes_) {
      for (size_t i = 0; i < node->shapes().size(); ++i) {
        torch::jit::Value* value = GetOutputOp(torch::lazy::Output(node, i));
        if (typed.insert(value).second) set_type(*value, node->shape(i));
      }
    }
    const torch::lazy::ComputationPtr built = TSLoweringContext::Build();
    std::vector<TensorTypeOf> types;
    for (const BackendDataPtr& parameter : parameters_) types.push_back(parameter_type(parameter));
    return std::make_shared<Computation>(static_cast<torch::lazy::TSComputation&>(*built).graph(), std::move(types),
                                         std::move(results_));
  }

 private:
  static void set_type(torch::jit::Value& value, const torch::lazy::Shape& shape) {
    if (value.type()->kind() != c10::TypeKind::TensorType) return;  // a number, or a list
    value.setType(c10::TensorType::create(shape.scalar_type(), at::kCPU, c10::VaryingShape<int64_t>(shape.sizes()),
                                          c10::VaryingShape<int64_t>(shape.sizes().size()), std::nullopt));
  }

  std::vector<const torch::lazy::Node*> nodes_;  // that are alive until Build
  std::vector<torch::lazy::Shape> results_;
};

}  // namespace tenon::lazy_device
