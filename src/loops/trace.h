// The order in which a LoopTree touches memory, for pictures of it.
#pragma once

#include "loops/loop_tree.h"

namespace tenon::loops {

struct Trace {
  enum Role : uint8_t { kInput, kOutput, kScratch };
  struct Array {
    std::string name;  // of the node that makes it
    Role role;
    int64_t elements;
  };
  struct Step {
    uint32_t array;
    int64_t position;  // in elements
    bool writes;
    bool operator==(const Step&) const = default;
  };
  std::vector<Array> arrays;
  std::vector<Step> steps;
  bool is_whole = true;  // False where there were more than the limit.
};

// The first `limit` accesses of one run, element by element: iterations that run as vectors or on several threads stand
// one after the other. Scratch of a single element is left out, for it is a register; so are the starts of folds, and
// accesses whose position depends on data. Throws an Error for a kernel whose sizes are not constants.
Trace trace(const LoopTree& tree, size_t limit);

}  // namespace tenon::loops
