// Random schedule edits: whatever a person could ask for, sensible or not.
#pragma once

#include <random>

#include "loops/schedule.h"

namespace tenon::loops::testing {

struct Proposal {
  std::string what;  // for messages: "split(loop 3 over k, 4)"
  Result<LoopTree> result;
};

Proposal random_edit(const LoopTree& tree, std::mt19937& random);

// Applies up to `count` edits that are legal. `log` tells which.
LoopTree random_schedule(LoopTree tree, int count, std::mt19937& random, std::string* log = nullptr);

}  // namespace tenon::loops::testing
