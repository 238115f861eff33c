#include "graph/attr.h"

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

}  // namespace

nb::object to_python(const Expr& expr) {
  if (expr.is_constant()) return nb::cast(expr.constant());
  return to_str(to_string(expr));
}

nb::object to_python(const Attr& attr) { return std::visit(ToPython(), attr); }

nb::tuple shape_to_python(std::span<const Expr> shape) {
  nb::list sizes;
  for (const Expr& size : shape) sizes.append(to_python(size));
  return nb::tuple(sizes);
}

}  // namespace tenon::python
