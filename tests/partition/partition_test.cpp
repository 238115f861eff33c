#include "partition/partition.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <sstream>

#include "graph/builder.h"
#include "partition/segments_text.h"
#include "tests/graph/support_random_graph.h"
#include "tests/partition/support_claims.h"
#include "tests/program/support_random_model.h"
#include "tests/support/support_text_cases.h"

namespace tenon {
namespace {

// ---- tests/partition/*.txt ----
// A step is a device in order of preference: `npu: linear relu`, with the ops that it accepts. After them come PyTorch,
// the reference evaluator and the CPU.

Claimant claimant_from(const std::string& step) {
  const size_t colon = step.find(": ");
  std::set<std::string, std::less<>> ops;
  std::istringstream words(step.substr(colon + 1));
  for (std::string word; words >> word;) ops.insert(word);
  return test::claimant_of(step.substr(0, colon), std::move(ops));
}

std::string output_of(const test::TextCase& c) {
  const Graph graph = parse_graph(c.input).value();
  std::vector<Claimant> devices;
  for (const std::string& step : c.steps) devices.push_back(claimant_from(step));
  const Partition result = partition(graph, test::with_host(devices));
  const Status status = verify_partition(graph, result);
  EXPECT_TRUE(status.ok()) << status.diagnostic().message;
  const std::string text = to_string(graph, result);
  EXPECT_EQ(parse_partition(graph, text, result.claimants).value().segments, result.segments);
  return text;
}

TEST(PartitionFiles, GiveTheExpectedSegments) {
  test::run_text_files("tests/partition", [](const test::TextCase& c) {
    const Result<std::string> output = attempt([&] { return output_of(c); });
    EXPECT_TRUE(output.ok()) << output.diagnostic().text();
    return output.ok() ? *output : std::string();
  });
}

// ---- random graphs and random claims ----

// Whether some path leaves a segment and comes back, found by following every path.
bool is_convex(const Graph& graph, const Segment& segment) {
  const std::set<NodeRef> inside(segment.nodes.begin(), segment.nodes.end());
  std::vector<bool> left(graph.nodes().size());  // by node: a path from the segment that has left it leads here
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    for (ValueRef operand : graph.nodes()[id].operands) {
      const NodeRef producer = operand ? graph.producer(operand) : NodeRef();
      if (!producer) continue;
      const bool comes_from_outside = left[producer.id];
      if (comes_from_outside && inside.contains({id})) return false;
      if (comes_from_outside || (inside.contains(producer) && !inside.contains({id}))) left[id] = true;
    }
  }
  return true;
}

std::vector<Claimant> random_claimants(test::Random& random, int i) {
  std::vector<Claimant> devices;
  const bool times = i % 4 == 3;
  for (int device = 0; device <= i % 3; ++device) {
    devices.push_back(
        test::random_claimant(fmt::format("npu:{}", device), 0.2 + 0.3 * static_cast<double>(i % 3), times, random));
    devices.back().shares_host_memory = i % 7 == 6;
    if (i % 2 == 0) devices.back().crossing_seconds = 1e-5;
    if (i % 2 == 0) devices.back().bytes_per_second = 1e9;
  }
  std::vector<Claimant> all = test::with_host(std::move(devices));
  if (times) all.back() = test::random_claimant("cpu", 1, true, random);
  return all;
}

void expect_sound(const Graph& graph, const std::vector<Claimant>& claimants) {
  const Partition result = partition(graph, claimants);
  const std::string text = to_string(graph, result);
  SCOPED_TRACE(to_string(graph) + text);
  const Status status = verify_partition(graph, result);
  EXPECT_TRUE(status.ok()) << status.diagnostic().message;
  for (const Segment& segment : result.segments) {
    EXPECT_TRUE(is_convex(graph, segment));
    if (segment.claimant + 1 == claimants.size()) continue;
    for (NodeRef node : segment.nodes) EXPECT_TRUE(claimants[segment.claimant].claim(graph, node).accepted);
  }
  EXPECT_EQ(partition(graph, claimants), result) << "not deterministic";
  EXPECT_EQ(parse_partition(graph, text, result.claimants).value().segments, result.segments);
}

TEST(Partition, OfRandomGraphsIsSound) {
  test::Random random(3);
  for (int i = 0; i < 300 && !testing::Test::HasFailure(); ++i) {
    expect_sound(test::random_graph(random, 1 + i % 30), random_claimants(random, i));
  }
}

TEST(Partition, OfRandomModelsIsSound) {
  test::Random random(4);
  for (int i = 0; i < 300 && !testing::Test::HasFailure(); ++i) {
    expect_sound(test::random_model(random, 5 + i % 60, i % 2 == 0), random_claimants(random, i));
  }
}

// ---- who declined, and why ----

Graph chain() {
  return parse_graph(R"(graph g(%x: f32[64, 64]) {
  %a: f32[64, 64] = exp(%x)
  %b: f32[64, 64] = permute(%a) {dims=[1, 0]}
  %c: f32[64, 64] = tanh(%b)
  %d: f32[64, 64] = exp(%c)
  return %d
}
)")
      .value();
}

std::vector<std::string> reasons_of(const Graph& graph, const Partition& partition) {
  std::vector<std::string> reasons;
  for (const DeclinedClaim& declined : partition.declined) {
    reasons.push_back(fmt::format("{} {}: {}", graph.node(declined.node).op->name.get(),
                                  partition.claimants[declined.claimant], partition.reasons[declined.reason]));
  }
  return reasons;
}

TEST(PartitionReasons, AreThoseOfTheClaimants) {
  const Graph graph = chain();
  const std::vector<Claimant> claimants = {test::claimant_of("npu", {"tanh"}), test::claimant_of("gpu", {"exp"}),
                                           cpu_claimant()};
  const Partition result = partition(graph, claimants);
  EXPECT_THAT(reasons_of(graph, result),
              testing::ElementsAre("exp npu: it has no exp", "permute npu: it has no permute",
                                   "permute gpu: it has no permute", "exp npu: it has no exp"));
  EXPECT_EQ(result.reasons.size(), 2u) << "a reason is stored once";
  EXPECT_EQ(reason_of(result, {1}, 1), "it has no permute");
  EXPECT_EQ(reason_of(result, {2}, 0), "") << "it runs the node";
  EXPECT_EQ(reason_of(result, {2}, 1), "") << "it was not asked";
  EXPECT_EQ(reason_of(result, {9}, 0), "");
}

TEST(PartitionReasons, OfAFreeNode) {
  const Graph graph = chain();
  const std::vector<Claimant> claimants = {test::claimant_of("npu", {"permute"}), cpu_claimant()};
  EXPECT_EQ(reason_of(partition(graph, claimants), {1}, 0), "costs nothing, and saves transfers elsewhere");
}

TEST(PartitionReasons, OfAClaimantThatGivesNone) {
  const auto never = [](const Graph&, NodeRef) { return Claim{}; };
  const std::vector<Claimant> claimants = {{.name = "npu", .claim = never}, cpu_claimant()};
  EXPECT_EQ(reason_of(partition(chain(), claimants), {0}, 0), "not claimed");
}

TEST(Partition, TheLastClaimantTakesWhatIsLeftWhateverItAnswers) {
  const std::vector<Claimant> claimants = {test::claimant_of("npu", {"exp"}), test::claimant_of("last", {})};
  EXPECT_EQ(to_string(chain(), partition(chain(), claimants)),
            "npu(%x) -> %a: exp %a\n"
            "last(%a) -> %c: permute %b, tanh %c\n"
            "npu(%c) -> %d: exp %d\n");
}

TEST(Partition, TheReferenceEvaluatorTakesWhatNothingElseComputes) {
  const Claimant reference = reference_claimant();
  for (const OpDef* op : op_table()) {
    const std::vector<Sample> samples = samples_of(*op);
    if (samples.empty()) continue;
    const Claim claim = reference.claim(samples[0].graph, {0});
    EXPECT_FALSE(claim.accepted) << op->name.get() << " has loops or a function of the runtime";
  }
}

// ---- seconds ----

// 64 x 64 floats are 16 KiB: at 1 GB/s 16.4 us, with the latency 26.4 us for each of two transfers.
std::vector<Claimant> timed(double npu, double cpu) {
  std::vector<Claimant> claimants = {test::timed_claimant("npu", {{"tanh", npu}}),
                                     test::timed_claimant("cpu", {{"tanh", cpu}, {"exp", 1e-6}, {"permute", 0}})};
  claimants[0].crossing_seconds = 1e-5;
  claimants[0].bytes_per_second = 1e9;
  claimants[1].shares_host_memory = true;
  return claimants;
}

uint32_t owner_of_tanh(const std::vector<Claimant>& claimants) {
  const Partition result = partition(chain(), claimants);
  EXPECT_TRUE(verify_partition(chain(), result).ok());
  for (const Segment& segment : result.segments) {
    if (std::ranges::find(segment.nodes, NodeRef{2}) != segment.nodes.end()) return segment.claimant;
  }
  return 99;
}

TEST(PartitionSeconds, ASegmentThatGainsLessThanItsTransfersCostGoesToTheNext) {
  EXPECT_EQ(owner_of_tanh(timed(1e-6, 50e-6)), 1u);
  EXPECT_EQ(owner_of_tanh(timed(1e-6, 57e-6)), 0u);
  EXPECT_EQ(reason_of(partition(chain(), timed(1e-6, 50e-6)), {2}, 0),
            "saves 49.0 us there, and its transfers take 52.8 us");
}

TEST(PartitionSeconds, PreferenceDecidesWhereOneSideStatesNone) {
  EXPECT_EQ(owner_of_tanh(timed(-1, 1e-6)), 0u);
  EXPECT_EQ(owner_of_tanh(timed(1e-6, -1)), 0u);
}

TEST(PartitionSeconds, TransfersCostNothingInSharedMemory) {
  std::vector<Claimant> claimants = timed(1e-6, 2e-6);
  EXPECT_EQ(owner_of_tanh(claimants), 1u);
  claimants[0].shares_host_memory = true;
  EXPECT_EQ(owner_of_tanh(claimants), 0u);
}

TEST(PartitionSeconds, ASegmentMayPassSeveralClaimants) {
  std::vector<Claimant> claimants = timed(40e-6, 41e-6);
  claimants.insert(claimants.begin() + 1, test::timed_claimant("slow", {{"tanh", 39e-6}}));
  claimants[1].crossing_seconds = 1;
  EXPECT_EQ(owner_of_tanh(claimants), 2u);
}

TEST(PartitionSeconds, ASegmentMovesToWhereItSavesMost) {
  std::vector<Claimant> claimants = timed(1e-6, 50e-6);  // to the CPU it saves 3.8 us
  claimants.insert(claimants.begin() + 1, test::timed_claimant("dsp", {{"tanh", 5e-6}}));
  claimants[1].shares_host_memory = true;
  EXPECT_EQ(owner_of_tanh(claimants), 1u);
}

TEST(PartitionSeconds, ASegmentIsJudgedWithWhatHangsTogether) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[64, 64], %y: f32[64, 64]) {
  %a: f32[64, 64] = tanh(%x)
  %b: f32[64, 64] = tanh(%a)
  %c: f32[64, 64] = tanh(%b)
  %d: f32[64, 64] = tanh(%y)
  %e: f32[64, 64] = tanh(%d)
  %f: f32[64, 64] = exp(%c)
  %g: f32[64, 64] = exp(%e)
  return %f, %g
}
)")
                          .value();
  const std::vector<Claimant> claimants = timed(1e-6, 20e-6);  // three nodes are worth two transfers, two are not
  EXPECT_EQ(to_string(graph, partition(graph, claimants)),
            "npu(%x) -> %c: tanh %a, tanh %b, tanh %c\n"
            "cpu(%y, %c) -> %f, %g: tanh %d, tanh %e, exp %f, exp %g\n");
}

std::string segments_of(const Graph& graph, const std::vector<Claimant>& claimants) {
  const Partition result = partition(graph, claimants);
  EXPECT_TRUE(verify_partition(graph, result).ok());
  return to_string(graph, result);
}

TEST(PartitionSeconds, AResultOfTheGraphIsBroughtToTheHost) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[64, 64]) {
  %a: f32[64, 64] = tanh(%x)
  return %a
}
)")
                          .value();
  EXPECT_EQ(segments_of(graph, timed(1e-6, 40e-6)), "cpu(%x) -> %a: tanh %a\n");  // 39 us for 52.8
  EXPECT_EQ(segments_of(graph, timed(1e-6, 60e-6)), "npu(%x) -> %a: tanh %a\n");
}

TEST(PartitionSeconds, ViewsWithoutSecondsTakeNoTime) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[64, 64]) {
  %a: f32[64, 64] = tanh(%x)
  %b: f32[4096] = reshape(%a) {shape=[4096]}
  %c: f32[4096] = tanh(%b)
  return %c
}
)")
                          .value();
  std::vector<Claimant> claimants = timed(1e-6, 5e-6);
  const Claimant npu = test::timed_claimant("npu", {{"tanh", 1e-6}, {"reshape", -1}});
  claimants[0].claim = npu.claim;
  EXPECT_EQ(segments_of(graph, claimants), "cpu(%x) -> %c: tanh %a, reshape %b, tanh %c\n");
}

// tanh reads x, exp runs on the CPU, add reads both.
Graph fork() {
  return parse_graph(R"(graph g(%x: f32[64, 64]) {
  %a: f32[64, 64] = tanh(%x)
  %e: f32[64, 64] = exp(%a)
  %c: f32[64, 64] = add(%a, %e)
  return %c
}
)")
      .value();
}

std::vector<Claimant> timed_fork(double tanh_on_cpu, double add_on_cpu) {
  std::vector<Claimant> claimants = {
      test::timed_claimant("npu", {{"tanh", 1e-6}, {"add", 1e-6}}),
      test::timed_claimant("cpu", {{"tanh", tanh_on_cpu}, {"exp", 1e-6}, {"add", add_on_cpu}})};
  claimants[0].crossing_seconds = 1e-5;
  claimants[0].bytes_per_second = 1e9;
  claimants[1].shares_host_memory = true;
  return claimants;
}

TEST(PartitionSeconds, SegmentsOfOneClaimantAreJudgedOneByOne) {
  EXPECT_EQ(segments_of(fork(), timed_fork(2e-6, 200e-6)),
            "cpu(%x) -> %a, %e: tanh %a, exp %e\nnpu(%a, %e) -> %c: add %c\n");
}

TEST(PartitionSeconds, ASegmentIsJudgedAgainAfterItsReaderHasMoved) {
  EXPECT_EQ(segments_of(fork(), timed_fork(41e-6, 2e-6)), "cpu(%x) -> %c: tanh %a, exp %e, add %c\n");
}

// ---- large graphs ----

// Layers of a model whose attention is a device's, with views on both sides, and sizes that PyTorch finds out.
Graph layers(int nodes) {
  Graph graph("layers");
  const Symbol n("N");
  graph.declare_symbol(n, {1, 64});
  Builder b(graph);
  Value x = b.value(graph.add_input("x", {DType::kF32, {n, 64}}));
  const Value mask = b.value(graph.add_input("mask", {DType::kF32, {n, 64}}));
  while (static_cast<int>(graph.nodes().size()) < nodes) {
    const Value kept = b.tanh(x * mask);
    const Value turned = b.exp(b.transpose(b.reshape(b.exp(kept), {n, 8, 8}), 1, 2));
    x = b.exp(b.reshape(turned, {n, 64})) + b.tanh(kept) + b.full(0.5, {n, 64}, DType::kF32);
  }
  graph.set_outputs({x.ref()});
  return graph;
}

// Fails if time grows with the square of the size: 25,000 nodes take about 0.03 s on a quiet machine.
void expect_fast(const Graph& graph, const std::vector<Claimant>& claimants) {
  const std::clock_t start = std::clock();  // of this process: the machine may be busy
  const Partition result = partition(graph, claimants);
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC);
  EXPECT_TRUE(verify_partition(graph, result).ok());
  EXPECT_GT(result.segments.size(), 1000u);
}

TEST(PartitionScale, TwentyFiveThousandNodes) {
  expect_fast(layers(25000), test::with_host({test::claimant_of("npu", {"exp", "reshape", "permute", "full"})}));
}

// Segments of one op are worth their transfers, those of the other are not.
TEST(PartitionScale, TwentyFiveThousandNodesWithSeconds) {
  std::vector<Claimant> claimants = {test::timed_claimant("npu", {{"exp", 1e-6}, {"tanh", 1e-6}}),
                                     test::timed_claimant("gpu", {{"exp", 1e-6}, {"mul", 1e-6}}),
                                     test::timed_claimant("cpu", {{"exp", 1e-5}, {"tanh", 2e-6}, {"mul", 2e-6}})};
  claimants[0].crossing_seconds = claimants[1].crossing_seconds = 2e-6;
  expect_fast(layers(25000), claimants);
}

// One value that half of all nodes read, on both sides.
TEST(PartitionScale, OneValueWithManyReaders) {
  Graph graph("wide");
  Builder b(graph);
  const Value x = b.exp(b.value(graph.add_input("x", {DType::kF32, {64}})));
  Value sum = x;
  while (graph.nodes().size() < 25000) sum = b.tanh(sum * x) + b.reshape(b.tanh(b.reshape(x, {8, 8})), {64});
  graph.set_outputs({sum.ref()});
  std::vector<Claimant> claimants = {test::timed_claimant("npu", {{"tanh", 1e-6}, {"reshape", 0}}),
                                     test::timed_claimant("cpu", {{"exp", 1e-6}, {"tanh", 1e-5}, {"mul", 1e-6}})};
  claimants[0].crossing_seconds = 2e-6;
  expect_fast(graph, claimants);
}

}  // namespace
}  // namespace tenon
