// Random numbers. Each call draws from a key of its own: the graph's last input, and how many words the calls before it
// took (see src/ops/random.cpp).
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

// ---- draws ----------------------------------------------------------------------------------------------------------

int64_t words_of(DType dtype) { return dtype == DType::kF64 ? 2 : 1; }

Value draw(AtenCall& c, std::string_view op, const Shape& shape, DType dtype, int64_t words) {
  return c.op(op, {c.key(element_count(shape) * words)}, {{"shape", shape}, {"dtype", dtype}});
}

// In [0, 1).
Value uniform(AtenCall& c, const Shape& shape, DType dtype) {
  return draw(c, "uniform", shape, dtype, words_of(dtype));
}

Value normal(AtenCall& c, const Shape& shape, DType dtype) {
  return draw(c, "normal", shape, dtype, 2 * words_of(dtype));
}

Value integers(AtenCall& c, const Expr& low, const Expr& high, const Shape& shape, DType dtype) {
  return c.op("randint", {c.key(element_count(shape) * 2)},
              {{"low", low}, {"high", high}, {"shape", shape}, {"dtype", dtype}});
}

// Exponentially distributed with rate 1, at least f32.
Value exponential(AtenCall& c, const Shape& shape, DType dtype) {
  return -c.unary("log1p", -uniform(c, shape, wide_dtype(dtype)));
}

Value bernoulli(AtenCall& c, Value p) {
  return c.op("bernoulli", {p, c.key(element_count(p.shape()) * words_of(p.dtype()))});
}

// 1 with a probability that is known now, as a tensor of the shape and dtype of x.
Value bernoulli_like(AtenCall& c, Value x, const Shape& shape, double p) {
  return c.cast(bernoulli(c, c.full(p, shape, wide_dtype(x.dtype()))), x.dtype());
}

// ---- new tensors ----------------------------------------------------------------------------------------------------

using DrawFn = Value (*)(AtenCall&, const Shape&, DType);

void add_sized(AtenTable& table, std::string_view name, DrawFn draw) {
  const AtenFn of_size = [draw](AtenCall& c) { return draw(c, c.sizes("size"), c.dtype().value_or(DType::kF32)); };
  table.add(with_options(fmt::format("aten.{}.default(size", name)), of_size);
  table.add(with_options(fmt::format("aten.{}.generator(size", name), "generator, "), of_size);
  const AtenFn like = [draw](AtenCall& c) {
    return draw(c, c.tensor().shape(), c.dtype().value_or(c.tensor().dtype()));
  };
  constexpr auto kFormat = ", memory_format=None";
  table.add(with_options(fmt::format("aten.{}_like.default(self", name), "", kFormat), like);
  table.add(with_options(fmt::format("aten.{}_like.generator(self", name), "generator, ", kFormat), like);
}

Expr low_of(AtenCall& c) { return c.takes("low") ? c.size("low") : Expr(0); }

AtenArg randint(AtenCall& c) {
  return integers(c, low_of(c), c.size("high"), c.sizes("size"), c.dtype().value_or(DType::kI64));
}

AtenArg randint_like(AtenCall& c) {
  return integers(c, low_of(c), c.size("high"), c.tensor().shape(), c.dtype().value_or(c.tensor().dtype()));
}

AtenArg randperm(AtenCall& c) {
  return c.op("randperm", {c.key(c.size("n") * 2)}, {{"n", c.size("n")}, {"dtype", c.dtype().value_or(DType::kI64)}});
}

void add_new(AtenTable& table) {
  add_sized(table, "rand", uniform);
  add_sized(table, "randn", normal);
  const std::string options = "dtype=4, layout=None, device=None, pin_memory=None)";
  table.add("aten.randint.default(high, size, *, " + options, randint);
  table.add("aten.randint.generator(high, size, *, generator, " + options, randint);
  table.add("aten.randint.low(low, high, size, *, " + options, randint);
  table.add("aten.randint.low_generator(low, high, size, *, generator, " + options, randint);
  table.add("aten.randperm.default(n, *, " + options, randperm);
  table.add("aten.randperm.generator(n, *, generator, " + options, randperm);
  constexpr auto kFormat = ", memory_format=None";
  table.add(with_options("aten.randint_like.default(self, high", "", kFormat), randint_like);
  table.add(with_options("aten.randint_like.generator(self, high", "generator, ", kFormat), randint_like);
  table.add(with_options("aten.randint_like.low_dtype(self, low, high", "", kFormat), randint_like);
  table.add(with_options("aten.randint_like.low_generator_dtype(self, low, high", "generator, ", kFormat),
            randint_like);
}

// ---- distributions of a tensor's shape ------------------------------------------------------------------------------

// An entry whose numbers are a formula over draws of at least f32.
AtenFn distribution(Value (*formula)(AtenCall&, const Shape&, DType)) {
  return [formula](AtenCall& c) {
    const Value x = c.tensor();
    return c.cast(formula(c, x.shape(), wide_dtype(x.dtype())), x.dtype());
  };
}

Value uniform_between(AtenCall& c, const Shape& shape, DType dtype) {
  return uniform(c, shape, dtype) * (c.real("to") - c.real("from")) + c.real("from");
}

Value scaled_normal(AtenCall& c, const Shape& shape, DType dtype) {
  return normal(c, shape, dtype) * c.real("std") + c.real("mean");
}

// How many tries until the first success.
Value geometric(AtenCall& c, const Shape& shape, DType dtype) {
  const Value tries = c.unary("ceil", exponential(c, shape, dtype) / -std::log1p(-c.real("p")));
  return c.maximum(tries, c.scalar(1, tries.dtype()));
}

Value cauchy(AtenCall& c, const Shape& shape, DType dtype) {
  const Value angle = (uniform(c, shape, dtype) - 0.5) * std::numbers::pi;
  return c.unary("tan", angle) * c.real("sigma") + c.real("median");
}

// All integers that the dtype has exactly, from 0.
Expr integers_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return int64_t{1} << 53;
    case DType::kF32:
      return int64_t{1} << 24;
    case DType::kF16:
      return int64_t{1} << 11;
    case DType::kBF16:
      return int64_t{1} << 8;
    case DType::kI64:
      return std::numeric_limits<int64_t>::max();
    case DType::kBool:
      return 2;
    default:
      return int64_t{1} << (8 * size_of(dtype) - (dtype == DType::kU8 ? 0 : 1));
  }
}

AtenArg random_integers(AtenCall& c) {
  const Value x = c.tensor();
  const Expr low = c.takes("from") ? c.size("from") : Expr(0);
  const bool bounded = c.takes("to") && c.given("to");
  return integers(c, low, bounded ? c.size("to") : integers_of(x.dtype()), x.shape(), x.dtype());
}

void add_distributions(AtenTable& table) {
  table.add("aten.uniform.default(self, from=0.0, to=1.0, *, generator=None)", distribution(uniform_between));
  table.add("aten.normal_functional.default(self, mean=0.0, std=1.0, *, generator=None)", distribution(scaled_normal));
  table.add("aten.normal_.default(self, mean=0.0, std=1.0, *, generator=None)", [](AtenCall& c) {
    c.write("self", scaled_normal(c, c.tensor().shape(), wide_dtype(c.tensor().dtype())));
    return itself(c);
  });
  table.add(
      "aten.log_normal.default(self, mean=1.0, std=2.0, *, generator=None)",
      distribution([](AtenCall& c, const Shape& shape, DType dtype) { return c.exp(scaled_normal(c, shape, dtype)); }));
  table.add("aten.exponential.default(self, lambd=1.0, *, generator=None)",
            distribution([](AtenCall& c, const Shape& shape, DType dtype) {
              return exponential(c, shape, dtype) / c.real("lambd");
            }));
  table.add("aten.geometric.default(self, p, *, generator=None)", distribution(geometric));
  table.add("aten.cauchy.default(self, median=0.0, sigma=1.0, *, generator=None)", distribution(cauchy));
  table.add("aten.random.default(self, *, generator=None)", random_integers);
  table.add("aten.random.to(self, to, *, generator=None)", random_integers);
  table.add("aten.random.from(self, from, to, *, generator=None)", random_integers);
}

// mean + std * z, where one of the two is a number.
AtenArg normal_of(AtenCall& c) {
  const auto [mean, std] = c.pair("mean", "std");
  const DType dtype = c.is_tensor("mean") ? mean.dtype() : std.dtype();
  const Value z = normal(c, broadcast(mean.shape(), std.shape()), wide_dtype(dtype));
  return c.cast(z * std + mean, dtype);
}

void add_normals(AtenTable& table) {
  table.add("aten.normal.Tensor_float(mean, std=1.0, *, generator=None)", normal_of);
  table.add("aten.normal.{Tensor_Tensor,float_Tensor}(mean, std, *, generator=None)", normal_of);
  table.add(with_options("aten.normal.float_float(mean, std, size", "generator=None, "), [](AtenCall& c) {
    const DType dtype = c.dtype().value_or(DType::kF32);
    return c.cast(scaled_normal(c, c.sizes("size"), wide_dtype(dtype)), dtype);
  });
}

// ---- choices --------------------------------------------------------------------------------------------------------

AtenArg bernoulli_of_number(AtenCall& c) { return bernoulli_like(c, c.tensor(), c.tensor().shape(), c.real("p")); }

void add_bernoulli(AtenTable& table) {
  table.add("aten.bernoulli.default(self, *, generator=None)", [](AtenCall& c) { return bernoulli(c, c.tensor()); });
  table.add("aten.bernoulli.p(self, p, *, generator=None)", bernoulli_of_number);
  table.add("aten.bernoulli_.float(self, p=0.5, *, generator=None)", [](AtenCall& c) {
    c.write("self", bernoulli_of_number(c).get<AtenTensor>()->value);
    return itself(c);
  });
  table.add("aten.bernoulli.Tensor(self, p, *, generator=None)", [](AtenCall& c) {
    const Value p = c.expand(to_float(c, c.tensor("p")), c.tensor().shape());
    return c.cast(bernoulli(c, p), c.tensor().dtype());
  });
}

// With replacement: where each draw falls into the cumulative probabilities.
Value drawn_with_replacement(AtenCall& c, Value p, const Expr& count) {
  const Value sums = c.op("cumsum", {p}, {{"dim", int64_t{-1}}});
  const Expr classes = p.size(p.rank() - 1);
  Shape shape = p.shape();
  shape.back() = count;
  const Value total = c.slice(sums, -1, classes - 1, classes);
  const Value draws = uniform(c, shape, p.dtype()) * total;
  const Value is_passed = c.compare("le", c.unsqueeze(sums, -2), c.unsqueeze(draws, -1));
  return c.sum(is_passed, {-1});
}

// Without: those that a race of exponential clocks brings first.
Value drawn_without_replacement(AtenCall& c, Value p, const Expr& count) {
  const Value scores = p / exponential(c, p.shape(), p.dtype());
  return c.results("topk", {scores}, {{"k", count}, {"dim", int64_t{-1}}})[1];
}

AtenArg multinomial(AtenCall& c) {
  const Value p = to_wide(c, c.tensor());
  const Expr count = c.size("num_samples");
  return c.flag("replacement") ? drawn_with_replacement(c, p, count) : drawn_without_replacement(c, p, count);
}

// ---- dropout --------------------------------------------------------------------------------------------------------

std::vector<Value> dropped(AtenCall& c, Value x) {
  return c.results("dropout", {x, c.key(element_count(x.shape()))}, {{"p", c.real("p")}});
}

bool is_training(AtenCall& c) { return !c.given("train") || c.flag("train"); }

AtenArg native_dropout(AtenCall& c) {
  const Value x = c.tensor("input");
  if (is_training(c)) return dropped(c, x);
  return std::vector{x, c.full(Expr(1), x.shape(), DType::kBool)};
}

// Without training, or where nothing or everything is dropped, no number is drawn.
AtenFn unless_trivial(AtenArg (*draw)(AtenCall&, Value x, double p)) {
  return [draw](AtenCall& c) {
    const double p = c.real("p");
    if (!c.flag("train") || p == 0) return itself(c, "input");
    return p == 1 ? AtenArg(c.tensor("input") * 0) : draw(c, c.tensor("input"), p);
  };
}

// One choice for each sample and channel.
Shape features_of(Value x) {
  if (x.rank() < 2) fail("feature dropout needs at least 2 dimensions, got {}", to_string(x.type()));
  Shape shape(x.shape().begin(), x.shape().begin() + 2);
  shape.resize(x.shape().size(), 1);
  return shape;
}

AtenArg feature_dropout(AtenCall& c, Value x, double p) {
  return x * (bernoulli_like(c, x, features_of(x), 1 - p) / (1 - p));
}

// Dropped elements become the limit of selu; mean and variance stay.
AtenArg alpha_dropout(AtenCall& c, Value x, double p, const Shape& shape) {
  constexpr double kAlpha = 1.7580993408473766;
  const double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const Value kept = bernoulli_like(c, x, shape, 1 - p);
  return x * (kept * a) + ((kept - 1) * (kAlpha * a) + kAlpha * a * p);
}

void add_dropout(AtenTable& table) {
  table.add("aten.native_dropout.default(input, p, train)", native_dropout);
  table.add("aten.native_dropout_backward.default(grad_output, mask, scale)",
            [](AtenCall& c) { return to_float(c, c.tensor("grad_output")) * c.tensor("mask") * c.real("scale"); });
  table.add("aten.dropout.default(input, p, train)",
            unless_trivial([](AtenCall& c, Value x, double) -> AtenArg { return dropped(c, x)[0]; }));
  table.add("aten.feature_dropout.default(input, p, train)", unless_trivial(feature_dropout));
  table.add("aten.alpha_dropout.default(input, p, train)",
            unless_trivial([](AtenCall& c, Value x, double p) { return alpha_dropout(c, x, p, x.shape()); }));
  table.add("aten.feature_alpha_dropout.default(input, p, train)",
            unless_trivial([](AtenCall& c, Value x, double p) { return alpha_dropout(c, x, p, features_of(x)); }));
}

}  // namespace

void add_random_entries(AtenTable& table) {
  for (const auto add : {add_new, add_distributions, add_normals, add_bernoulli, add_dropout}) add(table);
  table.add("aten.multinomial.default(self, num_samples, replacement=False, *, generator=None)", multinomial);
}

}  // namespace tenon::aten
