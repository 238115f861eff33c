#include "tests/partition/support_claims.h"

#include <fmt/format.h>

namespace tenon::test {

Claimant claimant_of(std::string name, std::set<std::string, std::less<>> ops) {
  std::map<std::string, double, std::less<>> untimed;
  for (const std::string& op : ops) untimed[op] = -1;
  return timed_claimant(std::move(name), std::move(untimed));
}

Claimant timed_claimant(std::string name, std::map<std::string, double, std::less<>> ops) {
  const auto claim = [ops = std::move(ops)](const Graph& graph, NodeRef node) -> Claim {
    const std::string_view op = graph.node(node).op->name.get();
    const auto found = ops.find(op);
    if (found == ops.end()) return {.reason = fmt::format("it has no {}", op)};
    return {.accepted = true, .seconds = found->second};
  };
  return {.name = std::move(name), .claim = claim};
}

Claimant random_claimant(std::string name, double part, bool times, Random& random) {
  const auto claim = [part, times, seed = random()](const Graph&, NodeRef node) -> Claim {
    Random own(seed + node.id * 7919);
    std::uniform_real_distribution<double> uniform(0, 1);
    if (uniform(own) >= part) return {.reason = "chance"};
    return {.accepted = true, .seconds = times ? uniform(own) * 1e-4 : -1};
  };
  return {.name = std::move(name), .claim = claim};
}

std::vector<Claimant> with_host(std::vector<Claimant> devices) {
  devices.push_back(pytorch_claimant());
  devices.push_back(reference_claimant());
  devices.push_back(cpu_claimant());
  return devices;
}

}  // namespace tenon::test
