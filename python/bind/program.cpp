#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "call_form.h"
#include "device_tensor.h"
#include "driver/pipeline.h"
#include "exchange.h"
#include "fallback.h"
#include "gil.h"
#include "program/artifact.h"
#include "program/donate.h"
#include "program/report.h"
#include "runtime/device.h"
#include "runtime/thread_pool.h"
#include "support/position_error.h"
#include "support/runtime_call.h"

namespace tenon::python {
namespace {

// A program with the number of threads that it was compiled for.
struct Executable {
  Program program;
  int64_t threads;
  std::vector<ResultPlace> results;
  ProgramOptions options;
};

// What a file has: the program, and if it uses devices, the same model for the CPU alone.
template <class Body>
auto with_variants(const Executable& self, Body body) {
  using Variants = std::vector<const Program*>;
  if (!self.program.uses_devices()) return body(Variants{&self.program});
  ProgramOptions options = self.options;
  options.devices.clear();
  const Program plain = compile_program(*self.program.source, options).value();
  return body(Variants{&plain, &self.program});
}

// A result that lies in an input is the array that the caller gave.
nb::object result_at(const ResultPlace& place, const std::vector<nb::object>& outputs, nb::handle inputs) {
  nb::object there = place.input ? nb::object(inputs[*place.input]) : outputs[place.output];
  if (place.order.empty()) return there;
  return there.attr("permute")(*nb::tuple(nb::cast(place.order)));
}

nb::list to_list(const Executable& self, const RunArguments& run, const std::vector<Tensor>& tensors,
                 nb::handle inputs) {
  std::vector<nb::object> outputs;
  for (size_t i = 0; i < tensors.size(); ++i) outputs.push_back(result_of(run, tensors, i));
  nb::list list;
  for (const ResultPlace& place : self.results) list.append(result_at(place, outputs, inputs));
  return list;
}

// Of each result the input that it is.
nb::list places(const Executable& self) {
  nb::list list;
  for (const ResultPlace& place : self.results) {
    list.append(nb::cast(place.order.empty() ? place.input : std::nullopt));
  }
  return list;
}

std::shared_ptr<Executable> compile_graph(const Graph& graph, nb::object fallback, std::optional<int64_t> wanted,
                                          bool freeze, const std::string& backend,
                                          const std::vector<std::string>& devices, nb::handle assertions,
                                          const std::set<uint32_t>& donated, bool shared, std::optional<int64_t> budget,
                                          const DeviceBudgets& device_budgets) {
  const ProgramOptions options{.backend = backend,
                               .devices = devices,
                               .freeze = freeze,
                               .fallback = fallback_from(std::move(fallback)),
                               .budget = budget,
                               .device_budgets = device_budgets,
                               .assertions = assertions_from(assertions)};
  const int64_t threads = wanted.value_or(0);
  if (threads < 0 || threads > kMostThreads) fail("threads must be in [0, {}], got {}", kMostThreads, threads);
  Donation donation = donate_inputs(graph, donated, shared);  // a copy: another thread may go on with `graph`
  const WithoutGil unlocked;
  const ThreadCount count(threads);
  Program program = compile_program(donation.graph, options).value();
  return std::make_shared<Executable>(Executable{std::move(program), threads, std::move(donation.results), options});
}

nb::list run(const Executable& self, nb::handle arrays, const std::string& device, const std::set<size_t>& kept,
             bool in_torch) {
  check_no_tangents(arrays);
  RunArguments run = arguments_from(arrays, device, kept, in_torch);
  warn_of_copies(run, self.program.runner->loaded());
  std::vector<Tensor> outputs;
  {
    const WithoutGil unlocked;
    const UseStream used(run.stream);
    const ThreadCount count(self.threads);
    outputs = self.program.runner->run(self.program, run.inputs, &run.places);
  }
  return to_list(self, run, outputs, arrays);
}

// An executable with memory of its own, which stays where it is from run to run: CUDA graphs know the addresses.
struct OwnContext {
  std::shared_ptr<const Executable> executable;
  std::unique_ptr<runtime::Context> context;
};

std::shared_ptr<OwnContext> in_own_context(std::shared_ptr<const Executable> self) {
  const Program& program = self->program;
  auto context = program.runner->make_context({.device_budgets = program.device_budgets});
  return std::make_shared<OwnContext>(OwnContext{std::move(self), std::move(context)});
}

// Results are torch's tensors on CUDA.
nb::list run_own(const OwnContext& self, nb::handle arrays, const std::string& device, const std::set<size_t>& kept) {
  RunArguments run = arguments_from(arrays, device, kept, true);
  std::vector<Tensor> outputs;
  {
    const WithoutGil unlocked;
    const UseStream used(run.stream);
    outputs = ProgramRunner::run_in(*self.context, self.executable->program, run.inputs, &run.places);
  }
  return to_list(*self.executable, run, outputs, arrays);
}

// ("cpu", ops), (device, ops) or ("fallback", targets) of each.
nb::list segments(const Executable& self) {
  nb::list result;
  for (const TaskStretch& segment : segments_of(self.program)) {
    nb::list names;
    for (const Task* task : segment.tasks) {
      if (task->kind == TaskKind::kExternal) {
        names.append(task->name);
        continue;
      }
      for (const std::string& op : task->ops) names.append(op);
    }
    result.append(nb::make_tuple(segment.side, names));
  }
  return result;
}

// Who runs each node; empty without devices.
nb::list placement(const Executable& self) {
  nb::list result;
  if (!self.program.placement) return result;
  for (const PlacedNode& node : placed_nodes(*self.program.placement)) {
    nb::dict declined, entry;
    for (const auto& [device, reason] : node.declined) declined[to_str(device)] = to_str(reason);
    entry["name"] = node.name;
    entry["op"] = to_str(node.op);
    entry["device"] = to_str(node.device);
    entry["segment"] = node.segment;
    entry["declined"] = declined;
    entry["location"] = nb::cast(node.location);
    result.append(entry);
  }
  return result;
}

nb::list kernels(const Executable& self) {
  nb::list result;
  for (const Task& task : self.program.tasks) {
    nb::list ops, inputs, outputs;
    for (const std::string& op : task.ops) ops.append(op);
    for (uint32_t slot : task.inputs) inputs.append(to_string(self.program.slots[slot].type));
    for (uint32_t slot : task.outputs) outputs.append(to_string(self.program.slots[slot].type));
    nb::dict entry;
    entry["kind"] = to_str(name_of(task.kind));
    entry["name"] = task.name;
    entry["ops"] = ops;
    entry["inputs"] = inputs;
    entry["outputs"] = outputs;
    entry["location"] = nb::cast(task.location);
    result.append(entry);
  }
  return result;
}

std::string loop_tree(const Executable& self, size_t task) {
  const auto& tasks = self.program.tasks;
  if (task >= tasks.size()) fail_position("there are {} tasks: none is number {}", tasks.size(), task);
  return tasks[task].tree ? tasks[task].tree->dump() : std::string();
}

nb::dict artifact_bytes_of(const Executable& self, const Notes& notes) {
  const ArtifactSize size = [&] {
    const WithoutGil unlocked;
    return with_variants(self, [&](const auto& variants) { return artifact_size(variants, notes).value(); });
  }();
  nb::dict entry;
  entry["weights"] = size.weights;
  entry["code"] = size.code;
  entry["file"] = size.file;
  return entry;
}

}  // namespace

std::vector<Assertion> assertions_from(nb::handle list) {
  std::vector<Assertion> assertions;
  for (nb::handle entry : list) {
    Assertion assertion{nb::cast<std::string>(entry[0])};
    if (const nb::object place = entry[1]; !place.is_none())
      assertion.location = {nb::cast<std::string>(place[0]), nb::cast<int>(place[1])};
    if (const nb::object output = entry[2]; !output.is_none()) assertion.output = nb::cast<size_t>(output);
    if (const nb::object guard = entry[3]; !guard.is_none()) assertion.guard = nb::cast<Expr>(guard);
    assertions.push_back(std::move(assertion));
  }
  return assertions;
}

void bind_program(nb::module_& module) {
  nb::class_<Executable>(module, "Executable", "A compiled graph.")
      .def("run", run, nb::arg("inputs"), nb::arg("device") = "", nb::arg("kept") = std::set<size_t>(),
           nb::arg("in_torch") = false,
           "The outputs for these inputs, in the graph's order. Outputs with these numbers stay on the device; with "
           "in_torch they are tensors of PyTorch on CUDA, whose current stream the run is part of.")
      .def(
          "__call__", [](const Executable& self, const nb::args& inputs) { return run(self, inputs, "", {}, false); },
          nb::arg("inputs"), nb::sig("def __call__(self, *inputs: ArrayLike) -> list[Any]"))
      .def("in_own_context", in_own_context, "With memory that stays where it is, for CUDA graphs.")
      .def_prop_ro(
          "graph", [](const Executable& self) { return Graph(self.program.graph); }, "As it was fused.")
      .def_prop_ro("segments", segments, "Runs of tasks: ('cpu', 'fallback' or a device, names of ops).")
      .def_prop_ro(
          "placement", placement,
          "With devices, who runs each node: name, op, device, segment, location, and why devices declined it.")
      .def_prop_ro(
          "placement_summary",
          [](const Executable& self) { return self.program.placement ? summary_of(*self.program.placement) : ""; },
          "With devices, how many nodes each runs, and why devices declined others.")
      .def_prop_ro("kernels", kernels, "Each task: kind, name, ops, inputs, outputs, location.")
      .def(
          "save",
          [](const Executable& self, const std::string& path, const Notes& notes) {
            const WithoutGil unlocked;
            with_variants(self, [&](const auto& variants) { write_artifact(path, variants, notes).value(); });
          },
          nb::arg("path"), nb::arg("notes") = Notes(), "Writes an artifact.")
      .def("artifact_bytes", artifact_bytes_of, nb::arg("notes") = Notes(),
           "How large that file would be: of weights, of code, in all.")
      .def("loop_tree", loop_tree, nb::arg("task"), "The loops of a task that is a kernel.")
      .def_prop_ro(
          "is_from_cache", [](const Executable& self) { return self.program.is_from_cache; },
          "Whether nothing was compiled: the cache on disk had the same program.")
      .def_prop_ro("places", places, "Of each result the donated input that it is, or None.")
      .def(
          "free_memory", [](const Executable& self) { self.program.free_memory(); },
          "Frees what runs keep for the next one.")
      .def_prop_ro("constant_bytes", [](const Executable& self) { return self.program.constant_bytes(); })
      .def_prop_ro("arena_bytes", [](const Executable& self) { return self.program.arena_bytes(); });
  nb::class_<OwnContext>(module, "OwnContext", "An executable with memory of its own, for CUDA graphs.")
      .def("run", run_own, nb::arg("inputs"), nb::arg("device"), nb::arg("kept"));
  module.def("check_cuda_graphs", check_cuda_graphs, "Fails with what a kernel of a CUDA graph has failed with.");
  module.attr("MOST_THREADS") = kMostThreads;
  module.def(
      "load_plugin",
      [](const std::string& path) { return to_str(call_runtime([&] { return runtime::load_plugin(path); })); },
      nb::arg("path"),
      "Loads the plug-in of a device (docs/add-a-device.md), and returns the device's name. Its code runs in this "
      "process: load only what you trust.");
  module.def(
      "devices",
      [] {
        const auto names = call_runtime([] { return runtime::device_names(); });
        return std::vector<std::string>(names.begin(), names.end());
      },
      "The names of the devices besides the CPU.");
  module.def(
      "compile_graph", compile_graph, nb::arg("graph"), nb::kw_only(), nb::arg("fallback") = nb::none(),
      nb::arg("threads") = nb::none(), nb::arg("freeze") = true, nb::arg("backend") = "cpu",
      nb::arg("devices") = std::vector<std::string>(), nb::arg("assertions") = nb::tuple(),
      nb::arg("donated") = std::set<uint32_t>(), nb::arg("shared") = false, nb::arg("budget") = nb::none(),
      nb::arg("device_budgets") = DeviceBudgets(),
      "Compiles a graph. `fallback(call, operands)` runs its external calls. `devices` take the nodes that they claim, "
      "in this order, and `backend` runs the rest. `assertions` are what a saved file "
      "checks: a message, its (file, line), and the output of the graph or the expression of its sizes that must "
      "not be zero. Results may be computed in the memory of the inputs that are `donated`, by number: they are those "
      "arrays then. Where nobody writes to them, equal results may be `shared`.");
}

}  // namespace tenon::python
