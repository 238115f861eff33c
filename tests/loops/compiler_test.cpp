#include "loops/compiler.h"

#include <gtest/gtest.h>

#include "tests/loops/support_kernels.h"

namespace tenon::loops {
namespace {

using namespace testing;

std::string offset(const Compiler& compiler, std::string_view of, std::string_view from) {
  const LoopTree& tree = compiler.tree();
  return to_string(compiler.get_scoped_expr(compiler.gen_access(node(tree, of), leaf(tree, from))));
}

TEST(Compiler, NumbersMemoryByInputsOutputsScratch) {
  const LoopTree tree(matmul(4, 5, 6));
  const Compiler compiler(tree);
  EXPECT_EQ(compiler.allocations.at(node(tree, "a")).mem_idx, 0);
  EXPECT_EQ(compiler.allocations.at(node(tree, "b")).mem_idx, 1);
  EXPECT_EQ(compiler.allocations.at(node(tree, "out")).mem_idx, 2);
  EXPECT_TRUE(compiler.allocations.at(node(tree, "c")).scratch);
  EXPECT_EQ(compiler.allocations.at(node(tree, "a")).size(), Expr(20));
}

TEST(Compiler, ScratchIsAsLargeAsTheLoopsBelowItsLca) {
  LoopTree tree(matmul(4, 5, 6));
  {
    const Compiler compiler(tree);
    EXPECT_EQ(compiler.allocations.at(node(tree, "c")).size(), Expr(1));
    EXPECT_EQ(compiler.allocations.at(node(tree, "c")).lca, loop(tree, "c", 1));
  }
  tree = swap_loops(tree, loop(tree, "c", 1), loop(tree, "c", 2)).value();  // m, k, n
  const Compiler compiler(tree);
  EXPECT_EQ(compiler.allocations.at(node(tree, "c")).size(), Expr(6));
  EXPECT_EQ(compiler.allocations.at(node(tree, "c")).lca, loop(tree, "c", 0));
  EXPECT_EQ(compiler.allocations.at(node(tree, "p")).size(), Expr(1));
}

TEST(Compiler, AccessesAreOverCounters) {
  LoopTree tree(matmul(16, 16, 16));
  tree = split(tree, loop(tree, "c", 2), 10).value();
  const Compiler compiler(tree);
  EXPECT_EQ(offset(compiler, "a", "p"), "10*k + k_1 + 16*m");
  EXPECT_EQ(offset(compiler, "b", "p"), "160*k + 16*k_1 + n");
  EXPECT_EQ(offset(compiler, "c", "c"), "0");
  EXPECT_EQ(offset(compiler, "out", "out"), "16*m + n");
  const Compiler::Access a = compiler.gen_access(node(tree, "a"), leaf(tree, "p"));
  EXPECT_EQ(compiler.stride(a, loop(tree, "p", 2)), Expr(10));
  EXPECT_EQ(compiler.stride(a, loop(tree, "p", 1)), Expr(0));
}

TEST(Compiler, PackedScratchIsLaidOutAsItsLoopsRun) {
  LoopTree tree(matmul(8, 16, 64));
  tree = split(tree, loop(tree, "c", 1), 16).value();                       // m, n by 16, n, k
  tree = swap_loops(tree, loop(tree, "c", 2), loop(tree, "c", 3)).value();  // m, n by 16, k, n
  tree = copy_input(tree, node(tree, "p"), node(tree, "b")).value();
  const Compiler compiler(tree);
  const Compiler::Allocation& packed = compiler.allocations.at(node(tree, "b_copy"));
  EXPECT_EQ(packed.size(), Expr(1024));
  ASSERT_EQ(packed.dims.size(), 3u);  // n by 16, k, n
  EXPECT_EQ(packed.dims[0].stride, Expr(256));
  EXPECT_EQ(packed.dims[1].stride, Expr(16));
  EXPECT_EQ(packed.dims[2].stride, Expr(1));
  EXPECT_EQ(offset(compiler, "b_copy", "p"), "16*k + 256*n + n_1");
}

TEST(Compiler, SymbolsOfVariablesAreAMap) {
  const LoopTree tree(matmul(4, 5, 6));
  const Compiler compiler(tree);
  const VarRef k = *tree.ir.var_named("k");
  EXPECT_EQ(compiler.var_to_sym.at(k), Symbol("k"));
  EXPECT_EQ(compiler.sym_to_var.at(Symbol("k")), k);
}

TEST(Compiler, ConstraintsOfAPaddedView) {
  const LoopTree tree(padded_conv1d(8, 3));
  const Compiler compiler(tree);
  const Compiler::Access access = compiler.gen_access(node(tree, "x"), leaf(tree, "p"));
  const std::vector<Constraint> constraints = compiler.get_constraints(access);
  ASSERT_EQ(constraints.size(), 1u);
  EXPECT_EQ(to_string(constraints[0].expr), "o + t - 1");
  EXPECT_EQ(constraints[0].bound, Expr(8));
}

TEST(Compiler, GuardsArePeeledOutOfTheInterior) {
  const LoopTree tree(padded_conv1d(8, 3));
  const Compiler compiler(tree);
  const std::vector<Compiler::Segment> parts = compiler.segments(loop(tree, "p", 0), compiler.root());
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].end, Expr(1));
  EXPECT_EQ(parts[1].begin, Expr(1));
  EXPECT_EQ(parts[1].end, Expr(7));
  EXPECT_EQ(parts[2].end, Expr(8));
  const Compiler::Access access = compiler.gen_access(node(tree, "x"), leaf(tree, "p"));
  EXPECT_TRUE(compiler.get_constraints(access, parts[1].scope).empty());
  EXPECT_EQ(compiler.get_constraints(access, parts[0].scope).size(), 1u);
}

TEST(Compiler, GuardsArePeeledWithSymbolicSizes) {
  const LoopTree tree(padded_conv1d(Symbol("N"), 3));
  const Compiler compiler(tree);
  const std::vector<Compiler::Segment> parts = compiler.segments(loop(tree, "p", 0), compiler.root());
  ASSERT_EQ(parts.size(), 3u);
  const Compiler::Access access = compiler.gen_access(node(tree, "x"), leaf(tree, "p"));
  EXPECT_TRUE(compiler.get_constraints(access, parts[1].scope).empty());
  for (int64_t n : {0, 1, 2, 3, 9}) {  // the stretches follow on each other, and are the whole loop
    int64_t at = 0;
    for (const Compiler::Segment& part : parts) {
      const int64_t begin = evaluate(part.begin, {{Symbol("N"), n}}), end = evaluate(part.end, {{Symbol("N"), n}});
      if (end <= begin) continue;
      EXPECT_EQ(begin, at);
      at = end;
    }
    EXPECT_EQ(at, n);
  }
}

TEST(Compiler, TheTailIsAStretchOfItsOwn) {
  LoopTree tree(matmul(16, 16, 16));
  tree = split(tree, loop(tree, "c", 2), 10).value();
  const Compiler compiler(tree);
  const std::vector<Compiler::Segment> outer = compiler.segments(loop(tree, "c", 2), compiler.root());
  ASSERT_EQ(outer.size(), 2u);
  EXPECT_EQ(outer[0].end, Expr(1));
  EXPECT_EQ(outer[1].begin, Expr(1));
  EXPECT_EQ(outer[1].end, Expr(2));
  EXPECT_EQ(compiler.segments(loop(tree, "c", 3), outer[0].scope)[0].end, Expr(10));
  EXPECT_EQ(compiler.segments(loop(tree, "c", 3), outer[1].scope)[0].end, Expr(6));
}

TEST(Compiler, AccumulatorsStartBeforeTheirFold) {
  LoopTree tree(matmul(4, 5, 6));
  tree = swap_loops(tree, loop(tree, "c", 1), loop(tree, "c", 2)).value();  // m, k, n
  const Compiler compiler(tree);
  EXPECT_TRUE(compiler.fills(loop(tree, "c", 0)).empty());
  const std::vector<Compiler::Fill> fills = compiler.fills(loop(tree, "c", 1));
  ASSERT_EQ(fills.size(), 1u);
  EXPECT_EQ(fills[0].node, node(tree, "c"));
  EXPECT_EQ(fills[0].extents, std::vector<Expr>{6});
}

TEST(Compiler, AScatterThatFoldsNothingStartsAtItself) {
  const LoopTree tree(parse(R"(tenon loops 1
kernel replace {
  var i = 5
  %x: f32[i] = read 0
  %v: f32[i] = read 1
  %y: f32[i] = scatter set(%x, %v) at [i] where i - 1 in 3
  %out: f32[i] = write 0 (%y)
})")
                          .value());
  const Tensor x = filled(DType::kF32, {5}, [](int64_t i) { return i; });
  const Tensor v = filled(DType::kF32, {5}, [](int64_t i) { return 10 * i; });
  for (const std::string_view backend : {"interpreter", "cpp"}) {
    EXPECT_EQ(elements(run_on(backend, tree, {x, v})[0]), (std::vector<double>{0, 10, 20, 30, 4})) << backend;
  }
}

}  // namespace
}  // namespace tenon::loops
