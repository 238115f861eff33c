#include "capture/aten/common.h"

#include <algorithm>

namespace tenon::aten {

void add_each(AtenTable& table, std::initializer_list<std::string_view> names, std::string_view signature,
              const AtenFn& build) {
  for (std::string_view name : names) table.add(fmt::format(fmt::runtime(signature), name), build);
}

std::string with_options(std::string_view start, std::string_view before_options, std::string_view after) {
  return fmt::format("{}, *, {}dtype=None, layout=None, device=None, pin_memory=None{})", start, before_options, after);
}

DType dtype_of_number(const AtenArg& number) {
  if (number.get<bool>() != nullptr) return DType::kBool;
  if (number.get<double>() != nullptr) return DType::kF32;
  const auto* tensor = number.get<AtenTensor>();
  if (tensor == nullptr || !tensor->value) return DType::kI64;
  const DType dtype = tensor->value.dtype();
  return is_float(dtype) ? DType::kF32 : dtype == DType::kBool ? DType::kBool : DType::kI64;
}

DType float_dtype(DType dtype) { return is_float(dtype) ? dtype : DType::kF32; }

DType wide_dtype(DType dtype) { return wide(float_dtype(dtype)); }

Value to_float(Builder& b, Value x) { return b.cast(x, float_dtype(x.dtype())); }

Value to_wide(Builder& b, Value x) { return b.cast(x, wide_dtype(x.dtype())); }

AtenFn unary_formula(UnaryFormula formula, std::string_view argument) {
  return [formula = std::move(formula), argument](AtenCall& c) -> AtenArg {
    const Value x = c.tensor(argument);
    return c.cast(formula(c, to_wide(c, x)), float_dtype(x.dtype()));
  };
}

AtenFn binary_formula(BinaryFormula formula, std::string_view a, std::string_view b) {
  return [formula = std::move(formula), a, b](AtenCall& c) -> AtenArg {
    const auto [x, y] = c.pair(a, b);
    const DType dtype = float_dtype(result_dtype(std::vector{x.type(), y.type()}));
    return c.cast(formula(c, c.cast(x, wide_dtype(dtype)), c.cast(y, wide_dtype(dtype))), dtype);
  };
}

AtenFn promoted_binary(std::string_view op, std::string_view a, std::string_view b) {
  return [op, a, b](AtenCall& c) -> AtenArg {
    const auto [x, y] = c.pair(a, b);
    const DType dtype = result_dtype(std::vector{x.type(), y.type()});
    return c.op(op, {c.cast(x, dtype), c.cast(y, dtype)});
  };
}

AtenArg itself(AtenCall& c, std::string_view name) { return c.argument(name); }

Value filled(AtenCall& c, std::string_view number, Shape shape, DType dtype) {
  if (c.is_tensor(number) || c.is_run_time_number(number)) return c.expand(c.number(number, dtype), std::move(shape));
  return c.full(c.number(number), std::move(shape), dtype);
}

std::vector<int64_t> other_dims(int64_t rank, std::span<const int64_t> dims) {
  std::vector<int64_t> others;
  for (int64_t dim = 0; dim < rank; ++dim) {
    const auto is_dim = [&](int64_t given) { return normalize_dim(given, rank) == dim; };
    if (std::ranges::none_of(dims, is_dim)) others.push_back(dim);
  }
  return others;
}

Value logical_and(Builder& b, Value x, Value y) { return b.op("logical_and", {x, y}); }

Value logical_or(Builder& b, Value x, Value y) { return b.op("logical_or", {x, y}); }

}  // namespace tenon::aten
