// From graphs to kernels, and to faster ones.
#include <nanobind/stl/map.h>

#include "backends/cpp/cpp.h"
#include "backends/tuner.h"
#include "codegen/codegen.h"
#include "gil.h"
#include "loops.h"
#include "loops/lower.h"
#include "schedule/edit.h"

namespace tenon::python {
namespace {

using loops::LoopTree;

symbolic::Bindings bindings_from(const std::map<std::string, int64_t>& sizes) {
  symbolic::Bindings bindings;
  for (const auto& [name, size] : sizes) bindings.emplace(Symbol(name), size);
  return bindings;
}

// Searches around the backend's own schedule, and keeps what it finds. `progress` is called with the seconds so far,
// the schedules tried, and how many times faster the best is.
LoopTree tuned(const loops::IR& kernel, double seconds, const std::string& name,
               const std::map<std::string, int64_t>& sizes, const nb::object& progress) {
  if (!(seconds > 0)) fail("a search takes more than {} seconds", seconds);
  const auto backend = find_backend(name).value();
  SearchOptions options{.seconds = seconds};
  if (!progress.is_none()) {
    options.progress = [&](const SearchProgress& now) {
      const nb::gil_scoped_acquire acquire;
      progress(now.elapsed, now.tried, now.start_seconds / now.best_seconds);
    };
  }
  const WithoutGil release;
  options.candidates = backend->variants(kernel);
  Workload workload(kernel, bindings_from(sizes));
  Schedule found = search(backend->schedule(kernel), *backend, workload, options).value();
  backend->keep(kernel, found.tree);
  return std::move(found.tree);
}

nb::tuple search_schedule(const LoopTree& tree, double seconds, const std::string& backend,
                          const std::map<std::string, int64_t>& sizes, bool parallel, uint32_t seed) {
  if (!(seconds > 0)) fail("a search takes more than {} seconds", seconds);
  const symbolic::Bindings bindings = bindings_from(sizes);
  const auto found = [&] {
    const WithoutGil release;
    Workload workload(tree.ir, bindings, seed);
    const SearchOptions options{.seconds = seconds, .seed = seed, .parallel = parallel};
    return search(tree, *find_backend(backend).value(), workload, options).value();
  }();
  return nb::make_tuple(found.tree, found.seconds, found.edits);
}

std::string emit_for(const LoopTree& tree, const std::string& cpu,
                     std::string (*emit)(std::span<const codegen::KernelSource>, const codegen::Target&)) {
  const codegen::KernelSource source{&tree, tree.ir.name()};
  return emit({&source, 1}, codegen::find_target(cpu));
}

}  // namespace

void bind_schedule(nb::module_& module) {
  module.def(
      "lower", [](const std::shared_ptr<Graph>& graph) { return lower(*graph).value(); }, nb::arg("graph"),
      "A graph as one kernel. Its inputs are the graph's, then the other leaves that are no single number.");
  module.def(
      "emit_cpp", [](const LoopTree& tree, const std::string& name) { return emit_cpp(tree, name); }, nb::arg("tree"),
      nb::arg("name"), "The kernel as C++17 with vectors and threads: one function of that name. Needs no compiler.");
  module.def(
      "emit_llvm", [](const LoopTree& tree, const std::string& cpu) { return emit_for(tree, cpu, codegen::emit_llvm); },
      nb::arg("tree"), nb::arg("cpu") = "native",
      "The kernel as LLVM's text, for a CPU by name: native, x86-64-v3, wasm32, ...");
  module.def(
      "emit_asm", [](const LoopTree& tree, const std::string& cpu) { return emit_for(tree, cpu, codegen::emit_asm); },
      nb::arg("tree"), nb::arg("cpu") = "native", "The kernel as assembly, for a CPU by name.");
  module.def(
      "default_schedule",
      [](const loops::IR& kernel, const std::string& backend) {
        return find_backend(backend).value()->schedule(kernel);
      },
      nb::arg("kernel"), nb::arg("backend"), "What tenon.loops.schedule does without `tune`.");
  module.def("tuned_schedule", tuned, nb::arg("kernel"), nb::arg("seconds"), nb::arg("backend"), nb::arg("sizes"),
             nb::arg("progress").none(),
             nb::sig("def tuned_schedule(kernel: IR, seconds: float, backend: str, sizes: dict[str, int], progress: "
                     "Callable[[float, int, float], None] | None) -> LoopTree"),
             "What tenon.loops.schedule does with `tune`.");
  module.def(
      "apply_edit", [](const LoopTree& tree, const std::string& edit) { return loops::apply_edit(tree, edit).value(); },
      nb::arg("tree"), nb::arg("edit"), "An edit as `tenon tune` takes it, such as 'split 2 16'.");
  module.def("search", search_schedule, nb::arg("tree"), nb::arg("seconds") = 10.0, nb::arg("backend") = "cpp",
             nb::arg("sizes") = std::map<std::string, int64_t>(), nb::arg("parallel") = true, nb::arg("seed") = 0,
             nb::sig("def search(tree: LoopTree, seconds: float = 10.0, backend: str = 'cpp', sizes: dict[str, int] = "
                     "{}, parallel: bool = True, seed: int = 0) -> tuple[LoopTree, float, list[str]]"),
             "Looks for a faster schedule: the tree, the seconds of one run, and the edits that make it.");
}

}  // namespace tenon::python
