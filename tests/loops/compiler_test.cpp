#include "loops/compiler.h"

#include <fmt/format.h>
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

TEST(Compiler, TotalsOfLongSumsAreWide) {
  const auto columns = [&](Expr rows, Expr width) {
    IR ir("columns");
    const VarRef i = ir.add_var("i", std::move(rows)), j = ir.add_var("j", std::move(width));
    const NodeRef sum = ir.add_reduce(op_named("add"), ir.add_read(DType::kF32, {i, j}, "x"), {j}, "s");
    ir.set_loops(sum, {{.var = i}, {.var = j}});
    ir.add_write(sum, {j}, "out");
    return ir;
  };
  const auto dtype_of = [&](const IR& ir) {
    const LoopTree tree(ir);
    Compiler compiler(tree);
    compiler.widen_totals();
    return compiler.allocations.at(node(tree, "s")).dtype;
  };
  EXPECT_EQ(dtype_of(columns(768, 2)), DType::kF32);
  EXPECT_EQ(dtype_of(columns(100000, 2)), DType::kF64);
  EXPECT_EQ(dtype_of(columns(Symbol("N"), 2)), DType::kF64);
  EXPECT_EQ(dtype_of(initial_schedule(columns(768, 2))), DType::kF64) << "one element at a time";
}

TEST(Compiler, RunningSumsAreWide) {
  for (const auto& [op, dtype] : {std::pair("add", DType::kF64), std::pair("maximum", DType::kF32)}) {
    IR ir("scan");
    const VarRef i = ir.add_var("i", 10);
    ir.add_write(ir.add_scan(op_named(op), ir.add_read(DType::kF32, {i}, "x"), i, {i}, "s"), {i}, "out");
    const LoopTree tree(ir);
    Compiler compiler(tree);
    compiler.widen_totals();
    EXPECT_EQ(compiler.carries.at(node(tree, "s")).dtype, dtype) << op;
  }
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
  const std::vector<Compiler::Stretch> parts = compiler.stretches(loop(tree, "p", 0), compiler.root());
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
  const std::vector<Compiler::Stretch> parts = compiler.stretches(loop(tree, "p", 0), compiler.root());
  ASSERT_EQ(parts.size(), 3u);
  const Compiler::Access access = compiler.gen_access(node(tree, "x"), leaf(tree, "p"));
  EXPECT_TRUE(compiler.get_constraints(access, parts[1].scope).empty());
  for (int64_t n : {0, 1, 2, 3, 9}) {  // the stretches follow on each other, and are the whole loop
    int64_t at = 0;
    for (const Compiler::Stretch& part : parts) {
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
  const std::vector<Compiler::Stretch> outer = compiler.stretches(loop(tree, "c", 2), compiler.root());
  ASSERT_EQ(outer.size(), 2u);
  EXPECT_EQ(outer[0].end, Expr(1));
  EXPECT_EQ(outer[1].begin, Expr(1));
  EXPECT_EQ(outer[1].end, Expr(2));
  EXPECT_EQ(compiler.stretches(loop(tree, "c", 3), outer[0].scope)[0].end, Expr(10));
  EXPECT_EQ(compiler.stretches(loop(tree, "c", 3), outer[1].scope)[0].end, Expr(6));
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

LoopTree tree_of(std::string_view statements) {
  return LoopTree(parse(fmt::format("tenon loops 1\nkernel test {{\n{}\n}}\n", statements)).value());
}

TEST(Compiler, CountersOfAFillHaveNamesOfTheirOwn) {
  const LoopTree tree = tree_of(R"(
  var fill_0 = 3
  var fill = 4
  var k = fill_1
  %x: f32[fill_0, fill, k] = read 0
  %s: f32[fill_0, fill] = reduce add(%x) for fill_0, k, fill by 2, fill
  %out: f32[fill_0, fill] = write 0 (%s) for fill_0, fill)");
  const Tensor x = filled(DType::kF32, {3, 4, 2}, [](int64_t i) { return i; });
  for (const std::string_view backend : {"interpreter", "cpp"}) {
    EXPECT_EQ(elements(run_on(backend, tree, {x})[0]),
              (std::vector<double>{1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45}))
        << backend;
  }
}

TEST(Compiler, AGuardOverALookupIsPeeledForAllThatItMayBe) {
  const LoopTree tree = tree_of(R"(
  var i = 8
  var o = 8
  %x: f32[i] = read 0
  %shift: i64[] = read 1
  %y: f32[o] = view %x[o + r] where o + r in 8 with r = %shift in 4
  %out: f32[o] = write 0 (%y))");
  const Tensor x = filled(DType::kF32, {8}, [](int64_t i) { return i + 1; });
  for (const std::string_view backend : {"interpreter", "cpp"}) {
    const Tensor shift = filled(DType::kI64, {}, [](int64_t) { return 2; });
    EXPECT_EQ(elements(run_on(backend, tree, {x, shift})[0]), (std::vector<double>{3, 4, 5, 6, 7, 8, 0, 0})) << backend;
  }
}

// Each loop falls into whole iterations and a tail, and so would the loops inside of both.
TEST(Compiler, TailsInsideOfTailsDoNotMultiplyTheCode) {
  constexpr int kVars = 7;
  std::string vars, dims, outer, inner;
  for (int i = 0; i < kVars; ++i) {
    vars += fmt::format("  var v{0} = N{0}\n", i);
    dims += fmt::format("{}v{}", i > 0 ? ", " : "", i);
    outer += fmt::format("v{} by 2, ", i);
    inner += fmt::format("{}v{}", i > 0 ? ", " : "", i);
  }
  const LoopTree tree = tree_of(fmt::format(
      "{0}  %x: f32[{1}] = read 0\n  %y: f32[{1}] = neg(%x) for {2}{3}\n  %out: f32[{1}] = write 0 (%y) for {2}{3}",
      vars, dims, outer, inner));
  const Compiler compiler(tree);
  int copies = 0;
  const std::function<void(TreeRef, const Compiler::Scope&)> count = [&](TreeRef ref, const Compiler::Scope& scope) {
    if (tree.kind(ref) == LoopTree::NODE) return void(++copies);
    for (const Compiler::Stretch& part : compiler.stretches(ref, scope)) count(tree.children(ref)[0], part.scope);
  };
  count(tree.roots()[0], compiler.root());
  EXPECT_LE(copies, 27);
  for (const Sizes& shape : {Sizes(kVars, 3), Sizes{1, 2, 3, 4, 3, 2, 1}, Sizes{3, 1, 2, 3, 0, 3, 3}}) {
    const Tensor x = filled(DType::kF32, shape, [](int64_t i) { return i; });
    EXPECT_EQ(elements(run_on("cpp", tree, {x})[0]), elements(run_on("interpreter", tree, {x})[0]));
  }
}

TEST(Compiler, LeavesOutWhatNobodyReads) {
  const LoopTree tree(parse(R"(tenon loops 1
kernel lower {
  var i = 8
  var b = 8
  %x: f32[i, b] = read 0
  %y: f32[i, b] = exp(%x) for i, b
  %z: f32[i, b] = view %y[i, b] where i - 2*b in 8 for i, new b
  %s: f32[i] = reduce add(%z) for i, b
  %out: f32[i] = write 0 (%s) for i
})")
                          .value());
  const Compiler compiler(tree);
  const std::vector<Compiler::Stretch> rows = compiler.stretches(loop(tree, "y", 0), compiler.root());
  ASSERT_EQ(rows.size(), 1u);
  const std::vector<Compiler::Stretch> made = compiler.stretches(loop(tree, "y", 1), rows[0].scope);
  ASSERT_EQ(made.size(), 1u);
  const Symbol row = compiler.counter(loop(tree, "y", 0));
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(substitute(made[0].end, {{row, i}}), Expr(i / 2 + 1));
  Expr read = 0;
  for (const Compiler::Stretch& part : compiler.stretches(loop(tree, "z", 1), rows[0].scope))
    read += part.end - part.begin;
  EXPECT_EQ(read, Expr(8));
}

}  // namespace
}  // namespace tenon::loops
