#include "program/artifact.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "bind.h"
#include "call_form.h"
#include "device_tensor.h"
#include "driver/recompile.h"
#include "gil.h"
#include "runtime/artifact.h"
#include "runtime/checkpoint.h"
#include "runtime/context.h"
#include "runtime/thread_pool.h"
#include "support/runtime_call.h"

namespace tenon::python {
namespace {

using runtime::Container;
using runtime::Context;

Tensor borrowed(const runtime::TensorView& view) {
  const Sizes shape(view.shape.begin(), view.shape.end());
  return Tensor::borrow(static_cast<DType>(view.dtype), shape, contiguous_strides(shape), view.data, nullptr);
}

// A file: its programs, and the states that they share. One call at a time.
struct ArtifactFile {
  std::string path;
  std::shared_ptr<const Container> container;
  std::shared_ptr<const std::vector<std::byte>> recompiled;
  nb::object find_call;  // find_call(name, text, inputs, outputs) gives a Python function, or None; may be empty
  nb::list functions;    // that programs call
  std::vector<runtime::Entry> entries;
  std::shared_ptr<runtime::States> states;
  std::mutex mutex;
};

std::shared_ptr<const Container> contained(const std::vector<std::byte>& bytes) {
  return std::make_shared<const Container>(Container::of_memory(bytes));
}

// ---- calls of the host: Python functions from operands to results ----

Tensor tensor_of(const tenon_tensor& from) {
  return borrowed({from.dtype, {from.shape, static_cast<size_t>(from.rank)}, from.data});
}

void give(tenon_call& call, size_t output, const Tensor& result) {
  const tenon_tensor& promised = call.outputs[output];
  if (result.dtype() != static_cast<DType>(promised.dtype) || result.rank() != promised.rank)
    fail("a result must be {} of rank {}, got {}", tenon_dtype_name(promised.dtype), promised.rank,
         to_string(type_of(result)));
  const Tensor whole = result.contiguous();
  void* const memory = call.make_output(&call, output, whole.shape().data());
  if (memory == nullptr) fail("there is no memory for a result of {}", call.name);
  std::memcpy(memory, whole.data(), static_cast<size_t>(whole.numel() * size_of(whole.dtype())));
}

// What Python raises goes through the runtime as it is.
tenon_status run_python(void* function, tenon_call* call, tenon_text*) {
  const nb::gil_scoped_acquire lock;
  nb::list operands;
  for (uint64_t i = 0; i < call->input_count; ++i)
    operands.append(to_python(tensor_of(call->inputs[i]), ArrayKind::kTorch));
  const nb::object results = nb::handle(static_cast<PyObject*>(function))(operands);
  if (nb::len(results) != call->output_count)
    fail("a call gave {} results, where {} were promised", nb::len(results), call->output_count);
  size_t output = 0;
  for (nb::handle result : results) give(*call, output++, tensor_from(result, "a result"));
  return TENON_OK;
}

// Functions that are registered from C come first.
runtime::HostCall find_python(void* self, const runtime::TaskNode& task) {
  ArtifactFile& file = *static_cast<ArtifactFile*>(self);
  const runtime::HostCall registered = runtime::registered_call(nullptr, task);
  if (registered.function != nullptr || !file.find_call.is_valid()) return registered;
  nb::object function =
      file.find_call(std::string(task.function), std::string(task.text), task.inputs.size(), task.outputs.size());
  if (function.is_none()) return {};
  file.functions.append(function);
  return {run_python, function.ptr()};
}

// Without code for this CPU, the graphs are compiled anew.
std::vector<runtime::Entry> load_entries(ArtifactFile& file, const runtime::LoadOptions& options) {
  try {
    return runtime::load_entries(file.container, options);
  } catch (const runtime::StatusError& error) {
    if (error.status() != TENON_UNSUPPORTED || !options.native) fail("{}", error.message());
  }
  file.recompiled = std::make_shared<const std::vector<std::byte>>(recompiled_artifact(file.container).value());
  return call_runtime([&] { return runtime::load_entries(contained(*file.recompiled), {.calls = options.calls}); });
}

// An entry of a file, and its context. What the model updates lives as long as the file has one.
class Artifact {
 public:
  Artifact(const std::string& path, bool native, int64_t threads, std::optional<int64_t> budget,
           const runtime::DeviceBudgets& device_budgets, const std::string& device, nb::object find_call)
      : file_(std::make_shared<ArtifactFile>()) {
    if (threads < 0 || threads > kMostThreads) fail("threads must be in [0, {}], got {}", kMostThreads, threads);
    if (budget && *budget < 0) fail("a budget must not be negative, got {}", *budget);
    options_ = {.budget = budget.value_or(runtime::kNoBudget), .device_budgets = device_budgets, .threads = threads};
    file_->path = path;
    if (!find_call.is_none()) file_->find_call = std::move(find_call);
    file_->container = call_runtime([&] { return std::make_shared<const Container>(Container::open(path)); });
    file_->entries = load_entries(*file_, {.native = native, .device = device, .calls = {find_python, file_.get()}});
    call_runtime([&] { make_states(); });
    open(file_->entries[0]);
  }

  Artifact(const Artifact& other, const std::string& entry) : file_(other.file_), options_(other.options_) {
    const auto found = std::ranges::find(file_->entries, entry, &runtime::Entry::name);
    if (found == file_->entries.end())
      fail("the file has no entry '{}'; its entries are {}", entry, fmt::join(entries(), ", "));
    open(*found);
  }

  std::vector<Tensor> run(RunArguments& run) {
    const std::lock_guard lock(file_->mutex);
    if (run.inputs.size() != graph().inputs.size()) {
      fail("program {} takes {} inputs, got {}", graph().name, graph().inputs.size(), run.inputs.size());
    }
    return call_runtime([&] { return run_in_context(run); });
  }

  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const runtime::Entry& entry : file_->entries) names.push_back(entry.name);
    return names;
  }

  // `body` has the states to itself, and must not touch Python.
  template <class Body>
  auto with_states(Body body) {
    const WithoutGil unlocked;  // A run may hold the mutex for long, and needs the interpreter.
    const std::lock_guard lock(file_->mutex);
    return call_runtime([&] { return body(*file_->states); });
  }
  const std::vector<runtime::StateInfo>& states() const { return file_->states->all(); }
  size_t find_state(const std::string& name) const {
    const size_t number = file_->states->find(name);
    if (number == states().size()) throw nb::key_error(name.c_str());
    return number;
  }

  const std::string& entry() const { return entry_; }
  const runtime::LoadedProgram& loaded() const { return *program_; }
  const runtime::TaskGraph& graph() const { return program_->graph(); }
  const Notes& notes() const { return notes_; }
  const EntryCall& call() const { return call_; }
  int64_t peak_bytes() const { return context_->allocator().peak(); }

 private:
  // Of one program they are its context's, and count for its budget.
  void make_states() {
    if (file_->entries.size() == 1) return;
    runtime::Programs programs;
    for (const runtime::Entry& entry : file_->entries) programs.push_back(entry.program);
    auto allocator = std::make_shared<runtime::Allocator>(options_.budget);
    file_->states = std::make_shared<runtime::States>(std::move(programs), std::move(allocator));
  }

  void open(const runtime::Entry& entry) {
    entry_ = entry.name;
    notes_ = read_notes(*file_->container, entry_).value();
    program_ = entry.program;
    const Result<EntryCall> call = read_entry_call(*file_->container, entry_, graph());
    if (!call.ok()) fail_at({file_->path}, "{}", call.diagnostic().message);
    call_ = call.value();
    context_ = call_runtime([&] { return std::make_unique<Context>(program_, options_, file_->states); });
    if (!file_->states) file_->states = context_->states();
  }

  std::vector<Tensor> run_in_context(RunArguments& run) {
    context_->forget_results();
    set_inputs(*context_, run.inputs, run.places);
    context_->prepare();
    keep_outputs(*context_, graph(), run.places);
    context_->run();
    std::vector<Tensor> outputs(graph().outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (run.places.outputs.contains(i)) continue;
      const runtime::TensorView view = context_->output(i).view;
      const Sizes shape(view.shape.begin(), view.shape.end());
      outputs[i] = Tensor::borrow(static_cast<DType>(view.dtype), shape, contiguous_strides(shape), view.data,
                                  context_->take_output(i));
      if (run.places.kept.contains(i)) run.places.outputs.emplace(i, run.places.moved_output(i, outputs[i]));
    }
    return outputs;
  }

  std::shared_ptr<ArtifactFile> file_;
  runtime::ContextOptions options_;
  std::string entry_;
  Notes notes_;
  EntryCall call_;
  std::shared_ptr<const runtime::LoadedProgram> program_;
  std::unique_ptr<Context> context_;
};

nb::object get_state(Artifact& self, const std::string& name) {
  const size_t number = self.find_state(name);
  const runtime::StateInfo& info = self.states()[number];
  return to_python(self.with_states([&](runtime::States& states) {
    return borrowed({info.dtype, info.shape, states.read(number)}).copy();
  }),
                   ArrayKind::kTorch);
}

void set_state(Artifact& self, const std::string& name, nb::handle array) {
  const size_t number = self.find_state(name);
  const Tensor value = tensor_from(array, "a state");
  self.with_states([&](runtime::States& states) { states.set(number, described(value)); });
}

std::vector<std::string> state_names(const Artifact& self) {
  std::vector<std::string> names;
  for (const runtime::StateInfo& info : self.states()) names.push_back(info.name);
  return names;
}

void save_states(Artifact& self, const std::string& path, const Notes& notes) {
  self.with_states([&](runtime::States& states) {
    states.notes() = {notes.begin(), notes.end()};
    runtime::save_states(states, path);
  });
}

nb::list run(Artifact& self, nb::handle arrays, const std::string& device, const std::set<size_t>& kept,
             bool in_torch) {
  RunArguments run = arguments_from(arrays, device, kept, in_torch);
  warn_of_copies(run, self.loaded());
  std::vector<Tensor> outputs;
  {
    const WithoutGil unlocked;
    const UseStream used(run.stream);
    outputs = self.run(run);
  }
  nb::list list;
  for (size_t i = 0; i < outputs.size(); ++i) list.append(result_of(run, outputs, i));
  return list;
}

std::vector<std::string> devices(const Artifact& self) {
  std::vector<std::string> names;
  for (const runtime::Space& space : self.graph().spaces) names.emplace_back(space.device);
  return names;
}

nb::list described(const runtime::TaskGraph& graph, const std::vector<runtime::TensorInfo>& tensors) {
  nb::list list;
  for (const runtime::TensorInfo& info : tensors) {
    list.append(nb::make_tuple(std::string(info.name), type_text(graph, graph.slots[info.slot])));
  }
  return list;
}

}  // namespace

void bind_artifact(nb::module_& module) {
  nb::class_<Artifact>(module, "Artifact", "A program of a loaded file. What the file's programs update lives in it.")
      .def(nb::init<const std::string&, bool, int64_t, std::optional<int64_t>, const runtime::DeviceBudgets&,
                    const std::string&, nb::object>(),
           nb::arg("path"), nb::kw_only(), nb::arg("native") = true, nb::arg("threads") = 0,
           nb::arg("budget") = nb::none(), nb::arg("device_budgets") = runtime::DeviceBudgets(), nb::arg("device") = "",
           nb::arg("find_call") = nb::none())
      .def("run", run, nb::arg("inputs"), nb::arg("device") = "", nb::arg("kept") = std::set<size_t>(),
           nb::arg("in_torch") = false,
           "The outputs for these inputs, in order. Outputs with these numbers stay on the device; with "
           "in_torch they are tensors of PyTorch on CUDA, whose current stream the run is part of.")
      .def(
          "entry", [](const Artifact& self, const std::string& name) { return std::make_unique<Artifact>(self, name); },
          nb::arg("name"), "Another program of the same file, over the same states.")
      .def_prop_ro("entries", &Artifact::entries)
      .def_prop_ro("devices", devices, "The devices that it uses, besides the CPU.")
      .def_prop_ro("state_names", state_names)
      .def("get_state", get_state, nb::arg("name"), "A copy of its value.")
      .def("set_state", set_state, nb::arg("name"), nb::arg("value"))
      .def("reset_states", [](Artifact& self) { self.with_states([](runtime::States& states) { states.reset(); }); })
      .def("save_states", save_states, nb::arg("path"), nb::arg("notes"))
      .def(
          "load_states",
          [](Artifact& self, const std::string& path) {
            self.with_states([&](runtime::States& states) { runtime::load_states(states, path); });
          },
          nb::arg("path"))
      .def(
          "export_states",
          [](Artifact& self, const std::string& path) {
            self.with_states([&](runtime::States& states) { runtime::export_states(states, path); });
          },
          nb::arg("path"))
      .def_prop_ro("state_notes",
                   [](Artifact& self) {
                     return self.with_states(
                         [](runtime::States& states) { return Notes(states.notes().begin(), states.notes().end()); });
                   })
      .def_prop_ro("name", [](const Artifact& self) { return std::string(self.graph().name); })
      .def_prop_ro(
          "inputs", [](const Artifact& self) { return described(self.graph(), self.graph().inputs); },
          "(name, type) of each.")
      .def_prop_ro("outputs", [](const Artifact& self) { return described(self.graph(), self.graph().outputs); })
      .def_prop_ro("notes", [](const Artifact& self) { return self.notes(); })
      .def_prop_ro(
          "call_form",
          [](const Artifact& self) { return self.call().form ? nb::object(to_python(*self.call().form)) : nb::none(); },
          "How the model is called: its parameters, each (name, is_keyword, tree), and its results as a tree; None "
          "where "
          "the file does not say.")
      .def_prop_ro(
          "key_input", [](const Artifact& self) { return self.call().key; },
          "Which input random numbers come from, or None.")
      .def_prop_ro(
          "peak_bytes", [](const Artifact& self) { return self.peak_bytes(); },
          "The most memory so far: temporaries, scratch and results.");
}

}  // namespace tenon::python
