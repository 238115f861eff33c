// How much is computed at compile time.
//
// A group that reads constants alone is computed once, when a program is compiled. A small file can ask for any amount
// of that: `linspace(0, 1, 2^40)`, or a sum of 2^40 ones. So each program has an allowance of time and of bytes. A
// group within a multiple of the constants that it reads is free: packed and dequantized weights take as long as the
// file is large. Other groups draw on the allowance; a group that it does not cover is computed in every run.
#pragma once

#include "fusion/fuse.h"

namespace tenon {

class ConstantBudget {
 public:
  // Whether the group is computed now; if so, the allowance is smaller by what it takes. `runs_reference` says that no
  // kernel computes it, but the reference backend.
  bool covers(const Graph& graph, const FusedGroup& group, bool runs_reference);

 private:
  double nanoseconds_ = 2e9;
  double bytes_ = 256.0 * (1 << 20);
};

}  // namespace tenon
