#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "autodiff/differentiate.h"
#include "bind.h"

namespace tenon::python {
namespace {

ValueRef target_of(const Graph& graph, nb::handle target) {
  if (!nb::isinstance<nb::str>(target)) return ref_of(graph, target, "differentiate");
  const auto name = nb::cast<std::string>(target);
  const Leaf* leaf = graph.leaf_named(name);
  if (leaf == nullptr) fail("graph {} has no input, parameter or buffer '{}'", graph.name(), name);
  return leaf->value;
}

Graph differentiate_graph(const Graph& graph, const std::vector<nb::object>& wrt) {
  std::vector<ValueRef> values;
  for (const nb::object& target : wrt) values.push_back(target_of(graph, target));
  return differentiate(graph, values).value();
}

}  // namespace

void bind_autodiff(nb::module_& module) {
  module.def(
      "differentiate", differentiate_graph, nb::arg("graph"), nb::arg("wrt"),
      nb::sig("def differentiate(graph: Graph, wrt: Sequence[str | Value]) -> Graph"),
      "A graph of the gradients with respect to leaves (by name) or Values. It takes the inputs of `graph`, then one "
      "cotangent for each floating output, named grad_0, grad_1, ...");
}

}  // namespace tenon::python
