#include "loops/trace.h"

#include <gtest/gtest.h>

#include "tests/loops/support_kernels.h"

namespace tenon::loops {
namespace {

using namespace testing;

LoopTree tree_of(std::string_view kernel) { return LoopTree(parse("tenon loops 1\n" + std::string(kernel)).value()); }

// "x0 y1= x2": reads of position 0 and 2 of x, and a write of position 1 of y.
std::string text_of(const Trace& trace) {
  std::string text;
  for (const auto& [array, position, writes] : trace.steps) {
    text += (text.empty() ? "" : " ") + trace.arrays[array].name + std::to_string(position) + (writes ? "=" : "");
  }
  return text;
}

constexpr const char* kTransposed = R"(kernel transposed {
  var i = 2
  var j = 3
  %x: f32[i, j] = read 0
  %y: f32[j, i] = write 0 (%x) for j, i
}
)";

TEST(Trace, FollowsTheLoops) {
  const Trace by_column = trace(tree_of(kTransposed), 100);
  EXPECT_EQ(text_of(by_column), "x0 y0= x3 y1= x1 y2= x4 y3= x2 y4= x5 y5=");
  EXPECT_TRUE(by_column.is_whole);
  const LoopTree by_row = swap_loops(tree_of(kTransposed), TreeRef{0}, TreeRef{1}).value();
  EXPECT_EQ(text_of(trace(by_row, 100)), "x0 y0= x1 y2= x2 y4= x3 y1= x4 y3= x5 y5=");
}

TEST(Trace, StopsAtTheLimit) {
  const Trace part = trace(tree_of(kTransposed), 5);
  EXPECT_EQ(text_of(part), "x0 y0= x3 y1= x1");
  EXPECT_FALSE(part.is_whole);
  EXPECT_TRUE(trace(tree_of(kTransposed), 12).is_whole);
}

TEST(Trace, OfAPaddedViewReadsWhatIsThere) {
  const Trace padded = trace(tree_of(R"(kernel padded {
  var i = 2
  var j = 4
  %x: f32[i] = read 0
  %v: f32[j] = view %x[j - 1] where j - 1 in 2 else 0.0 for j
  %y: f32[j] = write 0 (%v) for j
}
)"),
                             100);
  EXPECT_EQ(text_of(padded), "y0= x0 y1= x1 y2= y3=");
}

TEST(Trace, OfASumReadsTheFactorsOfItsProducts) {
  const Trace product = trace(LoopTree(initial_schedule(matmul(1, 2, 1))), 100);
  ASSERT_EQ(product.arrays.size(), 3u);
  EXPECT_EQ(text_of(product), "a0 b0 a1 b1 out0=");
}

TEST(Trace, NeedsSizes) {
  const LoopTree open(initial_schedule(negate(Expr(Symbol("N")))));
  EXPECT_THROW(trace(open, 10), Error);
}

}  // namespace
}  // namespace tenon::loops
