// Element by element.
#include "capture/aten.h"
#include "capture/aten/families.h"

namespace tenon {
namespace {

// y * alpha, as add and sub scale their second operand.
Value scaled(AtenCall& c, Value y, std::string_view alpha) {
  const auto* number = c.argument(alpha).get<Expr>();
  if (number != nullptr && number->is_constant(1)) return y;
  return c.op("mul", {y, c.operand(alpha, y.dtype())});
}

AtenFn scaled_binary(std::string_view op) {
  return [op](AtenCall& c) -> AtenArg {
    const auto [x, y] = c.pair("self", "other");
    return c.op(op, {x, scaled(c, y, "alpha")});
  };
}

}  // namespace

void add_pointwise_entries(AtenTable& table) {
  table.add("aten.add.Tensor(self, other, *, alpha=1)", scaled_binary("add"));
  table.add("aten.sub.Tensor(self, other, *, alpha=1)", scaled_binary("sub"));
  table.op("aten.mul.Tensor(self, other)", "mul");
  table.op("aten.relu.default(self)", "relu");
  table.op("aten.sin.default(self)", "sin");
  table.op("aten.cos.default(self)", "cos");
}

}  // namespace tenon
