#include <fmt/format.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "views.h"

namespace tenon::python {
namespace {

nb::dict attrs_of(const GraphNode& self) {
  nb::dict attrs;
  const Node& node = self.node();
  for (size_t i = 0; i < node.attrs.size(); ++i) attrs[to_str(node.op->attrs[i].name)] = to_python(node.attrs[i]);
  return attrs;
}

nb::object data_of(const GraphLeaf& self) {
  const Leaf& leaf = self.leaf();
  return leaf.data.defined() ? nb::cast(leaf.data) : nb::object(nb::none());
}

}  // namespace

void bind_node(nb::module_& module) {
  nb::class_<GraphNode>(module, "Node", "An op applied to values of a graph.")
      .def_prop_ro(
          "op", [](const GraphNode& self) { return self.node().op; }, nb::rv_policy::reference)
      .def_prop_ro(
          "operands", [](const GraphNode& self) { return to_python(self.graph, self.node().operands); },
          "Values; None for an optional one that is absent.")
      .def_prop_ro("attrs", attrs_of, "By name, complete.")
      .def_prop_ro("results", [](const GraphNode& self) { return to_python(self.graph, self.node().results); })
      .def_prop_ro(
          "location", [](const GraphNode& self) { return self.node().location; }, "Where in the model it comes from.")
      .def("__str__", [](const GraphNode& self) { return describe(*self.graph, self.ref); })
      .def("__repr__",
           [](const GraphNode& self) { return fmt::format("<tenon.Node {}>", describe(*self.graph, self.ref)); });

  nb::class_<GraphLeaf>(module, "Leaf", "An input, parameter, buffer or constant of a graph.")
      .def_prop_ro(
          "kind", [](const GraphLeaf& self) { return to_str(name_of(self.leaf().kind)); },
          "\"input\", \"parameter\", \"buffer\" or \"constant\".")
      .def_prop_ro(
          "name", [](const GraphLeaf& self) { return self.leaf().name; }, "Empty for a constant.")
      .def_prop_ro("value", [](const GraphLeaf& self) { return to_python(self.graph, self.leaf().value); })
      .def_prop_ro("data", data_of, "A Tensor; None for an input, and for what is not bound yet.")
      .def("__repr__", [](const GraphLeaf& self) {
        const Leaf& leaf = self.leaf();
        return fmt::format("<tenon.Leaf {} '{}': {}>", name_of(leaf.kind), leaf.name,
                           to_string(self.graph->type(leaf.value)));
      });
}

}  // namespace tenon::python
