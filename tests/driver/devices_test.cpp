// Models that are split between the CPU and a device with memory and a queue of its own (accelerators/loopback).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "driver/pipeline.h"
#include "driver/stage_text.h"
#include "graph/builder.h"
#include "graph/evaluate.h"
#include "tests/driver/support_loopback.h"
#include "tests/driver/support_part_of_loopback.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using test::close;
using test::count_of;
using test::Random;
using test::random_inputs;
using test::same_bits;
using testing::HasSubstr;

class Devices : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::load_loopback(); }
};

Program compiled(const Graph& graph, const std::string& device) {
  return compile_program(graph, {.devices = {device}}).value();
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

// The CPU takes every node that the devices before it leave.
TEST_F(Devices, DevicesAfterTheCpuGetNothing) {
  const Program after = compile_program(small_model(), {.devices = {"cpu", "loopback"}}).value();
  EXPECT_FALSE(after.uses_devices());
  const Program between = compile_program(small_model(), {.devices = {"loopback:ops=relu", "cpu", "loopback"}}).value();
  EXPECT_EQ(count_of(between, TaskKind::kDevice), 1U);
}

TEST_F(Devices, SizesThatDependOnDataStayOnTheHost) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[6]) {
    %y = exp(%x)
    %i = nonzero(%y) {count=K}
    %f = cast(%i) {dtype=f32}
    %t = tanh(%f)
    %s = sum(%t) {dims=[0, 1]}
    return %t, %s, %y
  })")
                          .value();
  const Program program = compiled(graph, "loopback");
  EXPECT_EQ(count_of(program, TaskKind::kDevice), 1U);  // exp
  const std::vector<PlacedNode> nodes = placed_nodes(*program.placement);
  for (const char* op : {"tanh", "sum"}) {  // A result of the one has such a size, and the operand of the other.
    const auto node = std::ranges::find(nodes, op, &PlacedNode::op);
    ASSERT_NE(node, nodes.end());
    EXPECT_EQ(node->device, "cpu");
    ASSERT_EQ(node->declined.size(), 1U);
    EXPECT_EQ(node->declined[0].reason, "a size of it is known only when it runs");
  }
  Random random(1);
  const std::vector<Tensor> inputs = random_inputs(graph, 1, random);
  const std::vector<Tensor> expected = evaluate(graph, inputs).value(), actual = program.run(inputs);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(close(actual[i], expected[i]));
}

TEST_F(Devices, UnknownDevicesAndBadOptionsAreErrors) {
  const Graph graph = small_model();
  EXPECT_THAT(compile_program(graph, {.devices = {"npu"}}).diagnostic().message,
              HasSubstr("there is no backend 'npu'"));
  EXPECT_THAT(compile_program(graph, {.devices = {"lopback:delay=1"}}).diagnostic().message,
              HasSubstr("did you mean 'loopback'?"));
  EXPECT_EQ(compile_program(graph, {.devices = {"loopback", "loopback"}}).diagnostic().message,
            "device loopback is named twice");
  EXPECT_THAT(compile_program(graph, {.devices = {"loopback:speed=3"}}).diagnostic().message,
              HasSubstr("the options are claim, ops, delay, fail and seed"));
}

// ---- BERT with every second layer on a device -----------------------------------------------------------------------

// Nodes of layers of an odd number: their results are called layer1_q and so on.
bool is_of_odd_layer(const Graph& graph, NodeRef node) {
  const std::string& name = graph.value_name(graph.node(node).results[0]);
  return name.starts_with("layer") && (name[5] - '0') % 2 == 1;
}

// A layer of BERT with two heads, whose values are called LAYER_NAME. All layers read the mask.
std::string bert_layer(int number, const std::string& in) {
  return fmt::format(R"(
  %{0}_wq: f32[16, 16] = parameter "{0}.q"
  %{0}_wk: f32[16, 16] = parameter "{0}.k"
  %{0}_wv: f32[16, 16] = parameter "{0}.v"
  %{0}_wo: f32[16, 16] = parameter "{0}.o"
  %{0}_wup: f32[32, 16] = parameter "{0}.up"
  %{0}_wdown: f32[16, 32] = parameter "{0}.down"
  %{0}_q = linear(%{1}, %{0}_wq, none)
  %{0}_k = linear(%{1}, %{0}_wk, none)
  %{0}_v = linear(%{1}, %{0}_wv, none)
  %{0}_qs = reshape(%{0}_q) {{shape=[3, 6, 2, 8]}}
  %{0}_ks = reshape(%{0}_k) {{shape=[3, 6, 2, 8]}}
  %{0}_vs = reshape(%{0}_v) {{shape=[3, 6, 2, 8]}}
  %{0}_qh = permute(%{0}_qs) {{dims=[0, 2, 1, 3]}}
  %{0}_kh = permute(%{0}_ks) {{dims=[0, 2, 3, 1]}}
  %{0}_vh = permute(%{0}_vs) {{dims=[0, 2, 1, 3]}}
  %{0}_scores = matmul(%{0}_qh, %{0}_kh)
  %{0}_masked = add(%{0}_scores, %mask)
  %{0}_probabilities = softmax(%{0}_masked) {{dim=-1}}
  %{0}_heads = matmul(%{0}_probabilities, %{0}_vh)
  %{0}_mixed = permute(%{0}_heads) {{dims=[0, 2, 1, 3]}}
  %{0}_flat = reshape(%{0}_mixed) {{shape=[3, 6, 16]}}
  %{0}_attended = linear(%{0}_flat, %{0}_wo, none)
  %{0}_sum = add(%{0}_attended, %{1})
  %{0}_norm, %{0}_m, %{0}_r = layer_norm(%{0}_sum, none, none) {{normalized_rank=1}}
  %{0}_up = linear(%{0}_norm, %{0}_wup, none)
  %{0}_act = gelu(%{0}_up)
  %{0}_down = linear(%{0}_act, %{0}_wdown, none)
  %{0}_residual = add(%{0}_down, %{0}_norm)
  %{0}_out, %{0}_m2, %{0}_r2 = layer_norm(%{0}_residual, none, none) {{normalized_rank=1}})",
                     fmt::format("layer{}", number), in);
}

Graph bert(int layers) {
  std::string text = R"(graph bert(%tokens: i64[3, 6], %mask: f32[3, 1, 1, 6]) {
  %table: f32[11, 16] = parameter "table"
  %embedded = embedding(%table, %tokens))";
  std::string in = "embedded";
  for (int i = 0; i < layers; ++i) {
    text += bert_layer(i, in);
    in = fmt::format("layer{}_out", i);
  }
  Graph graph = parse_graph(text + "\n  %logits = linear(%" + in + ", %table, none)\n  return %logits\n}").value();
  Random random(5);
  for (const Leaf& leaf : std::vector<Leaf>(graph.leaves())) {
    if (leaf.kind == LeafKind::kInput) continue;
    graph.bind(leaf.name, test::random_tensor(graph.type(leaf.value), {}, {-0.3, 0.3}, random));
  }
  return graph;
}

TEST_F(Devices, EverySecondLayerOfBertCrossesOncePerSide) {
  register_backend(std::make_shared<test::PartOfLoopback>("odd_layers", is_of_odd_layer));
  const Graph graph = bert(6);
  const Program program = compiled(graph, "odd_layers");
  unregister_backend("odd_layers");
  ASSERT_EQ(program.placement->parts.segments.size(), 7U);  // CPU, layer 1, CPU, layer 3, CPU, layer 5, CPU
  // A hidden state there and one back for each of the three layers; and the mask, once.
  EXPECT_EQ(count_of(program, TaskKind::kTransfer), 7U);
  std::set<uint32_t> moved;
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::kTransfer) continue;
    EXPECT_TRUE(moved.insert(task.inputs[0]).second) << "moved twice";
    EXPECT_NE(program.slots[task.inputs[0]].kind, SlotKind::kConstant);
  }
  std::set<const void*> constants;
  for (const Slot& slot : program.slots) {
    if (slot.space == 0 || slot.kind != SlotKind::kConstant) continue;
    EXPECT_TRUE(constants.insert(program.constants[slot.position].data()).second) << "two copies on the device";
  }
  EXPECT_GE(constants.size(), 18U);  // six weights of each layer
  Random random(1);
  std::vector<Tensor> inputs = random_inputs(graph, 1, random);
  for (int64_t i = 0; i < inputs[0].numel(); ++i) inputs[0].set_integer(i, i % 11);
  EXPECT_TRUE(close(program.run(inputs)[0], compile_program(graph).value().run(inputs)[0]));
}

}  // namespace
}  // namespace tenon
