#include "symbolic/expr.h"

#include <fmt/format.h>
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "named/symbol.h"

namespace tenon::python {
namespace {

using symbolic::Bindings;
using symbolic::Interval;
using symbolic::Ranges;
using symbolic::Substitution;

// Calls body(symbol, value) for each entry of a dict and of the keyword arguments.
template <class Body>
void for_each_binding(const nb::object& dict, const nb::kwargs& named, Body&& body) {
  if (!dict.is_none()) {
    for (const auto& [name, value] : nb::cast<nb::dict>(dict)) body(Symbol(nb::cast<std::string>(name)), value);
  }
  for (const auto& [name, value] : named) body(Symbol(nb::cast<std::string>(name)), value);
}

int64_t integer_from(nb::handle object, std::string_view what) {
  int64_t value = 0;
  if (!nb::try_cast(object, value)) fail("{} must be an integer of 64 bits, got {}", what, class_of(object));
  return value;
}

Interval interval_from(Symbol symbol, nb::handle range) {
  nb::object low;
  nb::object high;
  if (nb::isinstance<nb::tuple>(range) && nb::len(range) == 2) {
    low = range[0];
    high = range[1];
  } else {
    fail("the range of {} must be a pair (low, high)", symbol.name());
  }
  Interval interval = Interval::all();
  if (!low.is_none()) interval.low = integer_from(low, "the lower bound");
  if (!high.is_none()) interval.high = integer_from(high, "the upper bound");
  if (interval.low > interval.high) fail("{} has the empty range [{}, {}]", symbol.name(), interval.low, interval.high);
  return interval;
}

Ranges ranges_from(const nb::object& dict, const nb::kwargs& named) {
  Ranges ranges;
  for_each_binding(dict, named, [&](Symbol symbol, nb::handle range) {
    ranges.insert_or_assign(symbol, interval_from(symbol, range));
  });
  return ranges;
}

int64_t evaluate_expr(const Expr& expr, const nb::object& dict, const nb::kwargs& named) {
  Bindings bindings;
  for_each_binding(dict, named, [&](Symbol symbol, nb::handle value) {
    bindings.insert_or_assign(symbol, integer_from(value, symbol.name()));
  });
  return evaluate(expr, bindings);
}

Expr substitute_expr(const Expr& expr, const nb::object& dict, const nb::kwargs& named) {
  Substitution replacements;
  for_each_binding(dict, named,
                   [&](Symbol symbol, nb::handle value) { replacements.insert_or_assign(symbol, expr_from(value)); });
  return substitute(expr, replacements);
}

nb::object bound_to_python(int64_t bound, int64_t unbounded) {
  return bound == unbounded ? nb::object(nb::none()) : nb::cast(bound);
}

nb::tuple bounds_of(const Expr& expr, const nb::object& dict, const nb::kwargs& named) {
  const Interval interval = bounds(expr, ranges_from(dict, named));
  return nb::make_tuple(bound_to_python(interval.low, Interval::all().low),
                        bound_to_python(interval.high, Interval::all().high));
}

nb::tuple symbols_to_python(const Expr& expr) {
  nb::list names;
  for (const Symbol& symbol : symbols_of(expr)) names.append(to_str(symbol.name()));
  return nb::tuple(names);
}

int64_t constant_of(const Expr& expr) {
  if (!expr.is_constant()) fail("{} is not a constant: it depends on {}", to_string(expr), symbols_of(expr)[0].name());
  return expr.constant();
}

using Operator = Expr (*)(const Expr&, const Expr&);

// An operator of Python, with an Expr or an int on either side.
template <Operator apply>
void bind_operator(nb::class_<Expr>& type, const char* name, const char* reflected) {
  type.def(name, [](const Expr& a, const Expr& b) { return apply(a, b); }, nb::is_operator());
  type.def(reflected, [](const Expr& a, const Expr& b) { return apply(b, a); }, nb::is_operator());
}

template <Operator apply>
void bind_method(nb::class_<Expr>& type, const char* name, const char* doc) {
  type.def(name, [](const Expr& a, const Expr& b) { return apply(a, b); }, nb::arg("other"), doc);
}

}  // namespace

Expr expr_from(nb::handle object, std::string_view what) {
  if (nb::isinstance<Expr>(object)) return nb::cast<Expr>(object);
  if (nb::isinstance<named::Symbol>(object)) return nb::cast<named::Symbol>(object);
  if (nb::isinstance<nb::str>(object)) {
    const auto text = nb::cast<std::string>(object);
    const Result<Expr> expr = symbolic::parse(text);
    if (!expr.ok()) fail("'{}' is not {}: {}", shortened(text), what, expr.diagnostic().message);
    return *expr;
  }
  int64_t value = 0;
  if (nb::isinstance<nb::bool_>(object) || !nb::try_cast(object, value)) {
    fail("{} must be an integer of 64 bits or a tenon.Expr, got {}", what, class_of(object));
  }
  return value;
}

nb::object to_python(const Expr& expr) { return expr.is_constant() ? nb::cast(expr.constant()) : nb::cast(expr); }

void bind_expr(nb::module_& module) {
  nb::class_<Expr> type(
      module, "Expr",
      "An exact integer expression over named symbols: the size of a dynamic dimension. Equality is of "
      "the canonical form; comparisons that give an expression are the methods eq, ne, lt, le, gt, ge.");
  type.def(
      "__init__", [](Expr* self, nb::handle value) { new (self) Expr(expr_from(value)); }, nb::arg("value"),
      nb::sig("def __init__(self, value: SizeLike) -> None"));
  type.def(nb::init_implicit<int64_t>());
  bind_operator<symbolic::operator+ >(type, "__add__", "__radd__");
  bind_operator<symbolic::operator- >(type, "__sub__", "__rsub__");
  bind_operator<symbolic::operator*>(type, "__mul__", "__rmul__");
  bind_operator<symbolic::floordiv>(type, "__floordiv__", "__rfloordiv__");
  bind_operator<symbolic::mod>(type, "__mod__", "__rmod__");
  bind_method<symbolic::ceildiv>(type, "ceildiv", "Division that rounds up.");
  bind_method<symbolic::min>(type, "min", "The smaller of the two.");
  bind_method<symbolic::max>(type, "max", "The larger of the two.");
  bind_method<symbolic::eq>(type, "eq", "1 where the two are equal, else 0.");
  bind_method<symbolic::ne>(type, "ne", "1 where the two differ, else 0.");
  bind_method<symbolic::lt>(type, "lt", "1 where this is less, else 0.");
  bind_method<symbolic::le>(type, "le", "1 where this is less or equal, else 0.");
  bind_method<symbolic::gt>(type, "gt", "1 where this is greater, else 0.");
  bind_method<symbolic::ge>(type, "ge", "1 where this is greater or equal, else 0.");
  type.def("__neg__", [](const Expr& a) { return -a; });
  type.def("__eq__", [](const Expr& a, const Expr& b) { return a == b; }, nb::is_operator());
  type.def("__hash__", [](const Expr& self) { return self.hash(); });
  type.def("__int__", constant_of);
  type.def("__index__", constant_of);
  type.def("__str__", [](const Expr& self) { return to_string(self); });
  type.def("__repr__", [](const Expr& self) { return fmt::format("Expr('{}')", to_string(self)); });
  type.def_prop_ro("is_constant", [](const Expr& self) { return self.is_constant(); });
  type.def_prop_ro("symbols", symbols_to_python, "The names of its symbols, sorted.");
  type.def("evaluate", evaluate_expr, nb::arg("bindings") = nb::none(), nb::arg("named"),
           nb::sig("def evaluate(self, bindings: dict[str, int] | None = None, **named: int) -> int"),
           "The integer for these values of the symbols: evaluate(N=3) or evaluate({'N': 3}).");
  type.def("substitute", substitute_expr, nb::arg("replacements") = nb::none(), nb::arg("named"),
           nb::sig("def substitute(self, replacements: dict[str, SizeLike] | None = None, **named: SizeLike) -> Expr"),
           "The expression with symbols replaced, all at once.");
  type.def(
      "bounds", bounds_of, nb::arg("ranges") = nb::none(), nb::arg("named"),
      nb::sig("def bounds(self, ranges: dict[str, tuple[int | None, int | None]] | None = None, **named: tuple[int | "
              "None, int | None]) -> tuple[int | None, int | None]"),
      "(low, high) that contains every value for these ranges of the symbols: bounds(N=(1, 64)). None is unbounded.");
  type.def(
      "simplify",
      [](const Expr& self, const nb::object& dict, const nb::kwargs& named) {
        return simplify(self, ranges_from(dict, named));
      },
      nb::arg("ranges") = nb::none(), nb::arg("named"),
      nb::sig("def simplify(self, ranges: dict[str, tuple[int | None, int | None]] | None = None, "
              "**named: tuple[int | None, int | None]) -> Expr"),
      "An equal expression, with the ranges of its symbols used.");
  type.def(
      "differentiate",
      [](const Expr& self, const std::string& symbol) { return differentiate(self, Symbol(symbol)).value(); },
      nb::arg("symbol"), "The factor of a symbol that the expression is affine in.");
  type.def(
      "intercept", [](const Expr& self, const std::string& symbol) { return intercept(self, Symbol(symbol)).value(); },
      nb::arg("symbol"), "What remains without that symbol.");
  module.def(
      "parse_srepr", [](const std::string& text) { return to_python(symbolic::parse_srepr(text).value()); },
      nb::arg("text"), nb::sig("def parse_srepr(text: str) -> int | Expr"),
      "The expression that sympy.srepr wrote: how PyTorch's symbolic sizes become Tenon's.");
}

}  // namespace tenon::python
