// Claimants for tests.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "partition/partition.h"
#include "tests/graph/support_values.h"

namespace tenon::test {

// Accepts the nodes of these ops.
Claimant claimant_of(std::string name, std::set<std::string, std::less<>> ops);

// Accepts the nodes of these ops, and states how many seconds each takes; below 0: states nothing.
Claimant timed_claimant(std::string name, std::map<std::string, double, std::less<>> ops);

// Accepts about this part of all nodes, at random but always the same ones. With `times`, states seconds.
Claimant random_claimant(std::string name, double part, bool times, Random& random);

// The devices, then PyTorch, the reference evaluator and the CPU.
std::vector<Claimant> with_host(std::vector<Claimant> devices);

}  // namespace tenon::test
