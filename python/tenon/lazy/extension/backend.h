// PyTorch's lazy device with Tenon behind it: graphs are recorded and lowered by the TorchScript backend, and compiled
// and run by Tenon. Built against the PyTorch that it is used with: by build.py for Python, by CMake for C++.
#pragma once

#include <atomic>
#include <numeric>

#include "devices.h"
#include "executor.h"
#include "kernels.h"
#include "recorded.h"
#include "running.h"

namespace tenon::lazy_device {

using torch::lazy::ComputationPtr;

class LazyBackend : public torch::lazy::BackendImplInterface {
 public:
  explicit LazyBackend(const BackendImplInterface* torchscript) : torchscript_(torchscript) {}

  void PrepareToExit() const override { torch::lazy::LazyGraphExecutor::Get()->ClearComputationCache(); }

  // Random numbers are made of what PyTorch's generator gives (record.h).
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
    if (device.ordinal() <= 0) {
      const BackendDataPtr made = torchscript_->MakeComputationDataFromTensor(tensor, shape, device);
      return std::make_shared<Data>(static_cast<TSData&>(*made).data(), shape, device);
    }
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
      LastFailure::get().take();
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
      if (!failure.empty()) return failed(*ours, arguments, failure, device);
    }
    try {
      return run(ours, arguments, device);
    } catch (const std::exception& error) {
      LastFailure::get().set(error.what());
      return failed(*ours, arguments, error.what(), device);
    }
  }

  // Of a graph that may never run.
  std::string GetComputationBackendText(const ComputationPtr computation) const override {
    const OutsideModes outside;
    const auto& ours = static_cast<const Computation&>(*computation);
    std::vector<size_t> sources(ours.parameters.size());
    std::iota(sources.begin(), sources.end(), size_t{0});
    return CompiledGraph(Translator::translate(*ours.graph(), ours.parameters, sources), {}, "cpu").text();
  }

  std::string CreateMetricReport() const override { return "Tenon:\n" + table_of(MetricsLog::get().metrics()) + "\n"; }

  // ---- devices: tensors are in the CPU's memory; a graph runs on the device that its tensors name ----

  std::shared_ptr<torch::lazy::BackendDeviceType> GetDefaultDeviceType() const override {
    return std::make_shared<DeviceType>(default_ordinal_);
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
    for (int64_t i = 0; i < device_count(); ++i) devices.push_back(device_numbered(i));
    return devices;
  }
  BackendDevice GetBackendDevice(c10::Device device) const override {
    return device_numbered(device.has_index() ? device.index() : GetDefaultDeviceOrdinal());
  }

  // As PyTorch's interface sketches it: of a device as c10 writes it, "lazy:1".
  lazy::MemoryInfo GetMemoryInfo(const std::string& device) const {
    const int64_t ordinal = GetBackendDevice(c10::Device(device)).ordinal();
    const tenon_device_facts facts = device_facts(ordinal);
    return {facts.total_memory, facts.free_memory, HeldBytes::of(ordinal), std::max<int64_t>(facts.program_bytes, 0)};
  }

 private:
  static BackendDevice device_numbered(int64_t ordinal) {
    return BackendDevice(std::make_shared<DeviceType>(ordinal), ordinal);
  }

  std::vector<BackendDataPtr> run(const std::shared_ptr<Computation>& computation,
                                  c10::ArrayRef<BackendDataPtr> arguments, const BackendDevice& device) const {
    const OutsideModes outside;
    Inputs inputs = inputs_of(arguments, tensors_of(arguments));
    count([](lazy::Metrics& metrics) { ++metrics.runs; });
    const int64_t ordinal = device.ordinal() < 0 ? GetDefaultDeviceOrdinal() : device.ordinal();
    IdleGraphs::get().free_memory(computation, computation->has_form(arguments, inputs.sources));
    const GraphFormPtr form = form_of(*computation, arguments, inputs, ordinal);
    if (form->graph) return results_of(*form, arguments, inputs, device);
    count([](lazy::Metrics& metrics) { ++metrics.torchscript_runs; });
    std::optional<SeededGenerator> seeded;
    if (const auto seed = seed_of_keys(*computation->graph(), arguments)) seeded.emplace(*seed);
    return torchscript_->ExecuteComputation(computation, arguments, device);
  }

  // A result that is just an argument is not affected.
  static std::vector<BackendDataPtr> failed(const Computation& computation, c10::ArrayRef<BackendDataPtr> arguments,
                                            const std::string& reason, const BackendDevice& device) {
    const at::ArrayRef<torch::jit::Value*> inputs = computation.graph()->inputs();
    std::vector<BackendDataPtr> results;
    for (size_t i = 0; i < computation.results.size(); ++i) {
      const auto data = std::make_shared<Data>(computation.results[i], device);
      const size_t input = std::ranges::find(inputs, computation.graph()->outputs()[i]) - inputs.begin();
      if (input < inputs.size())
        data->Assign(*arguments[input]);
      else
        data->failure = reason;
      results.push_back(data);
    }
    return results;
  }

  static std::vector<BackendDataPtr> results_of(const GraphForm& form, c10::ArrayRef<BackendDataPtr> arguments,
                                                Inputs& inputs, const BackendDevice& device) {
    own_overwritten(form, arguments, inputs);
    std::vector<BackendDataPtr> results;
    for (at::Tensor& result : form.graph->run(inputs.tensors)) results.push_back(data_of(std::move(result), device));
    return results;
  }

  const BackendImplInterface* torchscript_;
  std::atomic<int64_t> default_ordinal_ = 0;
};

// ---- the start ------------------------------------------------------------------------------------------------------

inline bool is_in_charge() {
  return torch::lazy::hasBackend() && dynamic_cast<const LazyBackend*>(torch::lazy::getBackend()) != nullptr;
}

inline const LazyBackend& backend() {
  TORCH_CHECK(is_in_charge(), "the lazy device is not there yet: call tenon.lazy.init() first");
  return *static_cast<const LazyBackend*>(torch::lazy::getBackend());
}

inline void forget_graphs() {
  LastGraph::get().set(nullptr);
  torch::lazy::LazyGraphExecutor::Get()->ClearComputationCache();
}

// PyTorch warns that its lazy device overrides kernels of its own.
struct NoWarnings : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

// A graph that nobody ends runs when it has this many nodes. PyTorch frees a chain of nodes by recursion: the nodes of
// its own limit need more than half of a thread's usual stack.
inline void limit_graphs() {
  constexpr int kMostNodes = 50'000;
  FLAGS_torch_lazy_trim_graph_size = std::min<int>(FLAGS_torch_lazy_trim_graph_size, kMostNodes);
}

// The last one that registers is in charge. Graphs of another backend are none of ours.
inline void start(const tenon_aten_compiler& compiler) {
  compiler_slot() = &compiler;
  if (is_in_charge()) return;
  NoWarnings no_warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&no_warnings);
  limit_graphs();
  FLAGS_torch_lazy_handle_special_scalars = true;  // 0 and 1 are constants: `alpha` and `beta` need no multiplication
  if (!torch::lazy::hasBackend()) torch::lazy::InitTorchScriptBackend();
  register_kernels();
  record_registry();
  decompose_composites();
  torch::lazy::LazyGraphExecutor::Register(&executor());
  static const LazyBackend* const backend = new LazyBackend(torch::lazy::GetTSBackendImpl());
  const torch::lazy::BackendRegistrar registrar(backend);
  forget_graphs();
}

inline torch::lazy::hash_t graph_hash(const std::vector<at::Tensor>& tensors) {
  std::vector<LazyTensorPtr> lazy;
  for (const at::Tensor& tensor : tensors) lazy.push_back(torch::lazy::TryGetLtcTensor(tensor));
  return executor().hash_of(lazy);
}

}  // namespace tenon::lazy_device
