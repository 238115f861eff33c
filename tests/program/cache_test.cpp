#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "backends/cpu/cpu.h"
#include "driver/pipeline.h"
#include "driver/program_cache.h"
#include "graph/builder.h"
#include "program/artifact.h"
#include "program/report.h"
#include "runtime/thread_pool.h"
#include "support/file.h"
#include "support/warning.h"
#include "tests/graph/support_values.h"
#include "tests/program/support_random_model.h"
#include "tests/support/support_environment.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using test::Random;

class ProgramCacheTest : public ::testing::Test {
 protected:
  ProgramCacheTest() { ::setenv("TENON_CACHE", folder_.c_str(), 1); }
  ~ProgramCacheTest() override { fs::remove_all(folder_); }

  static std::string new_folder() {
    std::string name = (fs::temp_directory_path() / "tenon_programs_XXXXXX").string();
    if (!::mkdtemp(name.data())) fail("there is no folder for a cache");
    return name;
  }

  // The files of programs, or of everything else.
  std::vector<fs::path> files(bool programs) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const bool is_program =
          read_file(entry.path()).value().text().substr(0, 64).find("program\n") != std::string::npos;
      if (is_program == programs) found.push_back(entry.path());
    }
    return found;
  }
  size_t program_count() const { return files(true).size(); }

  const tenon::testing::WithVariable before_{"TENON_CACHE", nullptr};
  const tenon::testing::WithVariable size_before_{"TENON_CACHE_SIZE", nullptr};
  const std::string folder_ = new_folder();
};

Tensor numbers(Sizes shape, double start = 0.5) {
  Tensor tensor = Tensor::zeros(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_real(i, std::sin(start + static_cast<double>(i)));
  return tensor;
}

std::vector<Tensor> inputs_of(const Graph& graph, int64_t n, Random& random) {
  std::vector<Tensor> inputs;
  for (ValueRef input : graph.inputs()) {
    const Sizes sizes = evaluate(graph.type(input).shape, {{Symbol("N"), n}});
    inputs.push_back(test::random_tensor({graph.type(input).dtype, to_shape(sizes)}, {}, {-2, 2}, random));
  }
  return inputs;
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) { return std::ranges::equal(a, b, identical); }

// Everything that a file has: slots, tasks, loops, code, weights, packings.
std::vector<std::byte> file_of(const Program& program) { return artifact_bytes({&program}).value(); }

struct Layer {
  Graph graph{"layer"};
  Builder builder{graph};

  explicit Layer(int64_t rows = 8, double constant = 2.0, double start = 0.5) {
    const Value x = builder.value(graph.add_input("x", {DType::kF32, {rows, 32}}));
    const Value w = builder.value(graph.add_parameter("w", {DType::kF32, {16, 32}}, numbers({16, 32}, start)));
    const Value b = builder.value(graph.add_parameter("b", {DType::kF32, {16}}, numbers({16}, start)));
    // What is computed of weights alone is computed while the program is made.
    graph.set_outputs({(builder.op("gelu", {builder.op("linear", {x, w * constant, b})})).ref()});
  }
};

TEST_F(ProgramCacheTest, TheSecondTimeNothingIsCompiled) {
  const Layer layer;
  const Program first = compile_program(layer.graph).value();
  EXPECT_FALSE(first.is_from_cache);
  EXPECT_EQ(program_count(), 1u);
  for (const fs::path& kernel : files(false)) fs::remove(kernel);
  const Program second = compile_program(layer.graph).value();
  EXPECT_TRUE(second.is_from_cache);
  EXPECT_TRUE(files(false).empty()) << "a kernel was compiled";
  const std::vector<Tensor> inputs = {numbers({8, 32})};
  EXPECT_TRUE(same(second.run(inputs), first.run(inputs)));
  EXPECT_EQ(file_of(second), file_of(first));
  EXPECT_EQ(describe(second), describe(first));
}

TEST_F(ProgramCacheTest, RandomModelsAreTheSame) {
  Random random(7);
  for (int i = 0; i < 24; ++i) {
    const Graph graph = test::random_model(random, 4 + i, i % 2 == 1);
    const Program first = compile_program(graph).value();
    const Program second = compile_program(graph).value();
    ASSERT_TRUE(second.is_from_cache) << to_string(graph);
    EXPECT_EQ(file_of(second), file_of(first)) << to_string(graph);
    const std::vector<Tensor> inputs = inputs_of(graph, 5, random);
    EXPECT_TRUE(same(second.run(inputs), first.run(inputs))) << to_string(graph);
  }
}

TEST_F(ProgramCacheTest, OtherWeightsArePreparedAnew) {
  const Layer one(8, 2.0, 0.5), other(8, 2.0, 0.7);
  compile_program(one.graph).value();
  const Program found = compile_program(other.graph).value();
  EXPECT_TRUE(found.is_from_cache);
  const std::vector<Tensor> inputs = {numbers({8, 32})};
  ::setenv("TENON_CACHE", "off", 1);
  const Program compiled = compile_program(other.graph).value();
  EXPECT_FALSE(compiled.is_from_cache);
  EXPECT_TRUE(same(found.run(inputs), compiled.run(inputs)));
  EXPECT_EQ(file_of(found), file_of(compiled));
}

TEST_F(ProgramCacheTest, AnotherGraphIsAnotherEntry) {
  const auto is_new = [&](const Layer& layer) { return !compile_program(layer.graph).value().is_from_cache; };
  EXPECT_TRUE(is_new(Layer(8)));
  EXPECT_TRUE(is_new(Layer(9)));
  EXPECT_TRUE(is_new(Layer(8, 2.5)));
  EXPECT_FALSE(is_new(Layer(9)));
  EXPECT_EQ(program_count(), 3u);
}

TEST_F(ProgramCacheTest, ALargeConstantCountsWithAllOfItsBits) {
  const auto is_new = [&](double last) {
    Graph graph("with_table");
    Builder b(graph);
    const Value x = b.value(graph.add_input("x", {DType::kF32, {100}}));
    Tensor table = numbers({100});
    table.set_real(99, last);
    graph.set_outputs({(x + b.value(graph.add_constant(table))).ref()});
    const Program program = compile_program(graph).value();
    const Tensor zeros = Tensor::zeros(DType::kF32, {100});
    EXPECT_EQ(program.run({&zeros, 1})[0].real(99), last);
    return !program.is_from_cache;
  };
  EXPECT_TRUE(is_new(1.0));
  EXPECT_TRUE(is_new(1.5));
  EXPECT_FALSE(is_new(1.0));
  EXPECT_FALSE(is_new(1.5));
}

TEST_F(ProgramCacheTest, EveryOptionCounts) {
  const Layer layer;
  const FallbackFn fallback = [](int64_t, std::span<const Tensor>) { return std::vector<Tensor>(); };
  const ProgramOptions all[] = {{},
                                {.cpu = "x86-64-v2"},
                                {.freeze = false},
                                {.states = {"w"}},
                                {.states = {"b"}},
                                {.fallback = fallback},
                                {.budget = 1 << 20},
                                {.budget = 1 << 21}};
  for (const ProgramOptions& options : all) EXPECT_FALSE(compile_program(layer.graph, options).value().is_from_cache);
  if (thread_count() > 1) {
    const ThreadCount one(1);
    EXPECT_FALSE(compile_program(layer.graph).value().is_from_cache);
  }
  for (const ProgramOptions& options : all) {
    const Program found = compile_program(layer.graph, options).value();
    EXPECT_TRUE(found.is_from_cache);
    EXPECT_EQ(found.leaf_names.size(), options.freeze ? options.states.size() : 2);
    EXPECT_EQ(found.memory_report != nullptr, options.budget.has_value());
  }
}

TEST_F(ProgramCacheTest, TheReportOfABudgetIsKept) {
  const Layer layer;
  const ProgramOptions options{.freeze = false, .budget = 1 << 20};
  const Program first = compile_program(layer.graph, options).value();
  const Program second = compile_program(layer.graph, options).value();
  EXPECT_TRUE(second.is_from_cache);
  EXPECT_EQ(to_string(*second.memory_report), to_string(*first.memory_report));
}

TEST_F(ProgramCacheTest, CodeForAnotherCpuIsKept) {
  const Layer layer;
  const ProgramOptions options{.cpu = "sapphirerapids"};
  const Program first = compile_program(layer.graph, options).value();
  const Program second = compile_program(layer.graph, options).value();
  EXPECT_TRUE(second.is_from_cache);
  EXPECT_EQ(file_of(second), file_of(first));
}

TEST_F(ProgramCacheTest, LeavesThatShareMemoryAreAnotherEntry) {
  const auto graph_of = [](const Tensor& one, const Tensor& two) {
    Graph graph("tied");
    Builder b(graph);
    const Value x = b.value(graph.add_input("x", {DType::kF32, {4, 32}}));
    const Value state = b.value(graph.add_buffer("state", {DType::kF32, {32}}, one));
    const Value scale = b.value(graph.add_buffer("scale", {DType::kF32, {32}}, two));
    graph.add_update(state.ref(), (state + 1.0).ref());
    graph.set_outputs({(x * scale).ref()});
    return graph;
  };
  const Tensor one = numbers({32}), two = numbers({32});
  EXPECT_EQ(compile_program(graph_of(one, two)).value().leaf_names.size(), 1u);
  const Program tied = compile_program(graph_of(one, one)).value();
  EXPECT_FALSE(tied.is_from_cache);
  EXPECT_EQ(tied.leaf_names.size(), 2u);  // what is updated under another name is not frozen
  EXPECT_TRUE(compile_program(graph_of(two, two)).value().is_from_cache);
  EXPECT_TRUE(compile_program(graph_of(two, one)).value().is_from_cache);
}

TEST_F(ProgramCacheTest, StatesAreThoseOfWhoeverFindsIt) {
  const auto graph_of = [](const Tensor& data) {
    Graph graph("counter");
    Builder b(graph);
    const Value x = b.value(graph.add_input("x", {DType::kF32, {2}}));
    const Value total = b.value(graph.add_buffer("total", {DType::kF32, {2}}, data));
    const Value next = total + x;
    graph.add_update(total.ref(), next.ref());
    graph.set_outputs({next.ref()});
    return graph;
  };
  const Tensor one = numbers({2}), two = numbers({2}), x = numbers({2});
  compile_program(graph_of(one)).value();
  const Program found = compile_program(graph_of(two)).value();
  EXPECT_TRUE(found.is_from_cache);
  found.run({&x, 1});
  EXPECT_TRUE(identical(one, x));
  EXPECT_EQ(two.real(1), 2 * x.real(1));
}

TEST_F(ProgramCacheTest, TheHostIsThatOfWhoeverFindsIt) {
  Graph graph("with_call");
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {2}}));
  const Value called =
      b.op("external", {b.exp(x)},
           {{"target", std::string("my.op.default")}, {"call", int64_t{3}}, {"types", std::string("f32[2]")}});
  graph.set_outputs({(called * 2.0).ref()});
  const auto fallback_giving = [](double value) -> FallbackFn {
    return [value](int64_t call, std::span<const Tensor>) {
      EXPECT_EQ(call, 3);
      Tensor result = Tensor::zeros(DType::kF32, {2});
      result.set_real(1, value);
      return std::vector<Tensor>{result};
    };
  };
  compile_program(graph, {.fallback = fallback_giving(1)}).value();
  const Program found = compile_program(graph, {.fallback = fallback_giving(5)}).value();
  EXPECT_TRUE(found.is_from_cache);
  const Tensor input = numbers({2});
  EXPECT_EQ(found.run({&input, 1})[0].real(1), 10);
  EXPECT_FALSE(compile_program(graph).ok()) << "without a fallback it is an error, whatever the cache has";
}

TEST_F(ProgramCacheTest, OtherBackendsAreNotKept) {
  const Layer layer;
  for (int i = 0; i < 2; ++i)
    EXPECT_FALSE(compile_program(layer.graph, {.backend = "interpreter"}).value().is_from_cache);
  EXPECT_EQ(program_count(), 0u);
}

TEST_F(ProgramCacheTest, WhatIsDamagedIsCompiledAgain) {
  const Layer layer;
  const Program first = compile_program(layer.graph).value();
  const fs::path path = files(true).at(0);
  const std::string whole(read_file(path).value().text());
  std::vector<std::string> damaged = {"", whole.substr(0, 30), whole.substr(0, whole.size() / 2),
                                      whole.substr(0, whole.size() - 1), whole + "x"};
  for (size_t at = 0; at < whole.size(); at += whole.size() / 13) {
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 0x10);
  }
  const std::vector<Tensor> inputs = {numbers({8, 32})};
  for (const std::string& content : damaged) {
    ASSERT_TRUE(write_file(path, content).ok());
    const Program again = compile_program(layer.graph).value();
    EXPECT_FALSE(again.is_from_cache);
    EXPECT_TRUE(same(again.run(inputs), first.run(inputs)));
    EXPECT_TRUE(compile_program(layer.graph).value().is_from_cache) << "it was not replaced";
  }
}

std::string key_of_entry(const fs::path& path) {
  const FileContent file = read_file(path).value();
  uint64_t bytes = 0;
  std::memcpy(&bytes, file.text().data() + 8, sizeof bytes);
  return std::string(file.text().substr(40, bytes));
}

// A whole entry whose content is no program: its checksum is right.
TEST_F(ProgramCacheTest, AnEntryThatIsNoProgramIsCompiledAgain) {
  const Layer layer;
  compile_program(layer.graph).value();
  const std::string key = key_of_entry(files(true).at(0));
  const codegen::ObjectCache cache(folder_, 1 << 30);
  ASSERT_TRUE(cache.find(key).has_value());
  const std::string entry = *cache.find(key);
  for (const std::string& content : {std::string(), std::string("no program at all"), entry.substr(0, entry.size() / 2),
                                     std::string(entry.size(), '\0')}) {
    cache.store(key, content);
    EXPECT_FALSE(compile_program(layer.graph).value().is_from_cache);
    EXPECT_EQ(*cache.find(key), entry);
  }
}

// An entry that names a kernel that is not there, as a bug of the compiler might write it.
TEST_F(ProgramCacheTest, AMistakeOfOursIsReportedOnce) {
  const Layer layer;
  const Program first = compile_program(layer.graph).value();
  const std::string key = key_of_entry(files(true).at(0));
  const codegen::ObjectCache cache(folder_, 1 << 30);
  std::string wrong = *cache.find(key);
  const size_t kernel = wrong.find(" kernel 0 ops ");
  ASSERT_NE(kernel, std::string::npos);
  wrong.replace(kernel, 14, " kernel 7 ops ");
  const std::vector<Tensor> inputs = {numbers({8, 32})};
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    cache.store(key, wrong);
    const Program again = compile_program(layer.graph).value();
    EXPECT_FALSE(again.is_from_cache);
    EXPECT_TRUE(same(again.run(inputs), first.run(inputs)));
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, ::testing::StartsWith(
                        "tenon: warning: a program from the cache could not be used, and is compiled anew: "));
  EXPECT_THAT(said, ::testing::HasSubstr("This is a bug of Tenon; please report it"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1);
  EXPECT_THAT(warnings(), ::testing::Contains(::testing::Field(&Warning::count, 2)));
}

// The text of a kernel that the parser refuses: a Diagnostic, which is no user's mistake here.
TEST_F(ProgramCacheTest, AnEntryThatDoesNotParseIsReported) {
  const Layer layer;
  compile_program(layer.graph).value();
  const std::string key = key_of_entry(files(true).at(0));
  const codegen::ObjectCache cache(folder_, 1 << 30);
  std::string wrong = *cache.find(key);
  wrong.replace(wrong.find("    kernel "), 11, "    kernal ");
  cache.store(key, wrong);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(compile_program(layer.graph).value().is_from_cache);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, ::testing::HasSubstr("a program from the cache could not be used, and is compiled anew: "));
  EXPECT_THAT(said, ::testing::HasSubstr("This is a bug of Tenon; please report it"));
  EXPECT_TRUE(compile_program(layer.graph).value().is_from_cache) << "it was not replaced";
}

TEST_F(ProgramCacheTest, TheLimitHolds) {
  ::setenv("TENON_CACHE_SIZE", "1000", 1);
  const Layer layer;
  compile_program(layer.graph).value();
  EXPECT_EQ(program_count(), 0u);
}

// A schedule that a search found is for programs that were compiled before, too.
TEST_F(ProgramCacheTest, AKeptScheduleMakesProgramsOutOfDate) {
  const Layer layer;
  const Program program = compile_program(layer.graph).value();
  EXPECT_TRUE(compile_program(layer.graph).value().is_from_cache);
  const loops::LoopTree& tree = *program.tasks[0].tree;
  ASSERT_TRUE(find_backend("cpu").value()->keep(tree.ir, tree));
  EXPECT_FALSE(compile_program(layer.graph).value().is_from_cache);
  EXPECT_TRUE(compile_program(layer.graph).value().is_from_cache);
}

}  // namespace
}  // namespace tenon
