#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "operators.h"
#include "support/cursor.h"
#include "support/position_error.h"

namespace tenon::python {
namespace {

bool is_value(nb::handle object) { return nb::isinstance<GraphValue>(object); }
// What may stand beside a Value.
bool is_operand(nb::handle object) {
  return is_value(object) || is_number(object) || nb::isinstance<Expr>(object) ||
         (nb::ndarray_check(object) && !nb::isinstance<nb::bytes>(object));
}

// ---- operands of a node ---------------------------------------------------------------------------------------------

// Turns what Python gives into the operands of one node.
class Operands {
 public:
  Operands(Graph& graph, const OpDef& op) : graph_(graph), op_(op), builder_(graph) {}

  void add(nb::handle object) { given_.push_back(nb::borrow(object)); }

  // Fails where the op does not accept them, before the graph grows by the constants among them.
  void check(std::span<const Attr> attrs) {
    if (op_.operands.get().empty() && !given_.empty())
      fail("{} takes no operands, got {}", op_.name.get(), given_.size());
    for (const nb::object& object : given_) note_tensor(object);
    std::vector<TensorType> types;
    for (size_t i = 0; i < given_.size(); ++i) types.push_back(type(i));
    std::vector<const TensorType*> pointers;
    for (size_t i = 0; i < types.size(); ++i) pointers.push_back(given_[i].is_none() ? nullptr : &types[i]);
    infer(op_, pointers, attrs, Facts(graph_.symbols()));
  }

  std::vector<ValueRef> refs() {
    std::vector<ValueRef> refs;
    for (size_t i = 0; i < given_.size(); ++i) refs.push_back(ref(i));
    return refs;
  }

 private:
  // Numbers take their dtype from the tensors beside them.
  void note_tensor(const nb::object& object) {
    Tensor array;
    if (is_value(object)) {
      beside_.push_back(graph_.type(ref_of(graph_, object, op_.name.get())));
    } else if (!is_number(object) && !nb::isinstance<Expr>(object) && !object.is_none()) {
      array = tensor_from(object, fmt::format("an operand of {}", op_.name.get()));
      beside_.push_back(type_of(array));
    }
    arrays_.push_back(std::move(array));
  }

  DType dtype_beside(DType number) const {
    if (beside_.empty()) return number;
    const DType dtype = result_dtype(beside_);
    const auto category = [](DType d) { return is_float(d) ? 2 : d == DType::kBool ? 0 : 1; };
    return category(number) <= category(dtype) ? dtype : number;
  }

  TensorType type(size_t position) const {
    const nb::object& object = given_[position];
    if (object.is_none()) return {};
    if (is_value(object)) return graph_.type(ref_of(graph_, object, op_.name.get()));
    if (is_number(object)) return type_of(number(object));
    if (nb::isinstance<Expr>(object)) return {dtype_beside(DType::kI64), {}};
    return type_of(arrays_[position]);
  }

  Tensor number(const nb::object& object) const {
    return tensor_from_number(object, dtype_beside(dtype_of_number(object)));
  }

  ValueRef ref(size_t position) {
    const nb::object& object = given_[position];
    if (object.is_none()) return {};
    if (is_value(object)) return ref_of(graph_, object, op_.name.get());
    if (is_number(object)) return builder_.constant(number(object)).ref();
    if (nb::isinstance<Expr>(object)) {
      return builder_.full(nb::cast<Expr>(object), {}, dtype_beside(DType::kI64)).ref();
    }
    return builder_.constant(arrays_[position].copy()).ref();
  }

  Graph& graph_;
  const OpDef& op_;
  Builder builder_;
  std::vector<nb::object> given_;
  std::vector<Tensor> arrays_;      // of those operands that are arrays
  std::vector<TensorType> beside_;  // of those that are Values or arrays
};

void add_operands(Operands& operands, const OpDef& op, const nb::args& args, nb::dict& named) {
  const auto& defs = op.operands.get();
  size_t next = 0;
  for (; next < args.size(); ++next) {
    const bool list = next < defs.size() && is_variadic(defs[next].arity) && is_list(args[next]);
    if (!list) {
      operands.add(args[next]);
      continue;
    }
    for (nb::handle item : nb::object(args[next])) operands.add(item);
  }
  for (; next < defs.size(); ++next) {
    const OperandDef& def = defs[next];
    const nb::str name = to_str(def.name);
    if (named.contains(name)) {
      const nb::object object = named[name];
      PyDict_DelItem(named.ptr(), name.ptr());
      if (is_variadic(def.arity) && is_list(object)) {
        for (nb::handle item : object) operands.add(item);
      } else {
        operands.add(object);
      }
    } else if (def.arity == Arity::kOptional) {
      operands.add(nb::none());
    } else if (!is_variadic(def.arity)) {
      fail("{}: operand '{}' must be given", op.name.get(), def.name);
    }
  }
}

NamedAttrs attrs_from(const OpDef& op, const nb::dict& named) {
  NamedAttrs attrs;
  for (const auto& [key, object] : named) {
    auto name = nb::cast<std::string>(key);
    const AttrDef* def = op.attr_named(name);
    attrs.emplace_back(std::move(name), def != nullptr ? attr_from(op, *def, object) : Attr(None{}));
  }
  return attrs;
}

// ---- operators ------------------------------------------------------------------------------------------------------

nb::object binary(const char* op, nb::handle a, nb::handle b) {
  const nb::handle value = is_value(a) ? a : b;
  return add_op(nb::cast<GraphValue&>(value).graph, op_named(op), nb::cast<nb::args>(nb::make_tuple(a, b)),
                nb::kwargs());
}

nb::object unary(const char* op, nb::handle x) {
  return add_op(nb::cast<GraphValue&>(x).graph, op_named(op), nb::cast<nb::args>(nb::make_tuple(x)), nb::kwargs());
}

void bind_operator(nb::class_<GraphValue>& type, const BinaryOperator& entry) {
  const char* op = entry.op;
  const auto apply = [op](nb::handle a, nb::handle b) -> nb::object {
    return is_operand(b) ? binary(op, a, b) : nb::borrow(nb::handle(Py_NotImplemented));
  };
  const auto apply_reflected = [op](nb::handle b, nb::handle a) -> nb::object {
    return is_operand(a) ? binary(op, a, b) : nb::borrow(nb::handle(Py_NotImplemented));
  };
  type.def(entry.name, apply, nb::arg("other").none());
  if (entry.reflected != nullptr) type.def(entry.reflected, apply_reflected, nb::arg("other").none());
}

void bind_operators(nb::class_<GraphValue>& type) {
  for (const BinaryOperator& entry : kElementwiseOperators) bind_operator(type, entry);
  bind_operator(type, {"__matmul__", "__rmatmul__", "matmul"});
  type.def("__neg__", [](nb::handle self) { return unary("neg", self); });
  type.def("__abs__", [](nb::handle self) { return unary("abs", self); });
  type.def("__invert__", [](nb::handle self) { return unary("bitwise_not", self); });
}

// ---- indexing -------------------------------------------------------------------------------------------------------

class Indexer {
 public:
  explicit Indexer(const GraphValue& source)
      : graph_(source.graph),
        builder_(*source.graph, python_location()),
        value_(source.value()),
        ranges_(graph_->ranges()) {}

  nb::object get(nb::handle key) {
    const nb::tuple items = nb::isinstance<nb::tuple>(key) ? nb::borrow<nb::tuple>(key) : nb::make_tuple(key);
    int64_t used = 0;
    bool has_ellipsis = false;
    for (nb::handle item : items) {
      has_ellipsis |= item.is(nb::ellipsis());
      used += item.is_none() || item.is(nb::ellipsis()) ? 0 : 1;
    }
    if (used > value_.rank()) fail_position("{} indices for a value of rank {}", used, value_.rank());
    const int64_t skipped = value_.rank() - used;
    for (nb::handle item : items) {
      if (item.is(nb::ellipsis())) {
        if (!has_ellipsis) fail("an index has one ellipsis");
        has_ellipsis = false;
        keep(skipped);
      } else {
        apply(item);
      }
    }
    keep(value_.rank() - dim_);
    return to_python(graph_, builder_.reshape(value_, shape_).ref());
  }

 private:
  void keep(int64_t count) {
    for (; count > 0; --count) shape_.push_back(value_.size(dim_++));
  }

  void apply(nb::handle item) {
    if (item.is_none()) return shape_.push_back(1);
    if (nb::isinstance<nb::slice>(item)) return apply_slice(item);
    const bool is_size = nb::isinstance<Expr>(item) || (PyIndex_Check(item.ptr()) && !nb::isinstance<nb::bool_>(item));
    if (!is_size || is_value(item)) {
      fail("a value is indexed by integers, slices, None and '...', got {}: see tenon.ops.gather", class_of(item));
    }
    const Expr index = expr_from(item);
    try {
      value_ = builder_.op("select", {value_}, {{"dim", dim_}, {"index", index}});
    } catch (const Error& error) {
      throw PositionError(error.diagnostic());
    }
  }

  void apply_slice(nb::handle item) {
    const Expr size = value_.size(dim_);
    const nb::object step_object = item.attr("step");
    const bool is_integer = PyIndex_Check(step_object.ptr()) && !nb::isinstance<Expr>(step_object);
    if (!step_object.is_none() && !is_integer) {
      fail("a slice's step must be an integer, got {}", class_of(step_object));
    }
    const int64_t step = step_object.is_none() ? 1 : expr_from(step_object).constant();
    if (step < 1) fail("a slice's step must be positive, got {}", step);
    const Expr start = clamped(item.attr("start"), size, 0);
    const Expr end = clamped(item.attr("stop"), size, size);
    if (!(start.is_constant(0) && end == size && step == 1)) value_ = builder_.slice(value_, dim_, start, end, step);
    shape_.push_back(value_.size(dim_++));
  }

  // A negative constant counts from the end.
  static Expr position(nb::handle object, const Expr& size) {
    const Expr index = expr_from(object);
    return index.is_constant() && index.constant() < 0 ? size + index : index;
  }

  Expr clamped(const nb::object& object, const Expr& size, const Expr& fallback) const {
    if (object.is_none()) return fallback;
    return simplify(max(0, min(position(object, size), size)), ranges_);
  }

  std::shared_ptr<Graph> graph_;
  Builder builder_;
  Value value_;
  symbolic::Ranges ranges_;
  int64_t dim_ = 0;  // of `value_`
  Shape shape_;
};

std::string describe(const GraphValue& self) {
  const std::string& name = self.graph->value_name(self.ref);
  return fmt::format("<tenon.Value {}{}>", name.empty() ? "" : "%" + name + ": ",
                     to_string(self.graph->type(self.ref)));
}

void set_name(GraphValue& self, std::string name) {
  if (!is_identifier(name)) fail("'{}' cannot name a value: use letters, digits, '_' and '.'", name);
  self.graph->set_value_name(self.ref, std::move(name));
}

}  // namespace

nb::object to_python(const std::shared_ptr<Graph>& graph, ValueRef value) {
  return value ? nb::cast(GraphValue{graph, value}) : nb::object(nb::none());
}

nb::tuple to_python(const std::shared_ptr<Graph>& graph, const std::vector<ValueRef>& values) {
  nb::list list;
  for (ValueRef value : values) list.append(to_python(graph, value));
  return nb::tuple(list);
}

ValueRef ref_of(const Graph& graph, nb::handle value, std::string_view what) {
  if (!is_value(value)) fail("{}: expected a tenon.Value, got {}", what, class_of(value));
  const auto& held = nb::cast<const GraphValue&>(value);
  if (held.graph.get() != &graph) {
    fail("{}: a value of graph {} cannot be used in graph {}", what, held.graph->name(), graph.name());
  }
  return held.ref;
}

nb::object add_op(const std::shared_ptr<Graph>& graph, const OpDef& op, const nb::args& args, const nb::kwargs& named) {
  Operands operands(*graph, op);
  nb::dict rest;
  rest.update(named);
  add_operands(operands, op, args, rest);
  std::vector<Attr> attrs = complete_attrs(op, attrs_from(op, rest));
  operands.check(attrs);
  const NodeRef node = graph->add_node(op, operands.refs(), std::move(attrs), python_location());
  const std::vector<ValueRef>& results = graph->node(node).results;
  return results.size() == 1 ? to_python(graph, results[0]) : nb::object(to_python(graph, results));
}

void bind_value(nb::module_& module) {
  nb::class_<GraphValue> type(
      module, "Value",
      "A value of a graph under construction. Operators add nodes; numbers and arrays beside it "
      "become constants. `==` too adds a node: to know whether two Values are the same, compare "
      "their ids.");
  type.def_prop_ro("graph", [](const GraphValue& self) { return self.graph; });
  type.def_prop_ro("id", [](const GraphValue& self) { return self.ref.id; }, "Its position in the graph.");
  type.def_prop_ro(
      "type", [](const GraphValue& self) { return to_string(self.graph->type(self.ref)); }, "\"f32[N, 4]\"");
  type.def_prop_ro("dtype", [](const GraphValue& self) { return to_str(name_of(self.value().dtype())); });
  type.def_prop_ro(
      "shape", [](const GraphValue& self) { return to_python_shape(self.value().shape()); },
      "Integers, and an Expr for a symbolic size.");
  type.def_prop_ro("ndim", [](const GraphValue& self) { return self.value().rank(); });
  type.def_prop_rw(
      "name", [](const GraphValue& self) { return self.graph->value_name(self.ref); }, set_name,
      "The name to print; empty where it has none.");
  bind_operators(type);
  type.def(
      "__getitem__", [](const GraphValue& self, nb::handle key) { return Indexer(self).get(key); },
      nb::arg("key").none(), nb::sig("def __getitem__(self, key: Any) -> Value"),
      "Integers, slices with a positive step, None and '...'.");
  type.def("__bool__", [](const GraphValue& self) -> bool {
    fail("{} has no truth value before the graph runs: use tenon.ops.where", describe(self));
  });
  type.def("__len__", [](const GraphValue& self) -> int64_t {
    if (self.value().rank() == 0) fail("a value of rank 0 has no length");
    const Expr& size = self.value().size(0);
    if (!size.is_constant()) fail("the length of {} is symbolic: use its shape", describe(self));
    return size.constant();
  });
  type.def("__repr__", describe);
  type.attr("__hash__") = nb::none();
  type.attr("__iter__") = nb::none();         // x[0], x[1], ... of a symbolic size would never end
  type.attr("__array_ufunc__") = nb::none();  // so that array + value asks the value
}

}  // namespace tenon::python
