// Test values and comparisons that several tests share.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "graph/graph.h"
#include "graph/sample.h"

namespace tenon::test {

using Random = std::mt19937_64;

// Values within `range`, or within the op's domain for floats and a small interval for integers.
Tensor random_tensor(const TensorType& type, const std::optional<Domain>& range, Domain domain, Random& random);

// Inputs for a sample, the same in every run.
std::vector<Tensor> inputs_for(const Sample& sample, uint64_t seed = 0);

// The sample with a symbol for each size from 2 to 8, between `least` and 64: 3 becomes S3. Nothing, where the op or
// its attributes need the numbers.
std::optional<Graph> with_symbolic_sizes(const Sample& sample, int64_t least);

// The elements in row-major order.
std::vector<double> values_of(const Tensor& tensor);

// The sum of out * cotangent over all floating outputs.
double weighted_sum(const std::vector<Tensor>& outputs, const std::vector<Tensor>& cotangents);

// The same bits, or NaN in both.
testing::AssertionResult same_bits_or_nan(const Tensor& actual, const Tensor& expected);

// Equal within a few roundings of the narrower dtype; NaN equals NaN.
testing::AssertionResult close(const Tensor& actual, const Tensor& expected);

}  // namespace tenon::test
