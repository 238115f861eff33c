#include "schedule/ahead.h"

#include <gtest/gtest.h>

#include "loops/ir.h"

namespace tenon {
namespace {

// One element of an array of constants, which the reader looks up while it turns squares in registers: what is prepared
// has no dimensions, so no loops.
TEST(SplitAhead, PreparesOneElement) {
  const loops::IR ir = loops::parse(R"(tenon loops 1
kernel pick {
  var i = 2
  var j = 8
  var k = 3
  var l = 1
  %in0: f32[i, k, j] = read 0
  %in1: i64[l] = read 1
  %2: i64[] = view %in1[0] for i, k unroll, j vectorize
  %3: f32[i, k, j] = view %in0[p, k, j] with p = %2 in 2 for i, k, j vectorize
  %4: f32[i, k, j] = write 0 (%3) for i, k, j vectorize
  order %2, %3, %4
}
)")
                           .value();
  const AheadOfTime split = split_ahead(loops::LoopTree(ir), {1});
  EXPECT_EQ(split.preparations.size(), 1);
}

// A constant times a number that a size tells: only the run knows it.
TEST(SplitAhead, LeavesNumbersThatDependOnSizes) {
  const loops::IR ir = loops::parse(R"(tenon loops 1
kernel scale {
  var i = 8
  var j = N
  %in0: i64[i] = read 0
  %in1: i64[j] = read 1
  %2: i64[] = index (N + 31) // 32
  %3: i64[i] = mul(%in0, %2) for i
  %4: i64[j, i] = mul(%in1, %3) for j, i
  %5: i64[j, i] = write 0 (%4) for j, i
  order %3, %4, %5
}
)")
                           .value();
  const AheadOfTime split = split_ahead(loops::LoopTree(ir), {0});
  EXPECT_TRUE(split.preparations.empty());
}

}  // namespace
}  // namespace tenon
