#include "partition/outline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion/fuse.h"
#include "fusion/groups_text.h"
#include "graph/builder.h"
#include "graph/dead_code.h"
#include "graph/evaluate.h"
#include "partition/segments_text.h"
#include "tests/graph/support_random_graph.h"
#include "tests/partition/support_claims.h"
#include "tests/program/support_random_model.h"

namespace tenon {
namespace {

// Devices are outlined, the host is not.
Outlined outlined(const Graph& graph, const std::vector<Claimant>& claimants,
                  const std::function<bool(const Leaf&)>& is_frozen) {
  const Partition parts = partition(graph, claimants);
  const auto is_device = [&](uint32_t claimant) { return claimant + 3 < claimants.size(); };
  return outline(graph, parts, is_device, is_frozen);
}

bool is_parameter(const Leaf& leaf) { return leaf.kind == LeafKind::kParameter; }
bool never(const Leaf&) { return false; }

Graph model() {
  return parse_graph(R"(graph g(%x: f32[N, 4]) {
  symbol N in [1, 64]
  symbol M in [1, 8]
  %w: f32[6, 4] = parameter "w"
  %v: f32[4, 6] = parameter "v"
  %half: f32[] = constant 0.5
  %0: f32[N, 4] = exp(%x)
  %a: f32[N, 6] = linear(%0, %w, none) @ "model.py":12
  %b: f32[N, 6] = mul(%a, %half)
  %f: f32[N, 6] = full() {value=2.0, shape=[N, 6], dtype=f32}
  %y: f32[N, 6] = mul(%b, %f)
  %c: f32[N, 4] = linear(%y, %v, none)
  %d: f32[N, 4] = exp(%c)
  return %d, %b
}
)")
      .value();
}

std::vector<Claimant> npu() { return test::with_host({test::claimant_of("npu", {"linear", "mul", "full"})}); }

TEST(Outline, MovesTheNodesOfADeviceToABody) {
  const Outlined result = outlined(model(), npu(), is_parameter);
  EXPECT_EQ(to_string(result.graph),
            R"(graph g(%x: f32[N, 4]) {
  symbol M in [1, 8]
  symbol N in [1, 64]
  %0: f32[N, 4] = exp(%x)
  %b: f32[N, 6], %c: f32[N, 4] = segment(%0) {device="npu", number=0, types="f32[N, 6]; f32[N, 4]"} @ "model.py":12
  %d: f32[N, 4] = exp(%c)
  return %d, %b
}
)");
  ASSERT_EQ(result.segments.size(), 1u);
  EXPECT_EQ(result.segments[0].claimant, "npu");
  EXPECT_EQ(to_string(result.segments[0].body),
            R"(graph segment0(%in0: f32[N, 4]) {
  symbol N in [1, 64]
  %w: f32[6, 4] = parameter "w"
  %v: f32[4, 6] = parameter "v"
  %half: f32[] = constant 0.5
  %a: f32[N, 6] = linear(%in0, %w, none) @ "model.py":12
  %b: f32[N, 6] = mul(%a, %half)
  %f: f32[N, 6] = full() {value=2.0, shape=[N, 6], dtype=f32}
  %y: f32[N, 6] = mul(%b, %f)
  %c: f32[N, 4] = linear(%y, %v, none)
  return %b, %c
}
)");
  EXPECT_TRUE(verify(result.graph).ok());
  EXPECT_TRUE(verify(result.segments[0].body).ok());
}

TEST(Outline, PassesWeightsThatMayChange) {
  const Outlined result = outlined(model(), npu(), never);
  EXPECT_EQ(to_string(result.graph).find("constant"), std::string::npos) << "a constant is always inside";
  EXPECT_THAT(to_string(result.graph), testing::HasSubstr("segment(%w, %v, %0) {"));
  EXPECT_THAT(to_string(result.graph), testing::HasSubstr("%w: f32[6, 4] = parameter \"w\"\n"));
  EXPECT_THAT(to_string(result.segments[0].body),
              testing::HasSubstr("(%w: f32[6, 4], %v: f32[4, 6], %in0: f32[N, 4])"));
}

TEST(Outline, SharesTheDataOfWeights) {
  Graph graph = model();
  const Tensor data = Tensor::zeros(DType::kF32, {6, 4});
  graph.bind("w", data);
  const Outlined result = outlined(graph, npu(), is_parameter);
  EXPECT_EQ(result.segments[0].body.leaf_named("w")->data.data(), data.data());
  EXPECT_EQ(inlined(result).leaf_named("w")->data.data(), data.data());
}

// An input is printed as a weight is called, and a value without a name gets the name of another weight.
TEST(Outline, NamesInABodyAreUnique) {
  Graph graph("g");
  const ValueRef x = graph.add_input("x", {DType::kF32, {4}});
  graph.set_value_name(x, "w");
  const ValueRef w = graph.add_parameter("w", {DType::kF32, {4}});
  const ValueRef in0 = graph.add_parameter("in0", {DType::kF32, {4}});
  const ValueRef sizes = graph.add_parameter("sizes", {DType::kF32, {4}});
  Builder b(graph);
  const Value y = b.exp(b.value(x));
  graph.set_outputs({(y * b.value(w) * b.value(in0) * b.value(sizes) * b.value(x)).ref()});
  const Outlined result = outlined(graph, npu(), is_parameter);
  ASSERT_EQ(result.segments.size(), 1u);
  const Graph& body = result.segments[0].body;
  EXPECT_TRUE(verify(body).ok());
  for (const char* name : {"w", "in0", "sizes"}) EXPECT_EQ(body.leaf_named(name)->kind, LeafKind::kParameter);
}

TEST(Outline, LeavesOutWhatNobodyNeeds) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[4]) {
  %a: f32[4] = mul(%x, %x)
  %b: f32[4] = exp(%x)
  return %b
}
)")
                          .value();
  const Outlined result = outlined(graph, npu(), never);
  EXPECT_TRUE(result.segments.empty());
  EXPECT_EQ(result.graph.nodes().size(), 1u);
}

// N is neither among the sizes of %y, nor can it be found from those of %x.
TEST(Outline, TellsABodyTheSizesThatItMentions) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[N, 2]) {
  %a: f32[2 * N] = reshape(%x) {shape=[2 * N]}
  %b: f32[2 * N] = exp(%a)
  %c: f32[2 * N] = mul(%b, %b)
  return %c
}
)")
                          .value();
  const Outlined result = outlined(graph, npu(), never);
  EXPECT_THAT(to_string(result.graph), testing::HasSubstr("= full() {value=0, shape=[N, 0], dtype=u8}"));
  EXPECT_EQ(to_string(result.segments.at(0).body), R"(graph segment0(%b: f32[2*N], %sizes: u8[N, 0]) {
  %c: f32[2*N] = mul(%b, %b)
  return %c
}
)");
  const std::vector<Tensor> inputs = {Tensor::zeros(DType::kF32, {6}), Tensor::zeros(DType::kU8, {3, 0})};
  EXPECT_TRUE(evaluate(result.segments[0].body, inputs).ok());
}

// Outside of the device, another node asks for the size that the device finds out.
TEST(Outline, SizesThatADeviceFindsOut) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[4]) {
  symbol U in [0, 4]
  %n: i64[U, 1] = nonzero(%x) {count=U}
  %z: f32[U] = full() {value=1.0, shape=[U], dtype=f32}
  %y: f32[U] = exp(%z)
  return %y
}
)")
                          .value();
  const Outlined result = outlined(graph, test::with_host({test::claimant_of("npu", {"nonzero"})}), never);
  EXPECT_THAT(to_string(result.graph), testing::HasSubstr("%n: i64[U, 1] = segment(%x) {"));
  EXPECT_TRUE(verify(result.graph).ok()) << to_string(result.graph);
  EXPECT_EQ(to_string(result.graph, fuse(result.graph)),
            "segment(%x) -> %n: segment %n\n"
            "kernel() -> %y: full %z, exp %y\n");
}

// ---- the op ----

TEST(SegmentOp, TheReferenceEvaluatorNamesTheDevice) {
  const Outlined result = outlined(model(), npu(), never);
  Graph graph = result.graph;
  graph.bind("w", Tensor::zeros(DType::kF32, {6, 4}));
  graph.bind("v", Tensor::zeros(DType::kF32, {4, 6}));
  const Result<std::vector<Tensor>> outputs = evaluate(graph, std::vector{Tensor::zeros(DType::kF32, {2, 4})});
  ASSERT_FALSE(outputs.ok());
  EXPECT_THAT(outputs.diagnostic().message,
              testing::HasSubstr("segment 0 is for device npu, and this evaluator runs no device"));
}

// ---- and back ----

// The tensors that a run of a graph needs and changes.
struct RunData {
  std::vector<Tensor> inputs;
  std::map<std::string, Tensor> states;  // parameters and buffers
};

Sizes sized(const TensorType& type, const symbolic::Ranges& ranges) {
  symbolic::Bindings sizes;
  for (const auto& [symbol, range] : ranges) sizes[symbol] = std::clamp<int64_t>(3, range.low, range.high);
  return evaluate(type.shape, sizes);
}

RunData random_data(const Graph& graph, test::Random& random) {
  RunData data;
  const symbolic::Ranges ranges = graph.ranges();
  for (const Leaf& leaf : graph.leaves()) {
    if (leaf.kind == LeafKind::kConstant) continue;
    const TensorType& type = graph.type(leaf.value);
    Tensor values = test::random_tensor({type.dtype, to_shape(sized(type, ranges))}, {}, {-1, 1}, random);
    if (leaf.kind == LeafKind::kInput) {
      data.inputs.push_back(std::move(values));
    } else {
      data.states.emplace(leaf.name, std::move(values));
    }
  }
  return data;
}

struct RunResult {
  bool ok;
  std::vector<Tensor> tensors;  // outputs, inputs and states after the run
};

RunResult run(Graph graph, const RunData& data) {
  std::vector<Tensor> inputs;
  for (const Tensor& input : data.inputs) inputs.push_back(input.copy());
  std::vector<Tensor> after = inputs;
  for (const auto& [name, values] : data.states) {
    after.push_back(values.copy());
    if (graph.leaf_named(name) != nullptr) graph.bind(name, after.back());
  }
  Result<std::vector<Tensor>> outputs = evaluate(graph, inputs);
  if (!outputs.ok()) return {false, {}};
  std::ranges::move(after, std::back_inserter(*outputs));
  return {true, std::move(*outputs)};
}

std::vector<Claimant> random_claimants(test::Random& random, int i) {
  std::vector<Claimant> devices;
  for (int device = 0; device <= i % 3; ++device)
    devices.push_back(test::random_claimant(fmt::format("npu:{}", device), 0.2 + 0.25 * (i % 4), false, random));
  return test::with_host(std::move(devices));
}

// Returns whether the graph could be run.
bool expect_same_results(const Graph& given, int i, test::Random& random) {
  const Graph graph = eliminate_dead_code(given);
  const auto is_frozen = [&](const Leaf& leaf) { return leaf.ordinal % 2 == 0 && !is_updated(graph, leaf); };
  const Outlined result = outlined(graph, random_claimants(random, i), is_frozen);
  SCOPED_TRACE(to_string(graph) + to_string(result.graph));
  EXPECT_TRUE(verify(result.graph).ok());
  for (const OutlinedSegment& segment : result.segments) {
    const Status status = verify(segment.body);
    EXPECT_TRUE(status.ok()) << status.diagnostic().message << to_string(segment.body);
  }
  const Graph back = inlined(result);
  EXPECT_TRUE(verify(back).ok());
  EXPECT_EQ(eliminate_dead_code(back).nodes().size(), graph.nodes().size());
  const std::vector<FusedGroup> groups = fuse(expand_for_fusion(result.graph));
  EXPECT_TRUE(verify_groups(expand_for_fusion(result.graph), groups).ok());
  const RunData data = random_data(graph, random);
  const RunResult expected = run(graph, data);
  const RunResult actual = run(back, data);
  EXPECT_EQ(actual.ok, expected.ok);
  EXPECT_EQ(actual.tensors.size(), expected.tensors.size());
  for (size_t k = 0; k < std::min(actual.tensors.size(), expected.tensors.size()); ++k)
    EXPECT_TRUE(test::same_bits_or_nan(actual.tensors[k], expected.tensors[k])) << k;
  return expected.ok;
}

TEST(Inlined, RandomModelsComputeTheSame) {
  test::Random random(5);
  for (int i = 0; i < 200 && !testing::Test::HasFailure(); ++i)
    EXPECT_TRUE(expect_same_results(test::random_model(random, 5 + i % 40, i % 2 == 0), i, random));
}

// ---- bodies by themselves ----

// The values of a graph that has them as outputs.
std::vector<Tensor> values_in_run(Graph graph, const std::vector<ValueRef>& values, const RunData& data) {
  graph.clear_updates();
  graph.set_outputs(values);
  return run(std::move(graph), data).tensors;
}

void expect_body_computes(const Graph& graph, const Segment& segment, Graph body, const RunData& data) {
  RunData own{.inputs = {}, .states = data.states};
  std::vector<Tensor> values = values_in_run(graph, segment.inputs, data);
  for (size_t i = 0; i < segment.inputs.size(); ++i) {
    const Leaf* leaf = graph.leaf(segment.inputs[i]);
    if (leaf == nullptr || leaf->kind == LeafKind::kInput) own.inputs.push_back(values[i]);
  }
  const std::vector<ValueRef> formal = body.inputs();
  if (formal.size() > own.inputs.size())
    own.inputs.push_back(Tensor::zeros(DType::kU8, sized(body.type(formal.back()), graph.ranges())));
  const RunResult actual = run(std::move(body), own);
  ASSERT_TRUE(actual.ok);
  const std::vector<Tensor> expected = values_in_run(graph, segment.outputs, data);
  for (size_t i = 0; i < segment.outputs.size(); ++i)
    EXPECT_TRUE(test::same_bits_or_nan(actual.tensors[i], expected[i])) << i;
}

TEST(Outline, BodiesOfRandomModelsComputeTheirSegments) {
  test::Random random(7);
  int bodies = 0;
  for (int i = 0; i < 100 && !testing::Test::HasFailure(); ++i) {
    const Graph graph = test::random_model(random, 5 + i % 20, i % 2 == 0);
    const std::vector<Claimant> claimants = random_claimants(random, i);
    const Partition parts = partition(graph, claimants);
    const auto is_device = [&](uint32_t claimant) { return claimant + 3 < claimants.size(); };
    const Outlined result = outline(graph, parts, is_device, [](const Leaf&) { return true; });
    const RunData data = random_data(graph, random);
    size_t number = 0;
    for (const Segment& segment : parts.segments) {
      if (!is_device(segment.claimant) || segment.outputs.empty()) continue;
      SCOPED_TRACE(to_string(graph) + to_string(result.segments.at(number).body));
      expect_body_computes(graph, segment, result.segments.at(number++).body, data);
      ++bodies;
    }
  }
  EXPECT_GT(bodies, 100);
}

TEST(Inlined, RandomGraphsComputeTheSame) {
  test::Random random(6);
  int computed = 0;
  for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i)
    computed += expect_same_results(test::random_graph(random, 1 + i % 12), i, random) ? 1 : 0;
  EXPECT_GT(computed, 100) << "of 400: most need indices in range";
}

}  // namespace
}  // namespace tenon
