#include <fmt/format.h>
#include <nanobind/operators.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "gil.h"
#include "named/tensor.h"
#include "operators.h"

namespace tenon::python {
namespace {

using NamedSymbol = named::Symbol;
using NamedTensor = named::Tensor;

// ---- symbols --------------------------------------------------------------------------------------------------------

using Operator = Expr (*)(const Expr&, const Expr&);

template <Operator apply>
void bind_operator(nb::class_<NamedSymbol>& type, const char* name, const char* reflected) {
  type.def(name, [](const NamedSymbol& a, const Expr& b) { return apply(a, b); }, nb::is_operator());
  type.def(reflected, [](const NamedSymbol& a, const Expr& b) { return apply(b, a); }, nb::is_operator());
}

NamedSymbol symbol_from(nb::handle object) {
  if (!nb::isinstance<NamedSymbol>(object)) fail("a dimension is a tenon.loops.Symbol, got {}", class_of(object));
  return nb::cast<NamedSymbol>(object);
}

named::Symbols symbols_from(nb::handle objects) {
  named::Symbols symbols;
  if (nb::isinstance<NamedSymbol>(objects)) return symbol_from(objects);
  for (const nb::handle object : nb::borrow(objects)) symbols.push_back(symbol_from(object));
  return symbols;
}

// What is written as x.sum(s.m, s.n) or x.sum([s.m, s.n]).
named::Symbols symbols_of_args(const nb::args& args) {
  const bool is_one_list = args.size() == 1 && is_list(args[0]);
  return symbols_from(is_one_list ? nb::handle(args[0]) : nb::handle(args));
}

// ---- operands -------------------------------------------------------------------------------------------------------

bool is_operand(nb::handle object) { return nb::isinstance<NamedTensor>(object) || is_number(object); }

named::Operand operand_from(nb::handle object) {
  if (nb::isinstance<NamedTensor>(object)) return nb::cast<NamedTensor>(object);
  if (nb::isinstance<nb::bool_>(object)) return nb::cast<bool>(object);
  if (int64_t integer = 0; !PyFloat_Check(object.ptr()) && nb::try_cast(object, integer)) return integer;
  if (double real = 0; nb::try_cast(object, real)) return real;
  fail("an operand is a tenon.loops.Tensor or a number, got {}: make a Tensor of it, with to()", class_of(object));
}

named::Coordinate coordinate_from(nb::handle object) {
  if (nb::isinstance<NamedTensor>(object)) return nb::cast<NamedTensor>(object);
  if (nb::isinstance<nb::slice>(object)) fail("an index is an expression like s.i + 2: slices are not supported");
  return expr_from(object, "an index");
}

std::vector<named::Coordinate> coordinates_from(nb::handle index) {
  std::vector<named::Coordinate> coordinates;
  if (!is_list(index)) return {coordinate_from(index)};
  for (const nb::handle part : nb::borrow(index)) coordinates.push_back(coordinate_from(part));
  return coordinates;
}

NamedTensor apply(const std::string& name, const nb::args& args, const nb::kwargs& named) {
  const OpDef& op = op_named(name);
  std::vector<named::Operand> operands;
  for (const nb::handle arg : args) operands.push_back(operand_from(arg));
  NamedAttrs attrs;
  for (const auto& [key, value] : named) {
    const auto attr = nb::cast<std::string>(key);
    const AttrDef* def = op.attr_named(attr);
    if (!def) fail("{} has no attribute {}", name, attr);
    attrs.emplace_back(attr, attr_from(op, *def, value));
  }
  return named::apply(name, operands, std::move(attrs));
}

// ---- tensors --------------------------------------------------------------------------------------------------------

named::Symbols numbered_symbols(int64_t rank) {
  named::Symbols symbols;
  for (int64_t i = 0; i < rank; ++i) symbols.emplace_back(fmt::format("d{}", i));
  return symbols;
}

bool is_list_of_numbers(nb::handle object) {
  return is_list(object) && nb::len(object) > 0 && (is_number(object[0]) || is_list(object[0]));
}

NamedTensor new_input(const nb::args& args, const nb::object& dtype) {
  const bool has_data = args.size() > 0 && !nb::isinstance<NamedSymbol>(args[0]) && !is_list(args[0]);
  if (args.size() > 0 && is_list_of_numbers(args[0])) {
    fail("the data is {}: give a NumPy array or a torch tensor", class_of(args[0]));
  }
  named::Symbols symbols;
  for (size_t i = has_data ? 1 : 0; i < args.size(); ++i) {
    for (const NamedSymbol& symbol : symbols_from(args[i])) symbols.push_back(symbol);
  }
  if (!has_data) return NamedTensor(std::move(symbols), dtype.is_none() ? DType::kF32 : dtype_from(dtype));
  const Tensor data = new_tensor(args[0], dtype);
  if (args.size() == 1) symbols = numbered_symbols(data.rank());
  return NamedTensor(data, std::move(symbols));
}

Tensor data_of(const NamedTensor& self) {
  const WithoutGil release;
  return self.data();
}

Tensor run(const NamedTensor& self, const nb::dict& feeds) {
  std::vector<std::pair<NamedTensor, Tensor>> fed;
  for (const auto& [tensor, data] : feeds) {
    if (!nb::isinstance<NamedTensor>(tensor)) fail("a feed is for a tenon.loops.Tensor, not for {}", class_of(tensor));
    fed.emplace_back(nb::cast<NamedTensor>(tensor), tensor_from(data, "a feed"));
  }
  const WithoutGil release;
  return self.data(fed);
}

NamedTensor with_sizes(const NamedTensor& self, const nb::dict& sizes) {
  std::vector<std::pair<NamedSymbol, int64_t>> pairs;
  for (const auto& [symbol, size] : sizes) {
    int64_t value = 0;
    if (!nb::try_cast(size, value)) fail("a size is an int, got {}", class_of(size));
    pairs.emplace_back(symbol_from(symbol), value);
  }
  return self.with_sizes(pairs);
}

NamedTensor pad(const NamedTensor& self, nb::handle dim, int64_t low, const nb::object& high, nb::handle fill,
                const nb::object& to) {
  const int64_t above = high.is_none() ? low : nb::cast<int64_t>(high);
  const NamedSymbol symbol = symbol_from(dim);
  return self.pad(symbol, low, above, operand_from(fill), to.is_none() ? NamedSymbol(symbol.name()) : symbol_from(to));
}

NamedTensor split_dim(const NamedTensor& self, nb::handle flat, nb::handle parts, const nb::object& innermost) {
  if (innermost.is_none()) return self.split(symbol_from(flat), symbols_from(parts));
  return self.split(symbol_from(flat), symbols_from(parts), nb::cast<int64_t>(innermost));
}

NamedTensor concat(nb::handle parts, nb::handle dim) {
  std::vector<NamedTensor> tensors;
  std::vector<std::pair<NamedTensor, NamedSymbol>> pairs;
  for (const nb::handle part : nb::borrow(parts)) {
    if (nb::isinstance<NamedTensor>(part)) {
      tensors.push_back(nb::cast<NamedTensor>(part));
    } else if (nb::isinstance<nb::tuple>(part) && nb::len(part) == 2 && nb::isinstance<NamedTensor>(part[0])) {
      pairs.emplace_back(nb::cast<NamedTensor>(part[0]), symbol_from(part[1]));
    } else {
      fail("concat takes Tensors, or pairs of a Tensor and a Symbol, got {}", class_of(part));
    }
  }
  if (!tensors.empty() && !pairs.empty()) fail("concat takes Tensors or pairs, not both");
  return pairs.empty() ? named::concat(tensors, symbol_from(dim)) : named::concat(pairs, symbol_from(dim));
}

const NamedTensor& set_schedule(const NamedTensor& self, nb::handle schedule) {
  if (schedule.is_none()) return self.reset_schedule();
  if (nb::isinstance<loops::LoopTree>(schedule)) return self.set(nb::cast<loops::LoopTree&>(schedule));
  if (nb::isinstance<loops::IR>(schedule)) return self.set(nb::cast<loops::IR>(schedule));
  fail("a schedule is a LoopTree, an IR or None, got {}", class_of(schedule));
}

std::string describe(const NamedTensor& self) {
  std::string dims;
  for (const NamedSymbol& dim : self.dims()) dims += (dims.empty() ? "" : ", ") + dim.name();
  return fmt::format("<tenon.loops.Tensor {}[{}]>", name_of(self.dtype()), dims);
}

void bind_binary(nb::class_<NamedTensor>& type) {
  for (const BinaryOperator& method : kElementwiseOperators) {
    const char* op = method.op;
    const auto bind = [&](const char* name, bool is_reflected) {
      type.def(
          name,
          [op, is_reflected](const NamedTensor& self, nb::handle other) -> nb::object {
            if (!is_operand(other)) return nb::borrow(nb::handle(Py_NotImplemented));
            const named::Operand a = self, b = operand_from(other);
            return nb::cast(is_reflected ? named::apply(op, {b, a}) : named::apply(op, {a, b}));
          },
          nb::arg("other").none(), nb::is_operator());
    };
    bind(method.name, false);
    if (method.reflected) bind(method.reflected, true);
  }
  type.def("__neg__", [](const NamedTensor& self) { return -self; });
  type.def("__abs__", [](const NamedTensor& self) { return abs(self); });
  type.def("__invert__", [](const NamedTensor& self) { return named::apply("bitwise_not", {self}); });
  type.def("__bool__", [](const NamedTensor& self) -> bool {
    fail("{} has no truth value: it is not computed yet", describe(self));
  });
  type.attr("__iter__") = nb::none();
  type.attr("__array_ufunc__") = nb::none();
}

void bind_views(nb::class_<NamedTensor>& type) {
  type.def(
      "__getitem__", [](const NamedTensor& self, nb::handle index) { return self[coordinates_from(index)]; },
      nb::arg("index"), nb::sig("def __getitem__(self, index: IndexLike | tuple[IndexLike, ...]) -> NamedTensor"),
      "The elements at expressions over symbols, numbers, or tensors of integers: x[2*s.o + s.k].");
  type.def(
      "at",
      [](const NamedTensor& self, const nb::args& index, nb::handle fill) {
        return self.at(coordinates_from(index), operand_from(fill));
      },
      nb::arg("index"), nb::kw_only(), nb::arg("fill") = 0,
      nb::sig("def at(self, *index: IndexLike, fill: float = 0) -> NamedTensor"),
      "The same, but `fill` where an index is outside. Sizes are not inferred from it.");
  type.def(
      "to", [](const NamedTensor& self, const nb::args& symbols) { return self.to(symbols_of_args(symbols)); },
      nb::arg("symbols"), nb::sig("def to(self, *symbols: Symbol) -> NamedTensor"),
      "The same under new symbols, by position.");
  type.def(
      "transpose",
      [](const NamedTensor& self, const nb::args& symbols) { return self.transpose(symbols_of_args(symbols)); },
      nb::arg("symbols"), nb::sig("def transpose(self, *symbols: Symbol) -> NamedTensor"),
      "The same symbols in another order.");
  type.def("with_sizes", with_sizes, nb::arg("sizes"),
           nb::sig("def with_sizes(self, sizes: dict[Symbol, int]) -> NamedTensor"), "Says how large dimensions are.");
  type.def(
      "flatten",
      [](const NamedTensor& self, nb::handle dims, nb::handle flat) {
        return self.flatten(symbols_from(dims), symbol_from(flat));
      },
      nb::arg("dims"), nb::arg("flat"),
      nb::sig("def flatten(self, dims: Sequence[Symbol], flat: Symbol) -> NamedTensor"),
      "Several dimensions as one, the last of the list the fastest.");
  type.def(
      "split", split_dim, nb::arg("flat"), nb::arg("parts"), nb::arg("innermost") = nb::none(),
      nb::sig("def split(self, flat: Symbol, parts: Sequence[Symbol], innermost: int | None = None) -> NamedTensor"),
      "A dimension as several; `innermost` is the size of the last.");
  type.def("pad", pad, nb::arg("dim"), nb::arg("low"), nb::arg("high") = nb::none(), nb::arg("fill") = 0,
           nb::arg("to") = nb::none(),
           nb::sig("def pad(self, dim: Symbol, low: int, high: int | None = None, fill: float = 0, "
                   "to: Symbol | None = None) -> NamedTensor"),
           "Elements before and behind (as many as before, if it is not said). The dimension becomes `to`, or a new "
           "one of the same name.");
}

using Reduction = NamedTensor (NamedTensor::*)(const named::Symbols&) const;

void bind_reductions(nb::class_<NamedTensor>& type) {
  const auto bind = [&](const char* name, Reduction reduction, const char* doc, const char* signature) {
    type.def(
        name,
        [reduction](const NamedTensor& self, const nb::args& symbols) {
          return (self.*reduction)(symbols_of_args(symbols));
        },
        nb::arg("symbols"), nb::sig(signature), doc);
  };
  bind("sum", &NamedTensor::sum, "Over some dimensions, or all; of integers as i64.",
       "def sum(self, *symbols: Symbol) -> NamedTensor");
  bind("prod", &NamedTensor::prod, "Over some dimensions, or all; of integers as i64.",
       "def prod(self, *symbols: Symbol) -> NamedTensor");
  bind("mean", &NamedTensor::mean, "Over some dimensions, or all; of integers as f32.",
       "def mean(self, *symbols: Symbol) -> NamedTensor");
  bind("max", &NamedTensor::max, "Over some dimensions, or all.", "def max(self, *symbols: Symbol) -> NamedTensor");
  bind("min", &NamedTensor::min, "Over some dimensions, or all.", "def min(self, *symbols: Symbol) -> NamedTensor");
  type.def(
      "cast", [](const NamedTensor& self, nb::handle dtype) { return self.cast(dtype_from(dtype)); }, nb::arg("dtype"),
      nb::sig("def cast(self, dtype: DTypeLike) -> NamedTensor"));
}

void bind_running(nb::class_<NamedTensor>& type) {
  type.def_prop_ro("data", data_of, "The elements: compiles once, and runs.");
  type.def("run", run, nb::arg("feeds"), nb::sig("def run(self, feeds: dict[NamedTensor, ArrayLike]) -> Tensor"),
           "The elements, with data for inputs that are not bound. The kernel is compiled for any size of them.");
  type.def("numpy", [](const NamedTensor& self) { return nb::cast(data_of(self)).attr("__array__")(); });
  type.def(
      "__array__",
      [](const NamedTensor& self, const nb::object& dtype, const nb::object& copy) {
        return nb::cast(data_of(self)).attr("__array__")(dtype, copy);
      },
      nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none());
  type.def(
      "__dlpack__",
      [](const NamedTensor& self, const nb::kwargs& options) {
        return nb::cast(data_of(self)).attr("__dlpack__")(**options);
      },
      nb::arg("options"));
  type.def("__dlpack_device__", [](const NamedTensor& self) {
    return nb::cast(Tensor::zeros(self.dtype(), {})).attr("__dlpack_device__")();
  });
  type.def_prop_ro(
      "code",
      [](const NamedTensor& self) {
        const WithoutGil release;
        return self.code();
      },
      "The kernel's code, for people.");
  type.def_prop_ro("ir", &NamedTensor::ir, "The kernel, by the loops that were set, or by plain ones.");
  type.def_prop_ro("loop_tree", &NamedTensor::loop_tree, "The loops that were set, or plain ones to start from.");
  type.def("set", set_schedule, nb::arg("schedule").none(), nb::rv_policy::none,
           nb::sig("def set(self, schedule: LoopTree | IR | None) -> NamedTensor"),
           "How it is run: a tree or IR that was made from its own, or None for what the backend finds best.");
  type.def(
      "backend",
      [](const NamedTensor& self, const std::string& name) -> const NamedTensor& { return self.backend(name); },
      nb::arg("name"), nb::rv_policy::none, "What it is run by.");
}

void bind_symbol(nb::module_& module) {
  nb::class_<NamedSymbol> type(
      module, "Symbol",
      "A dimension, by identity: two symbols of one name are two dimensions. In expressions it "
      "is the index along it.");
  type.def(
      "__init__", [](NamedSymbol* self, const std::string& name) { new (self) NamedSymbol(name); }, nb::arg("name"));
  type.def_prop_ro("name", [](const NamedSymbol& self) { return self.name(); });
  type.def_prop_ro("size", [](const NamedSymbol& self) { return self.size(); }, "Its size, in expressions.");
  bind_operator<symbolic::operator+ >(type, "__add__", "__radd__");
  bind_operator<symbolic::operator- >(type, "__sub__", "__rsub__");
  bind_operator<symbolic::operator*>(type, "__mul__", "__rmul__");
  bind_operator<symbolic::floordiv>(type, "__floordiv__", "__rfloordiv__");
  bind_operator<symbolic::mod>(type, "__mod__", "__rmod__");
  type.def("__neg__", [](const NamedSymbol& self) { return -Expr(self); });
  type.def("__eq__", [](const NamedSymbol& a, const NamedSymbol& b) { return a == b; }, nb::is_operator());
  type.def("__hash__", [](const NamedSymbol& self) { return std::hash<Symbol>()(self.index_symbol()); });
  type.def("__repr__", [](const NamedSymbol& self) { return fmt::format("<tenon.loops.Symbol {}>", self.name()); });
  nb::implicitly_convertible<NamedSymbol, Expr>();
}

}  // namespace

void bind_named(nb::module_& module) {
  bind_symbol(module);
  nb::class_<NamedTensor> type(module, "NamedTensor",
                               "An array over symbols that is computed when it is asked for: tenon.loops.Tensor.");
  type.def(
      "__init__",
      [](NamedTensor* self, const nb::args& args, const nb::object& dtype) {
        new (self) NamedTensor(new_input(args, dtype));
      },
      nb::arg("args"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::sig(
          "def __init__(self, *args: ArrayLike | float | Symbol | Sequence[Symbol], dtype: DTypeLike | None = None) "
          "-> None"),
      "An input: Tensor(array, s.m, s.k), Tensor(array).to(s.m, s.k), or Tensor(s.m, s.k) whose data comes later.");
  type.def(
      "bind", [](const NamedTensor& self, nb::handle data) { self.bind(tensor_from(data, "the data")); },
      nb::arg("data"), nb::sig("def bind(self, data: ArrayLike) -> None"), "Gives an input its data, without a copy.");
  type.def_prop_ro(
      "symbols", [](const NamedTensor& self) { return nb::tuple(nb::cast(self.dims())); }, "Its dimensions.");
  type.def_prop_ro("dtype", [](const NamedTensor& self) { return to_str(name_of(self.dtype())); });
  type.def_prop_ro(
      "shape", [](const NamedTensor& self) { return to_python_shape(self.shape()); },
      "Numbers as far as they are known.");
  type.def(
      "size", [](const NamedTensor& self, const NamedSymbol& symbol) { return to_python(self.size(symbol)); },
      nb::arg("symbol"), nb::sig("def size(self, symbol: Symbol) -> int | Expr"),
      "Also of a symbol that is folded or indexed inside.");
  type.def("__hash__", [](nb::handle self) { return reinterpret_cast<intptr_t>(self.ptr()) >> 4; });
  type.def("__repr__", describe);
  bind_binary(type);
  bind_views(type);
  bind_reductions(type);
  bind_running(type);
  module.def("apply", apply, nb::arg("op"), nb::arg("operands"), nb::arg("attrs"),
             nb::sig("def apply(op: str, *operands: NamedTensor | float, **attrs: Any) -> NamedTensor"),
             "Any op of the table that is a function of single elements, by name: apply('leaky_relu', x, "
             "negative_slope=0.1).");
  module.def(
      "index", [](nb::handle value) { return named::index(expr_from(value, "an index")); }, nb::arg("value"),
      nb::sig("def index(value: Expr | Symbol | int) -> NamedTensor"),
      "An i64 over the symbols of an expression: index(s.m) counts 0, 1, 2, ...");
  module.def("concat", concat, nb::arg("parts"), nb::arg("dim"),
             nb::sig("def concat(parts: Sequence[NamedTensor] | Sequence[tuple[NamedTensor, Symbol]], dim: Symbol) -> "
                     "NamedTensor"),
             "Tensors one after the other: all along `dim`, or each along its own symbol, which becomes `dim`.");
  module.def("set_default_backend", named::set_default_backend, nb::arg("name"));
  module.def("default_backend", named::default_backend,
             "What tensors that name no backend run on: at first the fastest that is there.");
  module.def("cache_size", named::cache_size, "The number of compiled kernels that are kept.");
  module.def("clear_cache", named::clear_cache);
}

}  // namespace tenon::python
