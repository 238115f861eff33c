#include "fallback.h"

#include "exchange.h"

namespace tenon::python {

FallbackFn fallback_from(nb::object function) {
  if (function.is_none()) return {};
  const std::shared_ptr<nb::object> held(new nb::object(std::move(function)), [](nb::object* object) {
    if (!nb::is_alive()) return;  // the interpreter ended first
    const nb::gil_scoped_acquire lock;
    delete object;
  });
  return [held](int64_t call, std::span<const Tensor> operands) {
    const nb::gil_scoped_acquire lock;
    nb::list arguments;
    for (const Tensor& operand : operands) arguments.append(to_python(operand, ArrayKind::kTorch));
    std::vector<Tensor> results;
    for (nb::handle result : nb::object((*held)(call, arguments))) results.push_back(argument_from(result, "a result"));
    return results;
  };
}

}  // namespace tenon::python
