#include <fmt/format.h>
#include <nanobind/operators.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "autodiff/differentiate.h"
#include "autodiff/loss.h"
#include "autodiff/optimizer.h"
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

nb::object add_loss_to(const GraphValue& output, nb::handle target, const Loss& loss) {
  Builder b(*output.graph, python_location());
  const Value other = target.is_none() ? Value() : b.value(ref_of(*output.graph, target, "add_loss"));
  return to_python(output.graph, add_loss(b, loss, output.value(), other).ref());
}

nb::object add_optimizer_to(const std::shared_ptr<Graph>& graph, const Optimizer& optimizer,
                            const std::vector<std::tuple<std::string, nb::object, nb::object>>& parameters) {
  std::vector<TrainedParameter> trained;
  for (const auto& [name, parameter, gradient] : parameters) {
    const Value slope(*graph, ref_of(*graph, gradient, "add_optimizer"));
    trained.push_back({name, ref_of(*graph, parameter, "add_optimizer"), slope});
  }
  const OptimizerStep added = add_optimizer(*graph, optimizer, trained);
  nb::list rates;
  for (const Value& rate : added.learning_rates) rates.append(to_python(graph, rate.ref()));
  nb::dict values;
  values["step"] = to_python(graph, added.step.ref());
  values["learning_rates"] = rates;
  values["gradient_norm"] = to_python(graph, added.gradient_norm.ref());
  return values;
}

void bind_loss(nb::module_& module) {
  nb::class_<Loss>(
      module, "Loss",
      "What a model is trained to make small, from its text: Loss(\"cross_entropy(label_smoothing=0.1)\"). "
      "The names are output, mse, l1, cross_entropy, nll and bce_with_logits; the settings are PyTorch's.")
      .def(
          "__init__", [](Loss* self, const std::string& text) { new (self) Loss(parse_loss(text).value()); },
          nb::arg("text"))
      .def_prop_ro("takes_target", takes_target, "Whether it compares the output with a target.")
      .def(
          "target_type",
          [](const Loss& self, nb::handle output) { return to_string(target_type(self, type_from(output))); },
          nb::arg("output"), nb::sig("def target_type(self, output: str | tuple[str, Sequence[int | Expr]]) -> str"),
          "The type of the target that belongs to an output of a type like \"f32[N, 10]\".")
      .def("__str__", [](const Loss& self) { return to_string(self); })
      .def("__repr__", [](const Loss& self) { return fmt::format("<tenon.Loss {}>", to_string(self)); })
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"));
  module.def("add_loss", add_loss_to, nb::arg("output"), nb::arg("target").none(), nb::arg("loss"),
             nb::sig("def add_loss(output: Value, target: Value | None, loss: Loss) -> Value"),
             "The loss of a graph's value, as a value of the graph: a scalar unless its reduction is none.");
}

void bind_optimizer(nb::module_& module) {
  nb::class_<Optimizer>(module, "Optimizer",
                        "How gradients change parameters, from its text: Optimizer(\"adamw(lr=0.001, clip_norm=1, "
                        "schedule=warmup(100) + cosine(1000), group('*.bias', weight_decay=0))\"), with \" for '. The "
                        "names are sgd, adam, adamw, adagrad, rmsprop and lion; the settings are PyTorch's.")
      .def(
          "__init__",
          [](Optimizer* self, const std::string& text) { new (self) Optimizer(parse_optimizer(text).value()); },
          nb::arg("text"))
      .def("__str__", [](const Optimizer& self) { return to_string(self); })
      .def("__repr__", [](const Optimizer& self) { return fmt::format("<tenon.Optimizer {}>", to_string(self)); })
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"));
  module.def("add_optimizer", add_optimizer_to, nb::arg("graph"), nb::arg("optimizer"), nb::arg("parameters"),
             nb::sig("def add_optimizer(graph: Graph, optimizer: Optimizer, "
                     "parameters: Sequence[tuple[str, Value, Value]]) -> dict[str, Any]"),
             "Adds the states of an optimizer, as buffers \"optimizer.*\", and the updates of parameters and states. A "
             "parameter is a name, a buffer or input, and its gradient. Gives the values of the step, the learning "
             "rates by group, and the norm of all gradients where it is clipped.");
}

}  // namespace

void bind_autodiff(nb::module_& module) {
  module.def(
      "differentiate", differentiate_graph, nb::arg("graph"), nb::arg("wrt"),
      nb::sig("def differentiate(graph: Graph, wrt: Sequence[str | Value]) -> Graph"),
      "A graph of the gradients with respect to leaves (by name) or Values. It takes the inputs of `graph`, then one "
      "cotangent for each floating output, named grad_0, grad_1, ...");
  bind_loss(module);
  bind_optimizer(module);
}

}  // namespace tenon::python
