#include "tests/graph/support_values.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

namespace tenon::test {
namespace {

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 1e-9;
    case DType::kF32:
      return 2e-5;
    case DType::kF16:
      return 4e-3;
    case DType::kBF16:
      return 2e-2;
    default:
      return 0;
  }
}

Domain integer_domain(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  return dtype == DType::kU8 ? Domain{0, 18} : Domain{-9, 9};
}

}  // namespace

Tensor random_tensor(const TensorType& type, const std::optional<Domain>& range, Domain domain, Random& random) {
  Tensor tensor = Tensor::zeros(type.dtype, evaluate(type.shape, {}));
  const Domain bounds = range ? *range : is_float(type.dtype) ? domain : integer_domain(type.dtype);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    if (is_float(type.dtype)) {
      tensor.set_real(i, std::uniform_real_distribution<double>(bounds.low, bounds.high)(random));
    } else {
      const auto low = static_cast<int64_t>(bounds.low);
      const auto high = static_cast<int64_t>(bounds.high);
      tensor.set_integer(i, std::uniform_int_distribution<int64_t>(low, high)(random));
    }
  }
  return tensor;
}

std::vector<Tensor> inputs_for(const Sample& sample, uint64_t seed) {
  Random random(std::hash<std::string>()(sample.name()) + seed);
  std::vector<Tensor> inputs;
  const std::vector<ValueRef> formal = sample.graph.inputs();
  for (size_t i = 0; i < formal.size(); ++i) {
    inputs.push_back(random_tensor(sample.graph.type(formal[i]), sample.ranges[i], sample.op->domain, random));
  }
  return inputs;
}

std::optional<Graph> with_symbolic_sizes(const Sample& sample, int64_t least) {
  Graph graph(sample.graph.name());
  for (int64_t size : {2, 3, 4, 5, 6, 7, 8}) graph.declare_symbol(Symbol(fmt::format("S{}", size)), {least, 64});
  const Node& node = sample.graph.nodes()[0];
  std::map<ValueRef, ValueRef> map;
  for (const Leaf& leaf : sample.graph.leaves()) {
    TensorType type = sample.graph.type(leaf.value);
    for (Expr& size : type.shape) {
      const bool named = size.is_constant() && size.constant() >= 2 && size.constant() <= 8;
      if (named) size = Symbol(fmt::format("S{}", size.constant()));
    }
    map[leaf.value] = graph.add_input(leaf.name, type);
  }
  std::vector<ValueRef> operands;
  for (ValueRef operand : node.operands) operands.push_back(operand ? map[operand] : operand);
  const auto added = attempt([&] { return graph.add_node(*node.op, operands, node.attrs); });
  if (!added.ok()) return std::nullopt;  // a Diagnostic is an answer; an InternalError fails the test
  graph.set_outputs(graph.node(*added).results);
  return graph;
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.numel(); ++i) values.push_back(tensor.real(tensor.offset(i)));
  return values;
}

double weighted_sum(const std::vector<Tensor>& outputs, const std::vector<Tensor>& cotangents) {
  double sum = 0;
  size_t next = 0;
  for (const Tensor& output : outputs) {
    if (!is_float(output.dtype())) continue;
    const Tensor& cotangent = cotangents[next++];
    for (int64_t i = 0; i < output.numel(); ++i) {
      sum += output.real(output.offset(i)) * cotangent.real(cotangent.offset(i));
    }
  }
  return sum;
}

testing::AssertionResult same_bits_or_nan(const Tensor& actual, const Tensor& expected) {
  if (type_of(actual) != type_of(expected)) return testing::AssertionFailure() << "the types differ";
  for (int64_t i = 0; i < actual.numel(); ++i) {
    const double a = actual.real(actual.offset(i));
    const double b = expected.real(expected.offset(i));
    if ((a == b && std::signbit(a) == std::signbit(b)) || (std::isnan(a) && std::isnan(b))) continue;
    return testing::AssertionFailure() << "element " << i << " is " << a << ", expected " << b;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult close(const Tensor& actual, const Tensor& expected) {
  if (type_of(actual) != type_of(expected)) {
    return testing::AssertionFailure() << to_string(type_of(actual)) << " against " << to_string(type_of(expected));
  }
  const double allowed = tolerance(actual.dtype());
  for (int64_t i = 0; i < actual.numel(); ++i) {
    const double a = actual.real(actual.offset(i));
    const double b = expected.real(expected.offset(i));
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::abs(a - b) <= allowed * std::max(1.0, std::abs(b))) continue;
    return testing::AssertionFailure() << "element " << i << " is " << a << ", expected " << b;
  }
  return testing::AssertionSuccess();
}

}  // namespace tenon::test
