#include "graph/graph.h"

#include <nanobind/stl/string.h>

#include "backends/reference/evaluate.h"
#include "bind.h"

namespace tenon::python {
namespace {

nb::tuple evaluate_graph(const Graph& graph, const nb::args& inputs) {
  const ArrayKind kind = inputs.size() > 0 ? kind_of(inputs[0]) : ArrayKind::kNumpy;
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) tensors.push_back(tensor_from(inputs[i], fmt::format("input {}", i)));
  std::vector<Tensor> outputs;
  {
    const Graph snapshot = graph;  // another thread may go on with `graph` while the GIL is released
    const nb::gil_scoped_release released;
    outputs = evaluate(snapshot, tensors).value();
  }
  nb::list results;
  for (Tensor& output : outputs) results.append(tensor_to(std::move(output), kind));
  return nb::tuple(results);
}

nb::dict attrs_of(const Node& node) {
  nb::dict attrs;
  for (size_t i = 0; i < node.attrs.size(); ++i) attrs[to_str(node.op->attrs[i].name)] = to_python(node.attrs[i]);
  return attrs;
}

nb::tuple type_to_python(const TensorType& type) {
  return nb::make_tuple(to_str(name_of(type.dtype)), shape_to_python(type.shape));
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<Graph>(module, "Graph")
      .def_prop_ro("name", &Graph::name)
      .def_prop_ro("inputs",
                   [](const Graph& self) {
                     nb::list inputs;
                     for (const Leaf& leaf : self.leaves()) {
                       if (leaf.kind != LeafKind::kInput) continue;
                       inputs.append(nb::make_tuple(leaf.name, type_to_python(self.type(leaf.value))));
                     }
                     return inputs;
                   })
      .def_prop_ro(
          "nodes",
          [](const Graph& self) {
            nb::list nodes;
            for (const Node& node : self.nodes()) {
              nb::list operands;
              for (ValueRef operand : node.operands) {
                operands.append(operand ? nb::object(to_str(self.value_name(operand))) : nb::object(nb::none()));
              }
              nodes.append(nb::make_tuple(to_str(node.op->name.get()), operands, attrs_of(node)));
            }
            return nodes;
          })
      .def("evaluate", evaluate_graph, nb::arg("inputs"))
      .def("__eq__", [](const Graph& self, const Graph& other) { return self == other; })
      .def("__str__", [](const Graph& self) { return to_string(self); });
  module.def(
      "parse", [](const std::string& text, const std::string& file) { return parse_graph(text, file).value(); },
      nb::arg("text"), nb::arg("file") = "");
}

}  // namespace tenon::python
