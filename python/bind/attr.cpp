#include "graph/attr.h"

#include <nanobind/stl/string.h>

#include "bind.h"

namespace tenon::python {
namespace {

struct ToPython {
  nb::object operator()(const None&) const { return nb::none(); }
  nb::object operator()(bool value) const { return nb::cast(value); }
  nb::object operator()(int64_t value) const { return nb::cast(value); }
  nb::object operator()(double value) const { return nb::cast(value); }
  nb::object operator()(const std::string& value) const { return to_str(value); }
  nb::object operator()(DType value) const { return to_str(name_of(value)); }
  nb::object operator()(const Expr& value) const { return to_python(value); }
  template <class T>
  nb::object operator()(const std::vector<T>& values) const {
    nb::list items;
    for (const T& value : values) items.append((*this)(value));
    return items;
  }
};

bool is_bool(nb::handle object) { return nb::isinstance<nb::bool_>(object); }

class Reader {
 public:
  Reader(const OpDef& op, const AttrDef& def, nb::handle object) : op_(op), def_(def), object_(object) {}

  Attr read() const {
    switch (def_.kind) {
      case AttrKind::kBool:
        if (!is_bool(object_)) refuse("True or False", object_);
        return nb::cast<bool>(object_);
      case AttrKind::kInt:
        return integer(object_);
      case AttrKind::kReal:
        return real(object_);
      case AttrKind::kString:
        if (!nb::isinstance<nb::str>(object_)) refuse("a text", object_);
        return nb::cast<std::string>(object_);
      case AttrKind::kDType:
        return dtype_from(object_);
      case AttrKind::kExpr:
      case AttrKind::kSymbol:
        return size(object_);
      case AttrKind::kScalar:
        return scalar();
      case AttrKind::kInts:
        return items<int64_t>([&](nb::handle item) { return integer(item); });
      case AttrKind::kReals:
        return items<double>([&](nb::handle item) { return real(item); });
      case AttrKind::kExprs:
        return items<Expr>([&](nb::handle item) { return size(item); });
    }
    return None{};
  }

 private:
  [[noreturn]] void refuse(std::string_view wanted, nb::handle got) const {
    fail("attribute '{}' of {} must be {}, got {}", def_.name, op_.name.get(), wanted, class_of(got));
  }

  int64_t integer(nb::handle item) const {
    int64_t value = 0;
    if (is_bool(item) || !nb::try_cast(item, value)) {
      refuse(def_.kind == AttrKind::kInts ? "a list of integers" : "an integer", item);
    }
    return value;
  }

  double real(nb::handle item) const {
    double value = 0;
    if (is_bool(item) || !nb::try_cast(item, value)) {
      refuse(def_.kind == AttrKind::kReals ? "a list of numbers" : "a number", item);
    }
    return value;
  }

  Expr size(nb::handle item) const {
    const bool readable = nb::isinstance<Expr>(item) || nb::isinstance<nb::str>(item) || PyIndex_Check(item.ptr());
    if (is_bool(item) || !readable) refuse(def_.kind == AttrKind::kExprs ? "a list of sizes" : "a size", item);
    return expr_from(item);
  }

  Attr scalar() const {
    if (is_bool(object_)) return Expr(nb::cast<bool>(object_) ? 1 : 0);
    if (PyFloat_Check(object_.ptr())) return nb::cast<double>(object_);
    return size(object_);
  }

  // One item may stand for a list of one.
  template <class T, class Read>
  std::vector<T> items(Read read) const {
    if (!is_list(object_)) return {read(object_)};
    std::vector<T> values;
    for (nb::handle item : object_) values.push_back(read(item));
    return values;
  }

  const OpDef& op_;
  const AttrDef& def_;
  nb::handle object_;
};

struct ForeignName {
  std::string_view name;
  DType dtype;
};

// What NumPy and PyTorch call them.
constexpr ForeignName kForeignNames[] = {{"float64", DType::kF64},   {"float32", DType::kF32}, {"float16", DType::kF16},
                                         {"bfloat16", DType::kBF16}, {"int64", DType::kI64},   {"int32", DType::kI32},
                                         {"int16", DType::kI16},     {"int8", DType::kI8},     {"uint8", DType::kU8},
                                         {"bool", DType::kBool}};

// "torch.float32", numpy's dtype('float32').name and float32.__name__.
std::string foreign_name(nb::handle object) {
  for (const char* attribute : {"name", "__name__"}) {
    if (!nb::hasattr(object, attribute)) continue;
    const nb::object name = object.attr(attribute);
    if (nb::isinstance<nb::str>(name)) return nb::cast<std::string>(name);
  }
  const auto text = text_of(object);
  return text.starts_with("torch.") ? text.substr(6) : text;
}

}  // namespace

nb::object to_python(const Attr& attr) { return std::visit(ToPython(), attr); }

nb::tuple to_python_shape(std::span<const Expr> shape) {
  nb::list sizes;
  for (const Expr& size : shape) sizes.append(to_python(size));
  return nb::tuple(sizes);
}

Attr attr_from(const OpDef& op, const AttrDef& def, nb::handle object) {
  if (object.is_none()) return None{};
  return Reader(op, def, object).read();
}

DType dtype_from(nb::handle object) {
  const bool is_text = nb::isinstance<nb::str>(object);
  const std::string name = is_text ? nb::cast<std::string>(object) : foreign_name(object);
  if (const auto dtype = dtype_named(name); dtype && is_text) return *dtype;
  for (const ForeignName& entry : kForeignNames) {
    if (entry.name == name) return entry.dtype;
  }
  fail("'{}' is not a dtype: use f64 f32 f16 bf16 i64 i32 i16 i8 u8 or bool", name);
}

TensorType type_from(nb::handle object) {
  if (nb::isinstance<nb::str>(object)) {
    const auto text = nb::cast<std::string>(object);
    const Result<TensorType> type = parse_type(text);
    if (!type.ok()) fail("'{}' is not a type: {}", shortened(text), type.diagnostic().message);
    return *type;
  }
  if (!nb::isinstance<nb::tuple>(object) || nb::len(object) != 2 || !is_list(object[1])) {
    fail("a type is a text like \"f32[N, 784]\" or a pair of a dtype and a list of sizes, got {}", class_of(object));
  }
  TensorType type{dtype_from(object[0]), {}};
  for (nb::handle size : nb::object(object[1])) type.shape.push_back(expr_from(size));
  return type;
}

}  // namespace tenon::python
