#include "graph/op.h"

#include <algorithm>

#include "graph/library_call.h"
#include "graph/limits.h"
#include "support/text.h"

namespace tenon {
namespace {

void check_operand_count(const OpDef& op, size_t count) {
  const auto& operands = op.operands.get();
  const bool variadic = !operands.empty() && is_variadic(operands.back().arity);
  const size_t least = operands.size() - (variadic ? 1 : 0);
  if (count == least || (variadic && count > least)) return;
  fail("{} takes {}{} operand{}, got {}", op.name.get(), variadic ? "at least " : "", least, least == 1 ? "" : "s",
       count);
}

void check_operands(const OpDef& op, const std::vector<const TensorType*>& types) {
  check_operand_count(op, types.size());
  const auto& operands = op.operands.get();
  for (size_t i = 0; i < types.size(); ++i) {
    const OperandDef& def = operands[std::min(i, operands.size() - 1)];
    if (types[i] == nullptr) {
      if (!may_be_none(def.arity)) fail("{}: operand '{}' must be given", op.name.get(), def.name);
      continue;
    }
    if (!def.dtypes.contains(types[i]->dtype)) {
      fail("{}: operand '{}' has dtype {}, which is not one of {}", op.name.get(), def.name, name_of(types[i]->dtype),
           to_string(def.dtypes, ", "));
    }
  }
}

// Lets a caller write an int where an expression or a real is meant.
Attr coerce(Attr attr, AttrKind kind) {
  if (const auto* integer = std::get_if<int64_t>(&attr)) {
    if (kind == AttrKind::kExpr || kind == AttrKind::kSymbol || kind == AttrKind::kScalar) return Expr(*integer);
    if (kind == AttrKind::kReal) return static_cast<double>(*integer);
  }
  if (const auto* flag = std::get_if<bool>(&attr); flag && kind == AttrKind::kScalar) return Expr(*flag ? 1 : 0);
  const auto* ints = std::get_if<std::vector<int64_t>>(&attr);
  if (ints && kind == AttrKind::kExprs) return to_shape(*ints);
  if (ints && kind == AttrKind::kReals) return std::vector<double>(ints->begin(), ints->end());
  const auto* exprs = std::get_if<std::vector<Expr>>(&attr);
  if (exprs && exprs->empty() && kind == AttrKind::kInts) return std::vector<int64_t>{};
  return attr;
}

Attr take_attr(const OpDef& op, const AttrDef& def, NamedAttrs& named) {
  const auto found = std::ranges::find_if(named, [&](const auto& entry) { return entry.first == def.name; });
  if (found == named.end()) {
    if (def.fallback.required)
      fail("{}: attribute '{}' must be given ({})", op.name.get(), def.name, name_of(def.kind));
    return def.fallback.value;
  }
  Attr attr = coerce(std::move(found->second), def.kind);
  named.erase(found);
  const bool none_allowed = !def.fallback.required && std::holds_alternative<None>(def.fallback.value);
  if (has_kind(attr, def.kind) || (none_allowed && std::holds_alternative<None>(attr))) return attr;
  fail("{}: attribute '{}' must be of kind {}, got {}", op.name.get(), def.name, name_of(def.kind), to_string(attr));
}

}  // namespace

const AttrDef* OpDef::attr_named(std::string_view wanted) const {
  const auto found = std::ranges::find(attrs, wanted, &AttrDef::name);
  return found == attrs.end() ? nullptr : &*found;
}

std::vector<TensorType> OpView::present_types(size_t first) const {
  std::vector<TensorType> present;
  for (size_t i = first; i < types_.size(); ++i) {
    if (types_[i] != nullptr) present.push_back(*types_[i]);
  }
  return present;
}

const Attr& OpView::attr(std::string_view name) const {
  const auto& defs = op_->attrs;
  for (size_t i = 0; i < defs.size(); ++i) {
    if (defs[i].name == name) return attrs_[i];
  }
  check(false, "op '{}' has no attribute '{}'", op_->name.get(), name);
  return attrs_[0];
}

template <class T>
const T& OpView::get(std::string_view name) const {
  const T* value = std::get_if<T>(&attr(name));
  check(value != nullptr, "attribute '{}' of '{}' is of another kind", name, op_->name.get());
  return *value;
}

bool OpView::given(std::string_view name) const { return !std::holds_alternative<None>(attr(name)); }
bool OpView::flag(std::string_view name) const { return get<bool>(name); }
int64_t OpView::integer(std::string_view name) const { return get<int64_t>(name); }
double OpView::real(std::string_view name) const { return get<double>(name); }
const std::string& OpView::string(std::string_view name) const { return get<std::string>(name); }
DType OpView::dtype(std::string_view name) const { return get<DType>(name); }
const Expr& OpView::expr(std::string_view name) const { return get<Expr>(name); }
std::span<const int64_t> OpView::ints(std::string_view name) const { return get<std::vector<int64_t>>(name); }
std::span<const double> OpView::reals(std::string_view name) const { return get<std::vector<double>>(name); }
std::span<const Expr> OpView::exprs(std::string_view name) const { return get<std::vector<Expr>>(name); }

std::vector<TensorType> infer(const OpDef& op, const std::vector<const TensorType*>& types, std::span<const Attr> attrs,
                              const Facts& facts) {
  check_operands(op, types);
  InferContext context(op, types, attrs, facts);
  try {
    std::vector<TensorType> results = op.infer.get()(context);
    for (const TensorType& type : results) check_limits(type, "the result");
    return results;
  } catch (const Error& error) {
    fail("{}: {}", op.name.get(), error.diagnostic().message);
  }
}

std::vector<Attr> complete_attrs(const OpDef& op, NamedAttrs named) {
  std::vector<Attr> attrs;
  attrs.reserve(op.attrs.size());
  for (const AttrDef& def : op.attrs) attrs.push_back(take_attr(op, def, named));
  if (named.empty()) return attrs;
  if (op.attr_named(named.front().first)) fail("{}: attribute '{}' is given twice", op.name.get(), named.front().first);
  std::vector<std::string_view> names;
  for (const AttrDef& def : op.attrs) names.push_back(def.name);
  fail("{} has no attribute '{}'{}", op.name.get(), named.front().first, did_you_mean(named.front().first, names));
}

Role role_of(const OpDef& op) {
  if (op.role) return *op.role;
  if (std::holds_alternative<Elementwise>(op.semantics.get())) return Role::kPointwise;
  const bool is_library = std::holds_alternative<LibraryTask>(op.loops) || has_library_function(op);
  return is_library ? Role::kLibrary : Role::kAlone;
}

Cost cost_of(const OpDef& op) {
  if (op.cost) return *op.cost;
  if (op.flops != nullptr) return Cost::kProduct;
  if (const auto* elementwise = std::get_if<Elementwise>(&op.semantics.get())) {
    return std::max(elementwise->real.cost(), elementwise->integer.cost());
  }
  const Role role = role_of(op);
  const bool is_free = is_view(role) || role == Role::kFill || role == Role::kReshape;
  return is_free ? Cost::kFree : Cost::kFunction;
}

const ScalarFn& scalar_fn(const OpDef& op, DType compute) {
  const auto* const elementwise = std::get_if<Elementwise>(&op.semantics.get());
  if (!elementwise) fail("{} is not a function of single elements", op.name.get());
  const ScalarFn& fn = is_float(compute) ? elementwise->real : elementwise->integer;
  if (!fn) fail("{} does not compute in {}", op.name.get(), name_of(compute));
  return fn;
}

bool divides_integers(const OpDef& op, DType compute) {
  const auto* const elementwise = std::get_if<Elementwise>(&op.semantics.get());
  return elementwise && is_integral(compute) && elementwise->integer.divides_by_operand();
}

DType compute_dtype(const Elementwise& elementwise, const OpView& view) {
  const DType promoted = result_dtype(view.present_types(elementwise.compute == Compute::kSelect ? 1 : 0));
  return elementwise.compute == Compute::kPromoteToFloat && is_integral(promoted) ? DType::kF32 : promoted;
}

}  // namespace tenon
