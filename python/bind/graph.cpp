#include "graph/graph.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "gil.h"
#include "graph/evaluate.h"
#include "support/cursor.h"
#include "views.h"

namespace tenon::python {
namespace {

using GraphPtr = std::shared_ptr<Graph>;
using symbolic::Interval;

bool is_type(nb::handle object) { return nb::isinstance<nb::str>(object) || nb::isinstance<nb::tuple>(object); }

// ---- building -------------------------------------------------------------------------------------------------------

nb::object add_input(const GraphPtr& self, const std::string& name, nb::handle type) {
  return to_python(self, self->add_input(name, type_from(type)));
}

nb::object add_parameter(const GraphPtr& self, const std::string& name, nb::handle data) {
  if (is_type(data)) return to_python(self, self->add_parameter(name, type_from(data)));
  Tensor tensor = tensor_from(data, fmt::format("parameter '{}'", name));
  return to_python(self, self->add_parameter(name, type_of(tensor), tensor));
}

nb::object add_buffer(const GraphPtr& self, const std::string& name, nb::handle data) {
  if (is_type(data)) return to_python(self, self->add_buffer(name, type_from(data)));
  Tensor tensor = tensor_from(data, fmt::format("buffer '{}'", name));
  return to_python(self, self->add_buffer(name, type_of(tensor), tensor));
}

nb::object add_constant(const GraphPtr& self, nb::handle data, const nb::object& dtype) {
  if (is_number(data)) {
    const DType wanted = dtype.is_none() ? dtype_of_number(data) : dtype_from(dtype);
    return to_python(self, self->add_constant(tensor_from_number(data, wanted)));
  }
  const Tensor tensor = tensor_from(data, "a constant");
  Tensor copy = Tensor::zeros(dtype.is_none() ? tensor.dtype() : dtype_from(dtype), tensor.shape());
  copy.copy_from(tensor);
  return to_python(self, self->add_constant(std::move(copy)));
}

nb::object add_op_by_name(const GraphPtr& self, const std::string& name, const nb::args& args,
                          const nb::kwargs& named) {
  return add_op(self, op_named(name), args, named);
}

void add_outputs(Graph& self, const nb::args& values) {
  std::vector<ValueRef> outputs = self.outputs();
  for (nb::handle value : values) outputs.push_back(ref_of(self, value, "an output"));
  self.set_outputs(std::move(outputs));
}

Expr add_symbol(Graph& self, const std::string& name, int64_t low, std::optional<int64_t> high) {
  const Symbol symbol(name);
  self.declare_symbol(symbol, {low, high.value_or(Interval::all().high)});
  return symbol;
}

// ---- reading --------------------------------------------------------------------------------------------------------

nb::list nodes_of(const GraphPtr& self) {
  nb::list nodes;
  for (uint32_t i = 0; i < self->nodes().size(); ++i) nodes.append(nb::cast(GraphNode{self, {i}}));
  return nodes;
}

nb::list leaves_of(const GraphPtr& self) {
  nb::list leaves;
  for (size_t i = 0; i < self->leaves().size(); ++i) leaves.append(nb::cast(GraphLeaf{self, i}));
  return leaves;
}

nb::object leaf_named(const GraphPtr& self, const std::string& name) {
  const Leaf* leaf = self->leaf_named(name);
  if (leaf == nullptr) return nb::none();
  return nb::cast(GraphLeaf{self, static_cast<size_t>(leaf - self->leaves().data())});
}

nb::list updates_of(const GraphPtr& self) {
  nb::list updates;
  for (const Update& update : self->updates()) {
    updates.append(nb::make_tuple(to_python(self, update.target), to_python(self, update.value)));
  }
  return updates;
}

nb::dict symbols_of_graph(const Graph& self) {
  const auto bound = [](int64_t value, int64_t none) {
    return value == none ? nb::object(nb::none()) : nb::cast(value);
  };
  nb::dict symbols;
  for (const auto& [symbol, range] : self.symbols()) {
    symbols[to_str(symbol.name())] =
        nb::make_tuple(bound(range.low, Interval::all().low), bound(range.high, Interval::all().high));
  }
  return symbols;
}

// ---- running --------------------------------------------------------------------------------------------------------

// The inputs in the graph's order: those by position, then those by name.
std::vector<nb::object> order_inputs(const Graph& graph, const nb::args& inputs, const nb::kwargs& named) {
  std::vector<nb::object> ordered;
  for (ValueRef input : graph.inputs()) {
    const std::string& name = graph.leaf(input)->name;
    const bool by_name = named.contains(name.c_str());
    if (ordered.size() < inputs.size()) {
      if (by_name) fail("input '{}' of graph {} is given twice", name, graph.name());
      ordered.push_back(nb::borrow(inputs[ordered.size()]));
      continue;
    }
    if (!by_name) fail("input '{}' of graph {} is missing", name, graph.name());
    ordered.push_back(nb::borrow(named[name.c_str()]));
  }
  if (inputs.size() > ordered.size()) {
    fail("graph {} takes {} inputs, got {}", graph.name(), ordered.size(), inputs.size());
  }
  for (const auto& [name, value] : named) {
    const Leaf* leaf = graph.leaf_named(nb::cast<std::string>(name));
    if (leaf == nullptr || leaf->kind != LeafKind::kInput) {
      fail("graph {} has no input '{}'", graph.name(), nb::cast<std::string>(name));
    }
  }
  return ordered;
}

nb::tuple evaluate_graph(const Graph& graph, const nb::args& args, const nb::kwargs& named) {
  const std::vector<nb::object> inputs = order_inputs(graph, args, named);
  const ArrayKind kind = inputs.empty() ? ArrayKind::kNumpy : kind_of(inputs[0]);
  std::vector<Tensor> tensors;
  for (ValueRef input : graph.inputs()) {
    const nb::object& given = inputs[tensors.size()];
    const std::string what = fmt::format("input '{}'", graph.leaf(input)->name);
    tensors.push_back(is_number(given) ? tensor_from_number(given, graph.type(input).dtype) : tensor_from(given, what));
  }
  std::vector<Tensor> outputs;
  {
    const Graph snapshot = graph;  // another thread may go on with `graph` while the GIL is released
    const WithoutGil released;
    outputs = evaluate(snapshot, tensors).value();
  }
  nb::list results;
  for (Tensor& output : outputs) results.append(to_python(std::move(output), kind));
  return nb::tuple(results);
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<Graph>(
      module, "Graph",
      "The tensor program of a model, in SSA form. It only grows; passes make a new one. str(graph) is its "
      "text, which tenon.parse reads back.")
      .def(
          "__init__",
          [](Graph* self, const std::string& name) {
            if (!is_identifier(name)) fail("'{}' cannot name a graph: use letters, digits, '_' and '.'", name);
            new (self) Graph(name);
          },
          nb::arg("name") = "main")
      .def("input", add_input, nb::arg("name"), nb::arg("type").none(),
           nb::sig("def input(self, name: str, type: TypeLike) -> Value"), "Adds an input: input('x', 'f32[N, 784]').")
      .def("parameter", add_parameter, nb::arg("name"), nb::arg("data").none(),
           nb::sig("def parameter(self, name: str, data: ArrayLike | TypeLike) -> Value"),
           "Adds a parameter that shares the array's memory; with a type in place of an array, bind it later.")
      .def("buffer", add_buffer, nb::arg("name"), nb::arg("data").none(),
           nb::sig("def buffer(self, name: str, data: ArrayLike | TypeLike) -> Value"),
           "Adds a buffer that shares the array's memory: an update writes into it. With a type in place of an array, "
           "bind it later.")
      .def("constant", add_constant, nb::arg("data").none(), nb::arg("dtype") = nb::none(),
           nb::sig("def constant(self, data: float | ArrayLike, dtype: DTypeLike | None = None) -> Value"),
           "Adds a constant: a number, or a copy of an array.")
      .def("op", add_op_by_name, nb::arg("name"), nb::arg("operands"), nb::arg("attrs"),
           nb::sig("def op(self, name: str, *operands: ValueLike | Sequence[ValueLike] | None, **attrs: Any) -> Any"),
           "Adds a node: op('sum', x, dims=[0]). tenon.ops has a function for each op.")
      .def("output", add_outputs, nb::arg("values"), nb::sig("def output(self, *values: Value) -> None"),
           "Adds outputs.")
      .def(
          "update",
          [](Graph& self, nb::handle target, nb::handle value) {
            self.add_update(ref_of(self, target, "update"), ref_of(self, value, "update"));
          },
          nb::arg("target").none(), nb::arg("value").none(),
          nb::sig("def update(self, target: Value, value: Value) -> None"),
          "Says what a buffer or an input holds after the run.")
      .def("symbol", add_symbol, nb::arg("name"), nb::arg("low") = 0, nb::arg("high") = nb::none(),
           "Declares the range of a size, and gives it as an Expr.")
      .def(
          "bind",
          [](Graph& self, const std::string& name, nb::handle data) {
            self.bind(name, tensor_from(data, fmt::format("the data of '{}'", name)));
          },
          nb::arg("name"), nb::arg("data").none(), nb::sig("def bind(self, name: str, data: ArrayLike) -> None"),
          "Gives a parameter or buffer its memory.")
      .def_prop_ro("name", [](const Graph& self) { return self.name(); })
      .def_prop_ro("inputs", [](const GraphPtr& self) { return to_python(self, self->inputs()); })
      .def_prop_ro("outputs", [](const GraphPtr& self) { return to_python(self, self->outputs()); })
      .def_prop_ro("updates", updates_of, "Pairs of a buffer or input and its new value.")
      .def_prop_ro("leaves", leaves_of)
      .def_prop_ro("nodes", nodes_of, "In topological order.")
      .def_prop_ro("symbols", symbols_of_graph, "The declared ones: (low, high) by name; None is unbounded.")
      .def("leaf", leaf_named, nb::arg("name"), nb::sig("def leaf(self, name: str) -> Leaf | None"),
           "The input, parameter or buffer of that name, or None.")
      .def(
          "verify", [](const Graph& self) { verify(self).value(); }, "Checks every invariant; raises tenon.Error.")
      .def("evaluate", evaluate_graph, nb::arg("inputs"), nb::arg("named"),
           nb::sig("def evaluate(self, *inputs: ArrayLike | float, **named: ArrayLike | float) -> tuple[Any, ...]"),
           "Runs the graph with the reference backend. Inputs are NumPy arrays or torch tensors, by position or by "
           "name, and are read in place. Gives a tuple of the same kind of arrays as the first input; beside NumPy, a "
           "bf16 result is a tenon.Tensor. Updates are written into the memory of the buffers and inputs they name.")
      .def(
          "copy", [](const Graph& self) { return Graph(self); }, "An independent graph that shares the weights.")
      .def("__copy__", [](const Graph& self) { return Graph(self); })
      .def(
          "__eq__", [](const Graph& self, const Graph& other) { return self == other; }, nb::is_operator(),
          "The same structure; names of values, locations and bound data do not count.")
      .def("__str__", [](const Graph& self) { return to_string(self); })
      .def("__repr__", [](const Graph& self) {
        return fmt::format("<tenon.Graph {}: {} inputs, {} nodes, {} outputs>", self.name(), self.inputs().size(),
                           self.nodes().size(), self.outputs().size());
      });
  module.def(
      "parse", [](const std::string& text, const std::string& file) { return parse_graph(text, file).value(); },
      nb::arg("text"), nb::arg("file") = "", "The graph of a text; `file` names the text in errors.");
}

}  // namespace tenon::python
