#include "program/artifact.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "bind.h"
#include "runtime/artifact.h"
#include "runtime/context.h"
#include "runtime/thread_pool.h"
#include "support/runtime_call.h"

namespace tenon::python {
namespace {

using runtime::Container;
using runtime::Context;

tenon_tensor described(const Tensor& tensor) {
  return {tensor.data(), static_cast<tenon_dtype>(tensor.dtype()), static_cast<int32_t>(tensor.rank()),
          tensor.shape().data(), tensor.strides().data()};
}

// An artifact and its context: state lives as long as this does. One call at a time.
class Artifact {
 public:
  Artifact(const std::string& path, bool native, int64_t threads, std::optional<int64_t> budget) {
    if (threads < 0 || threads > kMostThreads) fail("threads must be in [0, {}], got {}", kMostThreads, threads);
    if (budget && *budget < 0) fail("a budget must not be negative, got {}", *budget);
    container_ = call_runtime([&] { return std::make_shared<const Container>(Container::open(path)); });
    notes_ = read_notes(*container_).value();
    program_ = load(native);
    const runtime::ContextOptions options{.budget = budget.value_or(runtime::kNoBudget), .threads = threads};
    context_ = call_runtime([&] { return std::make_unique<Context>(program_, options); });
  }

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    const std::lock_guard lock(mutex_);
    const runtime::TaskGraph& graph = program_->graph();
    if (inputs.size() != graph.inputs.size()) {
      fail("program {} takes {} inputs, got {}", graph.name, graph.inputs.size(), inputs.size());
    }
    return call_runtime([&] { return run_in_context(inputs); });
  }

  const runtime::TaskGraph& graph() const { return program_->graph(); }
  const Notes& notes() const { return notes_; }
  int64_t peak_bytes() const { return context_->allocator().peak(); }

 private:
  // Without code for this CPU, the graph is compiled anew.
  std::shared_ptr<const runtime::Program> load(bool native) {
    try {
      return runtime::load_program(container_, {.native = native});
    } catch (const runtime::Error& error) {
      if (error.status() != TENON_UNSUPPORTED || !native) fail("{}", error.message());
    }
    const Program program = compile_program(read_artifact_graph(container_).value()).value();
    const std::vector<std::byte> bytes = artifact_bytes({&program}).value();
    compiled_ = std::make_shared<const std::vector<std::byte>>(bytes);
    return call_runtime(
        [&] { return runtime::load_program(std::make_shared<const Container>(Container::of_memory(*compiled_)), {}); });
  }

  std::vector<Tensor> run_in_context(const std::vector<Tensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) context_->set_input(i, described(inputs[i]));
    context_->run();
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < graph().outputs.size(); ++i) {
      const runtime::TensorView view = context_->output(i).view;
      const Sizes shape(view.shape.begin(), view.shape.end());
      outputs.push_back(
          Tensor::borrow(static_cast<DType>(view.dtype), shape, contiguous_strides(shape), view.data, nullptr).copy());
    }
    return outputs;
  }

  std::shared_ptr<const Container> container_;
  std::shared_ptr<const std::vector<std::byte>> compiled_;
  Notes notes_;
  std::shared_ptr<const runtime::Program> program_;
  std::unique_ptr<Context> context_;
  std::mutex mutex_;
};

nb::list run(Artifact& self, nb::handle arrays) {
  std::vector<Tensor> inputs;
  ArrayKind kind = ArrayKind::kTorch;
  for (nb::handle array : arrays) {
    if (inputs.empty()) kind = kind_of(array);
    inputs.push_back(tensor_from(array, "an input"));
  }
  std::vector<Tensor> outputs;
  {
    const nb::gil_scoped_release unlocked;
    outputs = self.run(inputs);
  }
  nb::list list;
  for (const Tensor& output : outputs) list.append(to_python(output, kind));
  return list;
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
  nb::class_<Artifact>(module, "Artifact", "A loaded file. What the model updates lives in it.")
      .def(nb::init<const std::string&, bool, int64_t, std::optional<int64_t>>(), nb::arg("path"), nb::kw_only(),
           nb::arg("native") = true, nb::arg("threads") = 0, nb::arg("budget") = nb::none())
      .def("run", run, nb::arg("inputs"), "The outputs for these inputs, in order.")
      .def_prop_ro("name", [](const Artifact& self) { return std::string(self.graph().name); })
      .def_prop_ro(
          "inputs", [](const Artifact& self) { return described(self.graph(), self.graph().inputs); },
          "(name, type) of each.")
      .def_prop_ro("outputs", [](const Artifact& self) { return described(self.graph(), self.graph().outputs); })
      .def_prop_ro("notes", [](const Artifact& self) { return self.notes(); })
      .def_prop_ro(
          "peak_bytes", [](const Artifact& self) { return self.peak_bytes(); },
          "The most memory so far: temporaries, scratch and results.");
}

}  // namespace tenon::python
