#include "fusion/groups_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/support_malformed.h"

namespace tenon {
namespace {

Graph model() {
  return parse_graph(R"(graph g(%x: f32[8, 4]) {
  %w: f32[4, 6] = parameter "w"
  %b: f32[6] = parameter "b"
  %total: f32[48] = buffer "total"
  %p: f32[8, 6] = contract(%x, %w) {spec="ik,kj->ij"}
  %q: f32[8, 6] = add(%p, %b)
  %z: f32[8, 6] = tanh(%q)
  %flat: f32[48] = reshape(%z) {shape=[48]}
  %values: f32[48], %places: i64[48] = sort(%flat)
  update %total = %flat
  return %values
}
)")
      .value();
}

constexpr std::string_view kGroups =
    "kernel(%x, %w, %b) -> %z: contract %p, add %q, tanh %z\n"
    "alias(%z) -> %flat: reshape %flat\n"
    "library(%flat) -> %values: sort %values\n";

std::string verdict(const Graph& graph, std::string_view text) {
  const Result<std::vector<FusedGroup>> groups = parse_groups(graph, text);
  if (!groups.ok()) return groups.diagnostic().text();
  const Status status = verify_groups(graph, *groups);
  return status.ok() ? "valid" : status.diagnostic().message;
}

std::string verdict(std::string_view text) { return verdict(model(), text); }

TEST(GroupsText, IsWhatFusionPrints) {
  const Graph graph = model();
  EXPECT_EQ(to_string(graph, fuse(graph)), kGroups);
  EXPECT_EQ(parse_groups(graph, kGroups).value(), fuse(graph));
  EXPECT_EQ(verdict(kGroups), "valid");
}

TEST(GroupsText, BlanksAndCommentsAreFree) {
  const std::string text = "kernel ( %x , %w , %b )\n  -> %z : # a comment\n contract %p , add %q ,\n tanh %z";
  EXPECT_EQ(parse_groups(model(), text).value()[0], fuse(model())[0]);
}

TEST(GroupsText, AGroupMayWriteNothing) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[4]) {
  %v: f32[4], %i: i64[4] = sort(%x)
  return
}
)")
                          .value();
  const std::vector<FusedGroup> groups = fuse(graph);
  EXPECT_EQ(to_string(graph, groups), "library(%x): sort %v\n");
  EXPECT_EQ(parse_groups(graph, to_string(graph, groups)).value(), groups);
}

// ---- texts that are wrong ----

TEST(GroupsText, ErrorsSayWhere) {
  EXPECT_EQ(verdict("kernal(%x) -> %z: tanh %z"),
            "<text>:1:1: error: there is no kind of group 'kernal'; did you mean 'kernel'?");
  EXPECT_EQ(verdict("kernel(%x, %plases) -> %z: tanh %z"),
            "<text>:1:12: error: the graph has no value %plases; did you mean 'places'?");
  EXPECT_EQ(verdict("kernel(%q) -> %z:\n  exp %z"), "<text>:2:3: error: %z is computed by tanh, not by exp");
  EXPECT_EQ(verdict("kernel(%q) -> %z: tanh %x"), "<text>:1:24: error: %x is a leaf of the graph: no node computes it");
  EXPECT_EQ(verdict("library(%flat) -> %values: sort %places"),
            "<text>:1:33: error: a node is named by its first result: %values for %places");
  EXPECT_EQ(verdict("kernel(%q) ->: tanh %z"), "<text>:1:14: error: expected '%', got ':'");
  EXPECT_EQ(verdict("kernel(%q) -> %z"), "<text>:1:17: error: expected ':', got the end of the text");
  EXPECT_EQ(verdict("kernel(%q) -> %z: "), "<text>:1:18: error: expected an op, got the end of the text");
  EXPECT_EQ(verdict("kernel(%q,) -> %z: tanh %z"), "<text>:1:11: error: expected '%', got ')'");
  EXPECT_EQ(verdict("7"), "<text>:1:1: error: expected the kind of a group, got '7'");
}

void expect_sound(const Graph& graph, const std::string& text) {
  const Result<std::vector<FusedGroup>> groups = parse_groups(graph, text);
  if (!groups.ok()) return test::expect_place_inside(groups.diagnostic(), text);
  EXPECT_EQ(parse_groups(graph, to_string(graph, *groups)).value(), *groups) << text;
  const Status status = verify_groups(graph, *groups);
  EXPECT_TRUE(status.ok() || !status.diagnostic().message.empty());
}

TEST(GroupsText, EveryChangedTextIsSound) {
  const Graph graph = model();
  for (const std::string& text : test::with_changed_bytes(kGroups)) expect_sound(graph, text);
  for (const std::string& text : test::with_changed_stretches(kGroups)) expect_sound(graph, text);
}

// ---- lists that cannot run ----

// The list with one part of its text exchanged.
std::string verdict_with(std::string_view from, std::string_view to) {
  std::string text(kGroups);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return verdict(text.replace(at, from.size(), to));
}

TEST(VerifyGroups, Inputs) {
  EXPECT_EQ(verdict_with("(%x, %w, %b)", "(%x, %w)"), "group 1 reads %b, which is not among its inputs");
  EXPECT_EQ(verdict_with("(%x, %w, %b)", "(%x, %w, %b, %total)"),
            "group 1 has the input %total, which none of its nodes reads");
  EXPECT_EQ(verdict_with("(%x, %w, %b)", "(%x, %w, %b, %x)"), "group 1 has an input twice");
}

TEST(VerifyGroups, Outputs) {
  EXPECT_EQ(verdict_with("-> %z", "-> %flat"), "group 1 has the output %flat, which none of its nodes computes");
  EXPECT_EQ(verdict_with("-> %z", "-> %x"), "group 1 has the output %x, which none of its nodes computes");
  EXPECT_EQ(verdict_with("-> %z", "-> %z, %z"), "group 1 has an output twice");
  EXPECT_EQ(verdict_with("-> %z", "-> %q"), "group 1 computes %z, which none of its outputs needs");
  EXPECT_EQ(verdict_with("-> %z", "-> %q, %z"), "valid") << "to write more than anyone reads is no error";
  EXPECT_EQ(verdict_with(" -> %flat", ""), "group 3 reads %flat, which no earlier group writes");
  EXPECT_EQ(verdict_with("-> %values", "-> %places"), "no group writes %values, an output of the graph");
}

TEST(VerifyGroups, Nodes) {
  EXPECT_EQ(verdict_with("contract %p, add %q", "add %q, contract %p"),
            "group 1 has nodes that are not in the order of the graph");
  EXPECT_EQ(verdict_with("add %q", "add %q, add %q"), "group 1 has nodes that are not in the order of the graph");
  EXPECT_EQ(verdict_with("contract %p, ", ""), "group 1 reads %p, which is not among its inputs");
  EXPECT_EQ(verdict_with("kernel", "library"), "group 1 has 3 nodes; only a kernel has several");
  EXPECT_EQ(verdict_with("library", "alias"), "group 3 is an alias, but its node is sort, not reshape");
  EXPECT_EQ(verdict_with("library", "external"), "group 3 is of kind external, but its node is sort");
  EXPECT_EQ(verdict_with("library", "segment"), "group 3 is of kind segment, but its node is sort");
  const Graph graph = model();
  const std::vector<FusedGroup> strange = {{GroupKind::kKernel, {{99}}, {}, {}}};
  EXPECT_EQ(verify_groups(graph, strange).diagnostic().message, "group 1 has a node that the graph does not have");
  const std::vector<FusedGroup> empty = {{GroupKind::kKernel, {}, {}, {}}};
  EXPECT_EQ(verify_groups(graph, empty).diagnostic().message, "group 1 has no nodes");
  std::vector<FusedGroup> foreign = fuse(graph);
  foreign[0].inputs.push_back({99});
  EXPECT_EQ(verify_groups(graph, foreign).diagnostic().message, "group 1 has an input that the graph does not have");
  foreign = fuse(graph);
  foreign[0].outputs.push_back({99});
  EXPECT_EQ(verify_groups(graph, foreign).diagnostic().message, "group 1 has an output that the graph does not have");
}

TEST(VerifyGroups, Order) {
  const std::string text(kGroups);
  const size_t one = text.find('\n') + 1, two = text.find('\n', one) + 1;
  const std::string first = text.substr(0, one), second = text.substr(one, two - one), third = text.substr(two);
  EXPECT_EQ(verdict(first + third + second), "group 2 reads %flat, which no earlier group writes");
  EXPECT_EQ(verdict(second + third), "group 1 reads %z, which no earlier group writes");
  EXPECT_EQ(verdict(first + second), "no group writes %values, an output of the graph");
  EXPECT_EQ(verdict(first + second + first + third), "valid") << "a list may compute a value again";
}

TEST(VerifyGroups, Updates) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[4]) {
  %s: f32[4] = buffer "s"
  %y: f32[4] = add(%x, %s)
  %z: f32[4] = neg(%s)
  update %s = %y
  return %z
}
)")
                          .value();
  EXPECT_EQ(verdict(graph, "kernel(%s) -> %z: neg %z"), "no group writes %y, the value of an update of the graph");
}

// A fill reads nothing, but its size is known only after nonzero.
TEST(VerifyGroups, Sizes) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[4]) {
  symbol U in [0, 4]
  %n: i64[U, 1] = nonzero(%x) {count=U}
  %f: f32[U] = full() {value=1.5, shape=[U], dtype=f32}
  return %n, %f
}
)")
                          .value();
  EXPECT_EQ(verdict(graph, to_string(graph, fuse(graph))), "valid");
  EXPECT_EQ(verdict(graph, "kernel() -> %f: full %f\nlibrary(%x) -> %n: nonzero %n"),
            "group 1 mentions the size U before %n finds it out");
}

}  // namespace
}  // namespace tenon
