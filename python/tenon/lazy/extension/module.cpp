// The lazy device as a Python module: tenon/lazy/__init__.py is what users call.
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include "backend.h"

namespace tenon::lazy_device {
namespace {

namespace py = pybind11;

void init(const py::capsule& table) {
  const auto* compiler =
      static_cast<const tenon_aten_compiler*>(PyCapsule_GetPointer(table.ptr(), TENON_ATEN_COMPILER));
  if (compiler == nullptr) throw py::error_already_set();
  start(*compiler);
}

py::bytes hash_of_graph(const std::vector<at::Tensor>& tensors) {
  const torch::lazy::hash_t hash = graph_hash(tensors);
  return {reinterpret_cast<const char*>(&hash), sizeof(hash)};
}

// The counts by name, and the same as a table.
py::tuple metrics() {
  const lazy::Metrics all = MetricsLog::get().metrics();
  py::dict counts;
  counts["compiles"] = all.compiles;
  counts["compile_seconds"] = all.compile_seconds;
  counts["runs"] = all.runs;
  counts["hits"] = all.hits;
  counts["fallbacks"] = all.fallbacks;
  counts["torchscript_runs"] = all.torchscript_runs;
  counts["refused"] = all.refused;
  counts["internal_errors"] = all.internal_errors;
  counts["reused_bytes"] = all.reused_bytes;
  counts["copied_bytes"] = all.copied_bytes;
  return py::make_tuple(counts, table_of(all));
}

py::dict memory_info(const std::string& device) {
  const lazy::MemoryInfo info = backend().GetMemoryInfo(device);
  py::dict bytes;
  bytes["total"] = info.total_bytes;
  bytes["free"] = info.free_bytes;
  bytes["tensors"] = info.tensor_bytes;
  bytes["programs"] = info.program_bytes;
  return bytes;
}

std::string last_graph() {
  const auto last = LastGraph::get().graph();
  return last ? last->text() : std::string();
}

// ---- for tests ------------------------------------------------------------------------------------------------------

using Types = std::vector<std::pair<at::ScalarType, std::vector<int64_t>>>;

// A TorchScript graph whose inputs have these types.
std::shared_ptr<CompiledGraph> compile(const std::shared_ptr<torch::jit::Graph>& graph, const Types& types) {
  const OutsideModes outside;
  std::vector<TensorTypeOf> known;
  std::vector<size_t> sources;
  for (const auto& [dtype, shape] : types) {
    sources.push_back(known.size());
    known.push_back({dtype, shape});
  }
  return std::make_shared<CompiledGraph>(Translator::translate(*graph, known, sources), std::vector<bool>(), nullptr);
}

std::vector<at::Tensor> run(const CompiledGraph& graph, const std::vector<at::Tensor>& inputs) {
  const OutsideModes outside;
  return graph.run(inputs);
}

std::vector<std::string> names_to_record(const std::vector<std::string>& registry) {
  std::vector<std::string> names;
  for (const c10::OperatorHandle& op : operators_to_record(registry))
    names.push_back(c10::toString(op.operator_name()));
  return names;
}

}  // namespace

PYBIND11_MODULE(TENON_LAZY_MODULE, module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  module.attr("torch_version") = TORCH_VERSION;
  module.def("init", init, py::arg("compiler"), "Puts Tenon in charge of the lazy device.");
  module.def("is_in_charge", is_in_charge);
  module.def("graph_hash", hash_of_graph, py::arg("tensors"), "In place of torch._C._lazy._get_graph_hash.");
  module.def("take_failure", [] { return LastFailure::get().take(); });
  module.def("forget_graphs", forget_graphs, Unlocked());
  module.def("devices", device_names);
  module.def("memory_info", memory_info, py::arg("device"));
  module.def("metrics", metrics);
  module.def("reset_metrics", [] { MetricsLog::get().reset(); });
  module.def("keep_eager_calls", [] { MetricsLog::get().keep_eager_calls(); });
  module.def("last_graph", last_graph, Unlocked());
  py::class_<CompiledGraph, std::shared_ptr<CompiledGraph>>(module, "CompiledGraph")
      .def("run", run, py::arg("inputs"), Unlocked())
      .def("__str__", &CompiledGraph::text);
  module.def("compile", compile, py::arg("graph"), py::arg("types"), Unlocked());
  module.def("names_to_record", names_to_record, py::arg("registry"));
}

}  // namespace tenon::lazy_device
