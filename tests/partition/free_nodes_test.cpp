#include "partition/free_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/dead_code.h"
#include "tests/partition/support_claims.h"
#include "tests/program/support_random_model.h"

namespace tenon {
namespace {

// Seconds of all transfers, counted value by value.
double seconds_of(const Graph& graph, const Flow& flow, const Crossings& crossings,
                  const std::vector<uint32_t>& owners) {
  double seconds = 0;
  for (uint32_t id = 0; id < graph.value_count(); ++id) {
    Brought brought{0, {crossings.origin({id}, owners)}};
    if (flow.is_kept[id]) crossings.bring({id}, crossings.host(), brought);
    for (uint32_t reader : flow.readers[id]) crossings.bring({id}, owners[reader], brought);
    seconds += brought.seconds;
  }
  return seconds;
}

// Free nodes that place_free_nodes may place, and none whose result nobody reads: of these, preference may decide.
std::optional<std::vector<uint32_t>> placed_nodes(const Graph& graph, const Flow& flow, const Crossings& crossings) {
  std::vector<uint32_t> placed;
  const std::vector<uint32_t> nobody(graph.nodes().size());
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    if (!is_free(graph, node)) continue;
    if (flow.readers[node.results[0].id].empty()) return std::nullopt;
    std::set<ValueRef> brought;
    for (ValueRef operand : node.operands) {
      if (operand && crossings.origin(operand, nobody) != Crossings::kEverywhere) brought.insert(operand);
    }
    if (brought.size() <= 1) placed.push_back(id);
  }
  return placed;
}

// A device that accepts every free node, and some of the others.
Claimant device(test::Random& random) {
  const auto claim = [seed = random()](const Graph& graph, NodeRef node) -> Claim {
    const bool is_chosen = (seed + node.id * 2654435761) % 5 < 2;
    return {.accepted = is_chosen || is_free(graph, graph.node(node))};
  };
  return {.name = "npu", .claim = claim, .crossing_seconds = 1e-6, .bytes_per_second = 1e9};
}

TEST(FreeNodes, NoOtherPlacesCostLess) {
  test::Random random(8);
  int compared = 0;
  for (int i = 0; i < 2000 && compared < 200; ++i) {
    const Graph graph = eliminate_dead_code(test::random_model(random, 20, i % 2 == 0));
    const std::vector<Claimant> claimants = {device(random), cpu_claimant()};
    const Flow flow(graph);
    const Crossings crossings(graph, flow, claimants);
    const auto placed = placed_nodes(graph, flow, crossings);
    if (!placed || placed->size() < 3 || placed->size() > 10) continue;
    ClaimTable claims(graph, claimants);
    std::vector<uint32_t> owners;
    for (uint32_t id = 0; id < graph.nodes().size(); ++id) owners.push_back(claims.first_acceptor(id));
    place_free_nodes(graph, flow, claims, crossings, owners);
    const double seconds = seconds_of(graph, flow, crossings, owners);
    double least = seconds;
    for (uint32_t choice = 0; choice < 1u << placed->size(); ++choice) {
      for (size_t k = 0; k < placed->size(); ++k) owners[(*placed)[k]] = choice >> k & 1;
      least = std::min(least, seconds_of(graph, flow, crossings, owners));
    }
    ASSERT_NEAR(seconds, least, 1e-11) << to_string(graph);
    ++compared;
  }
  EXPECT_EQ(compared, 200);
}

}  // namespace
}  // namespace tenon
