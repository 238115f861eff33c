// Rematerialization: less memory, for work that is done twice.
//
// Most of the memory of a training step holds values of forward that wait for backward. Instead of waiting, a value can
// be computed again before its reader: from values that are in memory at that time, from leaves, and from other values
// that are computed again. Random numbers are functions of a key, so they are the same again.
//
// The groups of a graph (fusion/fuse.h) are listed in the order in which they run. To compute a value again, a part of
// its group is listed once more, right before the reader. If the part and all its readers are elementwise, the readers
// compute the value themselves, and it takes no memory. So the list may compute a value several times: a group reads
// the last result before it.
#pragma once

#include "fusion/fuse.h"
#include "fusion/live_memory.h"

namespace tenon {

struct Recomputation {
  std::vector<std::string> ops;
  Location location;  // of the value
  TensorType type;
  int64_t bytes;  // of memory that is saved
  double share;   // of the work of the whole list, as an estimate
};

struct Rematerialized {
  std::vector<FusedGroup> groups;
  std::vector<Recomputation> recomputed;
  int64_t bytes = 0;  // most at one time, as an estimate
  double work = 1;    // of the work of the list as it was, as an estimate
};

// Computes values again, the cheapest per saved byte first, until the list needs at most `most` bytes at a time. If
// that is impossible, the list needs as little as possible.
Rematerialized rematerialize(const Graph& graph, const std::vector<FusedGroup>& groups, const MemoryModel& model,
                             int64_t most);

}  // namespace tenon
