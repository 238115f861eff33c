#include "program/in_place.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/pipeline.h"
#include "format/program_generated.h"
#include "graph/builder.h"
#include "graph/evaluate.h"
#include "program/artifact.h"
#include "program/report.h"
#include "program/run.h"
#include "program/tables.h"
#include "runtime/artifact.h"
#include "runtime/error.h"
#include "tests/graph/support_values.h"
#include "tests/program/support_random_model.h"
#include "training/graphs.h"

namespace tenon {
namespace {

using test::close;
using test::Random;
using testing::HasSubstr;

struct Model {
  Graph graph{"model"};
  Builder b{graph};
  Random random{5};

  Tensor numbers(Sizes shape) { return test::random_tensor({DType::kF32, to_shape(shape)}, {}, {-1, 1}, random); }
  Value input(std::string name, Shape shape) {
    return b.value(graph.add_input(std::move(name), {DType::kF32, std::move(shape)}));
  }
  Value buffer(std::string name, Sizes shape) {
    const Tensor data = numbers(std::move(shape));
    return b.value(graph.add_buffer(std::move(name), type_of(data), data));
  }
  void update(Value target, Value value) { graph.add_update(target.ref(), value.ref()); }
  void outputs(const std::vector<Value>& values) {
    std::vector<ValueRef> refs;
    for (const Value& value : values) refs.push_back(value.ref());
    graph.set_outputs(std::move(refs));
  }
};

// How many buffers and inputs are updated where they are.
int64_t updates_in_place(const Program& program) {
  return std::ranges::count_if(program.slots, [&](const Slot& slot) {
    if (slot.over == kNoSlot) return false;
    const SlotKind kind = program.slots[slot.over].kind;
    return kind == SlotKind::kLeaf || kind == SlotKind::kInput;
  });
}

Graph with_data_of_its_own(const Graph& graph) {
  Graph copy = graph;
  for (const Leaf& leaf : graph.leaves()) {
    if (leaf.kind == LeafKind::kBuffer) copy.bind(leaf.name, leaf.data.copy());
  }
  return copy;
}

std::vector<Tensor> copies_of(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& tensor : tensors) copies.push_back(tensor.copy());
  return copies;
}

// A program in a file, in a context.
struct FromFile {
  FromFile(const Program& program, bool has_code) : bytes(artifact_bytes({&program}).value()) {
    const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(bytes));
    loaded = runtime::load_program(container, {.native = has_code});
    context = std::make_unique<runtime::Context>(loaded, runtime::ContextOptions());
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) const {
    return run_context(*context, loaded->graph(), inputs);
  }
  std::vector<std::byte> bytes;
  std::shared_ptr<const runtime::LoadedProgram> loaded;
  std::unique_ptr<runtime::Context> context;
};

void expect_close(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_TRUE(close(actual[i], expected[i])) << what << " " << i;
}

// Step after step, the program and its file agree with the reference about results, buffers, and inputs.
Program expect_agreement(const Graph& graph, const std::vector<Tensor>& inputs, int steps = 3) {
  const Graph reference = with_data_of_its_own(graph), compiled = with_data_of_its_own(graph);
  const Program program = compile_program(compiled).value();
  const FromFile native(program, true), portable(program, false);
  const std::vector<Tensor> for_reference = copies_of(inputs), for_program = copies_of(inputs),
                            for_native = copies_of(inputs), for_portable = copies_of(inputs);
  for (int step = 0; step < steps; ++step) {
    const std::vector<Tensor> expected = evaluate(reference, for_reference).value();
    expect_close(program.run(for_program), expected, "the program's result");
    expect_close(native.run(for_native), expected, "the file's result");
    expect_close(portable.run(for_portable), expected, "the interpreted result");
    expect_close(for_program, for_reference, "the program's input");
    expect_close(for_native, for_reference, "the file's input");
    expect_close(for_portable, for_reference, "the interpreter's input");
    for (const Leaf& leaf : reference.leaves()) {
      if (leaf.kind != LeafKind::kBuffer) continue;
      EXPECT_TRUE(close(compiled.leaf_named(leaf.name)->data, leaf.data)) << leaf.name << " after step " << step;
    }
  }
  return program;
}

// ---- updates in place -----------------------------------------------------------------------------------------------

TEST(InPlace, GradientDescentWritesIntoItsParameters) {
  Model m;
  const Value x = m.input("x", {8, 16}), w = m.buffer("w", {16, 16}), v = m.buffer("v", {16, 4});
  const Value h = m.b.tanh(m.b.matmul(x, w));
  const Value y = m.b.matmul(h, v);
  const Value dv = m.b.matmul(m.b.transpose(h, 0, 1), y);
  const Value dh = m.b.matmul(y, m.b.transpose(v, 0, 1)) * (1.0 - h * h);
  const Value dw = m.b.matmul(m.b.transpose(x, 0, 1), dh);
  m.update(v, v - dv * 0.01);
  m.update(w, w - dw * 0.01);
  m.outputs({m.b.mean(y * y)});
  EXPECT_EQ(updates_in_place(expect_agreement(m.graph, {m.numbers({8, 16})})), 2);
}

TEST(InPlace, OneKernelWritesAParameterAndItsMoments) {
  Model m;
  const Value x = m.input("x", {8, 16}), p = m.buffer("p", {16, 16}), mean = m.buffer("mean", {16, 16}),
              square = m.buffer("square", {16, 16}), step = m.buffer("step", {});
  const Value y = m.b.matmul(x, p);
  const Value g = m.b.matmul(m.b.transpose(x, 0, 1), y) + p * 0.01;
  const Value next_mean = mean * 0.9 + g * 0.1, next_square = m.b.abs(square) * 0.99 + g * g * 0.01;
  const Value next_step = m.b.abs(step) + 1.0;
  m.update(mean, next_mean);
  m.update(square, next_square);
  m.update(step, next_step);
  m.update(p, p - next_mean / (m.b.sqrt(next_square) + 1.0) / next_step * 0.1);
  m.outputs({m.b.sum(y)});
  const Program program = expect_agreement(m.graph, {m.numbers({8, 16})});
  EXPECT_EQ(updates_in_place(program), 4);
  EXPECT_TRUE(std::ranges::any_of(program.tasks, [](const Task& task) { return task.outputs.size() == 3; }));
}

TEST(InPlace, ReadersOfTheOldValueComeFirst) {
  Model m;
  const Value x = m.input("x", {8, 16}), w = m.buffer("w", {16, 16});
  const Value next = w * 0.5 + 1.0;  // before its reader, as the graph has it
  m.update(w, next);
  m.outputs({m.b.sum(m.b.matmul(x, w), {0})});
  EXPECT_EQ(updates_in_place(expect_agreement(m.graph, {m.numbers({8, 16})})), 1);
}

TEST(InPlace, UnderAnotherShape) {
  Model m;
  const Value x = m.input("x", {4, 64}), w = m.buffer("w", {16, 16});
  const Value flat = m.b.reshape(w, {4, 64});
  const Value read = m.b.sum(m.b.matmul(m.b.reshape(w, {8, 32}), m.b.reshape(x, {32, 8})));
  m.update(w, m.b.reshape(flat * 0.5 + x, {16, 16}));
  m.outputs({read});
  EXPECT_EQ(updates_in_place(expect_agreement(m.graph, {m.numbers({4, 64})})), 1);
}

TEST(InPlace, WhatIsOverwrittenUnread) {
  Model m;
  const Value x = m.input("x", {8, 16}), last = m.buffer("last", {8, 8});
  m.update(last, m.b.matmul(x, m.b.transpose(x, 0, 1)));
  m.outputs({m.b.sum(last)});
  EXPECT_EQ(updates_in_place(expect_agreement(m.graph, {m.numbers({8, 16})})), 1);
}

TEST(InPlace, WhatALibraryFunctionOverwritesUnread) {
  Model m;
  const Value x = m.input("x", {8, 16}), last = m.buffer("last", {8, 16});
  const Value sorted = m.b.results("sort", {x}, {{"dim", int64_t{1}}, {"descending", true}})[0];
  m.update(last, sorted);
  m.outputs({m.b.sum(sorted + x)});
  EXPECT_EQ(updates_in_place(expect_agreement(m.graph, {m.numbers({8, 16})})), 1);
}

TEST(InPlace, InputsOfTheCaller) {
  Model m;
  const Value x = m.input("x", {Symbol("N"), 16}), total = m.input("total", {Symbol("N"), 16});
  m.update(total, total + x);
  m.outputs({m.b.sum(total)});
  EXPECT_EQ(updates_in_place(expect_agreement(m.graph, {m.numbers({8, 16}), m.numbers({8, 16})})), 1);
}

TEST(InPlace, AllThatAStepOfTrainingChanges) {
  Model m;
  Value x = m.input("x", {8, 16});
  for (int i = 0; i < 3; ++i) {
    const Tensor w = m.numbers({16, 16}), bias = m.numbers({16});
    const Value weights = m.b.value(m.graph.add_parameter(fmt::format("w{}", i), type_of(w), w));
    x = m.b.tanh(
        m.b.op("linear", {x, weights, m.b.value(m.graph.add_parameter(fmt::format("b{}", i), type_of(bias), bias))}));
  }
  m.outputs({x});
  for (const char* optimizer : {"sgd(lr=0.1, momentum=0.9)", "adamw(lr=0.01)"}) {
    const TrainingOptions options{.loss = parse_loss("mse").value(), .optimizer = parse_optimizer(optimizer).value()};
    const TrainingGraphs graphs = training_graphs({.training = m.graph, .inference = m.graph}, options);
    const Program program = compile_program(graphs.step, {.freeze = false}).value();
    const auto changes =
        std::ranges::count_if(graphs.step.updates(), [](const Update& u) { return u.target != u.value; });
    EXPECT_EQ(updates_in_place(program), changes) << describe(program);
    expect_agreement(graphs.step, {m.numbers({8, 16}), m.numbers({8, 16})});
  }
}

TEST(InPlace, RandomGraphsWhoseInputsAreUpdated) {
  Random random(11);
  int64_t in_place = 0;
  for (int i = 0; i < 24; ++i) {
    Graph graph = test::random_model(random, 4 + i % 8, false);
    for (ValueRef input : graph.inputs()) {
      for (const Node& node : graph.nodes()) {
        if (graph.type(node.results[0]) != graph.type(input) || random() % 2 == 0) continue;
        graph.add_update(input, node.results[0]);
        break;
      }
    }
    std::vector<Tensor> inputs;
    for (ValueRef input : graph.inputs()) inputs.push_back(test::random_tensor(graph.type(input), {}, {-2, 2}, random));
    in_place += updates_in_place(expect_agreement(graph, inputs, 2));
  }
  EXPECT_GT(in_place, 0);
}

// ---- updates that are copied ----------------------------------------------------------------------------------------

TEST(InPlace, NotWhereTheOldValueIsAResult) {
  Model m;
  const Value x = m.input("x", {16}), w = m.buffer("w", {16});
  m.update(w, w + x);
  m.outputs({w});
  EXPECT_EQ(updates_in_place(expect_agreement(m.graph, {m.numbers({16})})), 0);
}

TEST(InPlace, NotWhereTheNewValueIsAResult) {
  Model m;
  const Value x = m.input("x", {16}), w = m.buffer("w", {16});
  const Value next = w + x;
  m.update(w, next);
  m.outputs({next});
  EXPECT_EQ(updates_in_place(expect_agreement(m.graph, {m.numbers({16})})), 0);
}

TEST(InPlace, NotWhereALaterTaskReadsBothValues) {
  Model m;
  const Value x = m.input("x", {16, 16}), w = m.buffer("w", {16, 16});
  const Value next = m.b.tanh(m.b.matmul(x, x)) + w;
  m.update(w, next);
  m.outputs({m.b.matmul(next, w)});
  EXPECT_EQ(updates_in_place(expect_agreement(m.graph, {m.numbers({16, 16})})), 0);
}

TEST(InPlace, NotTransposed) {
  Model m;
  const Value x = m.input("x", {16, 16}), w = m.buffer("w", {16, 16});
  m.update(w, m.b.transpose(w, 0, 1) * 0.5 + x);
  m.outputs({m.b.sum(x)});
  EXPECT_EQ(updates_in_place(expect_agreement(m.graph, {m.numbers({16, 16})})), 0);
}

// As of an optimizer: a number that all updates need is computed at the end of the graph, and one of them is not in
// place.
TEST(InPlace, OneThatIsNotInPlaceDoesNotKeepTheOthersWaiting) {
  Model m;
  constexpr int kLayers = 8;
  Value x = m.input("x", {64, 64});
  std::vector<Value> gradients;
  for (int i = 0; i < kLayers; ++i) {
    gradients.push_back(m.b.op("cumsum", {x}, {{"dim", int64_t{0}}}));
    x = m.b.tanh(x + m.b.matmul(x, x) * 0.01);  // which does not make much of what is rounded
  }
  const Value step = m.buffer("step", {});
  const Value rate = m.b.exp(step);
  m.update(step, step + 0.5);
  for (int i = 0; i < kLayers; ++i) {
    const Value w = m.buffer(fmt::format("w{}", i), {64, 64});
    m.update(w, w - gradients[static_cast<size_t>(i)] * rate);
  }
  const Value turned = m.buffer("turned", {64, 64});
  m.update(turned, m.b.transpose(turned, 0, 1) * rate);
  m.outputs({m.b.sum(x)});
  const Program program = expect_agreement(m.graph, {m.numbers({64, 64})}, 1);
  EXPECT_EQ(updates_in_place(program), kLayers + 1);
  const int64_t array = 64 * 64 * 4;
  EXPECT_LT(program.arena_bytes(), 5 * array);
}

// As of normalized layers: what only a gradient needs, and what comes of one layer, is not there before its time.
TEST(InPlace, NothingIsComputedBeforeItIsNeeded) {
  Model m;
  constexpr int kLayers = 8;
  std::vector<Value> values = {m.input("x", {64, 64})}, for_gradients, weights;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(m.buffer(fmt::format("w{}", i), {64, 64}));
    values.push_back(m.b.tanh(m.b.matmul(values.back(), weights.back()) * 0.1));
    for_gradients.push_back(m.b.op("cumsum", {values.back()}, {{"dim", int64_t{0}}}));
  }
  Value gradient = values.back();
  std::vector<Value> of_weights(kLayers);
  for (size_t i = kLayers; i-- > 0;) {
    gradient = gradient * for_gradients[i];
    of_weights[i] = m.b.matmul(m.b.transpose(values[i], 0, 1), gradient);
    gradient = m.b.matmul(gradient, m.b.transpose(weights[i], 0, 1)) * 0.01;
  }
  for (size_t i = 0; i < kLayers; ++i) m.update(weights[i], weights[i] - of_weights[i] * 0.01);
  m.outputs({m.b.sum(values.back())});
  const Program program = expect_agreement(m.graph, {m.numbers({64, 64})}, 1);
  EXPECT_EQ(updates_in_place(program), kLayers);
  const int64_t array = 64 * 64 * 4;
  EXPECT_LE(program.arena_bytes(), (kLayers + 3) * array);
}

// The gradient of a weight is a product that writes the weight: it has no memory of its own, also where a stride leaves
// a rest of the image.
TEST(InPlace, WeightsOfConvolutions) {
  for (const int64_t stride : {1, 2}) {
    Model m;
    const Tensor weights = m.numbers({128, 64, 3, 3});
    const Value x = m.input("x", {2, 64, 4, 4}), w = m.b.value(m.graph.add_parameter("w", type_of(weights), weights));
    m.outputs(
        {m.b.op("conv", {x, w, Value()}, {{"stride", std::vector{stride}}, {"padding", std::vector<int64_t>{1}}})});
    const TrainingOptions options{.loss = parse_loss("mse").value(),
                                  .optimizer = parse_optimizer("sgd(lr=0.1, momentum=0.9)").value()};
    const TrainingGraphs graphs = training_graphs({.training = m.graph, .inference = m.graph}, options);
    const Program program = compile_program(graphs.step, {.freeze = false}).value();
    EXPECT_LT(program.arena_bytes(), weights.numel() * 4) << describe(program);
    expect_agreement(graphs.step, {m.numbers({2, 64, 4, 4}), m.numbers({2, 128, 4 / stride, 4 / stride})});
  }
}

TEST(InPlace, NotWhatIsExchanged) {
  Model m;
  const Value x = m.input("x", {16}), p = m.buffer("p", {16}), q = m.buffer("q", {16});
  m.update(p, q);
  m.update(q, p);
  m.outputs({p * 2.0 + q + x});
  EXPECT_EQ(updates_in_place(expect_agreement(m.graph, {m.numbers({16})})), 0);
}

TEST(InPlace, OneValueForTwoBuffersIsCopiedToOneOfThem) {
  Model m;
  const Value x = m.input("x", {16}), p = m.buffer("p", {16}), q = m.buffer("q", {16});
  const Value next = p + x;
  m.update(p, next);
  m.update(q, next);
  m.outputs({m.b.sum(q)});
  EXPECT_EQ(updates_in_place(expect_agreement(m.graph, {m.numbers({16})})), 1);
}

TEST(InPlace, BuffersThatShareMemoryAreApart) {
  Model m;
  Tensor data = m.numbers({16});
  const Value p = m.b.value(m.graph.add_buffer("p", type_of(data), data)),
              q = m.b.value(m.graph.add_buffer("q", type_of(data), data));
  const Value x = m.input("x", {16, 16});
  m.update(p, p * 2.0);
  m.outputs({m.b.matmul(x, m.b.reshape(q, {16, 1}))});
  const Program program = compile_program(m.graph).value();
  EXPECT_EQ(updates_in_place(program), 0);
}

// ---- memory of the caller -------------------------------------------------------------------------------------------

// p is updated, then q is read: as what it was.
struct TwoInputs : Model {
  TwoInputs() {
    const Value p = input("p", {4, 4}), q = input("q", {4, 4});
    update(p, p + 1.0);
    outputs({b.matmul(b.matmul(p, p), q)});
  }
};

TEST(InPlace, InputsThatShareMemoryAreReadAsTheyWere) {
  const TwoInputs m;
  const Program program = compile_program(m.graph).value();
  EXPECT_EQ(updates_in_place(program), 1);
  Random random(3);
  const Tensor data = test::random_tensor({DType::kF32, {6, 4}}, {}, {-1, 1}, random);
  const auto rows = [&](const Tensor& of, int64_t first) {
    return Tensor::borrow(DType::kF32, {4, 4}, {4, 1}, of.data() + first * 16, of.owner());
  };
  for (int64_t first : {0, 2}) {
    const Tensor expected_data = data.copy(), actual_data = data.copy();
    const std::vector<Tensor> apart = {rows(expected_data, 0), rows(data, first).copy()};
    const std::vector<Tensor> shared = {rows(actual_data, 0), rows(actual_data, first)};
    const Tensor expected = evaluate(m.graph, apart).value()[0];
    EXPECT_TRUE(close(program.run(shared)[0], expected));
    EXPECT_TRUE(close(actual_data, expected_data));
  }
}

TEST(InPlace, AnInputThatIsNotRowMajor) {
  const TwoInputs m;
  const Program program = compile_program(m.graph).value();
  Random random(3);
  const Tensor data = test::random_tensor({DType::kF32, {4, 4}}, {}, {-1, 1}, random), q = data.copy();
  const Tensor expected_data = data.copy();
  const auto transposed = [](const Tensor& of) {
    return Tensor::borrow(DType::kF32, {4, 4}, {1, 4}, of.data(), of.owner());
  };
  const Tensor expected = evaluate(m.graph, std::vector{transposed(expected_data), q}).value()[0];
  EXPECT_TRUE(close(program.run(std::vector{transposed(data), q})[0], expected));
  EXPECT_TRUE(close(data, expected_data));
}

// ---- temporaries ----------------------------------------------------------------------------------------------------

TEST(InPlace, AChainOfNormalizationsNeedsOneArray) {
  Model m;
  Value x = m.input("x", {32, 64}) + 2.0;
  for (int i = 0; i < 4; ++i) {
    x = x / m.b.sum(x, {1}, true);
    x = x / m.b.sum(x, {0}, true);
  }
  m.outputs({m.b.sum(m.b.exp(x), {0})});
  const Program program = expect_agreement(m.graph, {m.numbers({32, 64})}, 1);
  const int64_t array = 32 * 64 * 4;
  EXPECT_GE(program.arena_bytes(), array);
  EXPECT_LT(program.arena_bytes(), 2 * array);
}

// ---- when something fails -------------------------------------------------------------------------------------------

TEST(InPlace, NothingIsUpdatedBeforeTheFallbackIsCalled) {
  Model m;
  const Value x = m.input("x", {4}), w = m.buffer("w", {4});
  m.update(w, w + x);
  const Value y = m.b.op("external", {x * 2.0},
                         {{"target", std::string("my.op")}, {"call", int64_t{0}}, {"types", std::string("f32[4]")}});
  m.outputs({y});
  ProgramOptions options;
  options.fallback = [](int64_t, std::span<const Tensor>) -> std::vector<Tensor> { fail("the fallback cannot"); };
  const Program program = compile_program(m.graph, options).value();
  EXPECT_EQ(updates_in_place(program), 1);
  const Tensor before = m.graph.leaf_named("w")->data.copy();
  EXPECT_THAT([&] { program.run(std::vector{m.numbers({4})}); }, testing::Throws<Error>());
  EXPECT_TRUE(identical(m.graph.leaf_named("w")->data, before));
}

TEST(InPlace, CallsOfTheFallbackStayInOrder) {
  Model m;
  const Value x = m.input("x", {64, 64}), w = m.buffer("w", {64, 64});
  const auto call = [&](Value of, int64_t number) {
    return m.b.op("external", {of},
                  {{"target", std::string("my.op")}, {"call", number}, {"types", std::string("f32[]")}});
  };
  Value much = x;
  for (int i = 0; i < 4; ++i) much = m.b.op("cumsum", {m.b.matmul(much, much) * 0.01}, {{"dim", int64_t{0}}});
  const Value first = call(much, 0), second = call(x, 1);
  m.update(w, w + x);
  m.outputs({first, second});
  std::vector<int64_t> calls;
  ProgramOptions options;
  options.fallback = [&](int64_t number, std::span<const Tensor>) {
    calls.push_back(number);
    return std::vector{Tensor::scalar(DType::kF32, 1.0)};
  };
  const Program program = compile_program(m.graph, options).value();
  program.run(std::vector{m.numbers({64, 64})});
  EXPECT_THAT(calls, testing::ElementsAre(0, 1));
}

// ---- tables ---------------------------------------------------------------------------------------------------------

// A plan assumes 16 for n, where 64 // (8 // n) divides by zero. Runs have the divisors of 8.
TEST(InPlace, SizesMayBeImpossibleWhereAPlanAssumesThem) {
  Model m;
  const Symbol n("n");
  const Value x = m.input("x", {n, 4}), total = m.buffer("total", {});
  const Value places = m.b.iota(symbolic::floordiv(64, symbolic::floordiv(8, n)), DType::kF32);
  const Value y = m.b.sum(m.b.op("cumsum", {places}, {{"dim", 0}}));
  m.update(total, total + y);
  m.outputs({m.b.tanh(x) * y});
  expect_agreement(m.graph, {m.numbers({4, 4})});
}

class BadTables : public testing::Test {
 protected:
  BadTables() {
    const Value x = m_.input("x", {16, 16}), w = m_.buffer("w", {16, 16});
    const Value next = m_.b.matmul(x, x) + w;
    m_.update(w, next);
    m_.outputs({m_.b.sum(m_.b.matmul(next, next))});
    program_ = std::make_unique<Program>(compile_program(m_.graph).value());
    tables_ = format::UnPackProgram(program_tables(*program_).data());
    for (uint32_t i = 0; i < tables_->slots.size(); ++i) {
      if (tables_->slots[i]->over != kNoSlot) value_ = i;
    }
  }

  format::SlotT& value() { return *tables_->slots[value_]; }

  std::string error() const {
    flatbuffers::FlatBufferBuilder builder;
    format::FinishProgramBuffer(builder, format::CreateProgram(builder, tables_.get()));
    try {
      runtime::read_task_graph(*format::GetProgram(builder.GetBufferPointer()));
    } catch (const runtime::StatusError& error) {
      return error.message();
    }
    return "";
  }

  Model m_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<format::ProgramT> tables_;
  uint32_t value_ = kNoSlot;
};

TEST_F(BadTables, AsTheyAre) {
  ASSERT_NE(value_, kNoSlot);
  EXPECT_EQ(error(), "");
}

TEST_F(BadTables, OverASlotThatIsNotThere) {
  value().over = 1000;
  EXPECT_THAT(error(), HasSubstr("cannot lie over slot 1000"));
}

TEST_F(BadTables, OverAnInputThatIsNotUpdated) {
  value().over = tables_->inputs[0]->slot;
  EXPECT_THAT(error(), HasSubstr("cannot lie over slot"));
}

TEST_F(BadTables, OverWhatIsReadLater) {
  tables_->tasks.back()->inputs.push_back(value().over);
  EXPECT_THAT(error(), HasSubstr("cannot lie over slot"));
}

TEST_F(BadTables, OverItself) {
  value().over = value_;
  EXPECT_THAT(error(), HasSubstr("cannot lie over slot"));
}

TEST_F(BadTables, WithoutAnUpdate) {
  tables_->updates.clear();
  EXPECT_THAT(error(), HasSubstr("cannot lie over slot"));
}

}  // namespace
}  // namespace tenon
