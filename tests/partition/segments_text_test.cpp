#include "partition/segments_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/partition/support_claims.h"
#include "tests/support/support_malformed.h"

namespace tenon {
namespace {

Graph model() {
  return parse_graph(R"(graph g(%x: f32[8, 4]) {
  %w: f32[6, 4] = parameter "w"
  %total: f32[8, 6] = buffer "total"
  %a: f32[8, 6] = linear(%x, %w, none)
  %b: f32[8, 6] = relu(%a)
  %c: f32[8, 6] = exp(%b)
  %v: f32[8, 6], %i: i64[8, 6] = sort(%c)
  %d: f32[8, 6] = external(%b) {target="my.op", call=1, types="f32[8, 6]"}
  update %total = %c
  return %i, %d
}
)")
      .value();
}

constexpr std::string_view kSegments =
    "cuda:0(%x, %w) -> %b: linear %a, relu %b\n"
    "pytorch(%b) -> %d: external %d\n"
    "cpu(%b) -> %c, %i: exp %c, sort %v\n";

const std::vector<std::string> kClaimants = {"cuda:0", "pytorch", "cpu"};

Partition partition_of(const Graph& graph) {
  return partition(graph,
                   std::vector{test::claimant_of("cuda:0", {"linear", "relu"}), pytorch_claimant(), cpu_claimant()});
}

std::string verdict(const Graph& graph, std::string_view text) {
  const Result<Partition> partition = parse_partition(graph, text, kClaimants);
  if (!partition.ok()) return partition.diagnostic().text();
  const Status status = verify_partition(graph, *partition);
  return status.ok() ? "valid" : status.diagnostic().message;
}

std::string verdict(std::string_view text) { return verdict(model(), text); }

TEST(SegmentsText, IsWhatPartitionPrints) {
  const Graph graph = model();
  const Partition result = partition_of(graph);
  EXPECT_EQ(to_string(graph, result), kSegments);
  EXPECT_EQ(parse_partition(graph, kSegments, kClaimants).value().segments, result.segments);
  EXPECT_EQ(verdict(kSegments), "valid");
}

TEST(SegmentsText, BlanksAndCommentsAreFree) {
  const std::string text = "cuda:0 ( %x , %w )\n  -> %b : # a comment\n linear %a ,\n relu %b";
  EXPECT_EQ(parse_partition(model(), text, kClaimants).value().segments[0], partition_of(model()).segments[0]);
}

// ---- texts that are wrong ----

TEST(SegmentsText, ErrorsSayWhere) {
  EXPECT_EQ(verdict("pytorhc(%b) -> %d: external %d"),
            "<text>:1:1: error: there is no claimant 'pytorhc'; did you mean 'pytorch'?");
  EXPECT_EQ(verdict("\n(%b) -> %c: exp %c"), "<text>:2:1: error: expected the name of a claimant, got '('");
  EXPECT_EQ(verdict("cpu(%b, %q) -> %c: exp %c"), "<text>:1:9: error: the graph has no value %q");
  EXPECT_EQ(verdict("cpu %b"), "<text>:1:5: error: expected '(', got '%'");
  EXPECT_EQ(verdict("cpu(%b) -> %c: neg %c"), "<text>:1:16: error: %c is computed by exp, not by neg");
}

void expect_sound(const Graph& graph, const std::string& text) {
  const Result<Partition> parsed = parse_partition(graph, text, kClaimants);
  if (!parsed.ok()) return test::expect_place_inside(parsed.diagnostic(), text);
  EXPECT_EQ(parse_partition(graph, to_string(graph, *parsed), kClaimants).value(), *parsed) << text;
  const Status status = verify_partition(graph, *parsed);
  EXPECT_TRUE(status.ok() || !status.diagnostic().message.empty());
}

TEST(SegmentsText, EveryChangedTextIsSound) {
  const Graph graph = model();
  for (const std::string& text : test::with_changed_bytes(kSegments)) expect_sound(graph, text);
  for (const std::string& text : test::with_changed_stretches(kSegments)) expect_sound(graph, text);
}

// ---- partitions that cannot run ----

// The list with one part of its text exchanged.
std::string verdict_with(std::string_view from, std::string_view to) {
  std::string text(kSegments);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return verdict(text.replace(at, from.size(), to));
}

TEST(VerifyPartition, Inputs) {
  EXPECT_EQ(verdict_with("(%x, %w)", "(%x)"), "segment 1 reads %w, which is not among its inputs");
  EXPECT_EQ(verdict_with("(%x, %w)", "(%x, %w, %total)"), "segment 1 has the input %total, which is none");
  EXPECT_EQ(verdict_with("(%x, %w)", "(%w, %x)"), "segment 1 has inputs that are not in the order of the graph");
  EXPECT_EQ(verdict_with("(%x, %w)", "(%x, %x, %w)"), "segment 1 has inputs that are not in the order of the graph");
}

TEST(VerifyPartition, Outputs) {
  EXPECT_EQ(verdict_with("-> %b: linear", ": linear"), "segment 1 makes %b, which is not among its outputs");
  EXPECT_EQ(verdict_with("-> %b: linear", "-> %a, %b: linear"), "segment 1 has the output %a, which is none");
  EXPECT_EQ(verdict_with("-> %d", ""), "segment 2 makes %d, which is not among its outputs");
  EXPECT_EQ(verdict_with("%c, %i", "%i"), "segment 3 makes %c, which is not among its outputs");
  EXPECT_EQ(verdict_with("%c, %i", "%i, %c"), "segment 3 has outputs that are not in the order of the graph");
}

TEST(VerifyPartition, Nodes) {
  EXPECT_EQ(verdict_with("linear %a, relu %b", "relu %b, linear %a"),
            "segment 1 has nodes that are not in the order of the graph");
  EXPECT_EQ(verdict_with("pytorch(%b) -> %d: external %d\n", ""), "no segment has external %d");
  EXPECT_EQ(verdict_with("exp %c, sort %v", "relu %b, exp %c, sort %v"), "segment 3 has relu %b, as segment 1 does");
  EXPECT_EQ(verdict_with("pytorch(%b) -> %d: external %d", "cpu(%b) -> %d: external %d"),
            "segment 2 of cpu has external %d, which PyTorch runs");
}

TEST(VerifyPartition, Order) {
  EXPECT_EQ(verdict("cpu(%b) -> %c, %i: exp %c, sort %v\n"
                    "cuda:0(%x, %w) -> %b: linear %a, relu %b\n"
                    "pytorch(%b) -> %d: external %d\n"),
            "segment 1 has exp %c, which needs relu %b of segment 2");
}

// From linear to relu and back to exp.
TEST(VerifyPartition, Convexity) {
  EXPECT_EQ(verdict("cpu(%x, %w, %b) -> %a, %c, %i: linear %a, exp %c, sort %v\n"
                    "cuda:0(%a) -> %b: relu %b\n"
                    "pytorch(%b) -> %d: external %d\n"),
            "segment 1 has exp %c, which needs relu %b of segment 2");
}

TEST(VerifyPartition, Sizes) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[4]) {
  symbol U in [0, 4]
  %n: i64[U, 1] = nonzero(%x) {count=U}
  %z: f32[U] = full() {value=1.0, shape=[U], dtype=f32}
  return %z
}
)")
                          .value();
  EXPECT_EQ(verdict(graph, "cpu(%x) -> %n: nonzero %n\ncuda:0() -> %z: full %z\n"), "valid");
  EXPECT_EQ(verdict(graph, "cuda:0() -> %z: full %z\ncpu(%x) -> %n: nonzero %n\n"),
            "segment 1 has full %z, which needs nonzero %n of segment 2");
  EXPECT_EQ(verdict(graph, "cpu(%x): nonzero %n\ncuda:0() -> %z: full %z\n"),
            "segment 1 makes %n, which is not among its outputs");
}

std::string verdict_of(const Partition& partition) { return verify_partition(model(), partition).diagnostic().message; }

TEST(VerifyPartition, WhatNoTextSays) {
  const Partition good = partition_of(model());
  Partition bad = good;
  bad.segments[0].claimant = 3;
  EXPECT_EQ(verdict_of(bad), "segment 1 is of a claimant that the partition does not have");
  bad = good;
  bad.segments[0].nodes.push_back({99});
  EXPECT_EQ(verdict_of(bad), "segment 1 has a node that the graph does not have");
  bad = good;
  bad.segments[1].nodes.clear();
  EXPECT_EQ(verdict_of(bad), "segment 2 has no nodes");
  bad = good;
  bad.segments[0].inputs.push_back({99});
  EXPECT_EQ(verdict_of(bad), "segment 1 has an input that the graph does not have");
  bad = good;
  bad.segments[0].outputs.push_back({99});
  EXPECT_EQ(verdict_of(bad), "segment 1 has an output that the graph does not have");
}

TEST(VerifyPartition, WhatIsDeclined) {
  const Partition good = partition_of(model());
  ASSERT_EQ(good.declined.size(), 5u);
  Partition bad = good;
  std::swap(bad.declined[0], bad.declined[1]);
  EXPECT_EQ(verdict_of(bad), "what is declined is not in the order of nodes and claimants");
  bad = good;
  bad.declined.back().node.id = 99;
  EXPECT_EQ(verdict_of(bad), "a node is declined that the graph does not have");
  bad = good;
  bad.declined[0].reason = 99;
  EXPECT_EQ(verdict_of(bad), "a node is declined for no reason");
  bad = good;
  bad.declined.insert(bad.declined.begin(), {{0}, 0, 0});
  EXPECT_EQ(verdict_of(bad), "linear %a is declined by a claimant that does not come before its own");
}

}  // namespace
}  // namespace tenon
