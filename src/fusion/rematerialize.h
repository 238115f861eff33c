// Rematerialization: less memory, for work that is done twice.
//
// Most of what a step of training needs are values of forward that wait for backward. Instead of waiting, a value can
// be computed again where it is needed: of values that are there at that time anyway, of leaves, and of others that are
// computed again as well. Random numbers are functions of a key, so they are the same again.
//
// The groups of a graph (fusion/fuse.h) are listed in the order in which they run. What is computed again is a part of
// a group that is listed once more, right before who needs it; where it is element by element, and so are those who
// need it, it is computed inside of them and takes no memory at all. So the list may compute a value several times: a
// group reads what the last one before it has written.
#pragma once

#include "fusion/fuse.h"
#include "fusion/live_memory.h"

namespace tenon {

struct Recomputation {
  std::vector<std::string> ops;
  Location location;  // of the value
  TensorType type;
  int64_t bytes;  // that do not wait any more
  double share;   // of the work of the whole list, as an estimate
};

struct Rematerialized {
  std::vector<FusedGroup> groups;
  std::vector<Recomputation> recomputed;
  int64_t bytes = 0;  // most at one time, as an estimate
  double work = 1;    // of the work of the list as it was, as an estimate
};

// Computes values again, those first that cost least for each byte, until the list needs no more than `most` bytes at a
// time; as little as it can, where that is not enough.
Rematerialized rematerialize(const Graph& graph, const std::vector<FusedGroup>& groups, const MemoryModel& model,
                             int64_t most);

}  // namespace tenon
