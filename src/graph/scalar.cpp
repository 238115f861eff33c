#include "graph/scalar.h"

#include <algorithm>
#include <cmath>

#include "runtime/scalar_functions.h"
#include "support/diagnostic.h"

namespace tenon {
namespace {

constexpr size_t kMostSteps = 64;

constexpr PrimitiveDef kDefinitions[] = {
    {"operand", 0, Cost::kFree, PrimitiveLanes::kSame, "", ""},
    {"constant", 0, Cost::kFree, PrimitiveLanes::kSame, "", ""},
    {"cast", 1, Cost::kOperation, PrimitiveLanes::kSame, "(T)a", "a"},
#define BOTH(id, name, count, cost, lanes, real, integer) \
  {name, count, Cost::cost, PrimitiveLanes::lanes, #real, #integer},
#define REAL(id, name, count, cost, lanes, real) {name, count, Cost::cost, PrimitiveLanes::lanes, #real, ""},
#define INTEGER(id, name, count, cost, lanes, integer) {name, count, Cost::cost, PrimitiveLanes::lanes, "", #integer},
#include "graph/primitives.inc"
};

double rounded(double product) { return product; }

double apply_to(Primitive primitive, double a, double b, double c) {
  using T = double;
  switch (primitive) {
#define BOTH(id, name, count, cost, lanes, real, integer) \
  case Primitive::id:                                     \
    return real;
#define REAL(id, name, count, cost, lanes, real) \
  case Primitive::id:                            \
    return real;
#define INTEGER(id, name, count, cost, lanes, integer)
#include "graph/primitives.inc"
    default:
      check(false, "{} has no meaning for floats", definition_of(primitive).name);
      return 0;
  }
}

int64_t apply_to(Primitive primitive, int64_t a, int64_t b, int64_t c) {
  using T = int64_t;
  using U = uint64_t;
  using u64 = uint64_t;
  switch (primitive) {
#define BOTH(id, name, count, cost, lanes, real, integer) \
  case Primitive::id:                                     \
    return integer;
#define REAL(id, name, count, cost, lanes, real)
#define INTEGER(id, name, count, cost, lanes, integer) \
  case Primitive::id:                                  \
    return integer;
#include "graph/primitives.inc"
    default:
      check(false, "{} has no meaning for integers", definition_of(primitive).name);
      return 0;
  }
}

bool compares(Primitive primitive) { return definition_of(primitive).lanes == PrimitiveLanes::kMask; }

bool divides(Primitive primitive) { return primitive == Primitive::kTruncDiv || primitive == Primitive::kFmod; }

// A step of operands of `from`, which gives `to`.
int64_t computed(Primitive primitive, const std::array<int64_t, 3>& x, DType from, DType to) {
  if (divides(primitive) && x[1] == 0) fail("integer division of {} by zero", x[0]);
  return wrap_to(to, apply_to(in_dtype(primitive, from), x[0], x[1], x[2]));
}

double computed(Primitive primitive, const std::array<double, 3>& x, DType from, DType) {
  if (is_float(from)) return apply_to(primitive, x[0], x[1], x[2]);
  const auto truth = [&](size_t i) { return static_cast<int64_t>(x[i] != 0); };
  return static_cast<double>(apply_to(in_dtype(primitive, from), truth(0), truth(1), truth(2)));
}

}  // namespace

const PrimitiveDef& definition_of(Primitive primitive) { return kDefinitions[static_cast<size_t>(primitive)]; }

Primitive in_dtype(Primitive primitive, DType dtype) {
  if (dtype == DType::kBool && primitive == Primitive::kAdd) return Primitive::kBitwiseOr;
  if (dtype == DType::kBool && primitive == Primitive::kMul) return Primitive::kBitwiseAnd;
  return primitive;
}

DType dtype_of(ScalarType type, DType compute) {
  if (type == ScalarType::kTruth) return DType::kBool;
  return type == ScalarType::kWide && is_float(compute) ? DType::kF64 : compute;
}

// ---- construction ---------------------------------------------------------------------------------------------------

uint8_t ScalarFn::add(Primitive primitive, std::initializer_list<uint8_t> operands) {
  check(steps_.size() < kMostSteps, "an expression has more than {} steps", kMostSteps);
  ScalarStep step{primitive, steps_[*(operands.end() - 1)].type};
  if (primitive == Primitive::kWiden) step.type = ScalarType::kWide;
  if (compares(primitive)) step.type = ScalarType::kTruth;
  std::ranges::copy(operands, step.operands.begin());
  const std::span<const uint8_t> numbers(operands.begin() + (primitive == Primitive::kWhere ? 1 : 0), operands.end());
  check(std::ranges::all_of(numbers, [&](uint8_t of) { return steps_[of].type == steps_[numbers[0]].type; }),
        "the operands of {} differ in type: widen all of them or none", definition_of(primitive).name);
  steps_.push_back(step);
  return static_cast<uint8_t>(steps_.size() - 1);
}

uint8_t ScalarFn::add_constant(double number, ScalarTerm beside) {
  check(steps_.size() < kMostSteps, "an expression has more than {} steps", kMostSteps);
  steps_.push_back({Primitive::kConstant, steps_[beside.step].type, {}, number});
  return static_cast<uint8_t>(steps_.size() - 1);
}

ScalarTerm apply(Primitive primitive, ScalarTerm x) { return {x.fn, x.fn->add(primitive, {x.step})}; }

ScalarTerm apply(Primitive primitive, ScalarTerm x, ScalarOperand y) {
  return {x.fn, x.fn->add(primitive, {x.step, y.beside(x).step})};
}

// Two plain numbers have the type of what the condition compares.
ScalarTerm where(ScalarTerm condition, ScalarOperand x, ScalarOperand y) {
  ScalarFn& fn = *condition.fn;
  ScalarTerm compared = condition;
  const auto is_derived_truth = [&](const ScalarStep& s) {
    return s.type == ScalarType::kTruth && s.primitive != Primitive::kOperand;
  };
  while (is_derived_truth(fn.steps()[compared.step])) compared.step = fn.steps()[compared.step].operands[0];
  const ScalarTerm known = x.term.fn != nullptr ? x.term : y.term.fn != nullptr ? y.term : compared;
  return {&fn, fn.add(Primitive::kWhere, {condition.step, x.beside(known).step, y.beside(known).step})};
}

// ---- reading --------------------------------------------------------------------------------------------------------

Cost ScalarFn::cost() const {
  Cost cost = Cost::kOperation;
  for (const ScalarStep& step : steps_) cost = std::max(cost, definition_of(step.primitive).cost);
  return cost;
}

std::optional<Primitive> ScalarFn::primitive() const {
  if (steps_.size() != arity_ + 1 || result_ != arity_) return {};
  for (uint8_t i = 0; i < arity_; ++i) {
    if (steps_[result_].operands[i] != i) return {};
  }
  return steps_[result_].primitive;
}

bool ScalarFn::divides_by_operand() const {
  bool result = false;
  for (const ScalarStep& step : steps_) {
    if (!divides(step.primitive)) continue;
    check(step.operands[1] == 1, "an integer expression divides by something that is not operand 1");
    result = true;
  }
  return result;
}

DType ScalarFn::operand_dtype(const ScalarStep& step, DType compute) const {
  const size_t last = definition_of(step.primitive).operands - 1;
  return dtype_of(steps_[step.operands[last]].type, compute);
}

template <class T>
T ScalarFn::evaluate(const T* x, DType dtype) const {
  std::array<T, kMostSteps> values;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const ScalarStep& step = steps_[i];
    if (step.primitive == Primitive::kOperand) {
      values[i] = x[step.operands[0]];
    } else if (step.primitive == Primitive::kConstant) {
      values[i] = static_cast<T>(step.number);
    } else if (step.primitive == Primitive::kWiden) {
      values[i] = values[step.operands[0]];
    } else {
      std::array<T, 3> operands;
      std::ranges::transform(step.operands, operands.begin(), [&](uint8_t operand) { return values[operand]; });
      values[i] = computed(step.primitive, operands, operand_dtype(step, dtype), dtype_of(step.type, dtype));
    }
  }
  return values[result_];
}

double ScalarFn::operator()(const double* x) const { return evaluate(x, DType::kF64); }

int64_t ScalarFn::operator()(const int64_t* x, DType dtype) const { return evaluate(x, dtype); }

}  // namespace tenon
