#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "codegen/math_kernel.h"
#include "tests/codegen/support_ulp.h"

namespace tenon::codegen {
namespace {

using test::make_points;
using test::math_cases;
using test::MathCase;
using test::MathPoints;
using test::Worst;

int64_t point_count() {
  const char* text = std::getenv("TENON_ULP_POINTS");
  return text == nullptr ? 100'000 : std::atoll(text);
}

struct Variant {
  const char* target;
  int lanes;
};
constexpr Variant kVariants[] = {{"native", 16}, {"native", 1}, {"native", 4}, {"x86-64-v3", 8}, {"x86-64-v2", 4}};

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
void expect_accurate(const MathCase& c) {
  const MathPoints<T> points = make_points<T>(c, point_count());
  for (const Variant& variant : kVariants) {
    if (!runs_here(find_target(variant.target))) continue;
    const std::vector<T> results = results_of(c, points, variant);
    const Worst worst = test::worst_of(c, points, results);
    const auto i = static_cast<size_t>(worst.index);
    const std::string where =
        fmt::format("{}({}{}) = {}, not {}", c.name, points.x[i],
                    points.y.empty() ? "" : fmt::format(", {}", points.y[i]), results[i], points.expected[i]);
    EXPECT_LE(worst.ulp, c.limit) << variant.target << " x " << variant.lanes << ": " << where;
    if (std::getenv("TENON_ULP_POINTS") == nullptr) continue;
    fmt::print("{:10} {} {:10} {:2}  {:8.3f} ulp  {}\n", c.name, sizeof(T) == 8 ? "f64" : "f32", variant.target,
               variant.lanes, worst.ulp, where);
  }
}

class MathTest : public testing::TestWithParam<MathCase> {};

TEST_P(MathTest, IsAccurateInF32) { expect_accurate<float>(GetParam()); }
TEST_P(MathTest, IsAccurateInF64) { expect_accurate<double>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, MathTest, testing::ValuesIn(math_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tenon::codegen
