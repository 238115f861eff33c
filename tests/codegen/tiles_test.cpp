#include "codegen/tiles.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "backends/cpu/cpu.h"
#include "codegen/codegen.h"
#include "loops/lower.h"
#include "schedule/ahead.h"
#include "schedule/default_schedule.h"
#include "tests/backends/support_fenced.h"
#include "tests/loops/support_kernels.h"
#include "tests/schedule/support_schedule.h"

namespace tenon::codegen {
namespace {

using loops::LoopTree;
using loops::testing::elements;
using loops::testing::filled;
using loops::testing::run_on;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Dot {
  std::string_view tile;
  DType a, b, c;
  int64_t steps;
};
constexpr Dot kBF16{"dpbf16", DType::kBF16, DType::kBF16, DType::kF32, 2};
constexpr Dot kUnsigned{"dpbusd", DType::kU8, DType::kI8, DType::kI32, 4};
constexpr Dot kMixed{"dpbusd", DType::kI8, DType::kU8, DType::kI32, 4};
constexpr Dot kSameSigned{"dpbssd", DType::kI8, DType::kI8, DType::kI32, 4};
constexpr Dot kSameUnsigned{"dpbuud", DType::kU8, DType::kU8, DType::kI32, 4};

enum class Layout : uint8_t { kPacked, kRows, kColumns, kPackedOfColumns };

// c[m, n] = a[m, k] * b[k, n]: blocks of 4 x 32, or what `rows` names.
LoopTree product(const Dot& dot, std::string_view m, std::string_view n, std::string_view k,
                 Layout layout = Layout::kPacked, bool a_is_transposed = false, int lanes = 16) {
  const bool packs = layout == Layout::kPacked || layout == Layout::kPackedOfColumns;
  const bool has_columns = layout == Layout::kColumns || layout == Layout::kPackedOfColumns;
  std::string text = fmt::format("tenon loops 1\nkernel product {{\n  symbol M in [0, 64]\n  symbol N in [0, 200]\n");
  text += fmt::format("  symbol K in [0, 99]\n  var m = {}\n  var n = {}\n  var k = {}\n", m, n, k);
  text += fmt::format("  %a: {}[{}] = read 0\n", name_of(dot.a), a_is_transposed ? "k, m" : "m, k");
  text += fmt::format("  %b: {}[{}] = read 1\n", name_of(dot.b), has_columns ? "n, k" : "k, n");
  if (packs) {
    text += fmt::format("  %b_packed: {}[k, n] = view %b[{}] for n by 32, k by {}, n by {}, n tile \"interleave\", k\n",
                        name_of(dot.b), has_columns ? "n, k" : "k, n", dot.steps, lanes);
  }
  const std::string loops = fmt::format("for n by 32, m by 4, k by {}, m unroll, n by {} unroll, n tile \"{}\", k",
                                        dot.steps, lanes, dot.tile);
  const std::string_view wide = name_of(dot.c);
  text += fmt::format("  %x: {}[m, k] = cast(%a) {}\n", wide, loops);
  text += fmt::format("  %y: {}[k, n] = cast({}) {}\n", wide, packs ? "%b_packed" : "%b", loops);
  text += fmt::format("  %p: {}[m, n, k] = mul(%x, %y) {}\n", wide, loops);
  text += fmt::format("  %c: {}[m, n] = reduce add(%p) {}\n", wide, loops);
  text += fmt::format("  %out: {}[m, n] = write 0 (%c) for n by 32, m by 4, m unroll, n by {}, n vectorize\n}}", wide,
                      lanes);
  return LoopTree(loops::parse(text).value());
}

// Small enough that sums are exact, and of both signs where there are.
Tensor numbers(DType dtype, Sizes shape, int64_t seed) {
  const int64_t low = dtype == DType::kU8 ? 0 : dtype == DType::kI8 ? -128 : -12;
  const int64_t count = is_float(dtype) ? 25 : 256;
  return filled(dtype, std::move(shape), [=](int64_t i) { return low + (i * 37 + seed) % count; });
}

void expect_exact(const Dot& dot, int64_t m, int64_t n, int64_t k, Layout layout, bool a_is_transposed,
                  const LoopTree& tree) {
  SCOPED_TRACE(fmt::format("{} x {} x {} of {}, layout {}", m, n, k, dot.tile, static_cast<int>(layout)));
  const bool has_columns = layout == Layout::kColumns || layout == Layout::kPackedOfColumns;
  const std::vector<Tensor> inputs = {numbers(dot.a, a_is_transposed ? Sizes{k, m} : Sizes{m, k}, 3),
                                      numbers(dot.b, has_columns ? Sizes{n, k} : Sizes{k, n}, 11)};
  EXPECT_EQ(elements(run_on("cpu", tree, inputs)[0]), elements(run_on("interpreter", tree, inputs)[0]));
}

void expect_exact(const Dot& dot, int64_t m, int64_t n, int64_t k, Layout layout = Layout::kPacked,
                  bool a_is_transposed = false) {
  expect_exact(dot, m, n, k, layout, a_is_transposed,
               product(dot, std::to_string(m), std::to_string(n), std::to_string(k), layout, a_is_transposed));
}

LoopTree arm64_product(const char* cpu, const Dot& dot, int64_t m, int64_t n, int64_t k) {
  return product(dot, std::to_string(m), std::to_string(n), std::to_string(k), Layout::kPacked, false,
                 find_target(cpu).vector_bytes / 4);
}

// In the emulator, where the CPU is one of AArch64.
void expect_exact_on(const char* cpu, const Dot& dot, int64_t m, int64_t n, int64_t k) {
  SCOPED_TRACE(fmt::format("{} x {} x {} of {} on {}", m, n, k, dot.tile, cpu));
  const LoopTree tree = arm64_product(cpu, dot, m, n, k);
  const std::vector<Tensor> inputs = {numbers(dot.a, {m, k}, 3), numbers(dot.b, {k, n}, 11)};
  const LoopTree* const trees[] = {&tree};
  const auto kernels = test::compile_fenced(trees, {.cpu = cpu, .use_cache = false});
  EXPECT_EQ(elements(run(*kernels[0], tree.ir, inputs).value()[0]), elements(run_on("interpreter", tree, inputs)[0]));
}

std::string asm_of(const LoopTree& tree, std::string_view cpu) {
  const KernelSource source{&tree, "kernel"};
  return emit_asm({&source, 1}, find_target(cpu));
}

std::string scheduled_asm(std::string_view graph, std::string_view cpu) {
  return asm_of(default_schedule(lower(parse_graph(graph).value()).value(), tenon::machine_of(cpu)), cpu);
}

std::string matmul_graph(int64_t m, int64_t n, int64_t k, std::string_view dtype) {
  if (dtype.find('f') != std::string_view::npos) {
    return fmt::format(
        "graph g(%x: {3}[{0}, {2}], %y: {3}[{2}, {1}]) {{\n  %h: {3}[{0}, {1}] = matmul(%x, %y)\n  return %h\n}}\n", m,
        n, k, dtype);
  }
  return fmt::format(R"(graph g(%x: {3}[{0}, {2}], %y: i8[{2}, {1}]) {{
  %a: i32[{0}, {2}] = cast(%x) {{dtype=i32}}
  %b: i32[{2}, {1}] = cast(%y) {{dtype=i32}}
  %h: i32[{0}, {1}] = matmul(%a, %b)
  return %h
}}
)",
                     m, n, k, dtype);
}

// A linear layer whose weight is a constant, or is not.
std::string linear_graph(std::string_view m, int64_t n, int64_t k) {
  return fmt::format(R"(graph g(%x: bf16[{0}, {2}]) {{
  symbol N in [0, 4096]
  %w: bf16[{1}, {2}] = parameter "w"
  %b: bf16[{1}] = parameter "b"
  %h: bf16[{0}, {1}] = linear(%x, %w, %b)
  %out: bf16[{0}, {1}] = relu(%h)
  return %out
}}
)",
                     m, n, k);
}

bool runs(const Dot& dot) { return has_tile(find_target("native"), dot.tile); }

// ---- numbers --------------------------------------------------------------------------------------------------------

TEST(Tiles, AreExactForAllTails) {
  for (const Dot& dot : {kBF16, kUnsigned, kMixed}) {
    if (!runs(dot)) GTEST_SKIP() << "this machine has no " << dot.tile;
    for (int64_t m : {1, 4, 5}) {
      for (int64_t n : {1, 16, 33, 64, 71}) expect_exact(dot, m, n, 8);
    }
    for (int64_t k = 1; k <= 9; ++k) expect_exact(dot, 6, 40, k);
  }
}

TEST(Tiles, AreExactForOtherLayouts) {
  for (const Dot& dot : {kBF16, kUnsigned, kMixed}) {
    if (!runs(dot)) GTEST_SKIP() << "this machine has no " << dot.tile;
    for (Layout layout : {Layout::kRows, Layout::kColumns, Layout::kPackedOfColumns}) {
      for (int64_t k : {1, 4, 7}) expect_exact(dot, 5, 37, k, layout);
      expect_exact(dot, 8, 64, 16, layout, true);
    }
  }
}

TEST(Tiles, AreExactForSizesThatAreKnownLater) {
  for (const Dot& dot : {kBF16, kUnsigned}) {
    if (!runs(dot)) GTEST_SKIP() << "this machine has no " << dot.tile;
    const LoopTree tree = product(dot, "M", "N", "K");
    for (int64_t n : {0, 1, 16, 31, 50}) expect_exact(dot, 5, n, 6, Layout::kPacked, false, tree);
    for (int64_t k : {0, 1, 3, 6}) expect_exact(dot, 3, 40, k, Layout::kPacked, false, tree);
  }
}

TEST(Tiles, OfBF16TakeSubnormalNumbersForZero) {
  if (!runs(kBF16)) GTEST_SKIP() << "this machine has no dpbf16";
  const std::vector<Tensor> inputs = {filled(DType::kBF16, {1, 2}, [](int64_t) { return 0x1p-130; }),
                                      filled(DType::kBF16, {2, 16}, [](int64_t) { return 0x1p100; })};
  EXPECT_EQ(elements(run_on("cpu", product(kBF16, "1", "16", "2"), inputs)[0])[0], 0);
}

// ---- instructions ---------------------------------------------------------------------------------------------------

TEST(Tiles, AreInstructions) {
  EXPECT_THAT(asm_of(product(kBF16, "8", "64", "8"), "znver4"), HasSubstr("vdpbf16ps"));
  EXPECT_THAT(asm_of(product(kBF16, "8", "61", "7", Layout::kRows), "znver4"), HasSubstr("vdpbf16ps"));
  EXPECT_THAT(asm_of(product(kBF16, "M", "N", "K"), "znver4"), HasSubstr("vdpbf16ps"));
  EXPECT_THAT(asm_of(product(kUnsigned, "8", "64", "8"), "icelake-server"), HasSubstr("vpdpbusd"));
}

// Every second element of a row, as a convolution with a stride reads it: no element is loaded alone.
LoopTree every_second(std::string_view size) {
  return LoopTree(loops::parse(fmt::format(R"(tenon loops 1
kernel pack {{
  symbol N in [0, 200]
  var k = 7
  var n = {0}
  var w = 2*{0}
  %x: u8[k, w] = read 0
  %packed: u8[k, n] = view %x[k, 2*n + 1] for k by 4, n by 16, n tile "interleave", k
  %out: u8[k, n] = write 0 (%packed) for k, n
}})",
                                           size))
                      .value());
}

TEST(Tiles, ArePackedOfRowsWithAStride) {
  if (!has_tile(find_target("native"), "interleave")) GTEST_SKIP() << "this machine packs no tiles";
  for (int64_t n : {1, 7, 16, 28, 33}) {
    for (const char* size : {"N", ""}) {
      SCOPED_TRACE(n);
      const LoopTree tree = every_second(*size ? size : std::to_string(n));
      const std::vector<Tensor> inputs = {numbers(DType::kU8, {7, 2 * n}, 5)};
      EXPECT_EQ(elements(run_on("cpu", tree, inputs)[0]), elements(run_on("interpreter", tree, inputs)[0]));
    }
  }
  EXPECT_THAT(asm_of(every_second("64"), "znver4"), HasSubstr("vpunpck"));
}

TEST(Tiles, OfOtherStridesArePlainLoops) {
  EXPECT_THAT(asm_of(product(kBF16, "8", "64", "8", Layout::kColumns), "znver4"), Not(HasSubstr("vdpbf16ps")));
  EXPECT_THAT(asm_of(product({"dpbf16", DType::kF16, DType::kF16, DType::kF32, 2}, "8", "64", "8"), "znver4"),
              Not(HasSubstr("vdpbf16ps")));
}

TEST(Tiles, OfAnotherMachineAreAnError) {
  const LoopTree tree = product(kBF16, "8", "64", "8");
  try {
    asm_of(tree, "x86-64-v4");
    FAIL() << "it has no such tile";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "error: target x86-64-v4 has no tile \"dpbf16\": take it off the loop over n");
  }
}

TEST(Tiles, OfArm64AreInstructions) {
  const auto code_of = [](const Dot& dot, const char* cpu) { return asm_of(arm64_product(cpu, dot, 8, 64, 8), cpu); };
  EXPECT_THAT(code_of(kBF16, "neoverse-v2"), HasSubstr("\tbfdot\t"));
  EXPECT_THAT(code_of(kUnsigned, "neoverse-v2"), HasSubstr("\tusdot\t"));
  EXPECT_THAT(code_of(kMixed, "neoverse-v2"), HasSubstr("\tusdot\t"));
  EXPECT_THAT(code_of(kSameSigned, "neoverse-n1"), HasSubstr("\tsdot\t"));
  EXPECT_THAT(code_of(kSameUnsigned, "neoverse-n1"), HasSubstr("\tudot\t"));
  EXPECT_THAT(code_of(kUnsigned, "neoverse-n1"), HasSubstr("\tsdot\t")) << "three of them are one usdot";
  EXPECT_THAT(code_of(kUnsigned, "neoverse-n1"), Not(HasSubstr("usdot")));
}

TEST(Tiles, OfSveAreInstructionsOnItsRegisters) {
  const auto code_of = [](const Dot& dot, const char* cpu) { return asm_of(arm64_product(cpu, dot, 8, 64, 8), cpu); };
  EXPECT_THAT(code_of(kBF16, "neoverse-v1+sve256"), HasSubstr("\tbfdot\tz"));
  EXPECT_THAT(code_of(kUnsigned, "neoverse-v1+sve256"), HasSubstr("\tusdot\tz"));
  EXPECT_THAT(code_of(kSameSigned, "neoverse-v1+sve256"), HasSubstr("\tsdot\tz"));
  EXPECT_THAT(code_of(kSameUnsigned, "neoverse-v1+sve256"), HasSubstr("\tudot\tz"));
  const std::string f32 = scheduled_asm(matmul_graph(64, 64, 64, "f32"), "a64fx+sve512");
  EXPECT_THAT(f32, ContainsRegex("\tfml[a]\tz[0-9]+\\.s"));
}

// Under qemu, whose bfdot rounds as the hardware does: these sums are exact.
TEST(TilesOnArm64, AreExact) {
  struct Machine {
    const char* cpu;
    std::vector<Dot> dots;
  };
  const Machine machines[] = {{"neoverse-v2", {kBF16, kUnsigned, kMixed, kSameSigned, kSameUnsigned}},
                              {"neoverse-v1+sve256", {kBF16, kUnsigned, kMixed, kSameSigned, kSameUnsigned}},
                              {"neoverse-n1", {kUnsigned, kMixed, kSameSigned, kSameUnsigned}}};
  for (const auto& [cpu, dots] : machines) {
    if (const std::string why = test::cannot_run(cpu); !why.empty()) GTEST_SKIP() << why;
    for (const Dot& dot : dots) {
      for (int64_t n : {16, 20, 33}) {
        for (int64_t k : {1, 4, 7, 8}) expect_exact_on(cpu, dot, 5, n, k);
      }
    }
  }
}

// ---- default schedules ----------------------------------------------------------------------------------------------

TEST(Tiles, AreScheduledForTheMachinesThatHaveThem) {
  const std::string bf16 = matmul_graph(64, 64, 64, "bf16"), i8 = matmul_graph(64, 64, 64, "i8");
  EXPECT_THAT(scheduled_asm(bf16, "znver4"), HasSubstr("vdpbf16ps"));
  EXPECT_THAT(scheduled_asm(i8, "znver4"), HasSubstr("vpdpbusd"));
  EXPECT_THAT(scheduled_asm(i8, "icelake-server"), HasSubstr("vpdpbusd"));
  for (const char* cpu : {"x86-64-v3", "x86-64-v4", "icelake-server"}) {
    const std::string text = scheduled_asm(bf16, cpu);
    EXPECT_THAT(text, HasSubstr("vfmadd")) << cpu;
    EXPECT_THAT(text, Not(HasSubstr("vdpbf16ps"))) << cpu;
  }
  EXPECT_THAT(scheduled_asm(bf16, "neoverse-v1"), HasSubstr("\tbfdot\t"));
  EXPECT_THAT(scheduled_asm(i8, "neoverse-n1"), HasSubstr("\tsdot\t"));
  EXPECT_THAT(scheduled_asm(matmul_graph(64, 64, 64, "u8"), "neoverse-v1"), HasSubstr("\tusdot\t"));
  EXPECT_THAT(scheduled_asm(matmul_graph(64, 64, 64, "f32"), "aarch64"), HasSubstr("\tfmla\t"));
  EXPECT_THAT(scheduled_asm(bf16, "aarch64"), HasSubstr("\tfmla\t"));
  EXPECT_THAT(scheduled_asm(i8, "x86-64-v3"), HasSubstr("vpmulld"));
  EXPECT_THAT(scheduled_asm(bf16, "x86-64-v2"), HasSubstr("mulps"));
}

// No tile multiplies f16: each step widens a vector of it, and sums are those of f32.
TEST(Tiles, OfF16AreMultiplyAddsOfWidenedVectors) {
  const std::string text = scheduled_asm(matmul_graph(64, 64, 64, "f16"), "x86-64-v4");
  EXPECT_THAT(text, ContainsRegex("vcvtph2ps[^\n]*[yz]mm"));
  EXPECT_THAT(text, ContainsRegex("vfmadd[0-9]*ps[^\n]*[yz]mm"));
}

// A depthwise convolution of bytes, as the pass `quantized` leaves it.
std::string depthwise_asm(std::string_view cpu) {
  return scheduled_asm(R"(graph g(%x: u8[1, 32, 28, 28]) {
  %w: i8[32, 1, 3, 3] = parameter "w"
  %most: f32[] = constant 255.0
  %xi: i32[1, 32, 28, 28] = cast(%x) {dtype=i32}
  %wi: i32[32, 1, 3, 3] = cast(%w) {dtype=i32}
  %sum: i32[1, 32, 28, 28] = conv(%xi, %wi, none) {stride=[1, 1], padding=[1, 1], groups=32}
  %f: f32[1, 32, 28, 28] = cast(%sum) {dtype=f32}
  %round: f32[1, 32, 28, 28] = rint(%f)
  %positive: f32[1, 32, 28, 28] = relu(%round)
  %low: f32[1, 32, 28, 28] = minimum(%positive, %most)
  %out: u8[1, 32, 28, 28] = cast(%low) {dtype=u8}
  return %out
}
)",
                       cpu);
}

// Pixels are lanes, and the taps of a row are a group: a load and a shuffle lay them side by side for all pixels.
TEST(Tiles, DepthwiseConvolutionsOfBytesMultiplyGroupsOfTaps) {
  const std::string text = depthwise_asm("znver4");
  EXPECT_THAT(text, ContainsRegex("vpermb[^\n]*zmm"));
  EXPECT_THAT(text, ContainsRegex("vpdpbusd[^\n]*zmm"));
  EXPECT_THAT(text, Not(HasSubstr("vpmulld")));
}

TEST(Tiles, DepthwiseConvolutionsOfBytesNeedNone) {
  const std::string text = depthwise_asm("skylake-avx512");
  EXPECT_THAT(text, ContainsRegex("vpmulld[^\n]*zmm"));
  EXPECT_THAT(text, Not(HasSubstr("imull"))) << "no product is that of a single element";
}

int64_t count_of(const std::string& text, std::string_view what) {
  int64_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Four accumulators, and what they share is loaded once.
TEST(Tiles, OfRowsKeepTheirSumsInRegisters) {
  const std::string bf16 = scheduled_asm(matmul_graph(64, 64, 96, "bf16"), "sapphirerapids");
  EXPECT_EQ(count_of(bf16, "\ttdpbf16ps"), 4) << bf16;
  EXPECT_EQ(count_of(bf16, "\ttileloadd"), 4) << bf16;
  EXPECT_EQ(count_of(bf16, "\ttilestored"), 4) << bf16;
  EXPECT_EQ(count_of(bf16, "\tldtilecfg"), 1) << bf16;
  EXPECT_EQ(count_of(bf16, "\ttilerelease"), 1) << bf16;
  EXPECT_EQ(count_of(scheduled_asm(matmul_graph(64, 64, 64, "i8"), "sapphirerapids"), "\ttdpbssd"), 4);
  EXPECT_EQ(count_of(scheduled_asm(matmul_graph(64, 64, 64, "u8"), "sapphirerapids"), "\ttdpbusd"), 4);
}

TEST(Tiles, OfRowsLeaveTheRestToTheNext) {
  const std::string odd = scheduled_asm(matmul_graph(64, 64, 70, "bf16"), "sapphirerapids");
  EXPECT_THAT(odd, Not(HasSubstr("tdpbf16ps")));
  EXPECT_THAT(odd, HasSubstr("vdpbf16ps"));
  const std::string few = scheduled_asm(matmul_graph(4, 64, 64, "i8"), "sapphirerapids");
  EXPECT_THAT(few, Not(HasSubstr("tdpbssd")));
  EXPECT_THAT(few, HasSubstr("vpdpbusd"));
}

// The default schedule for a machine that may differ from this one.
void expect_tree_agrees(const std::string& graph_text, std::string_view cpu, const std::vector<Tensor>& inputs) {
  const loops::IR kernel = lower(parse_graph(graph_text).value()).value();
  const LoopTree scheduled = default_schedule(kernel, tenon::machine_of(cpu));
  SCOPED_TRACE(scheduled.dump());
  EXPECT_EQ(elements(run_on("interpreter", scheduled, inputs)[0]),
            elements(run_on("interpreter", LoopTree(kernel), inputs)[0]));
}

TEST(Tiles, OfRowsMakeTreesThatAgree) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{16, 16}, {70, 100}, {33, 32}, {12, 45}}) {
    expect_tree_agrees(matmul_graph(m, n, 64, "bf16"), "sapphirerapids",
                       {numbers(DType::kBF16, {m, 64}, 1), numbers(DType::kBF16, {64, n}, 2)});
    expect_tree_agrees(matmul_graph(m, n, 64, "i8"), "sapphirerapids",
                       {numbers(DType::kI8, {m, 64}, 1), numbers(DType::kI8, {64, n}, 2)});
  }
}

TEST(Tiles, OfDefaultSchedulesKeepPackedWeightsNarrow) {
  const loops::IR kernel = lower(parse_graph(linear_graph("128", 100, 40)).value()).value();
  const AheadOfTime ahead = split_ahead(default_schedule(kernel, tenon::machine_of("znver4")), {1});
  ASSERT_EQ(ahead.preparations.size(), 1u);
  const loops::IR& packing = ahead.preparations[0].kernel;
  EXPECT_EQ(to_string(packing.type(packing.writes()[0])), "bf16[2, 20, 4, 16, 2]");
}

// Blocks of rows read the same columns of packed weights again, and bring the next ones to the cache meanwhile.
TEST(Tiles, FetchTheNextColumnsOfLargeWeights) {
  const auto code_of = [](std::string graph, bool is_narrow = true) {
    for (size_t at; !is_narrow && (at = graph.find("bf16")) != graph.npos;) graph.replace(at, 4, "f32");
    const loops::IR kernel = lower(parse_graph(graph).value()).value();
    const AheadOfTime ahead = split_ahead(default_schedule(kernel, tenon::machine_of("znver4")), {1});
    return asm_of(ahead.tree, "znver4");
  };
  EXPECT_THAT(code_of(linear_graph("64", 1024, 1024)), HasSubstr("prefetcht1"));
  EXPECT_THAT(code_of(linear_graph("64", 1024, 1024), false), HasSubstr("prefetcht1"));
  EXPECT_THAT(code_of(linear_graph("64", 256, 256)), Not(HasSubstr("prefetch")));
  EXPECT_THAT(code_of(linear_graph("1024", 1024, 1024)), Not(HasSubstr("prefetch"))) << "each of many blocks would";
  EXPECT_THAT(code_of(linear_graph("5", 1024, 1024)), Not(HasSubstr("prefetch"))) << "one block reads each column";
}

TEST(Tiles, OfDefaultSchedulesAgreeWithTheReference) {
  for (int64_t m : {1, 2, 13}) {
    for (int64_t n : {1, 17, 130}) {
      test::expect_schedule_agrees(matmul_graph(m, n, 9 + m % 4, "bf16"));
      test::expect_schedule_agrees(matmul_graph(m, n, 9 + m % 4, "i8"));
      test::expect_schedule_agrees(matmul_graph(m, n, 8, "u8"));
    }
  }
  for (int64_t k : {1, 2, 3, 4, 40}) test::expect_schedule_agrees(matmul_graph(33, 70, k, "bf16"));
  for (int64_t m : {9, 16, 33, 70}) {
    for (const char* dtype : {"bf16", "i8", "u8"}) test::expect_schedule_agrees(matmul_graph(m, 20 + m, 128, dtype));
  }
}

TEST(Tiles, OfDefaultSchedulesAgreeForConstantWeights) {
  for (const char* m : {"1", "2", "31"}) {
    for (int64_t n : {1, 10, 100}) test::expect_schedule_agrees(linear_graph(m, n, 20 + n % 3));
  }
  for (int64_t n : {0, 1, 5, 12, 40}) test::expect_schedule_agrees(linear_graph("N", 70, 33), n);
  for (int64_t n : {0, 1, 16, 50}) test::expect_schedule_agrees(linear_graph("N", 70, 64), n);
  test::expect_schedule_agrees(linear_graph("40", 70, 64));
}

TEST(Tiles, OfDefaultSchedulesAgreeWhereOperandsAreComputed) {
  test::expect_schedule_agrees(R"(graph g(%x: bf16[40, 24], %y: f32[40, 50]) {
  %a: bf16[40, 24] = relu(%x)
  %t: bf16[24, 40] = permute(%a) {dims=[1, 0]}
  %e: f32[40, 50] = exp(%y)
  %b: bf16[40, 50] = cast(%e) {dtype=bf16}
  %h: bf16[24, 50] = matmul(%t, %b)
  return %h
}
)");
}

}  // namespace
}  // namespace tenon::codegen
