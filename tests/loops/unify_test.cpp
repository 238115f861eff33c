#include "loops/unify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/graph/support_values.h"
#include "tests/loops/support_kernels.h"
#include "tests/loops/support_random_ir.h"

namespace tenon::loops {
namespace {

IR with_body(const std::string& body) { return parse("tenon loops 1\nkernel k {\n" + body + "}\n").value(); }

// Compares texts: also the numbers of nodes and the order of variables.
void expect_unified(const std::string& body, const std::string& expected) {
  EXPECT_EQ(to_string(unify(with_body(body))), to_string(with_body(expected)));
}

TEST(Unify, ARenamingViewGoes) {
  expect_unified(R"(
    var i = 4
    var j = N
    var k = 4
    var l = N
    %x: f32[i, j] = read 0
    %y: f32[k, l] = read 1
    %v: f32[i, j] = view %y[i, j]
    %z: f32[i, j] = add(%x, %v)
    %out: f32[i, j] = write 0 (%z)
  )",
                 R"(
    var i = 4
    var j = N
    %x: f32[i, j] = read 0
    %y: f32[i, j] = read 1
    %z: f32[i, j] = add(%x, %y)
    %out: f32[i, j] = write 0 (%z)
  )");
}

// The dimensions of y may be in another order than those of the view.
TEST(Unify, ATransposingViewOfItsOwnVariablesGoes) {
  expect_unified(R"(
    var i = 4
    var j = N
    var k = 4
    var l = N
    %x: f32[i, j] = read 0
    %y: f32[l, k] = read 1
    %v: f32[i, j] = view %y[j, i]
    %w: f32[i, j] = view %v[3 - i, j]
    %z: f32[i, j] = add(%x, %w)
    %u: f32[i, j] = add(%z, %v)
    %out: f32[i, j] = write 0 (%u)
  )",
                 R"(
    var i = 4
    var j = N
    %x: f32[i, j] = read 0
    %y: f32[j, i] = read 1
    %w: f32[i, j] = view %y[j, -i + 3]
    %z: f32[i, j] = add(%x, %w)
    %u: f32[i, j] = add(%z, %y)
    %out: f32[i, j] = write 0 (%u)
  )");
}

TEST(Unify, VariablesOfOneNodeStayApart) {
  const std::string body = R"(
    var i = 4
    var j = 4
    %x: f32[i, j] = read 0
    %v: f32[i, j] = view %x[j, i]
    %z: f32[i, j] = add(%x, %v)
    %out: f32[i, j] = write 0 (%z)
  )";
  expect_unified(body, body);
}

TEST(Unify, VariablesOfDifferentSizesStayApart) {
  const std::string body = R"(
    var i = 4
    var j = 5
    %x: f32[j] = read 0
    %v: f32[i] = view %x[i]
    %out: f32[i] = write 0 (%v)
  )";
  expect_unified(body, body);
}

// One dimension is cut, the other stays: its loop can be shared.
TEST(Unify, OneVariableOfAView) {
  expect_unified(R"(
    var i = 4
    var j = 8
    var k = 4
    var l = 6
    %x: f32[i, j] = read 0
    %e: f32[i, j] = exp(%x)
    %v: f32[k, l] = view %e[k, l + 1]
    %out: f32[k, l] = write 0 (%v)
  )",
                 R"(
    var i = 4
    var j = 8
    var l = 6
    %x: f32[i, j] = read 0
    %e: f32[i, j] = exp(%x)
    %v: f32[i, l] = view %e[i, l + 1]
    %out: f32[i, l] = write 0 (%v)
  )");
}

TEST(Unify, AViewOfAPaddedViewIsPadded) {
  expect_unified(R"(
    var i = 8
    var p = 10
    var o = 8
    var t = 3
    %x: f32[i] = read 0
    %v: f32[p] = view %x[p - 1] where p - 1 in 8 else -1.0
    %w: f32[o, t] = view %v[o + t]
    %m: f32[o] = reduce maximum(%w)
    %out: f32[o] = write 0 (%m)
  )",
                 R"(
    var i = 8
    var o = 8
    var t = 3
    %x: f32[i] = read 0
    %w: f32[o, t] = view %x[o + t - 1] where o + t - 1 in 8 else -1.0
    %m: f32[o] = reduce maximum(%w)
    %out: f32[o] = write 0 (%m)
  )");
}

// The padding of the outer view is not that of the inner one.
TEST(Unify, APaddedViewOfAPaddedViewStays) {
  const std::string body = R"(
    var i = 8
    var p = 10
    var o = 12
    %x: f32[i] = read 0
    %v: f32[p] = view %x[p - 1] where p - 1 in 8 else -1.0
    %w: f32[o] = view %v[o - 1] where o - 1 in 10 else -2.0
    %out: f32[o] = write 0 (%w)
  )";
  expect_unified(body, body);
}

TEST(Unify, APaddedViewOfASliceIsOne) {
  expect_unified(R"(
    var i = 8
    var p = 6
    var o = 10
    %x: f32[i] = read 0
    %v: f32[p] = view %x[p + 1]
    %w: f32[o] = view %v[o - 2] where o - 2 in 6 else -2.0
    %out: f32[o] = write 0 (%w)
  )",
                 R"(
    var i = 8
    var o = 10
    %x: f32[i] = read 0
    %w: f32[o] = view %x[o - 1] where o - 2 in 6 and o - 1 in 8 else -2.0
    %out: f32[o] = write 0 (%w)
  )");
}

// A scatter overwrites in the order of its values' variables.
TEST(Unify, TheOrderOfWritingStays) {
  const std::string body = R"(
    var i = 4
    var j = 2
    var k = 3
    %x: f32[i] = read 0
    %at: i64[j, k] = read 1
    %values: f32[k, j] = read 2
    %v: f32[j, k] = view %values[k, j]
    %s: f32[i] = scatter set(%x, %v) at [p] with p = %at in 4
    %out: f32[i] = write 0 (%s)
  )";
  expect_unified(body, body);
}

TEST(Unify, ASizeThatOnlyANumberNeedsStays) {
  const IR ir = unify(with_body(R"(
    var i = 4
    var j = N
    %n: i64[] = index N
    %x: i64[i] = read 0
    %dead: i64[j] = index j
    %e: i64[j] = neg(%dead)
    %z: i64[i] = add(%x, %n)
    %out: i64[i] = write 0 (%z)
  )"));
  EXPECT_EQ(ir.size_symbols(), std::vector{Symbol("N")});
  EXPECT_FALSE(ir.node_named("e"));
}

TEST(Unify, RandomKernelsKeepTheirResults) {
  size_t views_before = 0, views_after = 0;
  const auto is_view = [](const Node& node) { return node.as<View>() != nullptr; };
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    const IR ir = test::random_ir(seed);
    const IR unified = unify(ir);
    const std::vector<Tensor> inputs = test::inputs_for(ir, seed);
    const std::vector<Tensor> expected = testing::run_on("interpreter", LoopTree(ir), inputs);
    const std::vector<Tensor> actual = testing::run_on("interpreter", LoopTree(unified), inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(test::values_of(actual[i]), test::values_of(expected[i])) << to_string(ir) << to_string(unified);
    }
    views_before += static_cast<size_t>(std::ranges::count_if(ir.nodes(), is_view));
    views_after += static_cast<size_t>(std::ranges::count_if(unified.nodes(), is_view));
  }
  EXPECT_LT(views_after, views_before);
}

}  // namespace
}  // namespace tenon::loops
