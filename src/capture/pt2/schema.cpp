#include "capture/pt2/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "capture/pt2/metadata.h"
#include "capture/pt2/tree_spec.h"

namespace tenon::pt2 {
namespace {

constexpr int64_t kMajor = 8;
constexpr int64_t kLargestScalarType = 255;

template <class Enum>
Enum enumerator(const Json& json, Enum last, std::string_view what) {
  const int64_t number = json.integer();
  if (number < 0 || number > static_cast<int64_t>(last)) json.fail("{} is not the number of a known {}", number, what);
  return static_cast<Enum>(number);
}

[[noreturn]] void fail_tag(const Json& json, std::string_view tag, std::string_view what) {
  json.fail("'{}' is not a known kind of {}; the file may come from a newer PyTorch", tag, what);
}

template <class T>
constexpr std::string_view kPlainTag = {};
template <>
constexpr std::string_view kPlainTag<int64_t> = "as_int";
template <>
constexpr std::string_view kPlainTag<double> = "as_float";
template <>
constexpr std::string_view kPlainTag<bool> = "as_bool";

bool boolean_or(const std::optional<Json>& json, bool otherwise) { return json ? json->boolean() : otherwise; }

}  // namespace

// ---- arguments ------------------------------------------------------------------------------------------------------

// The schema's name of each alternative, and what reads it.
struct ArgumentTable {
  using Data = Argument::Data;
  using Reader = Data (*)(SchemaReader&, const Json&);
  static constexpr size_t kCount = std::variant_size_v<Data>;

  static constexpr std::array<std::string_view, kCount> kTags = {"as_none",
                                                                 "as_tensor",
                                                                 "as_tensors",
                                                                 "as_int",
                                                                 "as_ints",
                                                                 "as_float",
                                                                 "as_floats",
                                                                 "as_string",
                                                                 "as_strings",
                                                                 "as_sym_int",
                                                                 "as_sym_ints",
                                                                 "as_scalar_type",
                                                                 "as_memory_format",
                                                                 "as_layout",
                                                                 "as_device",
                                                                 "as_bool",
                                                                 "as_bools",
                                                                 "as_sym_bool",
                                                                 "as_sym_bools",
                                                                 "as_graph",
                                                                 "as_optional_tensors",
                                                                 "as_custom_obj",
                                                                 "as_operator",
                                                                 "as_sym_float",
                                                                 "as_sym_floats",
                                                                 "as_optional_tensor",
                                                                 "as_complex",
                                                                 "as_nested_tensors",
                                                                 "as_int_lists",
                                                                 "as_string_to_argument",
                                                                 "as_float_lists"};

  template <size_t kIndex>
  static Data read(SchemaReader& reader, const Json& json) {
    std::variant_alternative_t<kIndex, Data> value{};
    reader.read(json, value);
    return Data(std::in_place_index<kIndex>, std::move(value));
  }

  template <size_t... kIndices>
  static constexpr std::array<Reader, kCount> readers(std::index_sequence<kIndices...>) {
    return {read<kIndices>...};
  }
};

std::string_view Argument::tag() const { return ArgumentTable::kTags[data.index()]; }

Argument SchemaReader::argument(const Json& json) {
  static constexpr auto kReaders = ArgumentTable::readers(std::make_index_sequence<ArgumentTable::kCount>());
  const auto [tag, value] = json.only_member();
  for (size_t i = 0; i < kReaders.size(); ++i) {
    if (ArgumentTable::kTags[i] == tag) return {kReaders[i](*this, value)};
  }
  fail_tag(json, tag, "argument");
}

void SchemaReader::read(const Json& json, None&) {
  if (!json.boolean()) json.fail("expected true, got false");
}

void SchemaReader::read(const Json& json, std::complex<double>& value) {
  value = {json["real"].real(), json["imag"].real()};
}

void SchemaReader::read(const Json& json, OptionalTensor& value) {
  const auto [tag, content] = json.only_member();
  if (tag == "as_none") return;
  if (tag != "as_tensor") fail_tag(json, tag, "optional tensor");
  read(content, value.emplace());
}

void SchemaReader::read(const Json& json, TorchDType& value) {
  value.number = json.integer();
  if (value.number < 0 || value.number > kLargestScalarType)
    json.fail("{} is not the number of a known dtype", value.number);
}

void SchemaReader::read(const Json& json, Layout& value) { value = enumerator(json, Layout::kStrided, "layout"); }

void SchemaReader::read(const Json& json, MemoryFormat& value) {
  value = enumerator(json, MemoryFormat::kPreserve, "memory format");
}

void SchemaReader::read(const Json& json, TorchDevice& value) {
  read(json["type"], value.type);
  if (const auto index = json.find("index")) value.index = index->integer();
}

void SchemaReader::read(const Json& json, GraphArgument& value) {
  read(json["name"], value.name);
  value.graph = std::make_shared<const ExportedGraph>(graph(json["graph"]));
}

void SchemaReader::read(const Json& json, CustomObject& value) {
  read(json["name"], value.name);
  read(json["class_fqn"], value.class_name);
}

void SchemaReader::read(const Json& json, std::vector<NamedValue>& value) {
  json.for_each_member(
      [&](std::string_view name, const Json& entry) { value.push_back({std::string(name), argument(entry)}); });
}

template <class T>
void SchemaReader::read(const Json& json, Sym<T>& value) {
  const auto [tag, content] = json.only_member();
  if (tag == "as_name") {
    value.data = std::string(content.string());
  } else if (tag == kPlainTag<T>) {
    read(content, value.data.template emplace<T>());
  } else {
    fail_tag(json, tag, "symbolic number");
  }
}

template <class T>
void SchemaReader::read(const Json& json, std::vector<T>& values) {
  json.for_each_element([&](const Json& element) {
    T value{};
    read(element, value);
    values.push_back(std::move(value));
  });
}

std::vector<Argument> SchemaReader::arguments(const Json& json) {
  return json.list([&](const Json& element) { return argument(element); });
}

NamedArgument SchemaReader::named_argument(const Json& json) {
  NamedArgument result{std::string(json["name"].string()), argument(json["arg"])};
  if (const auto kind = json.find("kind")) result.kind = enumerator(*kind, ArgumentKind::kKeyword, "kind of argument");
  return result;
}

// ---- types ----------------------------------------------------------------------------------------------------------

SymValue SchemaReader::expression(const Json& json) {
  const Json text = json["expr_str"];
  const auto [found, is_new] = expressions_.try_emplace(text.string());
  SymValue& cached = found->second;
  if (is_new) {
    Result<symbolic::Expr> expr = symbolic::parse_srepr(text.string());
    if (expr.ok()) {
      cached.expr = *expr;
    } else {
      cached.problem = fmt::format("the expression '{}' can't be used: {}", text.string(), expr.diagnostic().message);
    }
  }
  SymValue result = cached;
  const auto hint = json.find("hint");
  if (!hint) return result;
  const auto [tag, value] = hint->only_member();
  if (tag == "as_int") {
    result.hint = value.integer();
  } else if (tag == "as_bool") {
    result.hint = value.boolean();
  } else if (tag != "as_float") {
    fail_tag(*hint, tag, "hint");
  }
  return result;
}

SymValue SchemaReader::sym_value(const Json& json, std::string_view plain_tag) {
  const auto [tag, value] = json.only_member();
  if (tag == "as_expr") return expression(value);
  if (tag != plain_tag) fail_tag(json, tag, "symbolic value");
  if (plain_tag == "as_bool") return {value.boolean() ? 1 : 0};
  return {value.integer()};
}

SymFloatValue SchemaReader::sym_float(const Json& json) {
  const auto [tag, value] = json.only_member();
  if (tag == "as_float") return {value.real(), {}};
  if (tag != "as_expr") fail_tag(json, tag, "symbolic value");
  return {std::nullopt, std::string(value["expr_str"].string())};
}

std::vector<SymValue> SchemaReader::sym_ints(const Json& json) {
  return json.list([&](const Json& element) {
    SymValue value = sym_value(element, "as_int");
    if (value.expr.is_constant() && value.expr.constant() < 0) element.fail("{} is negative", value.expr);
    return value;
  });
}

TensorMeta SchemaReader::tensor_meta(const Json& json) {
  TensorMeta meta;
  read(json["dtype"], meta.dtype);
  read(json["layout"], meta.layout);
  read(json["device"], meta.device);
  meta.requires_grad = json["requires_grad"].boolean();
  meta.sizes = sym_ints(json["sizes"]);
  meta.strides = sym_ints(json["strides"]);
  meta.storage_offset = sym_value(json["storage_offset"], "as_int");
  if (meta.strides.size() != meta.sizes.size()) {
    json.fail("{} sizes have {} strides", meta.sizes.size(), meta.strides.size());
  }
  return meta;
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

ExportedNode SchemaReader::node(const Json& json) {
  ExportedNode node;
  if (const auto name = json.find("name")) node.name = name->string();
  node.target = json["target"].string();
  node.inputs = json["inputs"].list([&](const Json& input) { return named_argument(input); });
  node.outputs = arguments(json["outputs"]);
  node.returns_single_tensor = boolean_or(json.find("is_hop_single_tensor_return"), false);
  const auto metadata = json.find("metadata");
  if (!metadata) return node;
  if (const auto trace = metadata->find("stack_trace")) node.location = model_location(trace->string());
  if (const auto stack = metadata->find("nn_module_stack")) {
    ModuleName module = innermost_module(stack->string());
    node.module_path = std::move(module.path);
    node.module_type = std::move(module.type);
  }
  return node;
}

template <class Read>
auto SchemaReader::dictionary(const Json& json, Read&& read) {
  Dictionary<decltype(read(json))> result;
  json.for_each_member([&](std::string_view name, const Json& value) {
    if (!result.emplace(std::string(name), read(value)).second) json.fail("'{}' appears twice", name);
  });
  return result;
}

ExportedGraph SchemaReader::graph(const Json& json) {
  ExportedGraph graph;
  graph.inputs = arguments(json["inputs"]);
  graph.outputs = arguments(json["outputs"]);
  graph.nodes = json["nodes"].list([&](const Json& entry) { return node(entry); });
  graph.tensors = dictionary(json["tensor_values"], [&](const Json& meta) { return tensor_meta(meta); });
  graph.sym_ints = dictionary(json["sym_int_values"], [&](const Json& value) { return sym_value(value, "as_int"); });
  graph.sym_bools = dictionary(json["sym_bool_values"], [&](const Json& value) { return sym_value(value, "as_bool"); });
  if (const auto floats = json.find("sym_float_values")) {
    graph.sym_floats = dictionary(*floats, [&](const Json& value) { return sym_float(value); });
  }
  if (const auto objects = json.find("custom_obj_values")) {
    graph.custom_objects = dictionary(*objects, [&](const Json& value) {
      CustomObject object;
      read(value, object);
      return object;
    });
  }
  graph.returns_single_tensor = boolean_or(json.find("is_single_tensor_return"), false);
  return graph;
}

// ---- signature ------------------------------------------------------------------------------------------------------

Argument SchemaReader::tensor_argument(const Json& json) {
  TensorName name;
  read(json["arg"], name);
  return {name};
}

Argument SchemaReader::constant(const Json& json) {
  static constexpr std::array<std::string_view, 5> kConstants = {"as_none", "as_int", "as_float", "as_string",
                                                                 "as_bool"};
  const auto [tag, value] = json.only_member();
  if (std::ranges::find(kConstants, tag) == kConstants.end()) fail_tag(json, tag, "constant");
  return argument(json);
}

InputSpec SchemaReader::input_spec(const Json& json) {
  const auto [tag, value] = json.only_member();
  const Json& spec = value;
  const auto target = [&](std::string_view key) { return std::string(spec[key].string()); };
  if (tag == "user_input") return {InputKind::kUserInput, argument(spec["arg"])};
  if (tag == "parameter") return {InputKind::kParameter, tensor_argument(spec), target("parameter_name")};
  if (tag == "buffer") {
    return {InputKind::kBuffer, tensor_argument(spec), target("buffer_name"), spec["persistent"].boolean()};
  }
  if (tag == "tensor_constant") {
    return {InputKind::kTensorConstant, tensor_argument(spec), target("tensor_constant_name")};
  }
  if (tag == "constant_input") return {InputKind::kConstantInput, constant(spec["value"]), target("name")};
  if (tag == "token") return {InputKind::kToken, tensor_argument(spec)};
  if (tag == "custom_obj") {
    spec.fail("the model needs the custom object '{}', which only Python can load", target("custom_obj_name"));
  }
  fail_tag(json, tag, "input");
}

OutputSpec SchemaReader::output_spec(const Json& json) {
  const auto [tag, value] = json.only_member();
  const Json& spec = value;
  const auto target = [&](std::string_view key) { return std::string(spec[key].string()); };
  if (tag == "user_output") return {OutputKind::kUserOutput, argument(spec["arg"])};
  if (tag == "loss_output") return {OutputKind::kLossOutput, tensor_argument(spec)};
  if (tag == "token") return {OutputKind::kToken, tensor_argument(spec)};
  struct Targeted {
    std::string_view tag;
    OutputKind kind;
    std::string_view key;
  };
  static constexpr std::array kTargeted = {
      Targeted{"buffer_mutation", OutputKind::kBufferMutation, "buffer_name"},
      Targeted{"parameter_mutation", OutputKind::kParameterMutation, "parameter_name"},
      Targeted{"user_input_mutation", OutputKind::kUserInputMutation, "user_input_name"},
      Targeted{"gradient_to_parameter", OutputKind::kGradientToParameter, "parameter_name"},
      Targeted{"gradient_to_user_input", OutputKind::kGradientToUserInput, "user_input_name"}};
  const auto* found = std::ranges::find(kTargeted, tag, &Targeted::tag);
  if (found == kTargeted.end()) fail_tag(json, tag, "output");
  return {found->kind, tensor_argument(spec), target(found->key)};
}

namespace {

int64_t bound(const std::optional<Json>& json, int64_t unbounded) {
  if (!json) return unbounded;
  const auto is_infinite = [&] { return std::isinf(json->real()); };
  return json->is_string() && is_infinite() ? unbounded : json->integer();
}

// PyTorch also says "unbounded" with numbers around the largest one.
symbolic::Interval interval(const Json& json) {
  symbolic::Interval range = {bound(json.find("min_val"), kInt64Min), bound(json.find("max_val"), kInt64Max)};
  if (range.high == kInt64Max - 1) range.high = kInt64Max;
  if (range.low > range.high) json.fail("no number is at least {} and at most {}", range.low, range.high);
  return range;
}

void read_ranges(const Json& json, ExportedProgram& program) {
  json.for_each_member([&](std::string_view name, const Json& stored) {
    const Result<symbolic::Expr> expr = symbolic::parse(name);
    if (!expr.ok()) stored.fail("'{}' is not an expression of symbols: {}", name, expr.diagnostic().message);
    if (expr->kind() != symbolic::Kind::kSymbol) {
      program.derived_ranges.emplace_back(*expr, interval(stored));
    } else if (!program.ranges.emplace(expr->symbol(), interval(stored)).second) {
      json.fail("'{}' appears twice", name);
    }
  });
}

SchemaVersion version(const Json& json) {
  const SchemaVersion schema = {json["major"].integer(), json["minor"].integer()};
  if (schema.major != kMajor) {
    json.fail("the schema has version {}.{}, and only {}.x can be read: save the model with another PyTorch",
              schema.major, schema.minor, kMajor);
  }
  return schema;
}

std::vector<std::string> strings(const std::optional<Json>& json) {
  if (!json) return {};
  return json->list([](const Json& text) { return std::string(text.string()); });
}

// The fields of the named tuples that tree specs name.
Dictionary<std::vector<std::string>> field_names(const std::optional<Json>& json) {
  Dictionary<std::vector<std::string>> result;
  if (!json) return result;
  json->for_each_member([&](std::string_view type, const Json& definition) {
    result.emplace(std::string(type), strings(definition.find("field_names")));
  });
  return result;
}

// The signature of the model itself. Those of its modules matter only where a model is taken apart.
std::optional<CallSignature> call_signature(const Json& module) {
  const auto fields = field_names(module.find("treespec_namedtuple_fields"));
  std::optional<CallSignature> result;
  const Json entries = module["module_call_graph"];
  entries.for_each_element([&](const Json& entry) {
    const auto signature = entry.find("signature");
    if (!signature || !entry["fqn"].string().empty() || result) return;
    result = CallSignature{tree_spec((*signature)["in_spec"], fields), tree_spec((*signature)["out_spec"], fields),
                           strings(signature->find("forward_arg_names"))};
  });
  return result;
}

}  // namespace

ExportedProgram SchemaReader::program(const Json& json) {
  ExportedProgram program;
  program.schema = version(json["schema_version"]);  // first: the rest is only known for a known version
  if (const auto torch = json.find("torch_version")) program.torch_version = torch->string();
  if (const auto opsets = json.find("opset_version")) {
    program.opset_versions = dictionary(*opsets, [](const Json& number) { return number.integer(); });
  }
  read_ranges(json["range_constraints"], program);
  program.guards = strings(json.find("guards_code"));
  const Json module = json["graph_module"];
  program.graph = graph(module["graph"]);
  const Json signature = module["signature"];
  program.inputs = signature["input_specs"].list([&](const Json& spec) { return input_spec(spec); });
  program.outputs = signature["output_specs"].list([&](const Json& spec) { return output_spec(spec); });
  program.signature = call_signature(module);
  return program;
}

}  // namespace tenon::pt2
