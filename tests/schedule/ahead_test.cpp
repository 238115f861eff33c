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

constexpr std::string_view kProduct = R"(tenon loops 1
kernel product {
  var m = 6
  var k = 4
  var n = 10
  %x: f32[m, k] = read 0
  %w: f32[n, k] = read 1
  %w_packed: f32[n, k] = view %w[n, k] for n by 8, k, n
  %p: f32[m, n, k] = mul(%x, %w_packed) for n by 8, m, k, n
  %s: f32[m, n] = reduce add(%p) for n by 8, m, k, n
  %out: f32[m, n] = write 0 (%s) for m, n
}
)";

Preparation packed_weights() {
  AheadOfTime split = split_ahead(loops::LoopTree(loops::parse(kProduct).value()), {1});
  EXPECT_EQ(split.preparations.size(), 1);
  return std::move(split.preparations[0]);
}

// As the embedding of a model whose last product has the same weights.
TEST(ReadPrepared, LooksRowsUpWhereTheyArePacked) {
  const loops::IR gather = loops::parse(R"(tenon loops 1
kernel embedding {
  var t = T
  var c = 4
  var r = 10
  %table: f32[r, c] = read 0
  %ids: i64[t] = read 1
  %rows: f32[t, c] = view %table[i, c] with i = %ids in 10
  %out: f32[t, c] = write 0 (%rows)
}
)")
                               .value();
  EXPECT_EQ(to_string(read_prepared(gather, 0, packed_weights())), R"(tenon loops 1
kernel embedding {
  var t = T
  var c = 4
  var r = 10
  var np = 2
  var kp = 4
  var np1 = 8
  %table: f32[np, kp, np1] = read 0
  %ids: i64[t] = read 1
  %rows: f32[t, c] = view %table[i // 8, c, i % 8] with i = %ids in 10 for t, c
  %out: f32[t, c] = write 0 (%rows) for t, c
}
)");
}

TEST(ReadPrepared, GivesOtherNodesAView) {
  const loops::IR doubled = loops::parse(R"(tenon loops 1
kernel doubled {
  var c = 4
  var r = 10
  %table: f32[r, c] = read 0
  %sum: f32[r, c] = add(%table, %table)
  %out: f32[c, r] = write 0 (%sum)
}
)")
                                .value();
  EXPECT_EQ(to_string(read_prepared(doubled, 0, packed_weights())), R"(tenon loops 1
kernel doubled {
  var c = 4
  var r = 10
  var np = 2
  var kp = 4
  var np1 = 8
  %table: f32[np, kp, np1] = read 0
  %table_plain: f32[r, c] = view %table[r // 8, c, r % 8] for r, c
  %sum: f32[r, c] = add(%table_plain, %table_plain) for r, c
  %out: f32[c, r] = write 0 (%sum) for c, r
}
)");
}

TEST(SplitAhead, KnowsWhetherAPreparationOnlyMovesElements) {
  EXPECT_EQ(packed_weights().positions.size(), 3);
  std::string text(kProduct);
  text.replace(text.find("view %w[n, k]"), 13, "exp(%w)");
  const AheadOfTime split = split_ahead(loops::LoopTree(loops::parse(text).value()), {1});
  ASSERT_EQ(split.preparations.size(), 1);
  EXPECT_TRUE(split.preparations[0].positions.empty());
}

}  // namespace
}  // namespace tenon
