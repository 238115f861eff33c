#include "loops/loop_tree.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/loops/support_kernels.h"

namespace tenon::loops {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(LoopTree, OfAMatmulSharesAllLoops) {
  const LoopTree tree(matmul(16, 16, 16));
  EXPECT_EQ(tree.dump(),
            "for m in 16\n"
            "  for n in 16\n"
            "    for k in 16\n"
            "      %p: f32[m, k, n] = mul(%a, %b)\n"
            "      %c: f32[m, n] = reduce add(%p)\n"
            "    %out: f32[m, n] = write 0 (%c)\n");
}

TEST(LoopTree, KnowsItsShape) {
  const LoopTree tree(matmul(4, 5, 6));
  ASSERT_EQ(tree.roots().size(), 1u);
  const TreeRef m = tree.roots()[0], n = tree.children(m)[0], k = tree.children(n)[0];
  EXPECT_EQ(tree.kind(m), LoopTree::LOOP);
  EXPECT_EQ(tree.kind(leaf(tree, "p")), LoopTree::NODE);
  EXPECT_EQ(tree.parent(n), m);
  EXPECT_FALSE(tree.parent(m));
  EXPECT_EQ(tree.depth(leaf(tree, "p")), 3);
  EXPECT_EQ(tree.lca(leaf(tree, "p"), leaf(tree, "c")), k);
  EXPECT_EQ(tree.lca(leaf(tree, "p"), leaf(tree, "out")), n);
  EXPECT_EQ(tree.lca(m, leaf(tree, "p")), m);
  EXPECT_EQ(tree.node(leaf(tree, "c")), node(tree, "c"));
  EXPECT_EQ(tree.loop(k).size, Expr(5));
  EXPECT_TRUE(tree.contains(n, leaf(tree, "out")));
  EXPECT_FALSE(tree.contains(k, leaf(tree, "out")));
}

TEST(LoopTree, WalksInTheOrderOfExecution) {
  const LoopTree tree(matmul(4, 5, 6));
  std::string walked;
  tree.walk([&](TreeRef ref, int depth) {
    walked += std::to_string(depth);
    walked +=
        tree.kind(ref) == LoopTree::LOOP ? tree.ir.var(tree.loop(ref).var).name : tree.ir.node(tree.node(ref)).name;
  });
  EXPECT_EQ(walked, "0m1n2k3p3c2out");
}

TEST(LoopTree, ReadersOfAReductionComeAfterIt) {
  const LoopTree tree(row_softmax(3, 4));
  ASSERT_EQ(tree.roots().size(), 1u);
  const std::vector<TreeRef>& inner = tree.children(tree.roots()[0]);
  ASSERT_EQ(inner.size(), 3u);  // the maximum; the exponentials and their sum; the quotients
  EXPECT_EQ(tree.nodes_below(inner[1]).size(), 3u);
}

TEST(LoopTree, WhatIsReadElsewhereIsCompleteBefore) {
  IR ir;
  const VarRef i = ir.add_var("i", 8);
  const NodeRef y = ir.add_compute(op_named("neg"), {ir.add_read(DType::kF32, {i}, "x")}, {i}, {}, "y");
  const NodeRef reversed = ir.add_view({{{y, {Expr(7) - Expr(Symbol("i"))}, {}}}, 0.0, {}}, {i}, "reversed");
  ir.add_write(reversed, {i}, "out");
  const LoopTree tree(ir);
  EXPECT_EQ(tree.roots().size(), 2u);
  EXPECT_EQ(elements(run_on("interpreter", tree, {filled(DType::kF32, {8}, [](int64_t k) { return k; })})[0]),
            (std::vector<double>{-7, -6, -5, -4, -3, -2, -1, 0}));
}

TEST(LoopTree, AFoldCannotBeParallel) {
  IR ir = matmul(4, 5, 6);
  std::vector<LoopSpec> loops = ir.node(*ir.node_named("c")).loops;
  loops[2].annotation.mark = Mark::kParallel;
  ir.set_loops(*ir.node_named("c"), loops);
  const auto built = attempt([&] { return LoopTree(ir); });
  ASSERT_FALSE(built.ok());
  EXPECT_THAT(built.diagnostic().message, HasSubstr("the loop over k cannot be marked parallel: %c folds k"));
}

// %y is repeated over j: without iterations of it, nobody would make %y.
TEST(LoopTree, WhatIsNeededIsNotRepeatedNoTimes) {
  const auto built = [](std::string_view symbol, std::string_view loops_of_out) {
    return attempt([&] {
      return LoopTree(parse(fmt::format(R"(tenon loops 1
kernel repeated {{
  symbol N in {}
  var i = 4
  var j = N
  %x: f32[i] = read 0
  %z: f32[i, j] = read 1
  %y: f32[i] = neg(%x) for j, i
  %s: f32[i, j] = add(%y, %z) for j, i
  %out0: f32[i, j] = write 0 (%s) for j, i
  %out1: f32[i] = write 1 (%y) for {}
}})",
                                        symbol, loops_of_out))
                          .value());
    });
  };
  EXPECT_EQ(built("[0, 9]", "i").diagnostic().message,
            "%y cannot be repeated over j: %out1 reads it, and that loop may have no iterations");
  EXPECT_EQ(built("[0, 9]", "j, i").diagnostic().message,
            "%out1 cannot be repeated over j: that loop may have no iterations");
  EXPECT_TRUE(built("[1, 9]", "i").ok());
}

TEST(LoopTree, OnlyInnermostLoopsAreVectors) {
  IR ir = matmul(4, 5, 6);
  for (NodeRef ref : ir.order()) {
    std::vector<LoopSpec> loops = ir.node(ref).loops;
    loops[1].annotation.mark = Mark::kVectorize;
    ir.set_loops(ref, loops);
  }
  const auto built = attempt([&] { return LoopTree(ir); });
  ASSERT_FALSE(built.ok());
  EXPECT_THAT(built.diagnostic().message, HasSubstr("not an innermost loop"));
}

TEST(LoopTree, TailsAreNamed) {
  LoopTree tree(negate(405));
  for (int64_t step : {39, 9, 2}) {
    IR ir = tree.ir;
    for (NodeRef ref : ir.order()) {
      std::vector<LoopSpec> loops = ir.node(ref).loops;
      loops.insert(loops.end() - 1, {.var = loops[0].var, .step = step});
      ir.set_loops(ref, loops);
    }
    tree = LoopTree(ir);
  }
  EXPECT_THAT(tree.dump(),
              HasSubstr("for i in 10 r 15 by 39\n  for i in 4 r 3 by 9\n    for i in 4 r 1 by 2\n      for i in 2\n"));
  const Tensor x = filled(DType::kF32, {405}, [](int64_t i) { return i; });
  const std::vector<double> y = elements(run_on("interpreter", tree, {x})[0]);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], -static_cast<double>(i));
}

}  // namespace
}  // namespace tenon::loops
