// Sizes, and numbers that are computed from them: what PyTorch calls SymInt, SymFloat and SymBool.
//
// An integer that follows from sizes is an Expr. A real that does, and any number that is read from a tensor, is only
// known at run time (see AtenArg).
#include <fmt/format.h>

#include <cmath>

#include "capture/aten/common.h"
#include "capture/aten/layout.h"

namespace tenon::aten {
namespace {

// ---- what a tensor is -----------------------------------------------------------------------------------------------

AtenArg size_of_dim(AtenCall& c) {
  const Value x = c.tensor();
  return x.size(normalize_dim(c.integer("dim"), x.rank()));
}

AtenArg stride_of_dim(AtenCall& c) {
  const Value x = c.tensor();
  return strides_of(x)[static_cast<size_t>(normalize_dim(c.integer("dim"), x.rank()))];
}

// Sizes that are not known to be equal may still be so in a run.
AtenArg is_same_size(AtenCall& c) {
  const Shape &a = c.tensor().shape(), &b = c.tensor("other").shape();
  if (a.size() != b.size()) return false;
  const Facts facts(c.graph().symbols());
  if (facts.equal(a, b)) return true;
  const auto differ = [](const Expr& x, const Expr& y) { return x.is_constant() && y.is_constant() && x != y; };
  for (size_t dim = 0; dim < a.size(); ++dim) {
    if (differ(a[dim], b[dim]) || facts.less_equal(a[dim] + 1, b[dim]) || facts.less_equal(b[dim] + 1, a[dim])) {
      return false;
    }
  }
  c.decline("whether {} is {} is only known at run time", to_string(a), to_string(b));
}

void add_properties(AtenTable& table) {
  table.add("aten.{sym_size,size}.int(self, dim)", size_of_dim);
  table.add("aten.{sym_stride,stride}.int(self, dim)", stride_of_dim);
  table.add("aten.{sym_numel,numel}.default(self)", [](AtenCall& c) { return element_count(c.tensor().shape()); });
  table.add("aten.{sym_storage_offset,storage_offset}.default(self)", [](AtenCall&) { return 0; });
  table.add("aten.dim.default(self)", [](AtenCall& c) { return c.tensor().rank(); });
  const AtenFn contiguous = [](AtenCall& c) { return is_contiguous(c.tensor()); };
  table.add("aten.sym_is_contiguous.default(self, memory_format=0)", contiguous);
  table.add("aten.is_contiguous.default(self)", contiguous);
  table.add("aten.is_same_size.default(self, other)", is_same_size);
  table.add("aten.is_floating_point.default(self)", [](AtenCall& c) { return is_float(c.tensor().dtype()); });
  table.add("aten.is_signed.default(self)",
            [](AtenCall& c) { return c.tensor().dtype() != DType::kU8 && c.tensor().dtype() != DType::kBool; });
  table.add("aten.{is_complex,is_conj,is_neg}.default(self)", [](AtenCall&) { return false; });
}

// ---- numbers from tensors -------------------------------------------------------------------------------------------

// Of the number in Python.
DType number_dtype(DType dtype) {
  if (is_float(dtype)) return DType::kF64;
  return dtype == DType::kBool ? DType::kBool : DType::kI64;
}

AtenArg only_element(AtenCall& c) {
  const Value x = c.tensor();
  return AtenArg::run_time_number(c.cast(c.reshape(x, {}), number_dtype(x.dtype())));
}

void add_elements(AtenTable& table) {
  table.add("aten.{item,_local_scalar_dense}.default(self)", only_element);
  table.add("aten.is_nonzero.default(self)",
            [](AtenCall& c) { return AtenArg::run_time_number(c.cast(c.reshape(c.tensor(), {}), DType::kBool)); });
}

// ---- assertions: their conditions are known when the graph is built, or hold whenever the model is valid ------------

AtenArg nothing(AtenCall&) { return None{}; }

AtenArg assert_scalar(AtenCall& c) {
  const AtenArg& condition = c.argument("self");
  const auto* expr = condition.get<Expr>();
  const auto* flag = condition.get<bool>();
  if ((expr != nullptr && expr->is_constant(0)) || (flag != nullptr && !*flag)) fail("{}", c.string("assert_msg"));
  return c.takes("dep_token") ? c.argument("dep_token") : None{};
}

AtenArg assert_metadata(AtenCall& c) {
  const Value a = c.tensor("a");
  if (c.given("size") && !Facts(c.graph().symbols()).equal(a.shape(), c.sizes("size"))) {
    c.decline("sizes {} are to be {}", to_string(a.shape()), to_string(c.sizes("size")));
  }
  const auto dtype = c.dtype();
  if (dtype && *dtype != a.dtype()) fail("the tensor is {}, the model expects {}", name_of(a.dtype()), name_of(*dtype));
  return None{};
}

void add_assertions(AtenTable& table) {
  table.add("aten._assert_scalar.default(self, assert_msg)", assert_scalar);
  table.add("aten._functional_assert_scalar.default(self, assert_msg, dep_token)", assert_scalar);
  table.add("aten._assert_async.default(self)", nothing);
  table.add("aten._assert_async.msg(self, assert_msg)", nothing);
  table.add("aten._assert_tensor_metadata.default(a, size=None, stride=None, dtype=None, *, device=None, layout=None)",
            assert_metadata);
  const AtenFn token = [](AtenCall& c) { return itself(c, "dep_token"); };
  table.add("aten._functional_assert_async.msg(self, assert_msg, dep_token)", token);
  table.add("aten.sym_constrain_range{,_for_size}.default(size, *, min=None, max=None)", nothing);
  table.add("aten._functional_sym_constrain_range{,_for_size}.default(size, min, max, dep_token)", token);
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

std::optional<Expr> as_expr(const AtenArg& number) {
  if (const auto* flag = number.get<bool>()) return Expr(*flag ? 1 : 0);
  const auto* expr = number.get<Expr>();
  return expr == nullptr ? std::nullopt : std::optional(*expr);
}

std::optional<double> as_real(const AtenArg& number) {
  if (const auto* real = number.get<double>()) return *real;
  const auto expr = as_expr(number);
  return expr && expr->is_constant() ? std::optional(static_cast<double>(expr->constant())) : std::nullopt;
}

// A number as a tensor of rank 0, in Python's precision.
Value as_value(AtenCall& c, const AtenArg& number) {
  if (const auto* tensor = number.get<AtenTensor>(); tensor != nullptr && tensor->value) {
    if (tensor->value.rank() != 0) c.decline("{} is no number", to_string(number));
    return c.cast(tensor->value, number_dtype(tensor->value.dtype()));
  }
  if (const auto* real = number.get<double>()) return c.scalar(*real, DType::kF64);
  if (const auto* flag = number.get<bool>()) return c.integer(*flag ? 1 : 0, DType::kBool);
  const auto expr = as_expr(number);
  if (!expr) c.decline("{} is no number", to_string(number));
  return c.full(*expr, {}, DType::kI64);
}

AtenArg as_truth(const Expr& comparison) {
  return comparison.is_constant() ? AtenArg(comparison.constant() != 0) : AtenArg(comparison);
}

// An operator in its three domains. Where `exact` has no answer, or `real` is absent, the op computes it.
struct Operator {
  std::function<std::optional<AtenArg>(const Expr&, const Expr&)> exact = {};
  std::function<AtenArg(double, double)> real = {};
  std::function<Value(AtenCall&, Value, Value)> op;
  bool keeps_truth = false;  // of two bools the result is one
};

// Not a number: Python's operators take tensors, too.
bool is_array(const AtenArg& argument) {
  const auto* tensor = argument.get<AtenTensor>();
  return tensor != nullptr && tensor->value && tensor->value.rank() > 0;
}

AtenFn binary(Operator op, std::string_view of_arrays) {
  return [op = std::move(op), of_arrays](AtenCall& c) -> AtenArg {
    const AtenArg& a = c.argument("a");
    const AtenArg& b = c.argument("b");
    if (is_array(a) || is_array(b)) return c.call(of_arrays, {a, b});
    const auto m = as_expr(a), n = as_expr(b);
    if (op.exact && m && n) {
      const auto result = op.exact(*m, *n);
      const bool is_truth = op.keeps_truth && a.get<bool>() != nullptr && b.get<bool>() != nullptr;
      if (result) return is_truth ? as_truth(*as_expr(*result)) : *result;
    }
    const auto x = as_real(a), y = as_real(b);
    if (op.real && x && y) return op.real(*x, *y);
    return AtenArg::run_time_number(op.op(c, as_value(c, a), as_value(c, b)));
  };
}

std::function<Value(AtenCall&, Value, Value)> table_op(std::string_view name) {
  return [name](AtenCall& c, Value x, Value y) {
    const auto number = [&](Value v) { return v.dtype() == DType::kBool ? c.cast(v, DType::kI64) : v; };
    return c.op(name, {number(x), number(y)});
  };
}

template <class Exact, class Real>
Operator arithmetic(Exact exact, Real real, std::string_view op) {
  return {[exact](const Expr& a, const Expr& b) { return std::optional<AtenArg>(exact(a, b)); },
          [real](double a, double b) { return AtenArg(real(a, b)); }, table_op(op)};
}

template <class Real>
Operator comparison(Expr (*exact)(const Expr&, const Expr&), Real real, std::string_view op) {
  return {[exact](const Expr& a, const Expr& b) { return std::optional(as_truth(exact(a, b))); },
          [real](double a, double b) { return AtenArg(real(a, b)); }, table_op(op)};
}

// As an Expr where both are truths; bits of other integers only where they are known.
Operator truth(Expr (*exact)(const Expr&, const Expr&), int64_t (*bits)(int64_t, int64_t), std::string_view op) {
  const auto is_truth = [](const Expr& x) {
    const symbolic::Interval range = symbolic::bounds(x, {});
    return range.low >= 0 && range.high <= 1;
  };
  return {[=](const Expr& a, const Expr& b) -> std::optional<AtenArg> {
            if (a.is_constant() && b.is_constant()) return AtenArg(bits(a.constant(), b.constant()));
            return is_truth(a) && is_truth(b) ? std::optional(AtenArg(exact(a, b))) : std::nullopt;
          },
          {},
          [op](AtenCall& c, Value x, Value y) { return c.op(op, {x, y}); },
          true};
}

std::optional<AtenArg> power(const Expr& base, const Expr& exponent) {
  constexpr int64_t kMost = 16;
  if (!exponent.is_constant() || exponent.constant() < 0 || exponent.constant() > kMost) return std::nullopt;
  return AtenArg(symbolic::product(std::vector<Expr>(static_cast<size_t>(exponent.constant()), base)));
}

std::optional<AtenArg> shifted(const Expr& x, const Expr& places, bool left) {
  if (!places.is_constant() || places.constant() < 0 || places.constant() > 62) return std::nullopt;
  const Expr factor = int64_t{1} << places.constant();
  return AtenArg(left ? x * factor : floordiv(x, factor));
}

// A division of integers gives a real. It stays a node: `floor` and its like read it off.
Operator true_division() {
  return {[](const Expr& a, const Expr& b) -> std::optional<AtenArg> {
            if (!a.is_constant() || !b.is_constant() || b.is_constant(0)) return std::nullopt;
            return AtenArg(static_cast<double>(a.constant()) / static_cast<double>(b.constant()));
          },
          [](double a, double b) { return AtenArg(a / b); },
          [](AtenCall& c, Value x, Value y) { return c.op("div", {c.cast(x, DType::kF64), c.cast(y, DType::kF64)}); }};
}

double floor_mod(double a, double b) { return a - b * std::floor(a / b); }

void add_binary(AtenTable& table, std::string_view name, std::string_view of_arrays, const Operator& op) {
  table.add(fmt::format("{{_operator,operator}}.{}(a, b)", name), binary(op, of_arrays));
}

void add_operators(AtenTable& table) {
  using namespace symbolic;
  add_binary(table, "add", "aten.add.Tensor", arithmetic(std::plus<>(), std::plus<>(), "add"));
  add_binary(table, "sub", "aten.sub.Tensor", arithmetic(std::minus<>(), std::minus<>(), "sub"));
  add_binary(table, "mul", "aten.mul.Tensor", arithmetic(std::multiplies<>(), std::multiplies<>(), "mul"));
  add_binary(table, "floordiv", "aten.floor_divide.default",
             arithmetic(floordiv, [](double a, double b) { return std::floor(a / b); }, "floor_div"));
  add_binary(table, "mod", "aten.remainder.Tensor", arithmetic(mod, floor_mod, "remainder"));
  add_binary(table, "pow", "aten.pow.Tensor_Tensor",
             {power, [](double a, double b) { return AtenArg(std::pow(a, b)); }, table_op("pow")});
  add_binary(table, "truediv", "aten.div.Tensor", true_division());
  add_binary(table, "eq", "aten.eq.Tensor", comparison(eq, std::equal_to<>(), "eq"));
  add_binary(table, "ne", "aten.ne.Tensor", comparison(ne, std::not_equal_to<>(), "ne"));
  add_binary(table, "lt", "aten.lt.Tensor", comparison(lt, std::less<>(), "lt"));
  add_binary(table, "le", "aten.le.Tensor", comparison(le, std::less_equal<>(), "le"));
  add_binary(table, "gt", "aten.gt.Tensor", comparison(gt, std::greater<>(), "gt"));
  add_binary(table, "ge", "aten.ge.Tensor", comparison(ge, std::greater_equal<>(), "ge"));
  add_binary(table, "and_", "aten.bitwise_and.Tensor",
             truth([](const Expr& a, const Expr& b) { return a * b; }, [](int64_t a, int64_t b) { return a & b; },
                   "bitwise_and"));
  add_binary(table, "or_", "aten.bitwise_or.Tensor",
             truth(max, [](int64_t a, int64_t b) { return a | b; }, "bitwise_or"));
  add_binary(table, "lshift", "aten.bitwise_left_shift.Tensor",
             {[](const Expr& a, const Expr& b) { return shifted(a, b, true); }, {}, table_op("shift_left")});
  add_binary(table, "rshift", "aten.bitwise_right_shift.Tensor",
             {[](const Expr& a, const Expr& b) { return shifted(a, b, false); }, {}, table_op("shift_right")});
  table.add(
      "torch.sym_max(a, b)",
      binary(arithmetic(max, [](double a, double b) { return std::fmax(a, b); }, "maximum"), "aten.maximum.default"));
  table.add(
      "torch.sym_min(a, b)",
      binary(arithmetic(min, [](double a, double b) { return std::fmin(a, b); }, "minimum"), "aten.minimum.default"));
}

// ---- one number -----------------------------------------------------------------------------------------------------

AtenArg negated(AtenCall& c) {
  const AtenArg& a = c.argument("a");
  if (const auto* real = a.get<double>()) return -*real;
  if (const auto expr = as_expr(a)) return -*expr;
  return is_array(a) ? c.call("aten.neg.default", {a}) : AtenArg::run_time_number(-as_value(c, a));
}

AtenArg inverted(AtenCall& c) {
  const AtenArg& a = c.argument("a");
  if (const auto expr = as_expr(a)) return as_truth(symbolic::eq(*expr, 0));
  return AtenArg::run_time_number(c.logical_not(as_value(c, a)));
}

AtenArg as_float(AtenCall& c) {
  const AtenArg& a = c.argument("a");
  if (const auto real = as_real(a)) return *real;
  return AtenArg::run_time_number(c.cast(as_value(c, a), DType::kF64));
}

// The element at a position of a list or tuple.
AtenArg element(AtenCall& c) {
  const auto* list = c.argument("a").get<AtenArg::List>();
  if (list == nullptr) c.decline("{} is not a list", to_string(c.argument("a")));
  const auto count = static_cast<int64_t>(list->size());
  const int64_t index = c.integer("b");
  if (index < -count || index >= count) fail("index {} is out of range for {} elements", index, count);
  return (*list)[static_cast<size_t>(index < 0 ? index + count : index)];
}

AtenArg chosen(AtenCall& c) {
  const AtenArg& condition = c.argument("b");
  const auto truth = as_expr(condition);
  if (truth && truth->is_constant()) return c.argument(truth->constant() != 0 ? "t" : "f");
  const auto t = as_expr(c.argument("t")), f = as_expr(c.argument("f"));
  if (truth && t && f) return *truth * *t + (1 - *truth) * *f;
  const Value is_true = c.cast(as_value(c, condition), DType::kBool);
  return AtenArg::run_time_number(c.where(is_true, as_value(c, c.argument("t")), as_value(c, c.argument("f"))));
}

AtenArg total(AtenCall& c) {
  const auto* list = c.argument("args").get<AtenArg::List>();
  if (list == nullptr) fail("torch.sym_sum takes a list of integers, got {}", to_string(c.argument("args")));
  Expr sum = 0;
  for (const AtenArg& term : *list) {
    const auto expr = as_expr(term);
    if (!expr) c.decline("a term of torch.sym_sum is only known at run time");
    sum += *expr;
  }
  return sum;
}

// ---- from reals to integers -----------------------------------------------------------------------------------------

// numerator / denominator, where a real is a quotient of integers.
struct Fraction {
  Expr numerator;
  Expr denominator = 1;
};

std::optional<Fraction> fraction_of(double number) {
  constexpr int64_t kMostDenominator = 1 << 12;
  for (int64_t denominator = 1; denominator <= kMostDenominator; denominator *= 2) {
    const double numerator = number * static_cast<double>(denominator);
    if (std::abs(numerator) < 0x1p53 && numerator == std::floor(numerator)) {
      return Fraction{static_cast<int64_t>(numerator), denominator};
    }
  }
  return std::nullopt;
}

// How the nodes of a value of rank 0 computed it from integers. PyTorch computes in doubles: the same below 2^53.
std::optional<Fraction> fraction_of(const Graph& graph, ValueRef ref) {
  if (const Leaf* leaf = graph.leaf(ref)) {
    if (leaf->kind != LeafKind::kConstant) return std::nullopt;
    return is_float(leaf->data.dtype()) ? fraction_of(leaf->data.real(0)) : Fraction{leaf->data.integer(0)};
  }
  const Node& node = graph.node(graph.producer(ref));
  const std::string_view op = node.op->name.get();
  if (op == "cast" && graph.type(ref).dtype != DType::kBool) return fraction_of(graph, node.operands[0]);
  if (op == "full") {
    const auto* number = std::get_if<Expr>(&node.attrs[0]);
    return number == nullptr ? std::nullopt : std::optional(Fraction{*number});
  }
  if (op != "div" && op != "mul") return std::nullopt;
  const auto a = fraction_of(graph, node.operands[0]), b = fraction_of(graph, node.operands[1]);
  if (!a || !b) return std::nullopt;
  if (op == "mul") return Fraction{a->numerator * b->numerator, a->denominator * b->denominator};
  return Fraction{a->numerator * b->denominator, a->denominator * b->numerator};
}

struct Rounding {
  double (*real)(double);
  std::optional<Expr> (*exact)(const Fraction&, const Facts&);
  std::string_view op;
};

std::optional<Expr> floor_of(const Fraction& x, const Facts&) { return floordiv(x.numerator, x.denominator); }
std::optional<Expr> ceil_of(const Fraction& x, const Facts&) { return ceildiv(x.numerator, x.denominator); }
std::optional<Expr> trunc_of(const Fraction& x, const Facts& facts) {
  if (!facts.less_equal(0, x.numerator)) return std::nullopt;
  return floordiv(x.numerator, x.denominator);
}

AtenFn rounded(const Rounding& rounding, std::string_view parameter) {
  return [rounding, parameter](AtenCall& c) -> AtenArg {
    const AtenArg& x = c.argument(parameter);
    if (const auto expr = as_expr(x)) return *expr;
    if (const auto real = as_real(x)) return static_cast<int64_t>(rounding.real(*real));
    const Value value = as_value(c, x);
    const Facts facts(c.graph().symbols());
    const auto fraction = fraction_of(c.graph(), value.ref());
    if (fraction && facts.less_equal(1, fraction->denominator)) {
      if (const auto expr = rounding.exact(*fraction, facts)) return *expr;
    }
    return AtenArg::run_time_number(c.cast(is_float(value.dtype()) ? c.unary(rounding.op, value) : value, DType::kI64));
  };
}

// ---- functions over reals -------------------------------------------------------------------------------------------

AtenFn function(double (*real)(double), std::string_view op, std::string_view parameter) {
  return [real, op, parameter](AtenCall& c) -> AtenArg {
    const AtenArg& x = c.argument(parameter);
    if (const auto number = as_real(x)) return real(*number);
    return AtenArg::run_time_number(c.unary(op, c.cast(as_value(c, x), DType::kF64)));
  };
}

void add_functions(AtenTable& table) {
  const std::vector<std::pair<std::string_view, double (*)(double)>> functions = {
      {"sqrt", std::sqrt}, {"cos", std::cos},   {"cosh", std::cosh}, {"sin", std::sin},
      {"sinh", std::sinh}, {"tan", std::tan},   {"tanh", std::tanh}, {"asin", std::asin},
      {"acos", std::acos}, {"atan", std::atan}, {"log2", std::log2}};
  for (const auto& [name, real] : functions) {
    table.add(fmt::format("torch._sym_{}(a)", name), function(real, name, "a"));
    table.add(fmt::format("math.{}(x)", name), function(real, name, "x"));
  }
  table.add("torch.sym_sqrt(a)", function(std::sqrt, "sqrt", "a"));
  table.add("math.exp(x)", function(std::exp, "exp", "x"));
  table.add("math.floor(x)", rounded({std::floor, floor_of, "floor"}, "x"));
  table.add("math.ceil(x)", rounded({std::ceil, ceil_of, "ceil"}, "x"));
  table.add("math.trunc(x)", rounded({std::trunc, trunc_of, "trunc"}, "x"));
  table.add("torch.sym_int(a)", rounded({std::trunc, trunc_of, "trunc"}, "a"));
}

void add_unary(AtenTable& table) {
  table.add("{_operator,operator}.neg(a)", negated);
  table.add("{_operator,operator}.pos(a)", [](AtenCall& c) { return itself(c, "a"); });
  table.add("{_operator,operator}.getitem(a, b)", element);
  table.add("torch.sym_not(a)", inverted);
  table.add("torch.sym_float(a)", as_float);
  table.add("torch.sym_ite(b, t, f)", chosen);
  table.add("torch.sym_sum(args)", total);
}

}  // namespace

void add_symbolic_entries(AtenTable& table) {
  for (const auto add : {add_properties, add_elements, add_assertions, add_operators, add_unary, add_functions})
    add(table);
}

}  // namespace tenon::aten
