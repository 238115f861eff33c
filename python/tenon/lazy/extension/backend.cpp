// PyTorch's lazy device with Tenon behind it: graphs are recorded and lowered by the TorchScript backend, and compiled
// and run by Tenon. Built against the PyTorch that it is used with (build.py).
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/version.h>

#include <atomic>
#include <mutex>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "computation.h"
#include "donation.h"
#include "executor.h"
#include "kernels.h"
#include "record.h"

namespace tenon::lazy_device {
namespace {

using torch::lazy::ComputationPtr;
using torch::lazy::TSData;

struct Counters {
  std::atomic<int64_t> runs = 0;
  std::atomic<int64_t> hits = 0;  // runs of what was compiled before
  std::atomic<int64_t> torchscript_runs = 0;
  std::atomic<int64_t> reused_bytes = 0;  // of arguments that results were written over
  std::atomic<int64_t> copied_bytes = 0;  // of arguments that somebody else still needed
};

Counters& counters() {
  static Counters all;
  return all;
}

struct DeviceType : torch::lazy::BackendDeviceType {
  DeviceType() : BackendDeviceType(static_cast<int8_t>(at::kCPU)) {}
  std::string toString() const override { return "Tenon"; }
};

// What Python does: tenon.lazy.programs.Programs. It lives as long as the process.
struct Hooks {
  PyObject* programs = nullptr;

  template <class... Args>
  py::object call(const char* name, Args&&... args) const {
    return py::reinterpret_borrow<py::object>(programs).attr(name)(std::forward<Args>(args)...);
  }
};

Hooks& hooks() {
  static Hooks all;
  return all;
}

// The reason why the last run failed, if nobody was told yet.
class LastFailure {
 public:
  void set(std::string reason) {
    const std::lock_guard lock(mutex_);
    reason_ = std::move(reason);
  }
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reason_, {});
  }

 private:
  std::mutex mutex_;
  std::string reason_;
};

LastFailure& last_failure() {
  static LastFailure failure;
  return failure;
}

template <class Function>
auto with_python(Function function) {
  const py::gil_scoped_acquire lock;
  try {
    return function();
  } catch (py::error_already_set& error) {
    throw std::runtime_error(py::str(error.value()).cast<std::string>());
  }
}

// A run sees none of the modes that its caller has on: a default device, autocast, a fake or a user's mode. (A tensor
// that it makes on the lazy device would wait for the run itself.)
class OutsideModes {
 public:
  OutsideModes() {
    with_python([&] {
      const py::object context = hooks().call("outside_modes");
      if (context.is_none()) return;
      context.attr("__enter__")();
      context_ = PythonObject(context);
    });
  }
  OutsideModes(const OutsideModes&) = delete;
  OutsideModes& operator=(const OutsideModes&) = delete;
  ~OutsideModes() {
    if (!context_) return;
    with_python([&] { context_.get().attr("__exit__")(py::none(), py::none(), py::none()); });
  }

 private:
  PythonObject context_;
};

// The CPU is number 0; the devices of plug-ins follow (tenon.lazy.devices).
int64_t device_count() {
  return with_python([] { return hooks().call("device_count").cast<int64_t>(); });
}

void check_device(int64_t ordinal) {
  if (ordinal <= 0) return;
  const int64_t count = device_count();
  TORCH_CHECK(ordinal < count, "there is no device lazy:", ordinal, ": tenon.lazy.devices() lists ", count);
}

py::list types_of(const std::vector<ParameterType>& parameters) {
  py::list types;
  for (const ParameterType& type : parameters) {
    py::tuple shape(type.shape.size());
    for (size_t i = 0; i < type.shape.size(); ++i) shape[i] = type.shape[i];
    types.append(py::make_tuple(py::cast(type.dtype), shape));
  }
  return types;
}

// ---- a run ----------------------------------------------------------------------------------------------------------

at::Tensor tensor_of(const BackendDataPtr& argument) {
  auto& data = static_cast<TSData&>(*argument);
  return data.scalar ? at::scalar_tensor(*data.scalar, at::dtype(number_type(*data.scalar))) : data.data();
}

// While TorchScript runs a graph: it draws random numbers from PyTorch's generator, and knows nothing of keys. For so
// long the generator has the keys of the graph as its seed.
class SeededByKeys {
 public:
  SeededByKeys(const Computation& computation, c10::ArrayRef<BackendDataPtr> arguments) {
    const std::vector<size_t> keys = keys_of(*computation.graph());
    if (keys.empty()) return;
    uint64_t seed = 0;
    for (size_t key : keys) seed = seed * 31 + static_cast<uint64_t>(*tensor_of(arguments[key]).data_ptr<int64_t>());
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  SeededByKeys(const SeededByKeys&) = delete;
  SeededByKeys& operator=(const SeededByKeys&) = delete;
  ~SeededByKeys() {
    if (!state_.defined()) return;
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }

 private:
  static std::vector<size_t> keys_of(const torch::jit::Graph& graph) {
    const c10::Symbol name = c10::Symbol::attr("key");
    std::vector<size_t> keys;
    for (const torch::jit::Node* node : graph.nodes()) {
      if (!node->hasAttribute(name)) continue;
      for (size_t i = 0; i < graph.inputs().size(); ++i) {
        if (static_cast<int64_t>(graph.inputs()[i]->unique()) == node->i(name)) keys.push_back(i);
      }
    }
    return keys;
  }

  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  at::Tensor state_;
};

// What compilation needed and freed.
void give_back_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void compile(Computation& computation, c10::ArrayRef<BackendDataPtr> arguments, const Inputs& inputs, int64_t ordinal) {
  computation.types.clear();
  for (const BackendDataPtr& argument : arguments) computation.types.push_back(parameter_type(argument));
  computation.sources = inputs.sources;
  std::vector<ParameterType> types(inputs.tensors.size());
  for (size_t i = 0; i < arguments.size(); ++i) types[inputs.sources[i]] = computation.types[i];
  py::list dying;
  for (size_t i = 0; i < inputs.dying.size(); ++i) {
    if (inputs.dying[i]) dying.append(i);
  }
  const py::object program =
      hooks().call("compile", computation.graph(), types_of(types), py::cast(inputs.sources), dying, ordinal);
  computation.run = PythonObject(program.is_none() ? program : program.attr("run"));
  computation.overwritten.clear();
  if (program.is_none()) return;
  computation.places = program.attr("places").cast<std::vector<int64_t>>();
  for (int64_t place : computation.places) {
    if (place >= 0) computation.overwritten.insert(static_cast<size_t>(place));
  }
  computation.free_memory = PythonObject(program.attr("executable").attr("free_memory"));
  give_back_memory();
}

// A graph that has not run for a while keeps no memory, and none does when another is compiled: that of the first step
// must not be there beside that of the second. With Python's lock.
void free_memory_of_idle(const std::shared_ptr<Computation>& running, bool is_compiled) {
  const int64_t patience = is_compiled ? 8 : 0;  // runs of others
  static std::vector<std::weak_ptr<Computation>> awake;
  static int64_t now = 0;
  ++now;
  if (running->last_run == 0) awake.push_back(running);
  running->last_run = now;
  std::erase_if(awake, [&](const std::weak_ptr<Computation>& other) {
    const std::shared_ptr<Computation> computation = other.lock();
    if (!computation) return true;
    if (computation == running || now - computation->last_run < patience) return false;
    if (computation->free_memory) computation->free_memory.get()();
    computation->last_run = 0;
    return true;
  });
}

std::vector<at::Tensor> tensors_of(c10::ArrayRef<BackendDataPtr> arguments) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(arguments.size());
  for (const BackendDataPtr& argument : arguments) tensors.push_back(tensor_of(argument));
  return tensors;
}

// Python gets tensors of its own, for one that it has seen keeps its Python object, and looks as if somebody held it.
py::list to_python(const std::vector<at::Tensor>& tensors) {
  py::list list(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) list[i] = py::cast(tensors[i].tensor_data());
  return list;
}

BackendDataPtr data_of(at::Tensor tensor, const BackendDevice& device) {
  const Shape shape(tensor.scalar_type(), tensor.sizes());
  return std::make_shared<Data>(std::move(tensor), shape, device);
}

// What is to be overwritten is the run's own: a copy, where somebody still needs it, or its memory. In the first steps
// of a training that happens to a momentum which is its gradient, and has its memory; then the copy takes its place at
// once, so that the two are not there together for long.
void own_overwritten(const Computation& computation, c10::ArrayRef<BackendDataPtr> arguments, Inputs& inputs) {
  for (size_t i : computation.overwritten) {
    at::Tensor& tensor = inputs.tensors[i];
    (inputs.owned[i] ? counters().reused_bytes : counters().copied_bytes) += static_cast<int64_t>(tensor.nbytes());
    if (inputs.owned[i]) continue;
    tensor = tensor.clone(at::MemoryFormat::Contiguous);
    if (!inputs.dying[i]) continue;
    for (size_t k = 0; k < arguments.size(); ++k) {
      if (inputs.sources[k] == i) arguments[k]->Assign(*data_of(tensor, arguments[k]->device()));
    }
  }
}

class Backend : public torch::lazy::BackendImplInterface {
 public:
  explicit Backend(const BackendImplInterface* torchscript) : torchscript_(torchscript) {}

  void PrepareToExit() const override { torch::lazy::LazyGraphExecutor::Get()->ClearComputationCache(); }

  // Random numbers are made of what PyTorch's generator gives (tenon.runner.random_key).
  void SetRngSeed(size_t seed) const override {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  }

  const torch::lazy::IrBuilder* GetIrBuilder() const override { return torchscript_->GetIrBuilder(); }

  // ---- data ----

  BackendDataPtr MakeComputationDataFromTensor(const at::Tensor& tensor, const Shape& shape,
                                               const BackendDevice& device) const override {
    check_device(device.ordinal());
    if (device.ordinal() <= 0) return torchscript_->MakeComputationDataFromTensor(tensor, shape, device);
    return std::make_shared<Data>(tensor.to(at::kCPU, tensor.scalar_type(), false, /*copy=*/true), shape, device);
  }
  BackendDataPtr MakeComputationDataFromScalar(const at::Scalar& scalar, const BackendDevice& device) const override {
    return torchscript_->MakeComputationDataFromScalar(scalar, device);
  }
  BackendDataPtr CreateDataPlaceholder(const BackendDevice& device, const Shape& shape) const override {
    return std::make_shared<Data>(shape, device);
  }
  BackendDataPtr GetComputationDataFromNode(const torch::lazy::Node* node) const override {
    return torchscript_->GetComputationDataFromNode(node);
  }
  // A copy: what its owner does to it has nothing to do with the lazy tensor.
  at::Tensor MakeTensorFromComputationData(const BackendDataPtr data,
                                           std::optional<at::ScalarType> dtype) const override {
    if (const std::string failure = Data::failure_of(*data); !failure.empty()) {
      last_failure().take();
      throw std::runtime_error(failure);
    }
    return torchscript_->MakeTensorFromComputationData(data, dtype).clone();
  }

  // ---- graphs ----

  std::unique_ptr<torch::lazy::LoweringContext> CreateLoweringContext(
      const std::string& name, BackendDevice device, c10::ArrayRef<const torch::lazy::Node*> post_order,
      torch::lazy::Util::EmissionMap emit_status) const override {
    return std::make_unique<Lowering>(name, std::move(device), post_order, std::move(emit_status));
  }
  std::unique_ptr<torch::lazy::LoweringContext> CreateLoweringContext(const std::string& name,
                                                                      BackendDevice device) const override {
    return std::make_unique<Lowering>(name, std::move(device));
  }
  std::vector<std::string> GetCompilationDevices(const std::string& device,
                                                 c10::ArrayRef<std::string> devices) const override {
    return torchscript_->GetCompilationDevices(device, devices);
  }

  // The first run compiles, for only then it is known which arguments die.
  std::vector<ComputationPtr> Compile(std::vector<ComputationPtr> instances) const override { return instances; }

  std::vector<BackendDataPtr> ExecuteComputation(ComputationPtr computation, c10::ArrayRef<BackendDataPtr> arguments,
                                                 const BackendDevice& device) const override {
    const auto ours = std::static_pointer_cast<Computation>(computation);
    for (const BackendDataPtr& argument : arguments) {
      const std::string failure = Data::failure_of(*argument);
      if (!failure.empty()) return failed(*ours, failure, device);
    }
    try {
      return run(ours, arguments, device);
    } catch (const std::exception& error) {
      last_failure().set(error.what());
      return failed(*ours, error.what(), device);
    }
  }

  std::string GetComputationBackendText(const ComputationPtr computation) const override {
    const auto& ours = static_cast<const Computation&>(*computation);
    return with_python(
        [&] { return hooks().call("text", ours.graph(), types_of(ours.parameters)).cast<std::string>(); });
  }

  std::string CreateMetricReport() const override {
    return with_python([] { return hooks().call("report").cast<std::string>(); });
  }

  // ---- devices: tensors are in the CPU's memory; a graph runs on the device that its tensors name ----

  std::shared_ptr<torch::lazy::BackendDeviceType> GetDefaultDeviceType() const override {
    return std::make_shared<DeviceType>();
  }
  void SetDefaultDeviceType(int8_t type) override {
    TORCH_CHECK(type == static_cast<int8_t>(at::kCPU), "tenon's lazy device runs on the CPU, not on ",
                c10::DeviceTypeName(static_cast<at::DeviceType>(type)));
  }
  int64_t GetDefaultDeviceOrdinal() const override { return default_ordinal_; }
  void SetDefaultDeviceOrdinal(int64_t ordinal) override {
    check_device(ordinal);
    default_ordinal_ = ordinal;
  }
  at::DeviceType EagerFallbackDeviceType() const override { return at::kCPU; }
  std::vector<BackendDevice> GetBackendDevices() const override {
    std::vector<BackendDevice> devices;
    for (int64_t i = 0; i < device_count(); ++i) devices.emplace_back(GetDefaultDeviceType(), i);
    return devices;
  }
  BackendDevice GetBackendDevice(c10::Device device) const override {
    return BackendDevice(GetDefaultDeviceType(), device.has_index() ? device.index() : GetDefaultDeviceOrdinal());
  }

 private:
  std::vector<BackendDataPtr> run(const std::shared_ptr<Computation>& computation,
                                  c10::ArrayRef<BackendDataPtr> arguments, const BackendDevice& device) const {
    const OutsideModes outside;
    Inputs inputs = inputs_of(arguments, tensors_of(arguments));
    ++counters().runs;
    const bool is_ours = with_python([&] {
      const bool is_compiled = computation->run && inputs.sources == computation->sources &&
                               std::ranges::equal(arguments, computation->types, has_type);
      free_memory_of_idle(computation, is_compiled);
      if (is_compiled) {
        ++counters().hits;
      } else {
        compile(*computation, arguments, inputs, device.ordinal() < 0 ? GetDefaultDeviceOrdinal() : device.ordinal());
      }
      return !computation->run.get().is_none();
    });
    if (is_ours) return results_of(*computation, arguments, inputs, device);
    ++counters().torchscript_runs;
    const SeededByKeys seeded(*computation, arguments);
    return torchscript_->ExecuteComputation(computation, arguments, device);
  }

  static std::vector<BackendDataPtr> failed(const Computation& computation, const std::string& reason,
                                            const BackendDevice& device) {
    std::vector<BackendDataPtr> results;
    for (const Shape& shape : computation.results) {
      const auto data = std::make_shared<Data>(shape, device);
      data->failure = reason;
      results.push_back(data);
    }
    return results;
  }

  static std::vector<BackendDataPtr> results_of(const Computation& computation, c10::ArrayRef<BackendDataPtr> arguments,
                                                Inputs& inputs, const BackendDevice& device) {
    own_overwritten(computation, arguments, inputs);
    return with_python([&] {
      const py::list outputs = computation.run.get()(to_python(inputs.tensors));
      std::vector<BackendDataPtr> results;
      for (size_t i = 0; i < outputs.size(); ++i) {
        const int64_t place = computation.places[i];
        results.push_back(data_of(
            place < 0 ? outputs[i].cast<at::Tensor>().tensor_data() : inputs.tensors[static_cast<size_t>(place)],
            device));
      }
      return results;
    });
  }

  const BackendImplInterface* torchscript_;
  std::atomic<int64_t> default_ordinal_ = 0;
};

// ---- the module -----------------------------------------------------------------------------------------------------

bool is_in_charge() {
  return torch::lazy::hasBackend() && dynamic_cast<const Backend*>(torch::lazy::getBackend()) != nullptr;
}

void forget_graphs() { torch::lazy::LazyGraphExecutor::Get()->ClearComputationCache(); }

// PyTorch warns that its lazy device overrides kernels of its own.
struct NoWarnings : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

// The last one that registers is in charge. Graphs of another backend are none of ours.
void init(py::object programs) {
  Py_XSETREF(hooks().programs, programs.release().ptr());
  if (is_in_charge()) return;
  NoWarnings no_warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&no_warnings);
  FLAGS_torch_lazy_handle_special_scalars = true;  // 0 and 1 are constants: `alpha` and `beta` need no multiplication
  if (!torch::lazy::hasBackend()) torch::lazy::InitTorchScriptBackend();
  register_kernels();
  torch::lazy::LazyGraphExecutor::Register(&executor());
  static const Backend* const backend = new Backend(torch::lazy::GetTSBackendImpl());
  const torch::lazy::BackendRegistrar registrar(backend);
  forget_graphs();
}

py::bytes graph_hash(const std::vector<at::Tensor>& tensors) {
  std::vector<LazyTensorPtr> lazy;
  for (const at::Tensor& tensor : tensors) lazy.push_back(torch::lazy::TryGetLtcTensor(tensor));
  const torch::lazy::hash_t hash = executor().hash_of(lazy);
  return {reinterpret_cast<const char*>(&hash), sizeof(hash)};
}

py::dict counted() {
  py::dict counts;
  counts["runs"] = counters().runs.load();
  counts["hits"] = counters().hits.load();
  counts["torchscript_runs"] = counters().torchscript_runs.load();
  counts["reused_bytes"] = counters().reused_bytes.load();
  counts["copied_bytes"] = counters().copied_bytes.load();
  return counts;
}

void reset_counters() {
  for (auto* counter : {&counters().runs, &counters().hits, &counters().torchscript_runs, &counters().reused_bytes,
                        &counters().copied_bytes}) {
    *counter = 0;
  }
}

}  // namespace

PYBIND11_MODULE(TENON_LAZY_MODULE, module) {
  module.attr("torch_version") = TORCH_VERSION;
  module.def("init", init, py::arg("programs"), "Puts Tenon in charge of the lazy device.");
  module.def("record_calls_of", record_calls_of, py::arg("overloads"));
  module.def("graph_hash", graph_hash, py::arg("tensors"), "In place of torch._C._lazy._get_graph_hash.");
  module.def("counters", counted);
  module.def("reset_counters", reset_counters);
  module.def("take_failure", [] { return last_failure().take(); });
  module.def("is_in_charge", is_in_charge);
  module.def("forget_graphs", forget_graphs, py::call_guard<py::gil_scoped_release>());
}

}  // namespace tenon::lazy_device
