// Models that are split between the CPU and a device with memory and a queue of its own (accelerators/loopback).
#include <cstring>

#include "driver/pipeline.h"
#include "driver/stage_text.h"
#include "graph/builder.h"
#include "graph/evaluate.h"
#include "tests/driver/support_loopback.h"
#include "tests/graph/support_values.h"
#include "tests/program/support_random_model.h"

namespace tenon {
namespace {

using test::close;
using test::Random;
using testing::HasSubstr;

class Devices : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::load_loopback(); }
};

std::vector<Tensor> random_inputs(const Graph& graph, int64_t n, Random& random) {
  std::vector<Tensor> inputs;
  for (ValueRef input : graph.inputs()) {
    const TensorType& type = graph.type(input);
    const Sizes sizes = evaluate(type.shape, {{Symbol("N"), n}});
    inputs.push_back(test::random_tensor({type.dtype, to_shape(sizes)}, {}, {-2, 2}, random));
  }
  return inputs;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  const auto bytes = static_cast<size_t>(x.numel() * size_of(x.dtype()));
  return x.shape() == y.shape() && x.dtype() == y.dtype() && std::memcmp(x.data(), y.data(), bytes) == 0;
}

Program compiled(const Graph& graph, const std::string& device) {
  return compile_program(graph, {.devices = {device}}).value();
}

size_t count_of(const Program& program, TaskKind kind) {
  return static_cast<size_t>(std::ranges::count(program.tasks, kind, &Task::kind));
}

// relu(x @ w) + x, and tanh of it
Graph small_model() {
  Graph graph("small");
  Builder b(graph);
  Random random(3);
  const Value x = b.value(graph.add_input("x", parse_type("f32[8, 8]").value()));
  const Value w = b.value(graph.add_parameter(
      "w", parse_type("f32[8, 8]").value(), test::random_tensor(parse_type("f32[8, 8]").value(), {}, {-1, 1}, random)));
  const Value y = b.op("relu", {b.op("matmul", {x, w})}) + x;
  graph.set_outputs({b.op("tanh", {y}).ref(), y.ref()});
  return graph;
}

TEST_F(Devices, WholeModelOnADeviceGivesTheBitsOfTheCpu) {
  const Graph graph = small_model();
  Random random(1);
  const std::vector<Tensor> inputs = random_inputs(graph, 1, random);
  const Program cpu = compile_program(graph).value(), device = compiled(graph, "loopback");
  EXPECT_EQ(count_of(device, TaskKind::kKernel), 0U);
  EXPECT_GT(count_of(device, TaskKind::kDevice), 0U);
  const std::vector<Tensor> expected = cpu.run(inputs);
  for (int run = 0; run < 3; ++run) {
    const std::vector<Tensor> actual = device.run(inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(actual[i], expected[i])) << i;
  }
}

TEST_F(Devices, OneOpInTheMiddleIsOneSegment) {
  const Graph graph = small_model();
  const Program program = compiled(graph, "loopback:ops=relu");
  ASSERT_EQ(count_of(program, TaskKind::kDevice), 1U);
  const auto task = std::ranges::find(program.tasks, TaskKind::kDevice, &Task::kind);
  EXPECT_EQ(task->ops, std::vector<std::string>{"maximum"});  // what relu is, as loops
  EXPECT_EQ(count_of(program, TaskKind::kTransfer), 2U);      // one there, one back
  Random random(1);
  const std::vector<Tensor> inputs = random_inputs(graph, 1, random);
  const std::vector<Tensor> expected = evaluate(graph, inputs).value(), actual = program.run(inputs);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(close(actual[i], expected[i]));
}

TEST_F(Devices, ConstantsAreUploadedAndNotTransferred) {
  const Program program = compiled(small_model(), "loopback");
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::kTransfer) continue;
    EXPECT_NE(program.slots[task.inputs[0]].kind, SlotKind::kConstant);
  }
}

TEST_F(Devices, EveryStageParsesBackToAProgramThatGivesTheSame) {
  const Graph graph = small_model();
  const ProgramOptions options{.devices = {"loopback:ops=relu+tanh"}};
  Random random(1);
  const std::vector<Tensor> inputs = random_inputs(graph, 1, random);
  const std::vector<Tensor> expected = compile_program(graph, options).value().run(inputs);
  std::vector<std::string> texts;
  RunOptions run{.verify = true};
  run.after = [&](const Stage& stage, const StageRun&, const Module& module) {
    texts.push_back(stage_text(module, stage, options));
  };
  finish_program(new_module(graph), nullptr, options, run).value();
  for (const std::string& text : texts) {
    SCOPED_TRACE(text.substr(0, text.find('\n')));
    ParsedStage parsed = parse_stage(text, graph, options).value();
    const Program program = finish_program(std::move(parsed.module), parsed.stage, options).value();
    EXPECT_EQ(count_of(program, TaskKind::kTransfer), 4U);
    const std::vector<Tensor> actual = program.run(inputs);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(actual[i], expected[i])) << i;
  }
}

// Two segments read one weight.
TEST_F(Devices, SegmentsShareWeights) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[4]) {
    %w: f32[4] = parameter "w"
    %a = mul(%x, %w)
    %b = tanh(%a)
    %c = mul(%b, %w)
    return %c
  })")
                          .value();
  Graph bound = graph;
  Random random(1);
  bound.bind("w", test::random_tensor(parse_type("f32[4]").value(), {}, {-1, 1}, random));
  const Program program = compiled(bound, "loopback:ops=mul");
  EXPECT_EQ(count_of(program, TaskKind::kDevice), 2U);
  EXPECT_EQ(std::ranges::count(program.slots, SlotKind::kConstant, &Slot::kind), 1);
}

TEST_F(Devices, UnknownDevicesAndBadOptionsAreErrors) {
  const Graph graph = small_model();
  EXPECT_THAT(compile_program(graph, {.devices = {"npu"}}).diagnostic().message,
              HasSubstr("there is no backend 'npu'"));
  EXPECT_THAT(compile_program(graph, {.devices = {"loopback:speed=3"}}).diagnostic().message,
              HasSubstr("the options are claim, ops, delay, fail and seed"));
}

class RandomClaims : public testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() { test::load_loopback(); }
};

TEST_P(RandomClaims, AgreeWithTheReference) {
  Random random(static_cast<uint64_t>(GetParam()) + 500);
  for (int i = 0; i < 6; ++i) {
    const bool symbolic = i % 2 == 1;
    const Graph graph = test::random_model(random, 4 + i * 3, symbolic);
    const Program program = compiled(graph, fmt::format("loopback:claim=0.5,delay=20,seed={}", GetParam() * 6 + i));
    for (int64_t n : {7, 1, 16}) {
      const std::vector<Tensor> inputs = random_inputs(graph, n, random);
      const std::vector<Tensor> expected = evaluate(graph, inputs).value(), actual = program.run(inputs);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t k = 0; k < actual.size(); ++k) EXPECT_TRUE(close(actual[k], expected[k])) << to_string(graph);
      if (!symbolic) break;
    }
  }
}

TEST_P(RandomClaims, FailuresAreErrorsAndTheNextRunIsRight) {
  Random random(static_cast<uint64_t>(GetParam()) + 900);
  const Graph graph = test::random_model(random, 12, false);
  const std::string claims = fmt::format("claim=0.6,seed={}", GetParam());
  const ProgramOptions options{.devices = {"loopback:fail=0.2,delay=20," + claims}};
  const auto failing = compile_program(graph, options);
  if (!failing.ok()) {  // while a constant was uploaded
    EXPECT_THAT(failing.diagnostic().message, HasSubstr("injected failure"));
    return;
  }
  const Program& program = *failing;
  const std::vector<Tensor> inputs = random_inputs(graph, 1, random);
  const std::vector<Tensor> expected = compiled(graph, "loopback:" + claims).run(inputs);
  int failed = 0;
  for (int run = 0; run < 12; ++run) {
    const auto results = attempt([&] { return program.run(inputs); });
    if (!results.ok()) {
      ++failed;
      EXPECT_THAT(results.diagnostic().message, HasSubstr("injected failure"));
      continue;
    }
    for (size_t k = 0; k < expected.size(); ++k) EXPECT_TRUE(same_bits((*results)[k], expected[k]));
  }
  if (count_of(program, TaskKind::kDevice) > 0) EXPECT_GT(failed, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomClaims, testing::Range(0, 12));

}  // namespace
}  // namespace tenon
