#include "capture/importer.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>

#include <set>

#include "bind.h"
#include "capture/symbol_names.h"
#include "capture/traced_memory.h"
#include "tenon/aten_compiler.h"

namespace tenon::python {
namespace {

// A tensor of the model that is being imported.
struct ImportedTensor {
  AtenTensor tensor;
};

// ---- arguments ------------------------------------------------------------------------------------------------------

std::string name_of_type(nb::handle object) { return nb::cast<std::string>(object.type().attr("__name__")); }

// torch's device, layout, memory_format and Generator say nothing about a value.
bool is_setting(nb::handle object) {
  static const std::set<std::string> kSettings = {"device", "layout", "memory_format", "Generator"};
  return kSettings.contains(name_of_type(object));
}

// A torch dtype that Tenon lacks stays a setting, for the entry to decline.
AtenArg dtype_argument(nb::handle object) {
  const auto dtype = attempt([&] { return dtype_from(object); });
  return dtype.ok() ? AtenArg(*dtype) : AtenArg(AtenSetting{text_of(object)});
}

AtenArg argument_from(nb::handle object) {
  if (object.is_none()) return None{};
  if (nb::isinstance<ImportedTensor>(object)) return nb::cast<ImportedTensor&>(object).tensor;
  if (nb::isinstance<nb::bool_>(object)) return nb::cast<bool>(object);
  if (nb::isinstance<nb::int_>(object)) return nb::cast<int64_t>(object);
  if (nb::isinstance<nb::float_>(object)) return nb::cast<double>(object);
  if (nb::isinstance<nb::str>(object)) return nb::cast<std::string>(object);
  if (nb::isinstance<Expr>(object)) return nb::cast<Expr>(object);
  if (name_of_type(object) == "dtype") return dtype_argument(object);
  if (is_setting(object)) return AtenSetting{text_of(object)};
  if (!is_list(object)) fail("a call cannot take {}", class_of(object));
  AtenArg::List items;
  for (nb::handle item : object) items.push_back(argument_from(item));
  return items;
}

nb::object from_argument(const AtenArg& argument) {
  if (const auto* tensor = argument.get<AtenTensor>()) {
    return tensor->value ? nb::cast(ImportedTensor{*tensor}) : nb::none();
  }
  if (const auto* list = argument.get<AtenArg::List>()) {
    nb::list items;
    for (const AtenArg& item : *list) items.append(from_argument(item));
    return nb::tuple(items);
  }
  if (const auto* expr = argument.get<Expr>()) return to_python(*expr);
  if (const auto* flag = argument.get<bool>()) return nb::cast(*flag);
  if (const auto* number = argument.get<double>()) return nb::cast(*number);
  if (const auto* text = argument.get<std::string>()) return to_str(*text);
  if (const auto* dtype = argument.get<DType>()) return to_str(name_of(*dtype));
  if (const auto* setting = argument.get<AtenSetting>()) return to_str(setting->text);
  return nb::none();
}

// ---- calls ----------------------------------------------------------------------------------------------------------

Location location_from(nb::handle place) {
  if (place.is_none()) return {};
  return {nb::cast<std::string>(place[0]), nb::cast<int>(place[1]), 0};
}

AtenRequest request_from(const std::string& target, nb::handle args, const nb::dict& kwargs, nb::handle location) {
  AtenRequest request{.target = target, .location = location_from(location)};
  for (nb::handle argument : args) request.positional.push_back(argument_from(argument));
  for (const auto& [name, argument] : kwargs) {
    request.named.emplace_back(nb::cast<std::string>(name), argument_from(argument));
  }
  return request;
}

nb::object call(Importer& self, const std::string& target, nb::handle args, const nb::dict& kwargs, nb::handle location,
                nb::handle results, bool returns_list, const std::string& external_because) {
  AtenRequest request = request_from(target, args, kwargs, location);
  request.returns_list = returns_list;
  request.external_because = external_because;
  if (!results.is_none()) {
    request.results.emplace();
    for (nb::handle type : results) {
      request.results->push_back(type.is_none() ? std::nullopt : std::optional(type_from(type)));
    }
  }
  return from_argument(self.call(request));
}

TracedTensor traced_from(nb::handle tensor) {
  TracedTensor traced{.tensor = argument_from(tensor[0]), .target = nb::cast<std::string>(tensor[1])};
  for (nb::handle size : nb::cast<nb::list>(tensor[2])) traced.sizes.push_back(expr_from(size));
  for (nb::handle stride : nb::cast<nb::list>(tensor[3])) traced.strides.push_back(expr_from(stride));
  traced.offset = expr_from(tensor[4]);
  return traced;
}

nb::object memory_call(Importer& self, const std::string& target, nb::handle args, const nb::dict& kwargs,
                       nb::iterator operands, nb::handle location) {
  const auto next = [&]() -> std::optional<TracedTensor> {
    if (operands == nb::iterator::sentinel()) return std::nullopt;
    TracedTensor tensor = traced_from(*operands);
    ++operands;
    return tensor;
  };
  return from_argument(call_on_memory(self, request_from(target, args, kwargs, location), next));
}

nb::list unsupported(const Importer& self) {
  nb::list calls;
  for (const UnsupportedCall& call : self.unsupported()) {
    calls.append(nb::make_tuple(call.target, call.reason, nb::cast(call.location)));
  }
  return calls;
}

Graph finish(Importer& self, nb::handle outputs) {
  std::vector<AtenArg> arguments;
  for (nb::handle output : outputs) arguments.push_back(argument_from(output));
  return self.finish(arguments);
}

Tensor data_from(const nb::object& data, const std::string& name) {
  return data.is_none() ? Tensor() : tensor_from(data, name);
}

// ---- entries written in Python --------------------------------------------------------------------------------------

// What the user's function gets for an argument: tensors as Values of the graph.
nb::object for_entry(const std::shared_ptr<Graph>& graph, const AtenArg& argument) {
  if (const auto* tensor = argument.get<AtenTensor>()) return to_python(graph, tensor->value.ref());
  const auto* list = argument.get<AtenArg::List>();
  if (list == nullptr) return from_argument(argument);
  nb::list items;
  for (const AtenArg& item : *list) items.append(for_entry(graph, item));
  return items;
}

AtenArg from_entry(const std::shared_ptr<Graph>& graph, nb::handle result) {
  if (nb::isinstance<GraphValue>(result)) return Value(*graph, ref_of(*graph, result, "a result"));
  if (!is_list(result)) return argument_from(result);
  AtenArg::List items;
  for (nb::handle item : result) items.push_back(from_entry(graph, item));
  return items;
}

// A function that is called with the interpreter's lock held, wherever the import runs, and freed with it.
std::shared_ptr<nb::object> shared_callable(nb::object function) {
  return {new nb::object(std::move(function)), [](nb::object* held) {
            if (!nb::is_alive()) return;  // the interpreter ended first
            const nb::gil_scoped_acquire lock;
            delete held;
          }};
}

void register_aten(const std::string& signature, nb::object function) {
  const auto held = shared_callable(std::move(function));
  aten_table().add(signature, [held](AtenCall& c) {
    const nb::gil_scoped_acquire lock;
    nb::list arguments;
    for (const AtenArg& argument : c.arguments()) arguments.append(for_entry(c.shared_graph(), argument));
    return from_entry(c.shared_graph(), (*held)(*nb::tuple(arguments)));
  });
}

nb::dict aten_entries() {
  nb::dict entries;
  for (const auto& [name, entry] : aten_table().entries()) {
    nb::list parameters;
    for (const AtenParameter& parameter : entry.signature.parameters) {
      const nb::object fallback = parameter.fallback ? from_argument(*parameter.fallback) : nb::none();
      parameters.append(
          nb::make_tuple(parameter.name, parameter.fallback.has_value(), fallback, parameter.keyword_only));
    }
    entries[to_str(name)] =
        nb::make_tuple(entry.kind == AtenKind::kNative ? "native" : "composite", entry.is_view, parameters);
  }
  return entries;
}

bool has_aten(const std::string& name) {
  bool writes_self = false;
  return aten_table().find(name, writes_self) != nullptr;
}

// ---- names of sizes -------------------------------------------------------------------------------------------------

std::map<std::string, std::string> readable_names_of(const nb::list& inputs,
                                                     const std::map<std::string, std::string>& named,
                                                     const std::set<std::string>& taken) {
  std::vector<SizedInput> sized;
  for (nb::handle input : inputs) {
    SizedInput& added = sized.emplace_back();
    added.name = nb::cast<std::string>(input[0]);
    for (nb::handle size : nb::cast<nb::list>(input[1])) added.sizes.push_back(expr_from(size));
    added.is_number = nb::cast<bool>(input[2]);
  }
  std::map<Symbol, std::string> given;
  for (const auto& [symbol, name] : named) given.emplace(Symbol(symbol), name);
  std::map<std::string, std::string> names;
  for (const auto& [symbol, name] : readable_names(sized, given, std::set<Symbol>(taken.begin(), taken.end())))
    names.emplace(symbol.name(), name.name());
  return names;
}

}  // namespace

void bind_importer(nb::module_& module) {
  nb::class_<ImportedTensor>(module, "ImportedTensor", "A tensor of a model that is being imported.")
      .def_prop_ro("type", [](const ImportedTensor& self) { return to_string(self.tensor.value.type()); })
      .def_prop_ro("dtype", [](const ImportedTensor& self) { return to_str(name_of(self.tensor.value.dtype())); })
      .def_prop_ro("shape", [](const ImportedTensor& self) { return to_python_shape(self.tensor.value.shape()); })
      .def_prop_ro(
          "variable", [](const ImportedTensor& self) { return self.tensor.variable; },
          "Which tensor of the model it is: what a call writes and gives back is the same one.")
      .def_prop_ro(
          "is_number", [](const ImportedTensor& self) { return self.tensor.is_number; },
          "Whether it is a number that is only known at run time.")
      .def("__repr__",
           [](const ImportedTensor& self) { return "<ImportedTensor " + to_string(self.tensor.value.type()) + ">"; });
  nb::class_<Importer>(module, "Importer", "Builds a Graph out of ATen calls: what every front door drives.")
      .def(
          "__init__",
          [](Importer* self, std::string name, std::optional<bool> training) {
            new (self) Importer(std::move(name), mode_of(training));
          },
          nb::arg("name") = "main", nb::arg("training") = nb::none(),
          "`training` says what dropout and batch norm do, however they were recorded.")
      .def(
          "symbol",
          [](Importer& self, const std::string& name, int64_t low, std::optional<int64_t> high) -> Expr {
            self.graph().declare_symbol(Symbol(name), {low, high.value_or(symbolic::Interval::all().high)});
            return Symbol(name);
          },
          nb::arg("name"), nb::arg("low") = 0, nb::arg("high") = nb::none(),
          "Declares a size that is only known later.")
      .def(
          "input",
          [](Importer& self, std::string name, nb::handle type) {
            return from_argument(self.input(std::move(name), type_from(type)));
          },
          nb::arg("name"), nb::arg("type"))
      .def(
          "number",
          [](Importer& self, std::string name, nb::handle dtype) {
            return from_argument(self.number(std::move(name), dtype_from(dtype)));
          },
          nb::arg("name"), nb::arg("dtype"),
          "An input that is a number, f64, i64 or bool: beside a tensor it is promoted as Python's numbers are.")
      .def(
          "parameter",
          [](Importer& self, const std::string& name, nb::handle type, const nb::object& data) {
            return from_argument(self.parameter(name, type_from(type), data_from(data, name)));
          },
          nb::arg("name"), nb::arg("type"), nb::arg("data") = nb::none())
      .def(
          "buffer",
          [](Importer& self, const std::string& name, nb::handle type, const nb::object& data) {
            return from_argument(self.buffer(name, type_from(type), data_from(data, name)));
          },
          nb::arg("name"), nb::arg("type"), nb::arg("data") = nb::none())
      .def(
          "constant",
          [](Importer& self, nb::handle data) { return from_argument(self.constant(tensor_from(data, "a constant"))); },
          nb::arg("data"))
      .def("call", call, nb::arg("target"), nb::arg("args") = nb::tuple(), nb::arg("kwargs") = nb::dict(),
           nb::kw_only(), nb::arg("location") = nb::none(), nb::arg("results") = nb::none(),
           nb::arg("returns_list") = false, nb::arg("external_because") = "",
           "Adds an ATen call, and gives its result. `location` is (file, line); `results` are the types of the "
           "results, None for one that Tenon has no dtype for: without them a call that Tenon does not support is an "
           "error. `external_because` is why a call is external even if the registry has it.")
      .def("call_on_memory", memory_call, nb::arg("target"), nb::arg("args"), nb::arg("kwargs"), nb::arg("operands"),
           nb::kw_only(), nb::arg("location") = nb::none(),
           "Adds a call that counts places in memory (as_strided and its kin), and gives its result. `operands` is an "
           "iterator over the call's first operand, then the first operand of the call that gave that, and so on: the "
           "tensor, the target that gave it, and its sizes, strides and offset in PyTorch's trace. A tensor with "
           "another "
           "number of strides than sizes is not known.")
      .def(
          "set_name",
          [](Importer& self, nb::handle tensor, const std::string& name) {
            self.set_name(argument_from(tensor), name);
          },
          nb::arg("tensor"), nb::arg("name"), "How a value is called in the graph's text, unless it has a name.")
      .def(
          "update",
          [](Importer& self, nb::handle target, nb::handle value) {
            self.update(argument_from(target), argument_from(value));
          },
          nb::arg("target"), nb::arg("value"), "After the run, the input or buffer holds this value.")
      .def(
          "value_of",
          [](Importer& self, nb::handle argument) {
            return ImportedTensor{AtenTensor{self.value_of(argument_from(argument))}};
          },
          nb::arg("argument"), "The value that a tensor or a number has now, whatever is written later.")
      .def("finish", finish, nb::arg("outputs"), "Ends the import and gives the graph.")
      .def(
          "check_supported",
          [](const Importer& self, const std::string& why) { check_supported(self.unsupported(), why); },
          nb::arg("why"), "Raises a tenon.Error that lists every external call; `why` PyTorch runs none.")
      .def_prop_ro("external_count", &Importer::external_count, "How many calls are external so far.")
      .def_prop_ro("unsupported", unsupported, "(target, reason, location) of each external call, in their order.")
      .def(
          "set_key", [](Importer& self, nb::handle key) { self.set_key(argument_from(key)); }, nb::arg("key"),
          "From now on, random numbers come from this tensor, i64[2]: the same key gives the same numbers.")
      .def_prop_ro("key_input", [](const Importer& self) { return self.key_input(); });
  module.def("readable_names", readable_names_of, nb::arg("inputs"), nb::arg("named"), nb::arg("taken"),
             "From the symbols of inputs, each of which is (name, sizes, whether it is a number), to names that people "
             "can read. `named` are those that the user gave, `taken` those that are in use.");
  module.def(
      "with_readable_names",
      [](std::string message, const std::map<std::string, std::string>& names) {
        SymbolNames symbols;
        for (const auto& [symbol, name] : names) symbols.emplace(Symbol(symbol), Symbol(name));
        return with_readable_names(std::move(message), symbols);
      },
      nb::arg("message"), nb::arg("names"), "A message of PyTorch with these names in place of its symbols.");
  module.attr("aten_compiler") = nb::capsule(tenon_aten_compiler_v1(), TENON_ATEN_COMPILER);
  module.def("register_aten", register_aten, nb::arg("signature"), nb::arg("function"));
  module.def("unregister_aten", [](const std::string& name) { aten_table().remove(name); }, nb::arg("name"));
  module.def("aten_entries", aten_entries);
  module.def("has_aten", has_aten, nb::arg("name"));
}

}  // namespace tenon::python
