#include "graph/op.h"

#include <fmt/format.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "graph/sample.h"

namespace tenon::python {
namespace {

std::string_view name_of_arity(Arity arity) {
  switch (arity) {
    case Arity::kOne:
      return "one";
    case Arity::kOptional:
      return "optional";
    case Arity::kVariadic:
      return "variadic";
    case Arity::kVariadicOptional:
      return "variadic optional";
  }
  return "?";
}

std::string_view kind_of(const Semantics& semantics) {
  if (std::holds_alternative<Elementwise>(semantics)) return "elementwise";
  return std::holds_alternative<Expansion>(semantics) ? "composite" : "reference";
}

template <class Items>
nb::tuple pointers(const Items& items) {
  nb::list list;
  for (const auto& item : items) list.append(nb::cast(&item, nb::rv_policy::reference));
  return nb::tuple(list);
}

// The graph of an operand: of a Value, or of the first Value in a list.
std::shared_ptr<Graph> graph_of(nb::handle object) {
  if (nb::isinstance<GraphValue>(object)) return nb::cast<GraphValue&>(object).graph;
  if (!nb::isinstance<nb::list>(object) && !nb::isinstance<nb::tuple>(object)) return nullptr;
  for (nb::handle item : nb::borrow(object)) {
    if (nb::isinstance<GraphValue>(item)) return nb::cast<GraphValue&>(item).graph;
  }
  return nullptr;
}

nb::object call(const OpDef& op, const nb::args& args, const nb::kwargs& named) {
  if (args.size() > 0 && nb::isinstance<Graph>(args[0])) {
    const nb::object rest = nb::steal(PyTuple_GetSlice(args.ptr(), 1, static_cast<Py_ssize_t>(args.size())));
    return add_op(nb::cast<std::shared_ptr<Graph>>(args[0]), op, nb::borrow<nb::args>(rest), named);
  }
  std::shared_ptr<Graph> graph;
  for (nb::handle operand : args) graph = graph ? graph : graph_of(operand);
  for (const auto& [name, value] : named) graph = graph ? graph : graph_of(value);
  if (!graph) fail("{}: no operand is a tenon.Value; give the graph first", op.name.get());
  return add_op(graph, op, args, named);
}

}  // namespace

void bind_op(nb::module_& module) {
  nb::class_<OperandDef>(module, "OperandDef", "An operand of an op.")
      .def_prop_ro("name", [](const OperandDef& self) { return to_str(self.name); })
      .def_prop_ro("dtypes",
                   [](const OperandDef& self) {
                     nb::list names;
                     for (DType dtype : kAllDTypes) {
                       if (self.dtypes.contains(dtype)) names.append(to_str(name_of(dtype)));
                     }
                     return nb::tuple(names);
                   })
      .def_prop_ro("arity", [](const OperandDef& self) { return to_str(name_of_arity(self.arity)); });

  nb::class_<AttrDef>(module, "AttrDef", "An attribute of an op: a compile-time argument.")
      .def_prop_ro("name", [](const AttrDef& self) { return to_str(self.name); })
      .def_prop_ro("kind", [](const AttrDef& self) { return to_str(name_of(self.kind)); })
      .def_prop_ro("doc", [](const AttrDef& self) { return to_str(self.doc); })
      .def_prop_ro("required", [](const AttrDef& self) { return self.fallback.required; })
      .def_prop_ro("default", [](const AttrDef& self) { return to_python(self.fallback.value); });

  nb::class_<OpDef>(module, "OpDef", "All that Tenon knows of an op.")
      .def_prop_ro("name", [](const OpDef& self) { return to_str(self.name.get()); })
      .def_prop_ro("family", [](const OpDef& self) { return to_str(self.family.get()); })
      .def_prop_ro("doc", [](const OpDef& self) { return to_str(self.doc.get()); })
      .def_prop_ro("operands", [](const OpDef& self) { return pointers(self.operands.get()); })
      .def_prop_ro("attrs", [](const OpDef& self) { return pointers(self.attrs); })
      .def_prop_ro("results",
                   [](const OpDef& self) {
                     nb::list names;
                     for (std::string_view name : self.results) names.append(to_str(name));
                     return nb::tuple(names);
                   })
      .def_prop_ro("semantics", [](const OpDef& self) { return to_str(kind_of(self.semantics.get())); })
      .def_prop_ro("composite", [](const OpDef& self) { return self.is_composite(); })
      .def_prop_ro("differentiable",
                   [](const OpDef& self) { return !std::holds_alternative<NotDifferentiable>(self.gradient.get()); })
      .def_prop_ro("peer",
                   [](const OpDef& self) -> nb::object {
                     if (self.peer.get().torch.empty()) return nb::none();
                     return to_str(self.peer.get().torch);
                   })
      .def_prop_ro("why_no_peer", [](const OpDef& self) { return to_str(self.peer.get().why_none); })
      .def_prop_ro("domain", [](const OpDef& self) { return nb::make_tuple(self.domain.low, self.domain.high); })
      .def_prop_ro("special_values", [](const OpDef& self) { return self.special_values; })
      .def(
          "samples",
          [](const OpDef& self) {
            nb::list samples;
            for (Sample& sample : samples_of(self)) samples.append(nb::cast(std::move(sample)));
            return samples;
          },
          nb::sig("def samples(self) -> list[Sample]"), "Its test cases.")
      .def(
          "__call__", call, nb::arg("operands"), nb::arg("attrs"),
          nb::sig("def __call__(self, *operands: Graph | ValueLike | Sequence[ValueLike] | None, **attrs: Any) -> Any"),
          "Adds a node to the graph of the operands. Without any operand, give the graph first.")
      .def("__repr__", [](const OpDef& self) { return fmt::format("<tenon op {}>", self.name.get()); });

  module.def(
      "op_table",
      [] {
        nb::list ops;
        for (const OpDef* op : op_table()) ops.append(nb::cast(op, nb::rv_policy::reference));
        return ops;
      },
      nb::sig("def op_table() -> list[OpDef]"), "All ops, grouped by family.");
  module.def(
      "op", [](const std::string& name) { return &op_named(name); }, nb::arg("name"), nb::rv_policy::reference,
      "The record of an op.");
}

}  // namespace tenon::python
