#include "call_form.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <array>

#include "capture/whole_model.h"

namespace tenon::python {
namespace {

using Kind = CallTree::Kind;

// In the order of the kinds.
constexpr std::array<std::string_view, 12> kNames = {"tuple", "list",  "dict", "ordered", "named",    "tensor",
                                                     "int",   "float", "bool", "size",    "argument", "constant"};

Kind kind_from(nb::handle name) {
  const auto text = nb::cast<std::string>(name);
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<Kind>(i);
  }
  fail("'{}' is not a kind of tree", text);
}

nb::object value_of(const None&) { return nb::none(); }
nb::object value_of(const std::string& text) { return to_str(text); }
template <class T>
nb::object value_of(const T& number) {
  return nb::cast(number);
}

nb::object to_python(const CallConstant& constant) {
  return std::visit([](const auto& value) { return value_of(value); }, constant);
}

CallConstant constant_from(nb::handle object) {
  if (object.is_none()) return None{};
  if (nb::isinstance<nb::bool_>(object)) return nb::cast<bool>(object);
  if (nb::isinstance<nb::int_>(object)) return nb::cast<int64_t>(object);
  if (nb::isinstance<nb::float_>(object)) return nb::cast<double>(object);
  if (nb::isinstance<nb::str>(object)) return nb::cast<std::string>(object);
  fail("a file cannot hold {} among the arguments and results of a model", class_of(object));
}

nb::list keys_of(const CallTree& tree) {
  nb::list keys;
  for (const auto& key : tree.keys) keys.append(std::visit([](const auto& value) { return value_of(value); }, key));
  return keys;
}

CallTree::Key key_from(nb::handle object) {
  if (nb::isinstance<nb::str>(object)) return nb::cast<std::string>(object);
  if (nb::isinstance<nb::int_>(object) && !nb::isinstance<nb::bool_>(object)) return nb::cast<int64_t>(object);
  fail("a file cannot hold a dictionary with {} as a key", class_of(object));
}

nb::object data_of(const CallTree& tree) {
  switch (tree.kind) {
    case Kind::kTuple:
    case Kind::kList:
      return nb::none();
    case Kind::kDict:
    case Kind::kOrderedDict:
      return keys_of(tree);
    case Kind::kNamedTuple:
      return nb::make_tuple(tree.name, keys_of(tree));
    case Kind::kSize:
      return python::to_python(*tree.size);
    case Kind::kConstant:
      return to_python(tree.constant);
    default:
      return nb::cast(tree.position);
  }
}

nb::tuple to_python(const CallTree& tree) {
  nb::list children;
  for (const CallTree& child : tree.children) children.append(to_python(child));
  const std::string_view kind = kNames[static_cast<size_t>(tree.kind)];
  return nb::make_tuple(to_str(kind), data_of(tree), tree.is_leaf() ? nb::object(nb::none()) : nb::object(children));
}

CallTree tree_from(nb::handle object) {
  CallTree tree{.kind = kind_from(object[0])};
  const nb::object data = object[1], children = object[2];
  if (tree.kind == Kind::kNamedTuple) tree.name = nb::cast<std::string>(nb::object(data[0]));
  if (tree.kind == Kind::kSize) {
    tree.size = expr_from(data);
  } else if (tree.kind == Kind::kConstant) {
    tree.constant = constant_from(data);
  } else if (tree.is_leaf()) {
    tree.position = nb::cast<size_t>(data);
  } else if (!data.is_none()) {
    const nb::object keys = tree.kind == Kind::kNamedTuple ? nb::object(data[1]) : data;
    for (nb::handle key : keys) tree.keys.push_back(key_from(key));
  }
  if (tree.is_leaf()) return tree;
  for (nb::handle child : children) tree.children.push_back(tree_from(child));
  return tree;
}

// (message, (file, line) or None, output or None, guard or None) of each.
nb::list to_python(const std::vector<Assertion>& assertions) {
  nb::list list;
  for (const Assertion& each : assertions) {
    const nb::object place =
        each.location.known() ? nb::object(nb::make_tuple(each.location.file, each.location.line)) : nb::none();
    list.append(nb::make_tuple(each.message, place, each.output ? nb::cast(*each.output) : nb::none(),
                               each.guard ? nb::cast(*each.guard) : nb::none()));
  }
  return list;
}

// ("output", number), ("input", number) or ("weight", tensor)
ModelResult result_from(nb::handle object) {
  const auto kind = nb::cast<std::string>(object[0]);
  const nb::object data = object[1];
  if (kind == "output") return {.output = nb::cast<size_t>(data)};
  if (kind == "input") return {.input = nb::cast<size_t>(data)};
  return {.weight = tensor_from(data, "a weight"), .name = "weight"};
}

}  // namespace

nb::tuple to_python(const CallForm& form) {
  nb::list parameters;
  for (const CallParameter& each : form.parameters) {
    parameters.append(nb::make_tuple(each.name, each.is_keyword, to_python(each.value)));
  }
  return nb::make_tuple(parameters, to_python(form.results));
}

CallForm form_from(nb::handle parameters, nb::handle results) {
  CallForm form;
  for (nb::handle each : parameters) {
    form.parameters.push_back({nb::cast<std::string>(nb::object(each[0])), tree_from(nb::object(each[2])),
                               nb::cast<bool>(nb::object(each[1]))});
  }
  form.results = tree_from(results);
  return form;
}

void bind_call_form(nb::module_& module) {
  module.def(
      "call_form_text",
      [](nb::handle parameters, nb::handle results) {
        const std::string text = to_string(form_from(parameters, results));
        parse_call_form(text).value();  // what it breaks is an error now, not when it is loaded
        return text;
      },
      nb::arg("parameters"), nb::arg("results"), "How a model is called, as an artifact notes it.");
  module.def(
      "parse_call_form", [](const std::string& text) { return to_python(parse_call_form(text).value()); },
      nb::arg("text"), "The parameters, each (name, is_keyword, tree), and the tree of the results.");
  module.def(
      "whole_model",
      [](const Graph& graph, nb::handle results, nb::handle assertions) {
        std::vector<ModelResult> wanted;
        for (nb::handle result : results) wanted.push_back(result_from(result));
        WholeModel whole = whole_model(graph, wanted, assertions_from(assertions));
        return nb::make_tuple(std::make_shared<Graph>(std::move(whole.graph)), to_python(whole.assertions));
      },
      nb::arg("graph"), nb::arg("results"), nb::arg("assertions"),
      "The graph that gives these results, each ('output', number), ('input', number) or ('weight', tensor), and the "
      "assertions as compile_graph takes them.");
}

}  // namespace tenon::python
