#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numbers>

#include "tests/backends/support_fenced.h"
#include "tests/codegen/support_math_kernel.h"
#include "tests/codegen/support_ulp.h"
#include "tests/loops/support_kernels.h"

namespace tenon::codegen {
namespace {

using test::make_points;
using test::math_cases;
using test::MathCase;
using test::MathPoints;
using test::Worst;

int64_t point_count() {
  const char* text = std::getenv("TENON_ULP_POINTS");
  return text == nullptr ? 60'000 : std::atoll(text);
}

struct Variant {
  const char* target;
  int lanes;
};
constexpr Variant kVariants[] = {{"native", 16}, {"native", 1},    {"native", 4},
                                 {"native", 8},  {"x86-64-v3", 8}, {"x86-64-v2", 4}};

// In the emulator, in vectors.
template <class T>
std::vector<T> arm64_results_of(const MathCase& c, const MathPoints<T>& points) {
  const DType dtype = sizeof(T) == 8 ? DType::kF64 : DType::kF32;
  const OpDef& op = op_named(c.name);
  loops::IR ir("math");
  const loops::VarRef i = ir.add_var("i", std::ssize(points.x));
  std::vector<loops::NodeRef> reads;
  std::vector<Tensor> inputs;
  for (size_t operand = 0; operand < op.operands.get().size(); ++operand) {
    const std::vector<T>& values = operand == 0 ? points.x : points.y;
    reads.push_back(ir.add_read(dtype, {i}));
    inputs.push_back(loops::testing::filled(dtype, {std::ssize(values)}, [&](int64_t at) { return values[at]; }));
  }
  const loops::NodeRef y = ir.add_compute(op, reads, {i}), out = ir.add_write(y, {i});
  for (loops::NodeRef node : {y, out}) ir.set_loops(node, {{.var = i, .annotation = {loops::Mark::kVectorize}}});
  const loops::LoopTree tree(std::move(ir));
  const loops::LoopTree* const trees[] = {&tree};
  const auto kernels = test::compile_fenced(trees, {.cpu = "aarch64", .use_cache = false});
  const Tensor result = run(*kernels[0], tree.ir, inputs).value()[0];
  std::vector<T> results(points.x.size());
  std::memcpy(results.data(), result.data(), results.size() * sizeof(T));
  return results;
}

template <class T>
std::vector<T> results_of(const MathCase& c, const MathPoints<T>& points, const Variant& variant) {
  const DType dtype = sizeof(T) == 8 ? DType::kF64 : DType::kF32;
  const MathKernel kernel(c.name, dtype, variant.lanes, find_target(variant.target));
  std::vector<T> results(points.x.size());
  const void* operands[] = {points.x.data(), points.y.data()};
  kernel.run(operands, results.data(), std::ssize(results));
  return results;
}

template <class T>
std::string describe(const MathCase& c, const MathPoints<T>& points, size_t i, T result) {
  const std::string second = points.y.empty() ? "" : fmt::format(", {}", points.y[i]);
  return fmt::format("{}({}{}) = {}, not {}", c.name, points.x[i], second, result, points.expected[i]);
}

template <class T>
void expect_accurate(const MathCase& c) {
  const MathPoints<T> points = make_points<T>(c, point_count());
  Worst worst;
  std::string where;
  for (const Variant& variant : kVariants) {
    if (!runs_here(find_target(variant.target))) continue;
    const std::vector<T> results = results_of(c, points, variant);
    const Worst found = test::worst_of(c, points, results);
    if (found.ulp <= worst.ulp) continue;
    worst = found;
    const auto i = static_cast<size_t>(worst.index);
    where = fmt::format("{} ({} x {})", describe(c, points, i, results[i]), variant.target, variant.lanes);
  }
  EXPECT_LE(worst.ulp, c.limit) << where;
  if (std::getenv("TENON_ULP_POINTS") == nullptr) return;
  fmt::print("{:10} {} {:6.3f} ulp  {}\n", c.name, sizeof(T) == 8 ? "f64" : "f32", worst.ulp, where);
  std::fflush(stdout);
}

template <class T>
void expect_accurate_on_arm64(const MathCase& c) {
  if (const std::string why = test::cannot_run("aarch64"); !why.empty()) GTEST_SKIP() << why;
  const MathPoints<T> points = make_points<T>(c, std::min<int64_t>(point_count(), 20'000));
  const std::vector<T> results = arm64_results_of(c, points);
  const Worst worst = test::worst_of(c, points, results);
  const auto i = static_cast<size_t>(worst.index);
  EXPECT_LE(worst.ulp, c.limit) << describe(c, points, i, results[i]);
}

class MathOnArm64 : public testing::TestWithParam<MathCase> {};

TEST_P(MathOnArm64, IsAccurateInF32) { expect_accurate_on_arm64<float>(GetParam()); }
TEST_P(MathOnArm64, IsAccurateInF64) { expect_accurate_on_arm64<double>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, MathOnArm64, testing::ValuesIn(math_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

class MathTest : public testing::TestWithParam<MathCase> {};

TEST_P(MathTest, IsAccurateInF32) { expect_accurate<float>(GetParam()); }
TEST_P(MathTest, IsAccurateInF64) { expect_accurate<double>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, MathTest, testing::ValuesIn(math_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- digamma and trigamma at points from elsewhere: gamma_points.py ----

struct GammaPoints {
  std::vector<double> x;
  std::vector<long double> digamma, trigamma;
};

GammaPoints read_gamma_points() {
  std::ifstream file("tests/codegen/gamma_points.txt");
  GammaPoints points;
  for (std::string x, digamma, trigamma; file >> x >> digamma >> trigamma;) {
    points.x.push_back(std::strtod(x.c_str(), nullptr));
    points.digamma.push_back(std::strtold(digamma.c_str(), nullptr));
    points.trigamma.push_back(std::strtold(trigamma.c_str(), nullptr));
  }
  return points;
}

template <class T>
void expect_accurate_at(const char* name, const std::vector<double>& x, const std::vector<long double>& expected) {
  MathPoints<T> points;
  for (size_t i = 0; i < x.size(); ++i) {
    if (static_cast<T>(x[i]) != x[i]) continue;
    points.x.push_back(static_cast<T>(x[i]));
    points.expected.push_back(expected[i]);
  }
  const MathCase c{name};
  points.x.resize(points.x.size() / 16 * 16);
  ASSERT_GT(points.x.size(), 500);
  const std::vector<T> results = results_of(c, points, kVariants[0]);
  const Worst worst = test::worst_of(c, points, results);
  const auto i = static_cast<size_t>(worst.index);
  EXPECT_LE(worst.ulp, 1) << describe(c, points, i, results[i]);
}

TEST(MathOfGamma, IsAccurateNearZerosAndPoles) {
  const GammaPoints points = read_gamma_points();
  expect_accurate_at<double>("digamma", points.x, points.digamma);
  expect_accurate_at<double>("trigamma", points.x, points.trigamma);
  expect_accurate_at<float>("digamma", points.x, points.digamma);
  expect_accurate_at<float>("trigamma", points.x, points.trigamma);
}

// ---- gelu, as the op table makes it of erf and tanh ----

struct Gelu {
  const char* function;
  float (*inner)(float);
  double (*expected)(double);
};

constexpr double kTanhScale = 0.7978845608028654;

const Gelu kGelus[] = {
    {"erf", [](float x) { return x * static_cast<float>(std::numbers::sqrt2 / 2); },
     [](double x) { return x * std::erfc(-x / std::numbers::sqrt2) / 2; }},
    {"tanh", [](float x) { return static_cast<float>(kTanhScale) * (x + 0.044715F * (x * x * x)); },
     [](double x) { return x * (0.5 + 0.5 * std::tanh(kTanhScale * (x + 0.044715 * x * x * x))); }},
};

// The sum with 1 loses digits below 0, so the error is relative to x.
TEST(MathOfGelu, HasTheErrorOfItsSum) {
  std::vector<float> x(1 << 16), inner(x.size()), weight(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0x1p-12F - 8;
  for (const Gelu& gelu : kGelus) {
    std::ranges::transform(x, inner.begin(), gelu.inner);
    const void* operands[] = {inner.data()};
    MathKernel(gelu.function, DType::kF32, 8, find_target("native")).run(operands, weight.data(), std::ssize(x));
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = std::fabs(x[i] * (0.5F * (1 + weight[i])) - gelu.expected(x[i]));
      ASSERT_LE(error, 2 * 0x1p-23 * std::fabs(x[i])) << gelu.function << " at " << x[i];
    }
  }
}

// ---- targets that are not here ----

bool calls_runtime(const std::string& op) { return op == "lgamma" || op == "digamma" || op == "trigamma"; }

TEST(MathOfOtherTargets, CallsNoLibrary) {
  for (const MathCase& c : math_cases()) {
    if (calls_runtime(c.name)) continue;
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      const std::string wasm = math_kernel_asm(c.name, dtype, dtype == DType::kF32 ? 4 : 2, find_target("wasm32"));
      EXPECT_THAT(wasm, testing::Not(testing::ContainsRegex("call\t[a-z0-9]+\n"))) << c.name;
      const std::string ptx = math_kernel_asm(c.name, dtype, 1, find_target("nvptx64"));
      EXPECT_THAT(ptx, testing::Not(testing::HasSubstr(".extern .func"))) << c.name;
    }
  }
}

TEST(MathOfOtherTargets, CallsTheRuntimeWhereThereIsNoVectorForm) {
  EXPECT_THAT(math_kernel_asm("lgamma", DType::kF32, 4, find_target("wasm32")), testing::HasSubstr("tenon_lgamma_f32"));
}

}  // namespace
}  // namespace tenon::codegen
