// Kernels that are no contractions, under their default schedule.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/backend.h"
#include "backends/cpu/cpu.h"
#include "codegen/codegen.h"
#include "codegen/target.h"
#include "graph/evaluate.h"
#include "loops/lower.h"
#include "runtime/thread_pool.h"
#include "schedule/default_schedule.h"
#include "tests/backends/support_fenced.h"
#include "tests/graph/support_values.h"
#include "tests/loops/support_lowered.h"
#include "tests/schedule/support_schedule.h"

namespace tenon {
namespace {

using loops::LoopTree;
using test::expect_schedule_agrees;
using test::scheduled;

// A graph of one line, %y, which `type` is the type of.
std::string graph_of(std::string_view inputs, std::string_view type, std::string_view op) {
  const bool is_symbolic = inputs.find('N') != inputs.npos;
  return fmt::format("graph g({}) {{\n{}  %y: {} = {}\n  return %y\n}}\n", inputs,
                     is_symbolic ? "  symbol N in [0, 100000]\n" : "", type, op);
}

// ---- default schedules ----------------------------------------------------------------------------------------------

// The gradient of an embedding.
TEST(StreamSchedule, ScattersRowByRow) {
  const std::string tree = scheduled(graph_of("%x: f32[100, 512], %rows: f32[64, 512], %at: i64[64]", "f32[100, 512]",
                                              "index_put(%x, %rows, %at) {reduce=\"add\"}"))
                               .dump();
  EXPECT_NE(tree.find("    for j in 128 vectorize\n      %y: f32[i, j] = scatter add"), tree.npos) << tree;
}

TEST(StreamSchedule, VectorizesWhatIsContiguousAndSpreadsTheRest) {
  EXPECT_EQ(scheduled(graph_of("%x: f32[800, 128], %b: f32[128]", "f32[800, 128]", "add(%x, %b)")).dump(),
            R"(for i in 800 parallel
  for j in 128 vectorize
    %y: f32[i, j] = add(%x, %b)
    %3: f32[i, j] = write 0 (%y)
)");
}

TEST(StreamSchedule, BlocksALongInnerLoopWhereTheOuterOneIsShort) {
  EXPECT_EQ(scheduled(graph_of("%x: f32[2, 20000], %b: f32[20000]", "f32[2, 20000]", "add(%x, %b)")).dump(),
            R"(for j in 2 r 3616 by 8192 parallel
  for i in 2
    for j in 8192 vectorize
      %y: f32[i, j] = add(%x, %b)
      %3: f32[i, j] = write 0 (%y)
)");
}

TEST(StreamSchedule, LeavesLittleWorkToOneThread) {
  const std::string tree = scheduled(graph_of("%x: f32[16, 64]", "f32[16, 64]", "neg(%x)")).dump();
  EXPECT_EQ(tree.find("parallel"), tree.npos) << tree;
}

TEST(StreamSchedule, KeepsAccumulatorsOfColumnsInVectors) {
  EXPECT_EQ(scheduled(graph_of("%x: f32[300, 512]", "f32[512]", "sum(%x) {dims=[0]}")).dump(),
            R"(for j in 2 by 256 parallel
  for i in 300
    for j in 256 vectorize
      %y: f32[j] = reduce add(%x)
  for j in 256 vectorize
    %2: f32[j] = write 0 (%y)
)");
}

TEST(StreamSchedule, ReadsSeveralRowsAtOnceThatArePagesApart) {
  EXPECT_EQ(scheduled(graph_of("%x: f32[300, 2048]", "f32[2048]", "sum(%x) {dims=[0]}")).dump(),
            R"(for j in 8 by 256 parallel
  for i in 75 by 4
    for j in 16 by 16
      for i in 4 unroll
        for j in 16 vectorize
          %y: f32[j] = reduce add(%x)
  for j in 256 vectorize
    %2: f32[j] = write 0 (%y)
)");
}

TEST(StreamSchedule, FoldsMuchToLittleInParts) {
  EXPECT_EQ(scheduled(graph_of("%x: f32[1024, 1024]", "f32[]", "sum(%x) {dims=[0, 1]}")).dump(),
            R"(for i_part in 64 parallel
  for i_rest in 16
    for j in 1024 vectorize
      %3: f32[i_part, i_rest, j] = view %x[16*i_part + i_rest, j]
      %y_part: f32[i_part] = reduce add(%3)
for i_part in 64 vectorize
  %y_total: f32[] = reduce add(%y_part)
%2: f32[] = write 0 (%y_total)
)");
}

TEST(StreamSchedule, TransposesInBlocks) {
  EXPECT_EQ(scheduled(graph_of("%x: f32[512, 256]", "f32[256, 512]", "permute(%x) {dims=[1, 0]}")).dump(),
            R"(for i in 8 by 64 parallel
  for j in 4 by 64
    for i in 4 by 16
      for j in 4 by 16
        for j in 16 unroll
          for i in 16 vectorize
            %1: f32[j, i] = write 0 (%x)
)");
}

TEST(StreamSchedule, NormalizesARowInOnePassOverMemory) {
  const LoopTree tree = scheduled(graph_of("%x: f32[N, 1000]", "f32[N, 1000]", "softmax(%x) {dim=1}"));
  ASSERT_EQ(tree.roots().size(), 1u) << tree.dump();
  EXPECT_EQ(tree.loop(tree.roots()[0]).annotation.mark, loops::Mark::kParallel);
  for (loops::TreeRef child : tree.children(tree.roots()[0])) {
    ASSERT_EQ(tree.kind(child), LoopTree::LOOP);
    EXPECT_EQ(tree.loop(child).annotation.mark, loops::Mark::kVectorize);
  }
}

// ---- numbers --------------------------------------------------------------------------------------------------------

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// R rows and C columns.
const std::vector<std::string> kMatrixOps = {
    graph_of("%x: f32[R, C], %z: f32[C]", "f32[R, C]", "mul(%x, %z)"),
    graph_of("%x: f32[R, C], %z: f32[R, 1]", "f32[R, C]", "sub(%x, %z)"),
    graph_of("%x: f32[R, C]", "f32[R, C]", "softmax(%x) {dim=1}"),
    graph_of("%x: f32[R, C]", "f32[R, C]", "softmax(%x) {dim=0}"),
    graph_of("%x: f32[R, C]", "f32[R, C]", "log_softmax(%x) {dim=1}"),
    graph_of("%x: f32[R, C]", "f32[C, R]", "permute(%x) {dims=[1, 0]}"),
    graph_of("%x: bool[R, C]", "bool[C, R]", "permute(%x) {dims=[1, 0]}"),
    graph_of("%x: bf16[R, C]", "bf16[C, R]", "permute(%x) {dims=[1, 0]}"),
    graph_of("%x: f64[R, C]", "f64[C, R]", "permute(%x) {dims=[1, 0]}"),
    graph_of("%x: f32[R, 8, C]", "f32[R, C, 8]", "permute(%x) {dims=[0, 2, 1]}"),
    graph_of("%x: f32[R, C, 16]", "f32[R, 16, C]", "permute(%x) {dims=[0, 2, 1]}"),
    graph_of("%x: f32[R, 3, C]", "f32[3, C, R]", "permute(%x) {dims=[1, 2, 0]}"),
    graph_of("%x: f32[R, C]", "f32[C]", "sum(%x) {dims=[0]}"),
    graph_of("%x: f32[R, C]", "f32[R]", "sum(%x) {dims=[1]}"),
    graph_of("%x: f32[R, C]", "f32[]", "sum(%x) {dims=[0, 1]}"),
    graph_of("%x: f32[R, 7, C]", "f32[R, C]", "mean(%x) {dims=[1]}"),
    graph_of("%x: f32[R, C]", "f32[C]", "var(%x) {dims=[0]}"),
    graph_of("%x: f32[R, C]", "f32[R, C]", "cumsum(%x) {dim=0}"),
    graph_of("%x: f32[R, C]", "f32[R, C]", "cumsum(%x) {dim=1}"),
    graph_of("%x: f32[R, C]", "f32[R, C]", "flip(%x) {dims=[1]}"),
    graph_of("%x: f32[R, C]", "bf16[R, C]", "cast(%x) {dtype=bf16}"),
    graph_of("%x: f32[R, C], %z: f32[R, C]", "f32[R, 2*C]", "concat(%x, %z) {dim=1}"),
};

// Of a maximum there must be something.
const std::vector<std::string> kExtremes = {
    graph_of("%x: f32[R, C]", "f32[R]", "amax(%x) {dims=[1]}"),
    graph_of("%x: f32[R, C]", "f32[C]", "amin(%x) {dims=[0]}"),
    graph_of("%x: f32[R, C]", "i64[R]", "argmax(%x) {dim=1}"),
};

std::string sized(const std::string& text, int64_t rows, int64_t columns) {
  std::string result = replaced(text, "2*C", std::to_string(2 * columns));
  for (const char before : {'[', ' '}) {
    result = replaced(result, fmt::format("{}R", before), fmt::format("{}{}", before, rows));
    result = replaced(result, fmt::format("{}C", before), fmt::format("{}{}", before, columns));
  }
  return result;
}

TEST(StreamSchedule, AgreesOnEverySizeAroundTheVectors) {
  for (const std::string& text : kMatrixOps) {
    for (const auto& [rows, columns] :
         {std::pair(1, 1), {3, 15}, {16, 16}, {17, 33}, {70, 130}, {1, 300}, {130, 1}, {0, 5}, {5, 0}}) {
      expect_schedule_agrees(sized(text, rows, columns));
    }
  }
  for (const std::string& text : kExtremes) {
    for (const auto& [rows, columns] : {std::pair(1, 1), {3, 15}, {17, 33}, {130, 270}}) {
      expect_schedule_agrees(sized(text, rows, columns));
    }
  }
}

TEST(StreamSchedule, AgreesOnSizesThatAreKnownLater) {
  for (const std::string& text : kMatrixOps) {
    for (const bool rows_are_open : {true, false}) {
      std::string open = replaced(text, ") {\n", ") {\n  symbol N in [0, 100000]\n");
      open = replaced(open, "2*C", rows_are_open ? "40" : "2*N");
      for (const char before : {'[', ' '}) {
        open = replaced(open, fmt::format("{}R", before), fmt::format("{}{}", before, rows_are_open ? "N" : "20"));
        open = replaced(open, fmt::format("{}C", before), fmt::format("{}{}", before, rows_are_open ? "20" : "N"));
      }
      for (const int64_t n : {0, 37}) expect_schedule_agrees(open, n);
    }
  }
}

TEST(StreamSchedule, HasOneForEachCpu) {
  const std::string transposed = graph_of("%x: f32[130, 270]", "f32[270, 130]", "permute(%x) {dims=[1, 0]}");
  const std::string attention =
      graph_of("%q: f32[2, 100, 64]", "f32[2, 100, 64]", "scaled_dot_product_attention(%q, %q, %q, none)");
  for (const char* cpu : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    for (const std::string& text : {transposed, attention}) {
      EXPECT_NO_THROW(default_schedule(lower(parse_graph(text).value()).value(), machine_of(cpu))) << cpu << "\n"
                                                                                                   << text;
    }
  }
}

TEST(StreamSchedule, AgreesOnFoldsInParts) {
  expect_schedule_agrees(graph_of("%x: f32[70000]", "f32[]", "sum(%x) {dims=[0]}"));
  expect_schedule_agrees(graph_of("%x: f32[65536]", "f32[]", "sum(%x) {dims=[0]}"));
  expect_schedule_agrees(graph_of("%x: f32[N]", "f32[]", "sum(%x) {dims=[0]}"), 70001);
  expect_schedule_agrees(graph_of("%x: f32[N]", "f32[]", "sum(%x) {dims=[0]}"), 0);
  expect_schedule_agrees(graph_of("%x: f32[5003, 16]", "f32[16]", "sum(%x) {dims=[0]}"));
  expect_schedule_agrees(graph_of("%x: f32[3, 40000]", "f32[3]", "amax(%x) {dims=[1]}"));
  expect_schedule_agrees(graph_of("%x: f32[3, 40001]", "i64[3]", "argmax(%x) {dim=1}"));
  expect_schedule_agrees(graph_of("%x: f32[40000]", "f32[40000]", "softmax(%x) {dim=0}"));
  expect_schedule_agrees(graph_of("%x: f32[1, 40001]", "f32[1, 40001]", "log_softmax(%x) {dim=1}"));
}

TEST(StreamSchedule, AgreesOnLookUps) {
  const auto indices = [](std::string_view shape) {
    return fmt::format(
        "graph g(%x: f32[40, 33], %r: f32[{0}]) {{\n  %k: i64[{0}] = cast(%r) {{dtype=i64}}\n  "
        "%a: i64[{0}] = abs(%k)\n  %t: i64[] = constant 30\n  %i: i64[{0}] = minimum(%a, %t)\n",
        shape);
  };
  expect_schedule_agrees(indices("9") + "  %y: f32[9, 33] = embedding(%x, %i)\n  return %y\n}\n");
  expect_schedule_agrees(indices("9") + "  %y: f32[40, 9] = index_select(%x, %i) {dim=1}\n  return %y\n}\n");
  expect_schedule_agrees(indices("40, 50") + "  %y: f32[40, 50] = gather(%x, %i) {dim=1}\n  return %y\n}\n");
}

// Results are the same bits for any number of threads.
TEST(StreamSchedule, FoldsTheSameOnAnyNumberOfThreads) {
  test::Random random(3);
  std::vector<Tensor> inputs;
  const Graph graph = test::with_data(
      parse_graph(graph_of("%x: f32[1000, 500]", "f32[]", "sum(%x) {dims=[0, 1]}")).value(), random, inputs);
  const auto backend = find_backend("cpu").value();
  std::vector<Tensor> results;
  for (const int64_t threads : {1, 2, 3}) {
    const ThreadCount guard(threads);
    const LoopTree tree = backend->schedule(lower(graph).value());
    results.push_back(run(*backend->compile(tree).value(), tree.ir, inputs).value()[0]);
  }
  EXPECT_TRUE(identical(results[0], results[1]));
  EXPECT_TRUE(identical(results[0], results[2]));
}

// What is written past the caches must be there, wherever the output begins.
TEST(StreamSchedule, WritesLargeOutputs) {
  const auto backend = find_backend("cpu").value();
  const int64_t rows = 2048, columns = 2056;
  const LoopTree tree = backend->schedule(
      lower(parse_graph(graph_of(fmt::format("%x: f64[{}, {}]", rows, columns),
                                 fmt::format("f64[{}, {}]", columns, rows), "permute(%x) {dims=[1, 0]}"))
                .value())
          .value());
  const auto kernel = backend->compile(tree).value();
  const Tensor x = Tensor::zeros(DType::kF64, {rows, columns});
  auto* const from = reinterpret_cast<double*>(x.data());
  for (int64_t i = 0; i < x.numel(); ++i) from[i] = static_cast<double>(i);
  for (const int64_t shift : {0, 1}) {
    const Tensor y = Tensor::zeros(DType::kF64, {rows * columns + shift});
    auto* const to = reinterpret_cast<double*>(y.data()) + shift;
    kernel->run(std::vector<void*>{from, to});
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        ASSERT_EQ(to[column * rows + row], static_cast<double>(row * columns + column)) << row << ", " << column;
      }
    }
  }
}

// A plain sum of a large array asks memory for what comes next, twice for each four vectors; nothing else does.
TEST(StreamSchedule, SumsOfLargeArraysReadAhead) {
  const auto prefetches = [](std::string_view shape, std::string_view type, std::string_view op) {
    const LoopTree tree = scheduled(graph_of(fmt::format("%x: f32[{}]", shape), type, op));
    const std::string text =
        codegen::emit_asm(std::vector<codegen::KernelSource>{{&tree, "kernel"}}, codegen::find_target("x86-64-v4"));
    size_t count = 0;
    for (size_t at = text.find("prefetch"); at != text.npos; at = text.find("prefetch", at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(prefetches("65536, 256", "f32[65536]", "sum(%x) {dims=[1]}"), 2);
  EXPECT_EQ(prefetches("65536, 256", "f32[65536]", "amax(%x) {dims=[1]}"), 0);
  EXPECT_EQ(prefetches("65536, 256", "f32[256]", "sum(%x) {dims=[0]}"), 0);
  EXPECT_EQ(prefetches("512, 256", "f32[512]", "sum(%x) {dims=[1]}"), 0);
}

// ---- every op -------------------------------------------------------------------------------------------------------

class ScheduledOps : public testing::TestWithParam<const OpDef*> {};

struct Case {
  std::string name;
  Graph graph;
  std::vector<Tensor> inputs;
};

std::vector<Case> cases_of(const OpDef& op) {
  std::vector<Case> cases;
  for (const Sample& sample : samples_of(op)) {
    const bool is_usual = !sample.dtype || sample.dtype == DType::kF32 || sample.dtype == DType::kI64;
    if (test::needs_library(sample.graph) || !is_usual) continue;
    cases.push_back({sample.name(), sample.graph, test::inputs_for(sample)});
    const std::optional<Graph> symbolic = test::with_symbolic_sizes(sample, 0);
    if (symbolic) cases.push_back({sample.name() + ", sizes open", *symbolic, test::inputs_for(sample)});
  }
  return cases;
}

// Each dtype in each op is for tests/backends/native_ops_test.cpp: here it is about loops.
TEST_P(ScheduledOps, AgreeWithTheReference) {
  const std::vector<Case> cases = cases_of(*GetParam());
  const Machine machine = machine_of("native");
  std::vector<LoopTree> trees;
  for (const Case& c : cases) trees.push_back(default_schedule(lower(c.graph).value(), machine));
  std::vector<const LoopTree*> pointers;
  for (const LoopTree& tree : trees) pointers.push_back(&tree);
  const auto kernels = test::compile_fenced(pointers);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name + "\n" + trees[i].dump());
    const auto wanted = evaluate(cases[i].graph, cases[i].inputs);
    const auto got = run(*kernels[i], trees[i].ir, test::kernel_arguments(cases[i].graph, cases[i].inputs));
    ASSERT_EQ(got.ok(), wanted.ok()) << (got.ok() ? wanted : got).diagnostic().text();
    if (!wanted.ok()) continue;
    for (size_t slot = 0; slot < wanted->size(); ++slot) {
      EXPECT_TRUE(test::close((*got)[slot], (*wanted)[slot])) << "result " << slot;
    }
  }
}

std::string test_name(const testing::TestParamInfo<const OpDef*>& info) { return std::string(info.param->name.get()); }
INSTANTIATE_TEST_SUITE_P(Ops, ScheduledOps, testing::ValuesIn(op_table().begin(), op_table().end()), test_name);

TEST(ScheduledGraphs, RandomOnesAgreeWithTheReference) {
  const Machine machine = machine_of("native");
  std::vector<test::LoweredGraph> graphs;
  std::vector<LoopTree> trees;
  for (uint64_t seed = 5000; graphs.size() < 300; ++seed) {
    std::optional<test::LoweredGraph> lowered = test::random_lowered(seed);
    if (!lowered) continue;
    trees.push_back(default_schedule(lowered->ir, machine));
    graphs.push_back(*std::move(lowered));
  }
  std::vector<const LoopTree*> pointers;
  for (const LoopTree& tree : trees) pointers.push_back(&tree);
  const auto kernels = test::compile_fenced(pointers);
  for (size_t i = 0; i < graphs.size(); ++i) {
    SCOPED_TRACE(to_string(graphs[i].graph) + trees[i].dump());
    const auto got = run(*kernels[i], trees[i].ir, graphs[i].arguments, graphs[i].sizes);
    ASSERT_TRUE(got.ok()) << got.diagnostic().text();
    for (size_t slot = 0; slot < got->size(); ++slot) {
      EXPECT_TRUE(test::close((*got)[slot], graphs[i].expected[slot])) << "result " << slot;
    }
  }
}

}  // namespace
}  // namespace tenon
