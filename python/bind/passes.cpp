#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "driver/pipeline.h"

namespace tenon::python {
namespace {

Graph run(const Graph& graph, const std::vector<std::string>& names, const std::vector<std::string>& skip, bool verify,
          const nb::object& after) {
  RunOptions options{.skip = skip, .verify = verify, .compare = true};
  if (!after.is_none()) {
    options.after = [&](const Stage&, const StageRun& report, const Module& result) {
      after(nb::cast(report), nb::cast(Graph(result.graph)));
    };
  }
  return run_passes(graph, names, options).value();
}

nb::dict passes_by_name() {
  nb::dict passes;
  for (const Stage& pass : all_passes()) passes[to_str(pass.name)] = to_str(pass.doc);
  return passes;
}

}  // namespace

void bind_passes(nb::module_& module) {
  nb::class_<StageRun>(module, "PassRun", "What one pass did.")
      .def_prop_ro("name", [](const StageRun& self) { return to_str(self.name); })
      .def_ro("skipped", &StageRun::skipped)
      .def_ro("changed", &StageRun::changed)
      .def_ro("nodes_before", &StageRun::nodes_before)
      .def_ro("nodes_after", &StageRun::nodes_after)
      .def_ro("milliseconds", &StageRun::milliseconds)
      .def("__repr__", [](const StageRun& self) {
        return fmt::format("<tenon.PassRun {}: {} -> {} nodes, {:.3f} ms{}>", self.name, self.nodes_before,
                           self.nodes_after, self.milliseconds, self.skipped ? ", skipped" : "");
      });
  module.def(
      "run_passes", run, nb::arg("graph"), nb::arg("names"), nb::kw_only(),
      nb::arg("skip") = std::vector<std::string>(), nb::arg("verify") = true, nb::arg("after") = nb::none(),
      nb::sig("def run_passes(graph: Graph, names: Sequence[str], *, skip: Sequence[str] = [], verify: bool = True, "
              "after: Callable[[PassRun, Graph], object] | None = None) -> Graph"),
      "Runs passes in order and gives a new graph. `after(run, graph)` sees each PassRun, with the graph it left.");
  module.def("passes", passes_by_name, nb::sig("def passes() -> dict[str, str]"), "What each pass does, by name.");
}

}  // namespace tenon::python
