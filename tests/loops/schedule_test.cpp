#include "loops/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/loops/support_kernels.h"
#include "tests/loops/support_random_schedule.h"

namespace tenon::loops {
namespace {

using namespace testing;
using ::testing::HasSubstr;

std::vector<Tensor> matmul_inputs(int64_t m, int64_t k, int64_t n) {
  return {filled(DType::kF32, {m, k}, [](int64_t i) { return i % 7 - 3; }),
          filled(DType::kF32, {k, n}, [](int64_t i) { return i % 5 - 2; })};
}

void expect_same(const LoopTree& before, const LoopTree& after, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> wanted = run_on("interpreter", before, inputs), got = run_on("interpreter", after, inputs);
  ASSERT_EQ(wanted.size(), got.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(elements(wanted[i]), elements(got[i])) << after.dump();
}

void expect_refused(const Result<LoopTree>& result, const std::string& why) {
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.diagnostic().message, HasSubstr(why));
}

// ---- loops ----------------------------------------------------------------------------------------------------------

TEST(Split, MakesTwoLoopsAndATail) {
  const LoopTree tree(matmul(16, 16, 16));
  const LoopTree by_10 = split(tree, loop(tree, "c", 2), 10).value();
  EXPECT_EQ(variables_around(by_10, "c"), "m n k k");
  EXPECT_EQ(by_10.loop(loop(by_10, "c", 2)).size, Expr(1));
  EXPECT_EQ(by_10.loop(loop(by_10, "c", 2)).tail, Expr(6));
  expect_same(tree, by_10, matmul_inputs(16, 16, 16));
}

TEST(Split, KeepsTheAnnotationWhereItBelongs) {
  const LoopTree tree(matmul(16, 16, 16));
  const LoopTree parallel = annotate(tree, loop(tree, "c", 0), {Mark::kParallel}).value();
  const LoopTree outer = split(parallel, loop(parallel, "c", 0), 4).value();
  EXPECT_EQ(outer.loop(loop(outer, "c", 0)).annotation.mark, Mark::kParallel);
  EXPECT_EQ(outer.loop(loop(outer, "c", 1)).annotation.mark, Mark::kNone);
  const LoopTree unrolled = annotate(tree, loop(tree, "c", 2), {Mark::kUnroll}).value();
  const LoopTree inner = split(unrolled, loop(unrolled, "c", 2), 4).value();
  EXPECT_EQ(inner.loop(loop(inner, "c", 2)).annotation.mark, Mark::kNone);
  EXPECT_EQ(inner.loop(loop(inner, "c", 3)).annotation.mark, Mark::kUnroll);
}

TEST(Split, RefusesWhatMakesNoLoop) {
  const LoopTree tree(matmul(16, 16, 16));
  expect_refused(split(tree, loop(tree, "c", 2), 1), "at least 2");
  expect_refused(split(tree, loop(tree, "c", 2), -3), "at least 2");
  expect_refused(split(tree, loop(tree, "c", 2), 17), "has 16 iterations");
  expect_refused(split(tree, leaf(tree, "c"), 2), "line 4 is the node %c, not a loop");
  expect_refused(split(tree, {12345}, 2), "there is no line 12345: the tree has 6, from 0 on");
  const LoopTree twice = split(tree, loop(tree, "c", 2), 4).value();
  expect_refused(split(twice, loop(twice, "c", 3), 4), "cannot be inside of one by 4");
}

TEST(Merge, UndoesASplit) {
  const LoopTree tree(matmul(16, 16, 16));
  const LoopTree by_10 = split(tree, loop(tree, "c", 2), 10).value();
  EXPECT_EQ(merge(by_10, loop(by_10, "c", 2))->ir, tree.ir);
  expect_refused(merge(tree, loop(tree, "c", 2)), "cannot be merged");
}

TEST(Merge, KeepsWhatASplitKept) {
  const LoopTree tree(negate(100));
  for (const Mark mark : {Mark::kParallel, Mark::kVectorize, Mark::kUnroll}) {
    const LoopTree marked = annotate(tree, loop(tree, "y", 0), {mark}).value();
    const LoopTree split_up = split(marked, loop(marked, "y", 0), 10).value();
    EXPECT_EQ(merge(split_up, loop(split_up, "y", 0)).value().dump(), marked.dump());
  }
}

TEST(SwapLoops, ExchangesThem) {
  const LoopTree tree(matmul(4, 5, 6));
  const LoopTree swapped = swap_loops(tree, loop(tree, "c", 0), loop(tree, "c", 2)).value();
  EXPECT_EQ(variables_around(swapped, "c"), "k n m");
  EXPECT_EQ(variables_around(swapped, "out"), "m n");
  expect_same(tree, swapped, matmul_inputs(4, 5, 6));
}

TEST(SwapLoops, LeaveACutWhereItIs) {
  const LoopTree tree(row_softmax(3, 4));
  const LoopTree cut = unfuse(tree, loop(tree, "e", 1), leaf(tree, "e")).value();
  ASSERT_TRUE(cut.ir.node(node(cut, "e")).loops[1].fresh);
  const LoopTree swapped = swap_loops(cut, loop(cut, "e", 0), loop(cut, "e", 1)).value();
  EXPECT_TRUE(swapped.ir.node(node(swapped, "e")).loops[1].fresh);
  EXPECT_FALSE(swapped.ir.node(node(swapped, "e")).loops[0].fresh);
}

TEST(SwapLoops, RefusesLoopsOfOneVariable) {
  const LoopTree tree(matmul(16, 16, 16));
  const LoopTree by_10 = split(tree, loop(tree, "c", 2), 10).value();
  expect_refused(swap_loops(by_10, loop(by_10, "c", 2), loop(by_10, "c", 3)), "cannot be inside");
  expect_refused(swap_loops(tree, loop(tree, "c", 0), loop(tree, "c", 0)), "not inside of each other");
}

TEST(Fuse, UndoesUnfuse) {
  const LoopTree tree(row_softmax(3, 4));
  const TreeRef columns = loop(tree, "e", 1);
  const LoopTree cut = unfuse(tree, columns, leaf(tree, "e")).value();
  EXPECT_NE(loop(cut, "shifted", 1), loop(cut, "e", 1));
  const LoopTree whole = fuse(cut, loop(cut, "e", 1)).value();
  EXPECT_EQ(whole.ir, tree.ir);
  expect_refused(unfuse(tree, columns, leaf(tree, "shifted")), "before its first child");
  expect_refused(fuse(tree, loop(tree, "top", 1)), "no loop right before");
}

TEST(Fuse, RefusesWhatWouldReadAnUnfinishedFold) {
  const LoopTree tree(row_softmax(3, 4));
  expect_refused(fuse(tree, loop(tree, "e", 1)), "%shifted reads values that the first loop completes at its end");
}

TEST(Reorder, ChecksTheLoops) {
  const LoopTree tree(matmul(4, 5, 6));
  const VarRef m = *tree.ir.var_named("m"), n = *tree.ir.var_named("n"), k = *tree.ir.var_named("k");
  const LoopTree after = reorder(tree, node(tree, "c"), {{.var = k}, {.var = m}, {.var = n}}).value();
  EXPECT_EQ(variables_around(after, "c"), "k m n");
  expect_same(tree, after, matmul_inputs(4, 5, 6));
  expect_refused(reorder(tree, node(tree, "c"), {{.var = m}, {.var = n}}), "no loop over k");
  expect_refused(reorder(tree, node(tree, "c"), {{.var = m}, {.var = n}, {.var = k, .step = 2}}), "has the step 2");
  expect_refused(reorder(tree, node(tree, "a"), {}), "%a has no loops");
}

TEST(Annotate, RefusesWhatWouldBeWrong) {
  const LoopTree tree(matmul(4, 5, 6));
  EXPECT_TRUE(annotate(tree, loop(tree, "c", 0), {Mark::kParallel}).ok());
  expect_refused(annotate(tree, loop(tree, "c", 2), {Mark::kParallel}), "%c folds k");
  expect_refused(annotate(tree, loop(tree, "c", 1), {Mark::kVectorize}), "not an innermost loop");
  expect_refused(annotate(tree, loop(tree, "c", 1), {Mark::kTile}), "a tile has a name");
  EXPECT_FALSE(is_parallel(tree, loop(tree, "c", 2)));
  EXPECT_TRUE(is_parallel(tree, loop(tree, "c", 1)));
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

TEST(SwapNodes, RefusesToReadBeforeItIsMade) {
  const LoopTree tree(matmul(4, 5, 6));
  expect_refused(swap_nodes(tree, node(tree, "p"), node(tree, "c")), "%c cannot run before %p");
  expect_refused(swap_nodes(tree, node(tree, "p"), node(tree, "p")), "with itself");
}

TEST(CopyInput, PacksInsideOfALoop) {
  LoopTree tree(matmul(8, 12, 20));
  const LoopTree original = tree;
  tree = split(tree, loop(tree, "c", 1), 8).value();                        // m, n by 8, n, k
  tree = swap_loops(tree, loop(tree, "c", 0), loop(tree, "c", 1)).value();  // n by 8, m, n, k
  tree = copy_input(tree, node(tree, "p"), node(tree, "b"), loop(tree, "p", 0)).value();
  EXPECT_EQ(variables_around(tree, "b_copy"), "n n k");
  EXPECT_EQ(tree.lca(leaf(tree, "b_copy"), leaf(tree, "p")), loop(tree, "p", 0));
  expect_same(original, tree, matmul_inputs(8, 12, 20));
  const LoopTree deleted = delete_copy(tree, node(tree, "b_copy")).value();
  EXPECT_FALSE(deleted.ir.node_named("b_copy"));
  expect_same(original, deleted, matmul_inputs(8, 12, 20));
}

TEST(CopyInput, RefusesWhatIsNoInput) {
  const LoopTree tree(matmul(8, 12, 20));
  expect_refused(copy_input(tree, node(tree, "p"), node(tree, "c")), "is not an input of %p");
  expect_refused(copy_input(tree, node(tree, "out"), node(tree, "c"), loop(tree, "c", 2)), "%out is not in the loop");
  expect_refused(delete_copy(tree, node(tree, "p")), "%p is not a copy");
}

TEST(SplitNode, FoldsInTwoStages) {
  IR ir("sum");
  const VarRef i = ir.add_var("i", 256);
  const NodeRef total = ir.add_reduce(op_named("add"), ir.add_read(DType::kF32, {i}, "x"), {}, "total");
  ir.add_write(total, {}, "out");
  LoopTree tree(ir);
  const std::vector<Tensor> x = {filled(DType::kF32, {256}, [](int64_t k) { return 3 * k; })};
  for (int64_t size : {16, 10}) {
    LoopTree by_size = split(tree, loop(tree, "total", 0), size).value();
    by_size = split_node(by_size, node(by_size, "total"), loop(by_size, "total", 0)).value();
    EXPECT_EQ(elements(run_on("interpreter", by_size, x)[0]), std::vector<double>{97920});
    const TreeRef parts = loop(by_size, "total_part", 0);
    EXPECT_EQ(by_size.ir.var(by_size.loop(parts).var).name, "i_part");
  }
  expect_refused(split_node(tree, node(tree, "total"), loop(tree, "total", 0)), "split it first");
}

// Each of them reads the one before it twice: written out, the last would be 2^40 nodes.
TEST(SplitNode, ComputesWhatIsSharedOnce) {
  IR ir("powers");
  const VarRef i = ir.add_var("i", 8);
  NodeRef power = ir.add_read(DType::kF32, {i});
  for (int k = 0; k < 40; ++k) power = ir.add_compute(op_named("add"), {power, power}, {i});
  ir.add_write(ir.add_reduce(op_named("add"), power, {}, "sum"), {}, "out");
  LoopTree tree(std::move(ir));
  tree = split(tree, loop(tree, "sum", 0), 4).value();
  const LoopTree parts = split_node(tree, node(tree, "sum"), loop(tree, "sum", 0)).value();
  EXPECT_LT(parts.ir.nodes().size(), 100u);
  expect_same(tree, parts, {filled(DType::kF32, {8}, [](int64_t k) { return k; })});
}

TEST(SplitNode, OfAMatmulLetsPartsRunInParallel) {
  const LoopTree original(matmul(4, 32, 6));
  LoopTree tree = split(original, loop(original, "c", 2), 8).value();
  expect_refused(split_node(tree, node(tree, "p"), loop(tree, "p", 2)), "%p is not a reduction");
  expect_refused(split_node(tree, node(tree, "c"), loop(tree, "c", 0)), "%c does not fold m");
  tree = split_node(tree, node(tree, "c"), loop(tree, "c", 2)).value();
  EXPECT_FALSE(tree.ir.node_named("p"));  // it is computed over the new variables
  expect_same(original, tree, matmul_inputs(4, 32, 6));
}

// ---- for tools ------------------------------------------------------------------------------------------------------

TEST(Tools, FollowARefThroughAnEdit) {
  const LoopTree tree(matmul(16, 16, 16));
  const LoopTree by_10 = split(tree, loop(tree, "c", 2), 10).value();
  EXPECT_EQ(map_ref(tree, leaf(tree, "c"), by_10), leaf(by_10, "c"));
  EXPECT_EQ(map_ref(tree, loop(tree, "c", 1), by_10), loop(by_10, "c", 1));
  EXPECT_EQ(map_ref(by_10, loop(by_10, "c", 2), by_10), loop(by_10, "c", 2));
  EXPECT_FALSE(map_ref(tree, TreeRef{999}, by_10));
}

// ---- random ---------------------------------------------------------------------------------------------------------

TEST(RandomSchedules, OfAMatmulAgree) {
  const std::vector<Tensor> inputs = matmul_inputs(5, 7, 6);
  const LoopTree original(matmul(5, 7, 6));
  const std::vector<double> wanted = elements(run_on("interpreter", original, inputs)[0]);
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::string log;
    const LoopTree tree = random_schedule(original, 12, random, &log);
    ASSERT_EQ(elements(run_on("interpreter", tree, inputs)[0]), wanted) << "seed " << seed << "\n"
                                                                        << log << tree.dump();
  }
}

}  // namespace
}  // namespace tenon::loops
