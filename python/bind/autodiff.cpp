#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "autodiff/differentiate.h"
#include "bind.h"

namespace tenon::python {
namespace {

Graph differentiate_by_name(const Graph& graph, const std::vector<std::string>& wrt) {
  std::vector<ValueRef> values;
  for (const std::string& name : wrt) {
    const Leaf* leaf = graph.leaf_named(name);
    if (leaf == nullptr) fail("graph {} has no input, parameter or buffer '{}'", graph.name(), name);
    values.push_back(leaf->value);
  }
  return differentiate(graph, values).value();
}

}  // namespace

void bind_autodiff(nb::module_& module) {
  module.def("differentiate", differentiate_by_name, nb::arg("graph"), nb::arg("wrt"));
}

}  // namespace tenon::python
