// The random ops have no PyTorch peer: the generator is held to its published answers, what is made of it to
// statistics. All draws are fixed by their keys, so nothing here fails by chance.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autodiff/differentiate.h"
#include "graph/evaluate.h"
#include "graph/graph.h"
#include "runtime/philox.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using Numbers = std::vector<double>;

Tensor key_of(int64_t seed, int64_t offset = 0) {
  Tensor key = Tensor::zeros(DType::kI64, {2});
  key.set_integer(0, seed);
  key.set_integer(1, offset);
  return key;
}

// The first result of a graph of the op, like "uniform(%key) {shape=[4]}".
Numbers draw(std::string_view op, const Tensor& key) {
  const Graph graph = parse_graph(fmt::format("graph g(%key: i64[2]) {{ %y = {} return %y }}", op)).value();
  return test::values_of(evaluate(graph, std::vector{key}).value()[0]);
}

double mean(const Numbers& x) { return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size()); }

double variance(const Numbers& x) {
  const double center = mean(x);
  return std::accumulate(x.begin(), x.end(), 0.0,
                         [&](double sum, double v) { return sum + (v - center) * (v - center); }) /
         static_cast<double>(x.size());
}

// Of each number with the one that follows it.
double serial_correlation(const Numbers& x) {
  const double center = mean(x);
  double sum = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i) sum += (x[i] - center) * (x[i + 1] - center);
  return sum / static_cast<double>(x.size() - 1) / variance(x);
}

// Kolmogorov-Smirnov: sqrt(n) times the largest distance between the empirical distribution and `cdf`. It exceeds 1.95
// in one of a thousand draws.
template <class Cdf>
double distance_from(Cdf cdf, Numbers x) {
  std::ranges::sort(x);
  const auto n = static_cast<double>(x.size());
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double below = static_cast<double>(i) / n;
    largest = std::max({largest, std::abs(cdf(x[i]) - below), std::abs(cdf(x[i]) - below - 1 / n)});
  }
  return largest * std::sqrt(n);
}

TEST(Philox, GivesThePublishedAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, ElementsAreWordsOfConsecutiveCounters) {
  const int64_t seed = 0x123456789abcdef0;
  const int64_t offset = 0xfffffffe;  // carries into the second word of the counter
  const Numbers words = draw("philox(%key) {shape=[3, 4]}", key_of(seed, offset));
  for (uint32_t i = 0; i < 12; ++i) {
    const uint64_t counter = static_cast<uint64_t>(offset) + i / 4;
    const PhiloxCounter split = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
    EXPECT_EQ(words[i], philox(split, {0x9abcdef0, 0x12345678})[i % 4]) << i;
  }
}

TEST(Philox, NegativeSeedsAndOffsetsAreTheirBits) {
  constexpr uint32_t kOnes = 0xffffffff;
  const Numbers words = draw("philox(%key) {shape=[8]}", key_of(-1, -1));
  EXPECT_EQ(words[0], philox({kOnes, kOnes, 0, 0}, {kOnes, kOnes})[0]);
  EXPECT_EQ(words[4], philox({0, 0, 0, 0}, {kOnes, kOnes})[0]) << "the counter wraps";
}

TEST(Philox, AdvancingTheOffsetSkipsFourWords) {
  const Numbers all = draw("philox(%key) {shape=[12]}", key_of(5, 7));
  EXPECT_EQ(draw("philox(%key) {shape=[8]}", key_of(5, 8)), Numbers(all.begin() + 4, all.end()));
}

TEST(Philox, AKeyIsTwoIntegers) {
  const auto graph = parse_graph("graph g(%key: i64[3]) { %y = philox(%key) {shape=[4]} return %y }");
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.diagnostic().message.find("a key is i64[2], a seed and an offset, got i64[3]"), std::string::npos);
}

TEST(Uniform, IsUniform) {
  for (const std::string dtype : {"f32", "f64"}) {
    for (int64_t seed : {0, 1, 2}) {
      const Numbers x = draw(fmt::format("uniform(%key) {{shape=[20000], dtype={}}}", dtype), key_of(seed));
      EXPECT_GE(*std::ranges::min_element(x), 0) << dtype;
      EXPECT_LT(*std::ranges::max_element(x), 1) << dtype;
      EXPECT_NEAR(mean(x), 0.5, 0.008) << dtype;
      EXPECT_NEAR(variance(x), 1.0 / 12, 0.003) << dtype;
      EXPECT_NEAR(serial_correlation(x), 0, 0.025) << dtype;
      EXPECT_LT(distance_from([](double v) { return v; }, x), 1.95) << dtype;
    }
  }
}

TEST(Uniform, HasTheBitsOfItsDType) {
  const std::pair<std::string, int> cases[] = {{"bf16", 8}, {"f16", 11}, {"f32", 24}, {"f64", 53}};
  for (const auto& [dtype, bits] : cases) {
    const Numbers x = draw(fmt::format("uniform(%key) {{shape=[6000], dtype={}}}", dtype), key_of(3));
    bool uses_last_bit = false;
    for (double v : x) {
      const double scaled = std::ldexp(v, bits);
      ASSERT_EQ(scaled, std::floor(scaled)) << dtype;
      uses_last_bit |= std::fmod(scaled, 2) == 1;
    }
    EXPECT_TRUE(uses_last_bit) << dtype;
    EXPECT_LT(*std::ranges::max_element(x), 1) << dtype;
    EXPECT_NEAR(mean(x), 0.5, 0.02) << dtype;
  }
}

TEST(Normal, IsNormal) {
  const auto cdf = [](double v) { return 0.5 * std::erfc(-v / std::sqrt(2.0)); };
  for (const std::string dtype : {"f32", "f64"}) {
    for (int64_t seed : {0, 1, 2}) {
      const Numbers x = draw(fmt::format("normal(%key) {{shape=[20000], dtype={}}}", dtype), key_of(seed));
      EXPECT_TRUE(std::ranges::all_of(x, [](double v) { return std::isfinite(v); })) << dtype;
      EXPECT_NEAR(mean(x), 0, 0.025) << dtype;
      EXPECT_NEAR(variance(x), 1, 0.04) << dtype;
      EXPECT_NEAR(serial_correlation(x), 0, 0.025) << dtype;
      EXPECT_LT(distance_from(cdf, x), 1.95) << dtype;
    }
  }
}

TEST(Bernoulli, HasItsProbability) {
  for (double p : {0.0, 0.1, 0.7, 1.0}) {
    const std::string op =
        fmt::format("full() {{value={}, shape=[5000], dtype=f32}} %b = bernoulli(%y, %key)", real_to_string(p));
    const Graph graph = parse_graph(fmt::format("graph g(%key: i64[2]) {{ %y = {} return %b }}", op)).value();
    const Numbers x = test::values_of(evaluate(graph, std::vector{key_of(11)}).value()[0]);
    EXPECT_TRUE(std::ranges::all_of(x, [](double v) { return v == 0 || v == 1; }));
    EXPECT_NEAR(mean(x), p, 3.5 * std::sqrt(p * (1 - p) / 5000)) << p;
  }
}

struct Dropped {
  Numbers out;
  Numbers mask;
};

Dropped drop(double p, const Tensor& x, const Tensor& key) {
  const std::string text =
      fmt::format("graph g(%x: {}, %key: i64[2]) {{ %out, %mask = dropout(%x, %key) {{p={}}} return %out, %mask }}",
                  to_string(type_of(x)), real_to_string(p));
  const auto results = evaluate(parse_graph(text).value(), std::vector{x, key}).value();
  return {test::values_of(results[0]), test::values_of(results[1])};
}

TEST(Dropout, KeepsTheExpectation) {
  Tensor x = Tensor::zeros(DType::kF32, {5000});
  for (int64_t i = 0; i < x.numel(); ++i) x.set_real(i, 1 + static_cast<double>(i % 7));
  for (double p : {0.1, 0.5, 0.9}) {
    const auto [out, mask] = drop(p, x, key_of(4));
    EXPECT_NEAR(mean(mask), 1 - p, 3.5 * std::sqrt(p * (1 - p) / 5000)) << p;
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], mask[i] * x.real(static_cast<int64_t>(i)) / (1 - p), 1e-4 * x.real(static_cast<int64_t>(i)))
          << p;
    }
  }
}

TEST(Dropout, OfZeroKeepsAllAndOfOneNothing) {
  Tensor x = Tensor::zeros(DType::kF16, {100});
  for (int64_t i = 0; i < x.numel(); ++i) x.set_real(i, static_cast<double>(i));
  EXPECT_EQ(drop(0, x, key_of(1)).out, test::values_of(x));
  EXPECT_EQ(drop(1, x, key_of(1)).out, Numbers(100, 0.0));
  EXPECT_EQ(drop(1, x, key_of(1)).mask, Numbers(100, 0.0));
}

TEST(Dropout, ProbabilitiesAreChecked) {
  const auto graph = parse_graph("graph g(%x: f32[2], %key: i64[2]) { %y, %m = dropout(%x, %key) {p=1.5} return %y }");
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.diagnostic().message.find("p must be in [0, 1], got 1.5"), std::string::npos)
      << graph.diagnostic().message;
}

TEST(Randint, IsUniformInItsRange) {
  const Numbers x = draw("randint(%key) {low=-3, high=7, shape=[10000]}", key_of(6));
  std::vector<int> counts(10);
  for (double v : x) {
    ASSERT_TRUE(v >= -3 && v < 7 && v == std::floor(v)) << v;
    ++counts[static_cast<size_t>(v + 3)];
  }
  double chi_square = 0;
  for (int count : counts) chi_square += (count - 1000) * (count - 1000) / 1000.0;
  EXPECT_LT(chi_square, 27.9) << "9 degrees of freedom: exceeded in one of a thousand draws";
}

TEST(Randint, AnEmptyRangeIsAnError) {
  const auto graph = parse_graph("graph g(%key: i64[2]) { %y = randint(%key) {low=3, high=3, shape=[1]} return %y }");
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.diagnostic().message.find("low 3 is not known to be less than high 3"), std::string::npos);
}

TEST(Randperm, IsAPermutationAndEachPlaceIsLikely) {
  std::vector<int> first(5);
  for (int64_t seed = 0; seed < 500; ++seed) {
    Numbers x = draw("randperm(%key) {n=5}", key_of(seed));
    ++first[static_cast<size_t>(x[0])];
    std::ranges::sort(x);
    ASSERT_EQ(x, (Numbers{0, 1, 2, 3, 4}));
  }
  for (int count : first) EXPECT_NEAR(count, 100, 32);
}

}  // namespace
}  // namespace tenon
