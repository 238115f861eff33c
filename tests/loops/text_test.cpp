// The text form of kernels: print and parse are inverse.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/loops/support_random_ir.h"
#include "tests/loops/support_random_schedule.h"

namespace tenon::loops {
namespace {

using test::Random;

void expect_round_trip(const IR& ir) {
  const std::string text = to_string(ir);
  const Result<IR> parsed = parse(text);
  ASSERT_TRUE(parsed.ok()) << parsed.diagnostic().text() << "\n" << text;
  EXPECT_EQ(*parsed, ir) << text;
  EXPECT_EQ(to_string(*parsed), text);
  EXPECT_EQ(parsed->name(), ir.name());
}

void expect_canonical(const std::string& text) {
  const Result<IR> ir = parse(text, "k.tl");
  ASSERT_TRUE(ir.ok()) << ir.diagnostic().text();
  EXPECT_EQ(to_string(*ir), text);
  expect_round_trip(*ir);
}

IR with_body(const std::string& body) { return parse("tenon loops 1\nkernel k {\n" + body + "\n}").value(); }

// ---- every construct ------------------------------------------------------------------------------------------------

TEST(LoopsText, AMatrixProduct) {
  expect_canonical(R"(tenon loops 1
kernel matmul {
  symbol N in [1, 64]
  var m = 16
  var k = 16
  var n = N
  %a: f32[m, k] = read 0
  %b: f32[k, n] = read 1
  %p: f32[m, n, k] = mul(%a, %b) for m parallel, n, k by 10, k
  %c: f32[m, n] = reduce add(%p) for m parallel, n, k by 10, k
  %out: f32[m, n] = write 0 (%c) for m, n
}
)");
}

TEST(LoopsText, EveryLoop) {
  expect_canonical(R"(tenon loops 1
kernel loops {
  var m = 100
  var n = 7
  %x: f32[m, n] = read 0
  %a: f32[m, n] = exp(%x) for m by 64 parallel, m by 8, new n unroll, m vectorize
  %b: f32[n, m] = neg(%a) for new m tile "amx \"bf16\"\\", n
  %c: f32[] = reduce maximum(%b) for n, m
  %d: f32[] = neg(%c)
  %e: f32[] = abs(%d) for m
  %0: f32[] = write 0 (%e)
}
)");
}

TEST(LoopsText, EveryLeaf) {
  expect_canonical(R"(tenon loops 1
kernel leaves {
  symbol N in [-inf, inf]
  symbol S in [0, inf]
  var i = 2*N + S // 3
  %f: f64[i] = read 0
  %g: bf16[] = read 1
  %0: f32[] = constant 0.1
  %1: f32[] = constant -0.0
  %2: f32[] = constant 1e+300
  %3: f64[] = constant nan
  %4: f16[] = constant -inf
  %5: f32[] = constant inf
  %6: i64[] = constant -9223372036854775808
  %7: u8[] = constant 255
  %8: bool[] = constant true
  %9: bool[] = constant false
  %10: f64[] = constant nan(0xfff8000000000123)
  %a: i64[i] = index N*i - min(i, 5) + 1
  %b: i64[] = index -7
}
)");
}

TEST(LoopsText, EveryComputation) {
  expect_canonical(R"(tenon loops 1
kernel compute {
  var m = 4
  var k = 5
  %x: f32[m, k] = read 0
  %y: f16[k] = read 1
  %z: f32[k] = cast(%y) for k
  %bits: i32[k, m] = bitcast(%x) for k, m
  %less: bool[m, k] = lt(%x, %z) for m, k
  %w: f32[m, k] = where(%less, %x, %z) for m, k
  %square: f32[m, k] = mul(%w, %w) for m, k
  %s: f32[m] = reduce add(%w) for k, m
  %t: f32[k, m] = scan maximum(%w) along k for m, k by 2, k
  %or: i32[] = reduce bitwise_or(%bits) for k, m
  %0: f32[k, m] = write 0 (%t) for k, m
  %1: i32[] = write 1 (%or)
  %2: f32[k, m] = write 2 (%s) for m, k
}
)");
}

TEST(LoopsText, EveryView) {
  expect_canonical(R"(tenon loops 1
kernel views {
  var n = 16
  var c = 3
  var o = 8
  var k = 3
  var f = 48
  %x: f32[n, c] = read 0
  %idx: i32[o] = read 1
  %flag: bool[n] = read 2
  %slice: f32[o] = view %x[2*o + 1, 0] for o
  %flip: f32[c, n] = view %x[-n + 15, c] for c, n
  %window: f32[o, k] = view %x[k + 2*o - 1, 1] where k + 2*o - 1 in 16 else -inf for o, k
  %both: f32[f] = view %x[f, 0] where f in 16 | %x[f - 16, 1] where f - 16 in 16 and -f + 30 in 99 else 1.5 for f
  %flat: f32[f] = view %x[f // 3, f % 3] for f
  %rows: f32[o, c] = view %x[r, c] with r = %idx in 16 for o, c
  %two: f32[o, k] = view %x[r, s] else -0.0 with r = %idx in 16, s = %idx in 3 for o, k
  %no: bool[f] = view %flag[f] where f in 16 else true for f
  %yes: bool[f] = view %flag[f] where f in 16 for f
}
)");
}

TEST(LoopsText, EveryScatter) {
  expect_canonical(R"(tenon loops 1
kernel scatters {
  var i = 9
  var c = 4
  var j = 6
  %init: f32[i, c] = read 0
  %vals: f32[j, c] = read 1
  %idx: i64[j] = read 2
  %add: f32[i, c] = scatter add(%init, %vals) at [r, c] with r = %idx in 9 for j, c
  %set: f32[i, c] = scatter set(%add, %vals) at [2*j - 1, c] where 2*j - 1 in 9 for c, j
  %both: f32[i, c] = scatter maximum(%set, %vals) at [r, c] where r in 9 and -j + 3 in 4 with r = %idx in 20 for c, j by 4, j
  %0: f32[i, c] = write 0 (%both) for i, c
}
)");
}

TEST(LoopsText, AnOrderOtherThanThatOfTheLines) {
  const std::string text = R"(tenon loops 1
kernel ordered {
  var m = 4
  %x: f32[m] = read 0
  %a: f32[m] = exp(%x) for m
  %b: f32[m] = neg(%x) for m
  %0: f32[m] = write 0 (%a) for m
  %1: f32[m] = write 1 (%b) for m
  order %b, %1, %a, %0
}
)";
  expect_canonical(text);
  const IR ir = parse(text).value();
  EXPECT_EQ(ir.order(), (std::vector<NodeRef>{{2}, {4}, {1}, {3}}));
}

// ---- what need not be written ---------------------------------------------------------------------------------------

TEST(LoopsText, LoopsThatAreLeftOutAreTheDefaultOnes) {
  const std::string nodes = "var m = 2\nvar k = 3\n%x: f32[m, k] = read 0\n";
  EXPECT_EQ(with_body(nodes + "%s: f32[k] = reduce add(%x)\n%0: f32[k] = write 0 (%s)"),
            with_body(nodes + "%s: f32[k] = reduce add(%x) for k, m\n%0: f32[k] = write 0 (%s) for k"));
}

TEST(LoopsText, CommentsBlanksAndOddNamesAreFine) {
  const IR ir =
      parse(
          "# a kernel\n\ntenon loops 1 # version\r\nkernel \"my kernel\\n\" { # head\n\n  var for = 4\n  var by = "
          "2\n# between\n %in.0: f32 [ for,by ] = read 0\n\t%4: f32[by, for] = exp( %in.0 ) for for by 2 "
          "parallel, for, by#end\n}\n# after\n")
          .value();
  EXPECT_EQ(ir.name(), "my kernel\n");
  EXPECT_EQ(ir.node({1}).loops.size(), 3u);
  expect_round_trip(ir);
}

TEST(LoopsText, AnExpressionEndsWithItsLine) {
  const IR ir = with_body("var n = 8\n%x: f32[n] = read 0\n%i: i64[n] = index n + 1\n%y: f32[n] = exp(%x)");
  EXPECT_EQ(ir.node({1}).as<Index>()->value, Expr(Symbol("n")) + 1);
}

TEST(LoopsText, ANodeIsOneLineWithoutItsLoops) {
  const IR ir = with_body("var n = 8\n%x: f32[n] = read 0\n%y: f32[] = reduce add(%x) for n by 4, n vectorize");
  EXPECT_EQ(to_string(ir, NodeRef{1}), "%y: f32[] = reduce add(%x)");
  EXPECT_EQ(to_string(ir, NodeRef{0}), "%x: f32[n] = read 0");
}

TEST(LoopsText, Annotations) {
  EXPECT_EQ(to_string(Annotation{}), "");
  EXPECT_EQ(to_string(Annotation{Mark::kParallel}), "parallel");
  EXPECT_EQ(to_string(Annotation{Mark::kVectorize}), "vectorize");
  EXPECT_EQ(to_string(Annotation{Mark::kUnroll}), "unroll");
  EXPECT_EQ(to_string(Annotation{Mark::kTile, "a\"b"}), "tile \"a\\\"b\"");
}

TEST(LoopsText, NoElementwiseOpHasTheNameOfAnAction) {
  for (std::string_view word : {"read", "constant", "index", "reduce", "scan", "view", "scatter", "write"}) {
    const OpDef* op = find_op(word);
    EXPECT_TRUE(!op || !std::holds_alternative<Elementwise>(op->semantics.get())) << word;
  }
  const OpDef* set = find_op("set");
  EXPECT_TRUE(set == nullptr);
}

// ---- kernels that are built -----------------------------------------------------------------------------------------

TEST(LoopsText, ConstantsKeepEveryBit) {
  IR ir;
  for (double value : {0.1, -0.0, 1e-320, HUGE_VAL, -HUGE_VAL, std::nan(""), -std::nan(""), std::nan("7")}) {
    ir.add_constant(DType::kF32, value);
    ir.add_constant(DType::kF64, value);
  }
  for (DType dtype : kAllDTypes) {
    if (is_integral(dtype)) ir.add_constant(dtype, wrap_to(dtype, -1));
  }
  expect_round_trip(ir);
}

TEST(LoopsText, ANodeThatReadsALaterOneComesAfterIt) {
  IR ir = with_body("var n = 8\n%x: f32[n] = read 0\n%y: f32[n] = exp(%x)\n%0: f32[n] = write 0 (%y)");
  const NodeRef x{0}, y{1};
  const NodeRef late = ir.add_read(DType::kF32, {VarRef{0}}, "late");
  const NodeRef later = ir.add_read(DType::kF32, {VarRef{0}}, "later");
  const NodeRef copy = ir.add_copy(later, {VarRef{0}}, "copy");
  ir.set_input(y, x, copy);
  ir.set_order({copy, y, NodeRef{2}});
  EXPECT_EQ(to_string(ir), R"(tenon loops 1
kernel k {
  var n = 8
  %x: f32[n] = read 0
  %late: f32[n] = read 1
  %later: f32[n] = read 2
  %copy: f32[n] = view %later[n] for n
  %y: f32[n] = exp(%copy) for n
  %0: f32[n] = write 0 (%y) for n
}
)");
  EXPECT_EQ(ir.node(late).name, "late");
  expect_round_trip(ir);
}

TEST(LoopsText, AViewWhosePiecesBecomeOneRoundTrips) {
  IR ir = with_body(
      "var n = 8\nvar f = 16\n%x: f32[n] = read 0\n%y: f32[n] = read 1\n"
      "%v: f32[f] = view %x[f] where f in 8 | %y[f - 8] where f - 8 in 8");
  ir.set_input(NodeRef{2}, NodeRef{1}, NodeRef{0});
  EXPECT_EQ(ir.node(NodeRef{2}).inputs, std::vector<NodeRef>{NodeRef{0}});
  expect_round_trip(ir);
}

TEST(LoopsText, NamesThatHaveNoTextAreRefused) {
  IR ir;
  const VarRef n = ir.add_var("n", 4);
  for (const char* name : {"a b", "%x", "x:", "ä", "a-b", "\n"}) {
    EXPECT_THROW(ir.add_read(DType::kF32, {n}, name), Error) << name;
  }
  EXPECT_THROW(ir.add_var("new", 4), Error);
  const NodeRef indices = ir.add_read(DType::kI64, {n}), x = ir.add_read(DType::kF32, {n});
  const Symbol row("row");
  ir.add_view({{{x, {row}, {}}}, 0.0, {{row, indices, 4}}}, {n});
  EXPECT_THROW(ir.add_var("row", 4), Error);
  EXPECT_THROW(ir.add_var("m", Expr(row) + 1), Error);
  expect_round_trip(ir);
}

TEST(LoopsEquality, SeesEveryPart) {
  const auto ir = [](const std::string& body) {
    return with_body("var n = 4\nvar m = 4\n%x: f32[n] = read 0\n" + body);
  };
  const IR base = ir("%y: f32[n] = exp(%x)");
  EXPECT_EQ(base, ir("%y: f32[n] = exp(%x) for n"));
  const char* others[] = {"%z: f32[n] = exp(%x)",
                          "%y: f32[n] = neg(%x)",
                          "%y: f32[n, m] = exp(%x)",
                          "%y: f32[n] = exp(%x) for n by 2, n",
                          "%y: f32[n] = exp(%x) for n parallel",
                          "%y: f32[n] = exp(%x) for new n",
                          "%y: f32[n] = exp(%x) for m, n",
                          "symbol N in [0, 1]\n%y: f32[n] = exp(%x)",
                          "var k = 1\n%y: f32[n] = exp(%x)",
                          "%y: f32[n] = exp(%x)\n%z: f32[n] = exp(%x)",
                          ""};
  for (const char* other : others) EXPECT_NE(base, ir(other)) << other;
  EXPECT_NE(ir("%c: f32[] = constant 0.0"), ir("%c: f32[] = constant -0.0"));
  EXPECT_NE(ir("%v: f32[n] = view %x[n]"), ir("%v: f32[n] = view %x[n] else 1.0"));
  EXPECT_NE(ir("%v: f32[n] = view %x[n]"), ir("%v: f32[n] = view %x[n] where n in 4"));
  EXPECT_NE(ir("%a: f32[n] = exp(%x)\n%b: f32[n] = exp(%x)\n%c: f32[n] = sub(%a, %b)"),
            ir("%a: f32[n] = exp(%x)\n%b: f32[n] = exp(%x)\n%c: f32[n] = sub(%b, %a)"));
  const std::string two = "%a: f32[n] = exp(%x)\n%b: f32[n] = neg(%x)\n";
  EXPECT_NE(ir(two), ir(two + "order %b, %a"));
  EXPECT_EQ(ir(two), ir("%b: f32[n] = neg(%x)\n%a: f32[n] = exp(%x)\norder %a, %b")) << "numbers do not count";
}

// ---- random kernels -------------------------------------------------------------------------------------------------

int below(Random& random, size_t limit) {
  return std::uniform_int_distribution<int>(0, static_cast<int>(limit) - 1)(random);
}

// Splits, marks, repeats and reorders at random; what is not legal stays as it is.
void shuffle_loops(IR& ir, NodeRef node, Random& random) {
  constexpr Mark kMarks[] = {Mark::kNone, Mark::kNone, Mark::kParallel, Mark::kVectorize, Mark::kUnroll, Mark::kTile};
  std::vector<LoopSpec> loops = ir.node(node).loops;
  for (size_t i = loops.size(); i-- > 0;) {
    const auto at = loops.begin() + static_cast<std::ptrdiff_t>(i);
    if (below(random, 3) == 0) loops.insert(at, LoopSpec{.var = loops[i].var, .step = 2 + below(random, 5)});
  }
  if (below(random, 4) == 0)
    loops.insert(loops.begin(), {.var = {static_cast<uint32_t>(below(random, ir.vars().size()))}});
  for (LoopSpec& loop : loops) {
    const Mark mark = kMarks[below(random, std::size(kMarks))];
    loop.annotation = {mark, mark == Mark::kTile ? "dot\n4" : ""};
    loop.fresh = below(random, 4) == 0;
  }
  if (below(random, 2) == 0) std::ranges::shuffle(loops, random);
  (void)attempt([&] { ir.set_loops(node, loops); }).ok();
}

void shuffle_order(IR& ir, Random& random) {
  std::vector<NodeRef> waiting = ir.order(), order;
  const auto is_ready = [&](NodeRef ref) {
    return std::ranges::none_of(ir.node(ref).inputs,
                                [&](NodeRef input) { return std::ranges::find(waiting, input) != waiting.end(); });
  };
  while (!waiting.empty()) {
    const NodeRef next = waiting[static_cast<size_t>(below(random, waiting.size()))];
    if (!is_ready(next)) continue;
    order.push_back(next);
    std::erase(waiting, next);
  }
  ir.set_order(order);
}

TEST(LoopsText, AThousandRandomKernelsRoundTrip) {
  Random random(7);
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    IR ir = test::random_ir(seed);
    expect_round_trip(ir);
    for (NodeRef node : std::vector(ir.order())) shuffle_loops(ir, node, random);
    if (seed % 2 == 0) shuffle_order(ir, random);
    expect_round_trip(ir);
    if (HasFailure()) return;
  }
}

// Edits add copies and partial results behind the nodes that read them.
TEST(LoopsText, ScheduledRandomKernelsRoundTrip) {
  std::mt19937 random(11);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::string log;
    const LoopTree tree = testing::random_schedule(LoopTree(test::random_ir(seed)), 8, random, &log);
    SCOPED_TRACE(log);
    expect_round_trip(tree.ir);
    if (HasFailure()) return;
  }
}

TEST(RandomKernels, AreSmallAndHaveEveryAction) {
  std::set<size_t> actions;
  std::set<std::string> words;
  int64_t total = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const IR ir = test::random_ir(seed);
    EXPECT_EQ(ir, test::random_ir(seed)) << "the same seed gives the same kernel";
    int64_t count = 0;
    for (NodeRef node : ir.order()) count += test::iterations(ir, node);
    EXPECT_LT(count, 5000) << to_string(ir);
    total += count;
    for (const Node& node : ir.nodes()) {
      actions.insert(node.action.index());
      words.insert(node.name.substr(0, node.name.find('.')));
    }
    EXPECT_EQ(test::inputs_for(ir, seed).size(), ir.reads().size());
  }
  EXPECT_EQ(actions.size(), std::variant_size_v<Action>);
  for (const char* word :
       {"slice", "flip", "pad", "concat", "flat",    "split", "gather", "window", "scatter", "scan",
        "fold",  "add",  "mul", "sub",    "maximum", "neg",   "abs",    "where",  "lt",      "cast"}) {
    EXPECT_TRUE(words.contains(word)) << word;
  }
  EXPECT_GT(total / 300, 100) << "kernels should do something";
}

}  // namespace
}  // namespace tenon::loops
