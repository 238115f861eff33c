// A graph that the lazy device recorded, with the types of its parameters and, once it has run, Tenon's program of it.
//
// It is a TSComputation, for PyTorch has functions that cast every computation to one.
#pragma once

#include <torch/csrc/lazy/ts_backend/ts_backend_impl.h>
#include <torch/csrc/lazy/ts_backend/ts_lowering_context.h>
#include <torch/csrc/utils/pybind.h>

#include <set>

namespace tenon::lazy_device {

namespace py = pybind11;
using torch::lazy::BackendDataPtr;

// A Python object that any thread may drop. One that outlives the interpreter is left alone.
class PythonObject {
 public:
  PythonObject() = default;
  explicit PythonObject(py::object object) : object_(object.release().ptr()) {}
  PythonObject(PythonObject&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  PythonObject& operator=(PythonObject&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~PythonObject() {
    if (object_ == nullptr || Py_IsInitialized() == 0) return;
    const py::gil_scoped_acquire lock;
    Py_DECREF(object_);
  }

  py::handle get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// The data of a tensor. What a failed run should have given holds the reason: whoever asks for it is told, and nobody
// else. (If the run itself raised an error, PyTorch would raise it once more at the next step, and lose that step.)
class Data : public torch::lazy::TSData {
 public:
  using TSData::TSData;

  void Assign(const torch::lazy::BackendData& other) override {
    TSData::Assign(other);
    failure = failure_of(other);
  }

  bool HasValue() const override { return TSData::HasValue() || !failure.empty(); }

  static std::string failure_of(const torch::lazy::BackendData& data) {
    const auto* ours = dynamic_cast<const Data*>(&data);
    return ours == nullptr ? std::string() : ours->failure;
  }

  std::string failure;  // empty if there is none
};

struct ParameterType {
  at::ScalarType dtype;
  std::vector<int64_t> shape;
};

// A number travels as a tensor of rank 0: what the value is has no part in the program.
inline at::ScalarType number_type(const at::Scalar& number) {
  if (number.isBoolean()) return at::kBool;
  return number.isFloatingPoint() ? at::kDouble : at::kLong;
}

// What was recorded of a result may differ from what it turned out to be.
inline ParameterType parameter_type(const BackendDataPtr& data) {
  auto& value = static_cast<torch::lazy::TSData&>(*data);
  if (value.scalar) return {number_type(*value.scalar), {}};
  if (value.HasValue()) return {value.data().scalar_type(), value.data().sizes().vec()};
  return {value.shape().scalar_type(), value.shape().sizes().vec()};
}

inline bool has_type(const BackendDataPtr& data, const ParameterType& type) {
  auto& value = static_cast<torch::lazy::TSData&>(*data);
  if (value.scalar) return type.dtype == number_type(*value.scalar) && type.shape.empty();
  return type.dtype == value.data().scalar_type() && value.data().sizes() == c10::IntArrayRef(type.shape);
}

class Computation : public torch::lazy::TSComputation {
 public:
  Computation(const std::shared_ptr<torch::jit::Graph>& graph, std::vector<ParameterType> parameters,
              std::vector<torch::lazy::Shape> results)
      : TSComputation(graph), parameters(std::move(parameters)), results(std::move(results)) {}

  const std::vector<ParameterType> parameters;
  const std::vector<torch::lazy::Shape> results;

  // Set by the first run, and by one whose arguments have other types than were recorded.
  std::vector<ParameterType> types;  // of the arguments
  std::vector<size_t> sources;       // which of the program's inputs each of them is
  PythonObject run;                  // None where only TorchScript can run the graph
  std::vector<int64_t> places;       // of each result: the input that it is computed in, or -1
  std::set<size_t> overwritten;      // those inputs
  PythonObject free_memory;          // what a run keeps for the next one
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
    for (const torch::lazy::Node* node : nodes_) {
      for (size_t i = 0; i < node->shapes().size(); ++i)
        set_type(*GetOutputOp(torch::lazy::Output(node, i)), node->shape(i));
    }
    const torch::lazy::ComputationPtr built = TSLoweringContext::Build();
    std::vector<ParameterType> types;
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
