#include "program/artifact.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "driver/pipeline.h"
#include "driver/recompile.h"
#include "format/graph_generated.h"
#include "graph/builder.h"
#include "graph/evaluate.h"
#include "program/container.h"
#include "runtime/artifact.h"
#include "runtime/error.h"
#include "tenon/tenon.h"
#include "tests/graph/support_values.h"
#include "tests/program/support_random_model.h"

namespace tenon {
namespace {

using test::close;
using test::Random;
using testing::HasSubstr;

tenon_tensor described(const Tensor& tensor) {
  return {tensor.data(), static_cast<tenon_dtype>(tensor.dtype()), static_cast<int32_t>(tensor.rank()),
          tensor.shape().data(), tensor.strides().data()};
}

// As a user of the C interface loads and runs it.
class Loaded {
 public:
  explicit Loaded(std::vector<std::byte> bytes, bool native = true) : bytes_(std::move(bytes)) {
    const tenon_load_options options{.no_native = !native};
    if (tenon_load_memory(bytes_.data(), bytes_.size(), &options, &program_) != TENON_OK) fail("{}", tenon_error());
    if (tenon_context_create(program_, nullptr, &context_) != TENON_OK) fail("{}", tenon_error());
  }
  ~Loaded() {
    tenon_context_free(context_);
    tenon_program_free(program_);
  }
  Loaded(const Loaded&) = delete;

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) const {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const tenon_tensor input = described(inputs[i]);
      if (tenon_set_input(context_, i, &input) != TENON_OK) fail("{}", tenon_error());
    }
    if (tenon_run(context_) != TENON_OK) fail("{}", tenon_error());
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < tenon_output_count(program_); ++i) {
      tenon_tensor output;
      if (tenon_get_output(context_, i, &output) != TENON_OK) fail("{}", tenon_error());
      const Sizes shape(output.shape, output.shape + output.rank);
      outputs.push_back(
          Tensor::borrow(static_cast<DType>(output.dtype), shape, contiguous_strides(shape), output.data, nullptr)
              .copy());
    }
    return outputs;
  }

  tenon_program* program() const { return program_; }
  tenon_context* context() const { return context_; }

 private:
  std::vector<std::byte> bytes_;
  tenon_program* program_ = nullptr;
  tenon_context* context_ = nullptr;
};

std::vector<std::byte> saved(const Program& program) { return artifact_bytes({&program}).value(); }

void expect_same(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_TRUE(close(actual[i], expected[i]));
}

class RandomArtifacts : public testing::TestWithParam<int> {};

TEST_P(RandomArtifacts, RunAsTheProgramDoesWithAndWithoutCode) {
  Random random(static_cast<uint64_t>(GetParam()) + 100);
  for (int i = 0; i < 4; ++i) {
    const bool symbolic = i % 2 == 1;
    const Graph graph = test::random_model(random, 4 + i * 3, symbolic);
    const Program program = compile_program(graph).value();
    const Loaded native(saved(program)), portable(saved(program), false);
    for (int64_t n : {7, 1, 16}) {
      std::vector<Tensor> inputs;
      for (ValueRef input : graph.inputs()) {
        const TensorType& type = graph.type(input);
        const Sizes sizes = evaluate(type.shape, {{Symbol("N"), n}});
        inputs.push_back(test::random_tensor({type.dtype, to_shape(sizes)}, {}, {-2, 2}, random));
      }
      const std::vector<Tensor> expected = program.run(inputs);
      const std::vector<Tensor> actual = native.run(inputs);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t k = 0; k < actual.size(); ++k) EXPECT_TRUE(identical(actual[k], expected[k]));
      expect_same(portable.run(inputs), expected);
      if (!symbolic) break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomArtifacts, testing::Range(0, 8));

struct Model {
  Graph graph{"model"};
  Builder builder{graph};
  Value input(std::string name, TensorType type) {
    return builder.value(graph.add_input(std::move(name), std::move(type)));
  }
  Program compile(std::vector<Value> outputs, const ProgramOptions& options = {}) {
    std::vector<ValueRef> refs;
    for (const Value& output : outputs) refs.push_back(output.ref());
    graph.set_outputs(std::move(refs));
    return compile_program(graph, options).value();
  }
};

Tensor floats(Sizes shape, std::vector<double> values) {
  Tensor tensor = Tensor::zeros(DType::kF32, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_real(static_cast<int64_t>(i), values[i]);
  return tensor;
}

TEST(Artifact, StateBelongsToAContext) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {2}});
  const Value total = m.builder.value(m.graph.add_buffer("total", {DType::kF32, {2}}, floats({2}, {10, 20})));
  const Value next = total + x;
  m.graph.add_update(total.ref(), next.ref());
  const Program program = m.compile({next});
  const Loaded first(saved(program)), second(saved(program));
  EXPECT_EQ(first.run({floats({2}, {1, 2})})[0].real(0), 11);
  EXPECT_EQ(first.run({floats({2}, {1, 2})})[0].real(1), 24);
  EXPECT_EQ(second.run({floats({2}, {1, 2})})[0].real(0), 11);
}

TEST(Artifact, SizesThatTasksFindOut) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {6}});
  const Value found = m.builder.op("nonzero", {x}, {{"count", Expr(Symbol("K"))}});
  const Program program = m.compile({found * 2, found});
  const Loaded loaded(saved(program));
  for (const std::vector<double>& values :
       {std::vector<double>{0, 1, 0, 2, 0, 0}, {1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0}}) {
    const std::vector<Tensor> inputs = {floats({6}, values)};
    expect_same(loaded.run(inputs), program.run(inputs));
  }
}

TEST(Artifact, DescribesItsInputsAndOutputs) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {Symbol("N"), 4}});
  const Program program = m.compile({m.builder.op("relu", {x})});
  const Loaded loaded(saved(program));
  tenon_tensor_info info;
  ASSERT_EQ(tenon_input_info(loaded.program(), 0, &info), TENON_OK);
  EXPECT_STREQ(info.name, "x");
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.dims[0].size, -1);
  EXPECT_STREQ(info.dims[0].text, "N");
  EXPECT_EQ(info.dims[1].size, 4);
  tenon_symbol symbol;
  ASSERT_EQ(tenon_symbol_info(loaded.program(), 0, &symbol), TENON_OK);
  EXPECT_STREQ(symbol.name, "N");
  EXPECT_EQ(tenon_input_info(loaded.program(), 1, &info), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(tenon_error(), HasSubstr("there is no input 1: there are 1"));
}

TEST(Artifact, TellsTheWorkOfATaskForTheSizesOfARun) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {Symbol("N"), 4}});
  const Value w = m.input("w", {DType::kF32, {4, 3}});
  const Loaded loaded(saved(m.compile({m.builder.op("matmul", {x, w})})));
  const tenon_context_options options{.telemetry = 1};
  tenon_context* context = nullptr;
  ASSERT_EQ(tenon_context_create(loaded.program(), &options, &context), TENON_OK);
  const Tensor weights = Tensor::zeros(DType::kF32, {4, 3});
  for (int64_t rows : {5, 7}) {
    const Tensor data = Tensor::zeros(DType::kF32, {rows, 4});
    const tenon_tensor inputs[] = {described(data), described(weights)};
    for (size_t i = 0; i < 2; ++i) ASSERT_EQ(tenon_set_input(context, i, &inputs[i]), TENON_OK);
    ASSERT_EQ(tenon_run(context), TENON_OK);
    ASSERT_EQ(tenon_event_count(context), 1u);
    tenon_event event;
    ASSERT_EQ(tenon_get_event(context, 0, &event), TENON_OK);
    EXPECT_EQ(event.flops, 2 * rows * 4 * 3);
    EXPECT_EQ(event.bytes, 4 * (rows * 4 + 4 * 3 + rows * 3));
    EXPECT_LE(event.start_ns, event.end_ns);
  }
  tenon_context_free(context);
}

TEST(Artifact, NamesResultsAsTheGraphDoes) {
  const Graph graph = parse_graph("graph g(%x: f32[2]) {\n  %y: f32[2] = relu(%x)\n  return %y, %x, %x\n}\n").value();
  const Loaded loaded(saved(compile_program(graph).value()));
  for (size_t i = 0; i < 3; ++i) {
    tenon_tensor_info info;
    ASSERT_EQ(tenon_output_info(loaded.program(), i, &info), TENON_OK);
    EXPECT_EQ(std::string(info.name), i == 0 ? "y" : "out" + std::to_string(i));  // no two have one name
  }
}

TEST(Artifact, ALevelIsLoadedByItsSectionsToVerifyIt) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {2}});
  const Program program = m.compile({m.builder.op("relu", {x})}, {.cpu = "sapphirerapids"});
  const std::vector<std::byte> bytes = saved(program);
  const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(bytes));
  const auto* const native = container->find(format::SectionKind::kNative, "sapphirerapids");
  const runtime::ProgramSections sections{container->find(format::SectionKind::kProgram, "sapphirerapids"), native};
  EXPECT_NE(runtime::load_sections(container, sections, {})->kernel(0).native, nullptr);
  EXPECT_THROW(runtime::load_sections(container, {.native = native}, {}), runtime::StatusError);
}

TEST(Artifact, MemoryOfTheCallerMayHaveAnyStrides) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {2, 3}});
  const Program program = m.compile({m.builder.op("relu", {x})});
  const Loaded loaded(saved(program));
  const Tensor data = floats({3, 2}, {1, -2, 3, -4, 5, 6});
  const Tensor transposed = Tensor::borrow(DType::kF32, {2, 3}, {1, 2}, data.data(), data.owner());
  Tensor memory = Tensor::zeros(DType::kF32, {3, 2});
  const Tensor result = Tensor::borrow(DType::kF32, {2, 3}, {1, 2}, memory.data(), memory.owner());
  const tenon_tensor to = described(result);
  ASSERT_EQ(tenon_set_output(loaded.context(), 0, &to), TENON_OK);
  const tenon_tensor from = described(transposed);
  ASSERT_EQ(tenon_set_input(loaded.context(), 0, &from), TENON_OK);
  ASSERT_EQ(tenon_run(loaded.context()), TENON_OK) << tenon_error();
  EXPECT_TRUE(identical(memory, floats({3, 2}, {1, 0, 3, 0, 5, 6})));
}

TEST(Artifact, ARunDrawsTheKeyOfItsRandomNumbers) {
  Model m;
  const Value key = m.input("random_key", {DType::kI64, {2}});
  const Value x = m.input("x", {DType::kI64, {2}});
  const Program program = m.compile({key + x});
  const std::vector<std::byte> bytes = artifact_bytes({&program}, {{kKeyNote, "random_key"}}).value();
  const Loaded first(bytes), second(bytes, false);
  const Tensor zeros = Tensor::zeros(DType::kI64, {2});
  const tenon_tensor input = described(zeros);
  const auto draw = [&](const Loaded& loaded) {
    if (tenon_set_input(loaded.context(), 1, &input) != TENON_OK) fail("{}", tenon_error());
    return loaded.run({})[0].integer(0);
  };
  EXPECT_NE(draw(first), draw(first));
  EXPECT_NE(draw(first), draw(second));
  for (const Loaded* loaded : {&first, &second}) ASSERT_EQ(tenon_set_seed(loaded->context(), 7), TENON_OK);
  EXPECT_EQ(draw(first), 7);
  EXPECT_EQ(draw(second), 7);
  const int64_t next = draw(first);
  EXPECT_NE(next, 7);
  EXPECT_EQ(draw(second), next);
  Tensor own = Tensor::zeros(DType::kI64, {2});
  own.set_integer(0, 42);
  const tenon_tensor given = described(own);
  ASSERT_EQ(tenon_set_input(first.context(), 0, &given), TENON_OK);
  EXPECT_EQ(draw(first), 42);
  EXPECT_EQ(draw(first), 42);
  EXPECT_EQ(tenon_set_seed(nullptr, 7), TENON_INVALID_ARGUMENT);
}

TEST(Artifact, ResultsMayNotOverlapTheInputs) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {2, 3}});
  const Program program = m.compile({m.builder.op("relu", {x})});
  const Loaded loaded(saved(program));
  const Tensor data = floats({3, 3}, {1, -2, 3, -4, 5, 6, 7, 8, 9});
  const int64_t shape[] = {2, 3};
  const tenon_tensor from{data.data(), TENON_F32, 2, shape, nullptr},
      to{data.data() + 20, TENON_F32, 2, shape, nullptr};
  ASSERT_EQ(tenon_set_input(loaded.context(), 0, &from), TENON_OK);
  ASSERT_EQ(tenon_set_output(loaded.context(), 0, &to), TENON_OK);
  EXPECT_EQ(tenon_run(loaded.context()), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(tenon_error(), HasSubstr("the memory of output 'out0' overlaps that of input 'x'"));
  ASSERT_EQ(tenon_set_output(loaded.context(), 0, nullptr), TENON_OK);
  EXPECT_EQ(tenon_run(loaded.context()), TENON_OK);
}

TEST(Artifact, AnExactBudgetFitsAndOneByteLessIsAnError) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {64, 64}});
  const Value y = m.builder.matmul(m.builder.matmul(x, x), x);
  const Program program = m.compile({m.builder.op("softmax", {y}, {{"dim", int64_t{1}}})});
  const std::vector<std::byte> bytes = saved(program);
  const Tensor input = floats({64, 64}, {1, 2, 3});
  const tenon_tensor described_input = described(input);
  tenon_program* loaded = nullptr;
  ASSERT_EQ(tenon_load_memory(bytes.data(), bytes.size(), nullptr, &loaded), TENON_OK);
  const auto run_with = [&](int64_t budget, tenon_memory* memory) {
    const tenon_context_options options{.threads = 1, .budget = budget};
    tenon_context* context = nullptr;
    EXPECT_EQ(tenon_context_create(loaded, &options, &context), TENON_OK);
    EXPECT_EQ(tenon_set_input(context, 0, &described_input), TENON_OK);
    const tenon_status status = tenon_run(context);
    EXPECT_EQ(tenon_context_memory(context, memory), TENON_OK);
    tenon_context_free(context);
    return status;
  };
  tenon_memory memory;
  ASSERT_EQ(run_with(0, &memory), TENON_OK);
  const int64_t needed = memory.peak;
  EXPECT_GE(needed, memory.arena + 64 * 64 * 4);
  EXPECT_EQ(run_with(needed, &memory), TENON_OK) << tenon_error();
  EXPECT_EQ(memory.peak, needed);
  EXPECT_EQ(run_with(needed - 1, &memory), TENON_OVER_BUDGET);
  EXPECT_THAT(tenon_error(), HasSubstr(fmt::format("needs at least {} bytes", needed)));
  EXPECT_THAT(tenon_error(), HasSubstr("16384 bytes: f32[64, 64] of contract"));
  EXPECT_LE(memory.peak, needed - 1);
  EXPECT_EQ(run_with(1000, &memory), TENON_OVER_BUDGET);
  EXPECT_EQ(run_with(needed, &memory), TENON_OK);
  tenon_program_free(loaded);
}

TEST(Artifact, SeveralCpuLevelsShareTheirGraphAndTheBestOneRuns) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {8, 32}});
  const Value y = m.builder.op("gelu", {x});
  const Program here = m.compile({y});
  const Program old = compile_program(m.graph, {.cpu = "x86-64-v2"}).value();
  const std::vector<std::byte> both = artifact_bytes({&old, &here}).value();
  const std::vector<Tensor> inputs = {floats({8, 32}, {1, -1, 0.5, 3})};
  expect_same(Loaded(both).run(inputs), here.run(inputs));
  const Program newer = compile_program(m.graph, {.cpu = "sapphirerapids"}).value();
  const std::vector<std::byte> foreign = artifact_bytes({&newer}).value();
  tenon_program* program = nullptr;
  if (tenon_load_memory(foreign.data(), foreign.size(), nullptr, &program) == TENON_OK) {
    tenon_program_free(program);
    GTEST_SKIP() << "this machine has all that a file for sapphirerapids needs";
  }
  EXPECT_THAT(tenon_error(), HasSubstr("the file has no code for this CPU:\n  for sapphirerapids it lacks "));
  expect_same(Loaded(foreign, false).run(inputs), here.run(inputs));
}

TEST(Artifact, TheGraphIsThereWithItsData) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {4, 32}});
  Tensor weight = Tensor::zeros(DType::kF32, {128, 32});
  for (int64_t i = 0; i < weight.numel(); ++i) weight.set_real(i, std::sin(static_cast<double>(i)));
  const Value w = m.builder.value(m.graph.add_parameter("w", type_of(weight), weight));
  const Value big = m.builder.value(m.graph.add_constant(floats({32}, {1, 2, 3})));
  const Program program = m.compile({m.builder.op("linear", {x * big, w, Value()})});
  const std::vector<std::byte> bytes = saved(program);
  const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(bytes));
  const Graph graph = read_artifact_graph(container).value();
  EXPECT_TRUE(identical(graph.leaf_named("w")->data, weight));
  EXPECT_LT(container->find(format::SectionKind::kWeights)->bytes.size(), 128u * 32 * 4 * 3 / 2)
      << "weights are there twice";
  const std::vector<Tensor> inputs = {floats({4, 32}, {1, 2, 3, 4})};
  expect_same(compile_program(graph).value().run(inputs), program.run(inputs));
}

// ---- weights that norms went into ----

struct Normed : Model {
  Value weights(const char* name, Sizes shape) {
    Tensor data = Tensor::zeros(DType::kF32, std::move(shape));
    for (int64_t i = 0; i < data.numel(); ++i) data.set_real(i, 1 + std::sin(static_cast<double>(i)) / 2);
    return builder.value(graph.add_parameter(name, type_of(data), data));
  }
  Value conv(Value x, Value weight) { return builder.op("conv", {x, weight, Value()}); }
  Value norm(Value x) { return builder.op("batch_norm_inference", {x, scale, shift, mean, var}); }

  const Value x = input("x", {DType::kF32, {1, 32, 8, 8}});
  const Value scale = weights("scale", {64}), shift = weights("shift", {64}), mean = weights("mean", {64}),
              var = weights("var", {64});
  const std::vector<Tensor> inputs = {floats({1, 32, 8, 8}, {1, -2, 3, 4})};
  static constexpr int64_t kBytes = int64_t{64} * 32 * 9 * 4;
};

TEST(Artifact, WeightsThatANormWentIntoAreThereOnce) {
  Normed m;
  m.graph.set_outputs({m.norm(m.conv(m.x, m.weights("w", {64, 32, 3, 3}))).ref()});
  const Program program = compile_program(m.graph).value();
  const std::vector<std::byte> bytes = saved(program);
  EXPECT_LT(static_cast<int64_t>(bytes.size()), Normed::kBytes * 3 / 2);
  expect_same(program.run(m.inputs), evaluate(m.graph, m.inputs).value());
  expect_same(Loaded(bytes).run(m.inputs), program.run(m.inputs));
  const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(bytes));
  expect_same(compile_program(read_artifact_graph(container).value()).value().run(m.inputs), program.run(m.inputs));
}

TEST(Artifact, WeightsThatANormWentIntoTwiceAreOne) {
  Normed m;
  const Value w = m.weights("w", {64, 32, 3, 3});
  m.graph.set_outputs({m.norm(m.conv(m.x, w)).ref(), m.norm(m.conv(m.x * 2.0, w)).ref()});
  const Program program = compile_program(m.graph).value();
  std::set<const void*> originals;
  for (const Packing& packing : program.packings) originals.insert(packing.original.data());
  EXPECT_EQ(originals.size(), 1u);
  expect_same(program.run(m.inputs), evaluate(m.graph, m.inputs).value());
}

// Queries, keys and values of one product: each third of its weights is laid out for a product of its own.
TEST(Artifact, WeightsThatProductsReadInPartsAreThereOnce) {
  const Graph graph = [] {
    Graph made = parse_graph(R"(graph g(%x: f32[32, 256]) {
  %w: f32[256, 768] = parameter "w"
  %h: f32[32, 768] = matmul(%x, %w)
  %q: f32[32, 256] = slice(%h) {dim=1, start=0, end=256}
  %k: f32[32, 256] = slice(%h) {dim=1, start=256, end=512}
  %v: f32[32, 256] = slice(%h) {dim=1, start=512, end=768}
  %qk: f32[32, 256] = mul(%q, %k)
  %y: f32[32, 256] = add(%qk, %v)
  return %y
}
)")
                     .value();
    Tensor data = Tensor::zeros(DType::kF32, {256, 768});
    for (int64_t i = 0; i < data.numel(); ++i) data.set_real(i, std::sin(static_cast<double>(i)));
    made.bind("w", data);
    return made;
  }();
  const std::vector<Tensor> inputs = {floats({32, 256}, {1, -2, 3, 4})};
  const Program program = compile_program(graph).value();
  const std::vector<std::byte> bytes = saved(program);
  EXPECT_LT(static_cast<int64_t>(bytes.size()), int64_t{256} * 768 * 4 * 5 / 4);
  const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(bytes));
  const Graph again = read_artifact_graph(container).value();
  EXPECT_TRUE(identical(again.leaf_named("w")->data, graph.leaf_named("w")->data));
  expect_same(compile_program(again).value().run(inputs), program.run(inputs));
  expect_same(Loaded(bytes).run(inputs), program.run(inputs));
}

// A damaged file: a leaf whose size the graph does not tell, in parts of different sizes.
TEST(Artifact, PartsOfWeightsHaveOneSize) {
  flatbuffers::FlatBufferBuilder b;
  const auto kernel = [&](int64_t size) {
    return b.CreateString(fmt::format(
        "tenon loops 1\nkernel k {{\n  var i = {0}\n  %w: u8[i] = read 0\n  %o: u8[i] = write 0 (%w)\n}}\n", size));
  };
  std::vector<flatbuffers::Offset<format::Packed>> parts;
  for (const int64_t size : {4, 4096}) {
    const format::Blob place(0, static_cast<uint64_t>(size));
    const auto first = kernel(size), second = kernel(size);
    parts.push_back(format::CreatePacked(b, 0, first, second, &place));
  }
  const auto text = b.CreateString(
      "graph g(%x: u8[N]) {\n  %w: u8[N] = parameter \"w\"\n  %y: u8[N] = add(%x, %w)\n  return %y\n}\n");
  const format::Blob leaf(0, 0);
  const auto leaves = b.CreateVectorOfStructs(&leaf, 1);
  format::FinishGraphTextBuffer(b, format::CreateGraphText(b, text, leaves, b.CreateVector(parts)));
  const std::vector<std::byte> weights(4096, std::byte{1});
  const runtime::SectionContent sections[] = {
      {format::SectionKind::kGraph, "", {std::as_bytes(std::span(b.GetBufferPointer(), b.GetSize()))}},
      {format::SectionKind::kWeights, "", {weights}}};
  const std::vector<std::byte> bytes = container_bytes(sections);
  const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(bytes));
  EXPECT_EQ(read_artifact_graph(container).diagnostic().message, "the artifact has no data for 'w'");
}

// Not a norm's, but beside one: computed of no leaf.
TEST(Artifact, OtherWeightsThatAreComputed) {
  Normed m;
  const Value even = m.builder.full(1.0 / 9, {64, 32, 3, 3}, DType::kF32);
  m.graph.set_outputs({m.norm(m.conv(m.x, m.weights("w", {64, 32, 3, 3}))).ref(), m.conv(m.x, even * 2.0).ref()});
  expect_same(compile_program(m.graph).value().run(m.inputs), evaluate(m.graph, m.inputs).value());
}

// The mean is another name of a buffer that each run changes.
struct Counting : Normed {
  Counting() {
    const Tensor both = Tensor::zeros(DType::kF32, {64});
    const Value own = builder.value(graph.add_buffer("own", type_of(both), both));
    const Value again = builder.value(graph.add_buffer("again", type_of(both), both));
    const Value y = conv(x, weights("w", {64, 32, 3, 3}));
    graph.add_update(own.ref(), (own + 1.0).ref());
    graph.set_outputs({builder.op("batch_norm_inference", {y, scale, shift, again, var}).ref()});
  }
};

TEST(Artifact, AStatisticThatIsUpdatedUnderAnotherNameIsNotFolded) {
  const Counting compiled, reference;
  const Program program = compile_program(compiled.graph).value();
  for (int run = 0; run < 3; ++run)
    expect_same(program.run(compiled.inputs), evaluate(reference.graph, reference.inputs).value());
}

// ---- what a model asserts ----

// exp(x), where x is below 2 and has an even number of rows; the last result is what the first assertion looks at.
struct Asserting : Model {
  Asserting() {
    const Symbol n("N");
    const Value x = input("x", {DType::kF32, {n, 2}});
    const Value total = builder.value(graph.add_buffer("total", {DType::kF32, {2}}, floats({2}, {0, 0})));
    graph.add_update(total.ref(), (total + builder.sum(x, {0})).ref());
    const Value is_small = builder.op("lt", {x, builder.constant(Tensor::scalar(DType::kF32, 2.0))});
    graph.set_outputs({is_small.ref(), builder.op("exp", {x}).ref()});
    options.assertions = {{"x must be small", {"model.py", 7}, 0},
                          {"rows come in pairs", {}, {}, symbolic::eq(symbolic::mod(n, 2), 0)}};
  }
  Program compile() const { return compile_program(graph, options).value(); }

  ProgramOptions options;
};

std::string error_of(const Loaded& loaded, const Tensor& input) {
  try {
    loaded.run({input});
  } catch (const Error& error) {
    return error.diagnostic().message;
  }
  return "";
}

TEST(Artifact, ChecksWhatTheModelAsserts) {
  const std::vector<std::byte> bytes = saved(Asserting().compile());
  const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(bytes));
  for (const std::vector<std::byte>& each : {bytes, recompiled_artifact(container).value()}) {
    for (const bool native : {true, false}) {
      const Loaded loaded(each, native);
      ASSERT_EQ(tenon_output_count(loaded.program()), 1u);
      EXPECT_EQ(loaded.run({floats({2, 2}, {0, 1, 1, 1.5})})[0].real(0), 1);
      EXPECT_EQ(error_of(loaded, floats({2, 2}, {0, 1, 1, 2})), "model.py:7: x must be small");
      EXPECT_EQ(error_of(loaded, floats({3, 2}, {0, 0})), "rows come in pairs");
      EXPECT_EQ(error_of(loaded, floats({4, 2}, {0, 0})), "");
    }
  }
}

TEST(Artifact, ABrokenPromiseUpdatesNothingThatIsNotInPlace) {
  const Loaded loaded(saved(Asserting().compile()));
  const Tensor good = floats({2, 2}, {1, 1, 1, 1}), bad = floats({2, 2}, {3, 1, 1, 1});
  const tenon_tensor input = described(bad);
  ASSERT_EQ(tenon_set_input(loaded.context(), 0, &input), TENON_OK);
  EXPECT_EQ(tenon_run(loaded.context()), TENON_RUN_FAILED);
  tenon_tensor output;
  EXPECT_NE(tenon_get_output(loaded.context(), 0, &output), TENON_OK) << "a run that failed has no results";
  EXPECT_EQ(loaded.run({good}).size(), 1u);
}

TEST(Artifact, AssertionsAreOfTheirGraph) {
  Asserting model;
  model.options.assertions[0].output = 2;
  EXPECT_THAT(compile_program(model.graph, model.options).diagnostic().message, HasSubstr("is about output 2"));
  model.options.assertions = {{"m", {}, {}, symbolic::lt(Symbol("M"), 3)}};
  EXPECT_THAT(compile_program(model.graph, model.options).diagnostic().message, HasSubstr("about M, which the sizes"));
}

TEST(Artifact, AProgramThatNeedsAFallbackIsNotSaved) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {2}});
  const Value y =
      m.builder.op("external", {x},
                   {{"target", std::string("my.op.default")}, {"call", int64_t{0}}, {"types", std::string("f32[2]")}});
  const Program program = m.compile({y}, {.fallback = [](int64_t, std::span<const Tensor> operands) {
                                      return std::vector<Tensor>(operands.begin(), operands.end());
                                    }});
  const auto result = artifact_bytes({&program});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.diagnostic().message,
              HasSubstr("cannot be saved: these run only in the process that has PyTorch:\n  my.op.default"));
}

}  // namespace
}  // namespace tenon
