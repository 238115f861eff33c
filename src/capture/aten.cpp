#include "capture/aten.h"

#include <fmt/format.h>

#include <algorithm>

#include "capture/aten/common.h"
#include "support/cursor.h"
#include "support/text.h"

namespace tenon {
namespace {

// ---- numbers --------------------------------------------------------------------------------------------------------

bool is_known_number(const AtenArg& argument) {
  return argument.get<bool>() != nullptr || argument.get<Expr>() != nullptr || argument.get<double>() != nullptr;
}

bool is_number(const AtenArg& argument) { return is_known_number(argument) || argument.is_run_time_number(); }

Attr attr_of_number(const AtenArg& number) {
  if (const auto* flag = number.get<bool>()) return Expr(*flag ? 1 : 0);
  if (const auto* real = number.get<double>()) return *real;
  return *number.get<Expr>();
}

Value tensor_of_number(Builder& builder, const AtenArg& number, DType dtype) {
  if (const auto* tensor = number.get<AtenTensor>()) return builder.cast(tensor->value, dtype);
  if (const auto* real = number.get<double>()) return builder.scalar(*real, dtype);
  const Expr value = std::get<Expr>(attr_of_number(number));
  if (!value.is_constant()) return builder.full(value, {}, dtype);
  return is_float(dtype) ? builder.scalar(static_cast<double>(value.constant()), dtype)
                         : builder.integer(value.constant(), dtype);
}

std::optional<double> real_of(const AtenArg& number) {
  if (const auto* flag = number.get<bool>()) return *flag ? 1 : 0;
  if (const auto* real = number.get<double>()) return *real;
  const auto* expr = number.get<Expr>();
  if (expr == nullptr || !expr->is_constant()) return std::nullopt;
  return static_cast<double>(expr->constant());
}

std::optional<Expr> size_of_argument(const AtenArg& number) {
  if (const auto* flag = number.get<bool>()) return Expr(*flag ? 1 : 0);
  const auto* expr = number.get<Expr>();
  return expr == nullptr ? std::nullopt : std::optional(*expr);
}

std::optional<int64_t> integer_of(const AtenArg& number) {
  const auto size = size_of_argument(number);
  return size && size->is_constant() ? std::optional(size->constant()) : std::nullopt;
}

constexpr int64_t kTorchInt64 = 4;  // how PyTorch's schemas write the default dtype=long

// ---- signatures -----------------------------------------------------------------------------------------------------

AtenArg parse_default(Cursor& cursor) {
  if (cursor.accept_word("None")) return None{};
  if (cursor.accept_word("True")) return true;
  if (cursor.accept_word("False")) return false;
  if (cursor.peek() == '"') return cursor.string("a string");
  if (cursor.accept("[")) {
    AtenArg::List items;
    while (!cursor.accept("]")) {
      if (!items.empty()) cursor.expect(",");
      items.push_back(parse_default(cursor));
    }
    return items;
  }
  const std::string text(cursor.number("a default"));
  if (text.find_first_not_of("+-0123456789") == std::string::npos) return int64_t{std::stoll(text)};
  return std::stod(text);
}

AtenSignature parse_signature_text(std::string_view text) {
  Cursor cursor(text);
  AtenSignature signature{std::string(cursor.identifier("a name")), {}};
  cursor.expect("(");
  bool keyword_only = false;
  while (!cursor.accept(")")) {
    if (!signature.parameters.empty() || keyword_only) cursor.expect(",");
    if (cursor.accept("*")) {
      if (keyword_only) cursor.fail("a signature has at most one '*'");
      keyword_only = true;
      if (signature.parameters.empty()) continue;
      cursor.expect(",");
    }
    AtenParameter parameter{std::string(cursor.identifier("a parameter")), {}, keyword_only};
    if (cursor.accept("=")) parameter.fallback = parse_default(cursor);
    signature.parameters.push_back(std::move(parameter));
  }
  if (!cursor.at_end()) cursor.expected("the end of the signature");
  return signature;
}

// "aten.{a,b}.default(x)" stands for "aten.a.default(x)" and "aten.b.default(x)".
std::vector<AtenSignature> parse_signatures(std::string_view text) {
  const size_t open = text.find('{'), close = text.find('}');
  if (open >= text.find('(') || close == std::string_view::npos) return {parse_signature(text).value()};
  std::vector<AtenSignature> signatures;
  for (size_t start = open + 1; start <= close; start = text.find_first_of(",}", start) + 1) {
    const std::string_view name = text.substr(start, text.find_first_of(",}", start) - start);
    const std::string one = fmt::format("{}{}{}", text.substr(0, open), name, text.substr(close + 1));
    for (AtenSignature& signature : parse_signatures(one)) signatures.push_back(std::move(signature));
  }
  return signatures;
}

// "add" of "aten.add.Tensor".
std::string_view packet_of(std::string_view name) {
  const size_t first = name.find('.') + 1;
  return name.substr(first, name.rfind('.') - first);
}

// ---- an entry that is one op ----------------------------------------------------------------------------------------

Attr attr_from(AtenCall& c, const AttrDef& def, std::string_view parameter) {
  switch (def.kind) {
    case AttrKind::kBool:
      return c.flag(parameter);
    case AttrKind::kInt:
      return c.integer(parameter);
    case AttrKind::kReal:
      return c.real(parameter);
    case AttrKind::kString:
      return c.string(parameter);
    case AttrKind::kDType:
      return *c.dtype(parameter);
    case AttrKind::kExpr:
    case AttrKind::kSymbol:
      return c.size(parameter);
    case AttrKind::kScalar:
      return c.number(parameter);
    case AttrKind::kInts:
      return c.ints(parameter);
    case AttrKind::kReals:
      return c.reals(parameter);
    case AttrKind::kExprs:
      return c.sizes(parameter);
  }
  check(false, "attribute kind {} is not handled", static_cast<int>(def.kind));
  return None{};
}

DType dtype_of_tensors(const std::vector<AtenArg>& arguments) {
  std::vector<TensorType> types;
  for (const AtenArg& argument : arguments) {
    const auto* tensor = argument.get<AtenTensor>();
    if (tensor != nullptr && tensor->value && !tensor->is_number) types.push_back(tensor->value.type());
  }
  return types.empty() ? DType::kF32 : result_dtype(types);
}

bool has_run_time_attr(const AtenCall& c, const AtenSignature& signature, const OpDef& op) {
  return std::ranges::any_of(signature.parameters, [&](const AtenParameter& parameter) {
    return op.attr_named(parameter.name) != nullptr && c.is_run_time_number(parameter.name);
  });
}

AtenArg build_op(AtenCall& c, const AtenSignature& signature, const OpDef& op) {
  const DType beside = dtype_of_tensors(c.arguments());
  std::vector<Value> operands;
  NamedAttrs attrs;
  for (const AtenParameter& parameter : signature.parameters) {
    if (const AttrDef* def = op.attr_named(parameter.name)) {
      if (c.given(parameter.name)) attrs.emplace_back(parameter.name, attr_from(c, *def, parameter.name));
    } else if (c.argument(parameter.name).get<AtenArg::List>() != nullptr) {
      for (Value value : c.tensors(parameter.name)) operands.push_back(value);
    } else {
      operands.push_back(c.given(parameter.name) ? c.operand(parameter.name, beside) : Value());
    }
  }
  const std::vector<Value> results = c.results(op.name.get(), operands, std::move(attrs));
  return results.size() == 1 ? AtenArg(results[0]) : AtenArg(results);
}

}  // namespace

// ---- arguments ------------------------------------------------------------------------------------------------------

AtenArg::AtenArg(const std::vector<Value>& values) : data(List(values.begin(), values.end())) {}

bool AtenArg::is_none() const {
  if (const auto* tensor = get<AtenTensor>()) return !tensor->value;
  return get<None>() != nullptr;
}

bool AtenArg::is_run_time_number() const {
  const auto* tensor = get<AtenTensor>();
  return tensor != nullptr && tensor->value && tensor->is_number;
}

std::string to_string(const AtenArg& argument) {
  struct Printer {
    std::string operator()(const None&) const { return "None"; }
    std::string operator()(bool flag) const { return flag ? "True" : "False"; }
    std::string operator()(const Expr& number) const { return symbolic::to_string(number); }
    std::string operator()(double number) const { return real_to_string(number); }
    std::string operator()(const std::string& text) const { return quote(text); }
    std::string operator()(DType dtype) const { return std::string(name_of(dtype)); }
    std::string operator()(const AtenSetting& setting) const { return setting.text; }
    std::string operator()(const AtenTensor& tensor) const {
      if (!tensor.value) return "None";
      return (tensor.is_number ? "a number, " : "") + to_string(tensor.value.type());
    }
    std::string operator()(const AtenArg::List& list) const {
      std::string text;
      for (const AtenArg& item : list) text += (text.empty() ? "" : ", ") + tenon::to_string(item);
      return "[" + text + "]";
    }
    static std::string to_string(const TensorType& type) { return tenon::to_string(type); }
  };
  return std::visit(Printer{}, argument.data);
}

Result<AtenSignature> parse_signature(std::string_view text) {
  return attempt([&] { return parse_signature_text(text); });
}

DType dtype_beside(DType tensor, DType number) {
  const auto category = [](DType dtype) { return is_float(dtype) ? 2 : dtype == DType::kBool ? 0 : 1; };
  return category(number) <= category(tensor) ? tensor : number;
}

// ---- the table ------------------------------------------------------------------------------------------------------

void AtenTable::insert(AtenEntry entry) {
  std::string name = entry.signature.name;
  entries_.insert_or_assign(std::move(name), std::move(entry));
}

void AtenTable::add(std::string_view signature, const AtenFn& build) {
  for (AtenSignature& one : parse_signatures(signature)) insert({std::move(one), AtenKind::kComposite, build});
}

void AtenTable::op(std::string_view signature, std::string_view op, const AtenFn& formula) {
  for (AtenSignature& one : parse_signatures(signature)) {
    const OpDef& def = op_named(op.empty() ? packet_of(one.name) : op);
    const auto build = [one, &def, formula](AtenCall& c) {
      return formula && has_run_time_attr(c, one, def) ? formula(c) : build_op(c, one, def);
    };
    insert({std::move(one), AtenKind::kNative, build});
  }
}

void AtenTable::gradient(std::string_view signature, std::string_view op) {
  add(signature, [&def = op_named(op)](AtenCall& c) {
    NamedAttrs attrs;
    for (const AttrDef& attr : def.attrs) {
      if (c.takes(attr.name)) attrs.emplace_back(attr.name, attr_from(c, attr, attr.name));
    }
    const auto forward = [&](Builder& b, const std::vector<Value>& in) { return b.op(def.name.get(), in, attrs); };
    const Value x = c.tensor();
    return aten::gradients(c, forward, {x}, c.cast(c.tensor("grad_output"), x.dtype()))[0];
  });
}

void AtenTable::view(std::string_view signature, const AtenFn& build, const AtenWriteFn& write) {
  for (AtenSignature& one : parse_signatures(signature)) {
    insert({std::move(one), AtenKind::kNative, build, true, write});
  }
}

void AtenTable::remove(std::string_view name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail("there is no entry '{}' to take out", name);
  entries_.erase(found);
}

const AtenEntry* AtenTable::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

const AtenEntry* AtenTable::find(std::string_view name, bool& writes_self) const {
  writes_self = false;
  if (const AtenEntry* entry = find(name)) return entry;
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return nullptr;
  const auto without = [&](std::string_view suffix) -> const AtenEntry* {
    const std::string_view packet = name.substr(0, dot);
    if (!packet.ends_with(suffix)) return nullptr;
    return find(std::string(packet.substr(0, packet.size() - suffix.size())) + std::string(name.substr(dot)));
  };
  if (const AtenEntry* entry = without("_copy"); entry != nullptr && entry->is_view) return entry;
  const AtenEntry* entry = without("_");
  writes_self = entry != nullptr;
  return entry;
}

constexpr void (*kFamilies[])(AtenTable&) = {
    aten::add_factory_entries,    aten::add_pointwise_entries, aten::add_special_entries,
    aten::add_activation_entries, aten::add_reduction_entries, aten::add_product_entries,
    aten::add_linalg_entries,     aten::add_view_entries,      aten::add_arrangement_entries,
    aten::add_index_entries,      aten::add_window_entries,    aten::add_normalization_entries,
    aten::add_loss_entries,       aten::add_random_entries,    aten::add_quantization_entries,
    aten::add_symbolic_entries};

AtenTable& aten_table() {
  static AtenTable table = [] {
    AtenTable result;
    for (const auto add : kFamilies) add(result);
    return result;
  }();
  return table;
}

std::vector<AtenArg> bind_arguments(const AtenSignature& signature, std::vector<AtenArg> positional,
                                    std::vector<std::pair<std::string, AtenArg>> named) {
  const auto& parameters = signature.parameters;
  if (positional.size() > parameters.size()) {
    fail("{} takes {} arguments, got {}", signature.name, parameters.size(), positional.size());
  }
  std::vector<std::optional<AtenArg>> bound(parameters.size());
  std::move(positional.begin(), positional.end(), bound.begin());
  for (auto& [name, argument] : named) {
    const auto found = std::ranges::find(parameters, name, &AtenParameter::name);
    if (found == parameters.end()) fail("{} has no argument '{}'", signature.name, name);
    auto& place = bound[static_cast<size_t>(found - parameters.begin())];
    if (place) fail("{}: argument '{}' is given twice", signature.name, name);
    place = std::move(argument);
  }
  std::vector<AtenArg> complete;
  for (size_t i = 0; i < bound.size(); ++i) {
    if (!bound[i]) bound[i] = parameters[i].fallback;
    if (!bound[i]) fail("{}: argument '{}' must be given", signature.name, parameters[i].name);
    complete.push_back(*std::move(bound[i]));
  }
  return complete;
}

// ---- a call ---------------------------------------------------------------------------------------------------------

AtenCall::AtenCall(AtenImporter& importer, const AtenEntry& entry, std::vector<AtenArg> arguments, Location location)
    : Builder(*importer.shared_graph(), location),
      importer_(&importer),
      entry_(&entry),
      arguments_(std::move(arguments)),
      where_(std::move(location)) {}

size_t AtenCall::position_of(std::string_view name) const {
  const auto& parameters = entry_->signature.parameters;
  const auto found = std::ranges::find(parameters, name, &AtenParameter::name);
  check(found != parameters.end(), "{} has no parameter '{}'", target(), name);
  return static_cast<size_t>(found - parameters.begin());
}

bool AtenCall::takes(std::string_view name) const {
  return std::ranges::find(entry_->signature.parameters, name, &AtenParameter::name) !=
         entry_->signature.parameters.end();
}

const AtenArg& AtenCall::argument(std::string_view name) const { return arguments_[position_of(name)]; }

void AtenCall::mismatch(std::string_view name, std::string_view wanted) const {
  fail("{}: argument '{}' must be {}, got {}", target(), name, wanted, to_string(argument(name)));
}

Value AtenCall::tensor(std::string_view name) const {
  const Value value = tensor_or_none(name);
  if (!value) mismatch(name, "a tensor");
  return value;
}

Value AtenCall::tensor_or_none(std::string_view name) const {
  const AtenArg& found = argument(name);
  if (found.is_none()) return {};
  const auto* tensor = found.get<AtenTensor>();
  if (tensor == nullptr) mismatch(name, "a tensor");
  return tensor->value;
}

bool AtenCall::is_tensor(std::string_view name) const {
  const auto* tensor = argument(name).get<AtenTensor>();
  return tensor != nullptr && tensor->value && !tensor->is_number;
}

std::vector<Value> AtenCall::tensors(std::string_view name) const {
  return list_of<Value>(name, "a list of tensors", [](const AtenArg& item) -> std::optional<Value> {
    if (item.is_none()) return Value();
    const auto* tensor = item.get<AtenTensor>();
    return tensor == nullptr ? std::nullopt : std::optional(tensor->value);
  });
}

const AtenArg& AtenCall::known(std::string_view name) const {
  const auto* tensor = argument(name).get<AtenTensor>();
  if (tensor != nullptr && tensor->value) decline("argument '{}' is only known at run time", name);
  return argument(name);
}

bool AtenCall::flag(std::string_view name) const {
  const auto number = integer_of(known(name));
  if (!number) mismatch(name, "a bool");
  return *number != 0;
}

int64_t AtenCall::integer(std::string_view name) const {
  const auto number = size_of_argument(known(name));
  if (!number) mismatch(name, "an integer");
  if (!number->is_constant()) decline("argument '{}' is the symbolic {}, where a constant is needed", name, *number);
  return number->constant();
}

Expr AtenCall::size(std::string_view name) const {
  const auto number = size_of_argument(known(name));
  if (!number) mismatch(name, "an integer");
  return *number;
}

double AtenCall::real(std::string_view name) const {
  const auto number = real_of(known(name));
  if (!number && argument(name).get<Expr>() != nullptr) decline("argument '{}' is only known at run time", name);
  if (!number) mismatch(name, "a number");
  return *number;
}

std::string AtenCall::string(std::string_view name) const {
  const auto* text = argument(name).get<std::string>();
  if (text == nullptr) mismatch(name, "a string");
  return *text;
}

std::optional<DType> AtenCall::dtype(std::string_view name) const {
  const AtenArg& found = argument(name);
  if (found.is_none()) return std::nullopt;
  if (const auto* dtype = found.get<DType>()) return *dtype;
  if (const auto* number = found.get<Expr>(); number != nullptr && number->is_constant(kTorchInt64)) return DType::kI64;
  if (const auto* setting = found.get<AtenSetting>()) decline("Tenon has no dtype {}", setting->text);
  mismatch(name, "a dtype");
}

template <class T, class Convert>
std::vector<T> AtenCall::list_of(std::string_view name, std::string_view wanted, Convert convert) const {
  const AtenArg& found = argument(name);
  if (found.is_none()) return {};
  const auto* items = found.get<AtenArg::List>();
  const AtenArg::List one = items == nullptr ? AtenArg::List{found} : AtenArg::List{};
  std::vector<T> result;
  for (const AtenArg& item : items == nullptr ? one : *items) {
    const std::optional<T> converted = convert(item);
    if (!converted) {
      if (item.get<AtenTensor>() != nullptr || item.get<Expr>() != nullptr) {
        decline("argument '{}' has an element that is only known at run time", name);
      }
      mismatch(name, wanted);
    }
    result.push_back(*converted);
  }
  return result;
}

std::vector<int64_t> AtenCall::ints(std::string_view name) const {
  return list_of<int64_t>(name, "a list of integers", integer_of);
}

Shape AtenCall::sizes(std::string_view name) const {
  return list_of<Expr>(name, "a list of integers", size_of_argument);
}

std::vector<double> AtenCall::reals(std::string_view name) const {
  return list_of<double>(name, "a list of numbers", real_of);
}

Attr AtenCall::number(std::string_view name) const {
  const AtenArg& found = known(name);
  if (!is_known_number(found)) mismatch(name, "a number");
  return attr_of_number(found);
}

Value AtenCall::number(std::string_view name, DType dtype) {
  if (is_tensor(name)) return cast(tensor(name), dtype);
  if (!is_number(argument(name))) mismatch(name, "a number");
  return tensor_of_number(*this, argument(name), dtype);
}

Value AtenCall::operand(std::string_view name, DType beside) {
  if (is_tensor(name)) return tensor(name);
  const AtenArg& found = argument(name);
  if (!is_number(found)) mismatch(name, "a tensor or a number");
  return tensor_of_number(*this, found, dtype_beside(beside, aten::dtype_of_number(found)));
}

std::pair<Value, Value> AtenCall::pair(std::string_view a, std::string_view b) {
  const DType beside = is_tensor(a) ? tensor(a).dtype() : tensor(b).dtype();
  return {operand(a, beside), operand(b, beside)};
}

Value AtenCall::as_tensor(const AtenArg& number) {
  const auto* tensor = number.get<AtenTensor>();
  if (tensor != nullptr && tensor->value && !tensor->is_number) return tensor->value;
  if (!is_number(number)) fail("{} is neither a tensor nor a number", to_string(number));
  return tensor_of_number(*this, number, aten::dtype_of_number(number));
}

void AtenCall::write(std::string_view name, Value value) {
  position_of(name);
  writes_.insert_or_assign(std::string(name), value);
}

AtenArg AtenCall::call(std::string_view target, std::vector<AtenArg> arguments) {
  const AtenEntry* entry = aten_table().find(target);
  check(entry != nullptr, "{} calls {}, which is not in the registry", this->target(), target);
  AtenCall inner(*importer_, *entry, bind_arguments(entry->signature, std::move(arguments), {}), where_);
  AtenArg result = entry->build(inner);
  check(inner.writes().empty(), "{} calls {}, which writes its arguments", this->target(), target);
  return result;
}

}  // namespace tenon
