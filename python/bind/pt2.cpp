#include "capture/pt2/pt2.h"

#include <fmt/format.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "call_form.h"
#include "capture/whole_model.h"

namespace tenon::python {
namespace {

using ProgramPtr = std::shared_ptr<pt2::ExportedProgram>;
using GraphPtr = std::shared_ptr<const pt2::ExportedGraph>;

// What Python holds of a graph: it keeps the program alive.
struct Pt2Graph {
  GraphPtr graph;
};
struct Pt2Node {
  GraphPtr graph;
  const pt2::ExportedNode* node;
};

// ---- values ---------------------------------------------------------------------------------------------------------

template <class T>
nb::object plain(const T& value) {
  return nb::cast(value);
}
nb::object plain(const None&) { return nb::none(); }
nb::object plain(const pt2::TensorName& tensor) { return nb::cast(tensor.name); }
nb::object plain(const pt2::OptionalTensor& tensor) { return tensor ? nb::cast(tensor->name) : nb::none(); }
nb::object plain(const pt2::TorchDType& dtype) { return nb::cast(dtype.name()); }
nb::object plain(const pt2::Layout& layout) { return to_str(name_of(layout)); }
nb::object plain(const pt2::MemoryFormat& format) { return to_str(name_of(format)); }
nb::object plain(const pt2::TorchDevice& device) { return nb::make_tuple(device.type, device.index); }
nb::object plain(const pt2::GraphArgument& nested) { return nb::make_tuple(nested.name, Pt2Graph{nested.graph}); }
nb::object plain(const pt2::CustomObject& object) { return nb::make_tuple(object.name, object.class_name); }
nb::object plain(const pt2::Operator& op) { return nb::cast(op.target); }
nb::object plain(const pt2::SymValue& value) { return value.problem.empty() ? to_python(value.expr) : nb::none(); }
nb::tuple plain(const pt2::Argument& argument);
nb::object plain(const pt2::TreeSpec& spec);
template <class T>
nb::object plain(const pt2::Sym<T>& number) {
  return nb::cast(number.data);
}
nb::object plain(const std::vector<pt2::NamedValue>& entries) {
  nb::dict result;
  for (const pt2::NamedValue& entry : entries) result[entry.name.c_str()] = plain(entry.value);
  return result;
}
template <class T>
nb::list plain(const std::vector<T>& values) {
  nb::list result;
  for (const auto& value : values) result.append(plain(value));
  return result;
}

nb::tuple plain(const pt2::Argument& argument) {
  nb::object value = std::visit([](const auto& data) -> nb::object { return plain(data); }, argument.data);
  return nb::make_tuple(to_str(argument.tag()), value);
}

nb::dict plain(const pt2::TensorMeta& meta) {
  nb::dict result;
  result["dtype"] = meta.dtype.name();
  result["sizes"] = plain(meta.sizes);
  result["strides"] = plain(meta.strides);
  result["storage_offset"] = plain(meta.storage_offset);
  result["requires_grad"] = meta.requires_grad;
  result["device"] = plain(meta.device);
  result["layout"] = plain(meta.layout);
  return result;
}

nb::object plain(const pt2::SymFloatValue& number) {
  return number.value ? nb::cast(*number.value) : nb::cast(number.expression);
}

template <class T>
nb::dict dictionary(const pt2::Dictionary<T>& values) {
  nb::dict result;
  for (const auto& [name, value] : values) result[name.c_str()] = plain(value);
  return result;
}

// ("builtins.tuple", None, [children...]), ("builtins.dict", [keys...], [children...]), or None for a leaf.
nb::object plain(const pt2::TreeSpec& spec) {
  if (spec.is_leaf()) return nb::none();
  const nb::object keys = spec.keys.empty() ? nb::object(nb::none()) : nb::cast(spec.keys);
  return nb::make_tuple(spec.type, keys, plain(spec.children));
}

// ---- programs -------------------------------------------------------------------------------------------------------

nb::list inputs_of(const ProgramPtr& self) {
  nb::list result;
  for (const pt2::InputSpec& input : self->inputs) {
    result.append(nb::make_tuple(to_str(name_of(input.kind)), plain(input.argument), input.target, input.persistent));
  }
  return result;
}

nb::list outputs_of(const ProgramPtr& self) {
  nb::list result;
  for (const pt2::OutputSpec& output : self->outputs) {
    result.append(nb::make_tuple(to_str(name_of(output.kind)), plain(output.argument), output.target));
  }
  return result;
}

nb::tuple ends_of(const symbolic::Interval& range) {
  const auto end = [](int64_t value, int64_t unbounded) { return value == unbounded ? nb::none() : nb::cast(value); };
  return nb::make_tuple(end(range.low, kInt64Min), end(range.high, kInt64Max));
}

nb::dict ranges_of(const ProgramPtr& self) {
  nb::dict result;
  for (const auto& [symbol, range] : self->ranges) result[symbol.name().c_str()] = ends_of(range);
  for (const auto& [expr, range] : self->derived_ranges) result[to_string(expr).c_str()] = ends_of(range);
  return result;
}

nb::object signature_of(const ProgramPtr& self) {
  if (!self->signature) return nb::none();
  return nb::make_tuple(plain(self->signature->inputs), plain(self->signature->outputs),
                        self->signature->argument_names);
}

// Those that cannot be had say why.
nb::dict tensors_of(const pt2::Dictionary<pt2::Weight>& weights) {
  nb::dict result;
  for (const auto& [name, weight] : weights) {
    result[name.c_str()] = weight.problem.empty() ? nb::cast(weight.tensor) : nb::cast(weight.problem);
  }
  return result;
}

std::vector<std::string> frozen_of(const ProgramPtr& self) {
  std::vector<std::string> names;
  for (const auto& [name, weight] : self->weights) {
    if (weight.is_parameter && !weight.requires_grad) names.push_back(name);
  }
  return names;
}

nb::list nodes_of(const Pt2Graph& self) {
  nb::list result;
  for (const pt2::ExportedNode& node : self.graph->nodes) result.append(nb::cast(Pt2Node{self.graph, &node}));
  return result;
}

nb::list arguments_of(const Pt2Node& self) {
  constexpr std::string_view kKinds[] = {"unknown", "positional", "keyword"};
  nb::list result;
  for (const pt2::NamedArgument& input : self.node->inputs) {
    const std::string_view kind = kKinds[static_cast<size_t>(input.kind)];
    result.append(nb::make_tuple(input.name, to_str(kind), plain(input.value)));
  }
  return result;
}

// ---- imports --------------------------------------------------------------------------------------------------------

nb::list inputs_of(const Imported& self) {
  nb::list result;
  for (const ImportedInput& input : self.inputs) {
    result.append(nb::make_tuple(input.name, input.input, plain(input.argument)));
  }
  return result;
}

// (storage, dtype, sizes, strides, offset) of a tensor whose dtype Tenon lacks.
nb::object plain(const std::shared_ptr<const pt2::ForeignData>& data) {
  if (!data) return nb::none();
  return nb::make_tuple(python::to_python(data->storage, ArrayKind::kTorch), data->dtype.name(), data->sizes,
                        data->strides, data->offset);
}

// What each result is that is no output of the graph: ("kept", key), ("foreign", data), or None.
nb::list kept_outputs_of(const Imported& self) {
  nb::list result;
  for (const ImportedOutput& output : self.outputs) {
    if (!output.kept.empty()) {
      result.append(nb::make_tuple("kept", output.kept));
    } else {
      result.append(output.foreign ? nb::object(nb::make_tuple("foreign", plain(output.foreign))) : nb::none());
    }
  }
  return result;
}

// ("operand", number), ("kept", key), ("foreign", data), or ("constant", value).
nb::tuple plain(const ExternalArgument& value) {
  if (!value.kept.empty()) return nb::make_tuple("kept", value.kept);
  if (value.operand) return nb::make_tuple("operand", *value.operand);
  if (value.foreign) return nb::make_tuple("foreign", plain(value.foreign));
  if (const auto* flag = value.constant.get<bool>()) return nb::make_tuple("constant", *flag);
  if (const auto* real = value.constant.get<double>()) return nb::make_tuple("constant", *real);
  if (const auto* number = value.constant.get<Expr>()) return nb::make_tuple("constant", python::to_python(*number));
  return nb::make_tuple("unknown", nb::none());
}

// (node, {name: where the fallback finds it}, [key under which the fallback keeps each result, or ""]) of each.
nb::list external_of(const Imported& self) {
  nb::list result;
  for (const ExternalCall& call : self.external) {
    nb::dict values;
    for (const auto& [name, value] : call.values) values[to_str(name)] = plain(value);
    const auto graph = std::make_shared<pt2::ExportedGraph>();
    graph->nodes.push_back(call.node);
    result.append(nb::make_tuple(Pt2Node{graph, &graph->nodes[0]}, values, nb::cast(call.kept)));
  }
  return result;
}

nb::dict sizes_of(const Imported& self) {
  nb::dict result;
  for (const ImportedInput& input : self.inputs) {
    if (input.size) result[to_str(input.name)] = python::to_python(*input.size);
  }
  return result;
}

nb::list whole_inputs_of(const Imported& self) {
  nb::list result;
  for (const ImportedInput& input : self.inputs) {
    if (input.is_whole) result.append(to_str(input.name));
  }
  return result;
}

nb::list outputs_of(const Imported& self) {
  nb::list result;
  for (const ImportedOutput& output : self.outputs) {
    const nb::object weight = output.weight.defined() ? nb::cast(output.weight) : nb::none();
    result.append(nb::make_tuple(output.output, output.input, weight, plain(output.argument)));
  }
  return result;
}

nb::list assertions_of(const Imported& self) {
  nb::list result;
  for (const Assertion& assertion : self.assertions) {
    const nb::object guard = assertion.guard ? to_python(*assertion.guard) : nb::none();
    const nb::object place = assertion.location.known() ? nb::cast(assertion.location) : nb::none();
    result.append(nb::make_tuple(assertion.message, assertion.output, guard, place));
  }
  return result;
}

nb::list unsupported_of(const Imported& self) {
  nb::list result;
  for (const UnsupportedCall& call : self.unsupported) {
    result.append(nb::make_tuple(call.target, call.reason, call.location));
  }
  return result;
}

void bind_imported(nb::module_& module) {
  nb::class_<Imported>(module, "Imported", "A model as a graph, and how it is called.")
      .def_prop_ro("graph", [](const Imported& self) { return std::make_shared<Graph>(self.graph); })
      .def_prop_ro("inputs", nb::overload_cast<const Imported&>(&inputs_of),
                   "Each argument of the model: its name, which input of the graph it is or None, what it is.")
      .def_prop_ro(
          "outputs", nb::overload_cast<const Imported&>(&outputs_of),
          "Each result of the model: which output of the graph, which argument of the model or which weight it "
          "is, each perhaps None; and what it is.")
      .def_prop_ro("assertions", assertions_of,
                   "What the model promises: a message, the output of the graph or the guard that must not be zero, "
                   "and the line.")
      .def_prop_ro("unsupported", unsupported_of, "The external calls: (target, reason, location).")
      .def_prop_ro("external", external_of,
                   "What they call: a node, where the fallback finds each argument, and under which key it keeps "
                   "each result that Tenon cannot hold.")
      .def_prop_ro("kept_outputs", kept_outputs_of,
                   "Of each result that Tenon cannot hold ('kept', key) or ('foreign', data); None of the others.")
      .def_prop_ro("sizes", sizes_of, "What each argument that is an integer equals.")
      .def_prop_ro("whole_inputs", whole_inputs_of,
                   "The arguments that must cover their memory, in order, because the model reads them by as_strided.")
      .def_prop_ro(
          "nesting", [](const Imported& self) { return to_python(nesting_of(self)); },
          "How arguments and results nest, as an artifact's `call_form`; leaf i is argument or result i.")
      .def(
          "check_supported",
          [](const Imported& self, const std::string& why) { check_supported(self.unsupported, why); }, nb::arg("why"),
          "Raises a tenon.Error that lists every external call; `why` PyTorch runs none.")
      .def_ro("key_input", &Imported::key_input, "The input that random numbers come from, or an empty text.");
  module.def(
      "import_pt2",
      [](const std::string& path, const std::string& model, std::optional<bool> training) {
        return import_pt2(path, model, mode_of(training)).value();
      },
      nb::arg("path"), nb::arg("model") = "", nb::arg("training") = nb::none(),
      "Makes a graph of what torch.export.save wrote. `training` says what dropout and batch norm do, however they "
      "were "
      "recorded.");
  module.def(
      "import_program",
      [](const ProgramPtr& program, std::optional<bool> training, const std::string& path) {
        Result<Imported> imported = import_program(*program, mode_of(training));
        if (imported.ok() || imported.diagnostic().where.known()) return std::move(imported).value();
        fail_at({path}, "{}", imported.diagnostic().message);
      },
      nb::arg("program"), nb::arg("training") = nb::none(), nb::arg("path") = "",
      "Likewise, of what read_pt2 has read; errors name the path.");
}

void bind_exported_program(nb::module_& module) {
  nb::class_<pt2::ExportedProgram>(module, "Pt2Program", "An exported program, as it is in its .pt2 file.")
      .def_ro("name", &pt2::ExportedProgram::name)
      .def_prop_ro("schema_version", [](const ProgramPtr& p) { return std::pair(p->schema.major, p->schema.minor); })
      .def_ro("torch_version", &pt2::ExportedProgram::torch_version)
      .def_prop_ro("graph", [](const ProgramPtr& p) { return Pt2Graph{GraphPtr(p, &p->graph)}; })
      .def_prop_ro("inputs", nb::overload_cast<const ProgramPtr&>(&inputs_of),
                   "What each input of the graph is: (kind, argument, target, persistent).")
      .def_prop_ro("outputs", nb::overload_cast<const ProgramPtr&>(&outputs_of),
                   "What each output of the graph is: (kind, argument, target).")
      .def_prop_ro("ranges", ranges_of,
                   "The least and the largest value of each symbol, and of sizes made of them; None is unbounded.")
      .def_ro("guards", &pt2::ExportedProgram::guards, "Python expressions that a call must satisfy.")
      .def_prop_ro("signature", signature_of, "How inputs and outputs nest, and the names of forward's arguments.")
      .def_prop_ro("weights", [](const ProgramPtr& p) { return tensors_of(p->weights); })
      .def_prop_ro("constants", [](const ProgramPtr& p) { return tensors_of(p->constants); })
      .def_prop_ro("frozen_parameters", frozen_of, "The parameters that need no gradient.")
      .def("__str__", [](const pt2::ExportedProgram& p) { return pt2::to_string(p); })
      .def("__repr__", [](const pt2::ExportedProgram& p) {
        return fmt::format("<tenon.Pt2Program {} of {} nodes>", p.name, p.graph.nodes.size());
      });
}

void bind_parts(nb::module_& module) {
  nb::class_<Pt2Graph>(module, "Pt2Graph", "The graph of an exported program, or of a higher-order op in it.")
      .def_prop_ro("inputs", [](const Pt2Graph& g) { return plain(g.graph->inputs); })
      .def_prop_ro("outputs", [](const Pt2Graph& g) { return plain(g.graph->outputs); })
      .def_prop_ro("nodes", nodes_of)
      .def_prop_ro("tensors", [](const Pt2Graph& g) { return dictionary(g.graph->tensors); })
      .def_prop_ro("sym_ints", [](const Pt2Graph& g) { return dictionary(g.graph->sym_ints); })
      .def_prop_ro("sym_bools", [](const Pt2Graph& g) { return dictionary(g.graph->sym_bools); })
      .def_prop_ro("sym_floats", [](const Pt2Graph& g) { return dictionary(g.graph->sym_floats); })
      .def("__str__", [](const Pt2Graph& g) { return pt2::to_string(*g.graph); });
  nb::class_<Pt2Node>(module, "Pt2Node", "A call in an exported program.")
      .def_prop_ro("name", [](const Pt2Node& n) { return n.node->name; })
      .def_prop_ro("target", [](const Pt2Node& n) { return n.node->target; })
      .def_prop_ro("inputs", arguments_of, "Each as (name, \"positional\" or \"keyword\", argument).")
      .def_prop_ro("outputs", [](const Pt2Node& n) { return plain(n.node->outputs); })
      .def_prop_ro("location", [](const Pt2Node& n) { return n.node->location; })
      .def_prop_ro("module_path", [](const Pt2Node& n) { return n.node->module_path; })
      .def_prop_ro("module_type", [](const Pt2Node& n) { return n.node->module_type; })
      .def("__repr__", [](const Pt2Node& n) { return pt2::to_string(*n.node); });
}

}  // namespace

void bind_pt2(nb::module_& module) {
  bind_exported_program(module);
  bind_parts(module);
  bind_imported(module);
  module.def(
      "read_pt2",
      [](const std::string& path, const std::string& model) {
        return std::make_shared<pt2::ExportedProgram>(read_pt2(path, model).value());
      },
      nb::arg("path"), nb::arg("model") = "",
      "Reads what torch.export.save wrote, as data. Arguments are pairs of a kind, as PyTorch's schema names it, and "
      "a\n"
      "value: (\"as_tensor\", \"x\"). `model` names one of several programs in the archive.");
}

}  // namespace tenon::python
