// What a kernel computes of constants alone is computed once, ahead of its runs: weights are packed, cast and
// transposed when they become known.
#pragma once

#include <set>

#include "loops/loop_tree.h"

namespace tenon {

// A kernel that makes one input of another.
struct Preparation {
  loops::IR kernel;             // has one output
  std::vector<int64_t> inputs;  // its inputs: slots of the kernel that was split
};

struct AheadOfTime {
  loops::LoopTree tree;
  // Where each input of the tree comes from: a slot of the kernel that was split, or the result of a preparation.
  struct Input {
    int64_t slot = -1;
    int64_t preparation = -1;
  };
  std::vector<Input> inputs;
  std::vector<Preparation> preparations;
};

// Takes out of a tree all arrays that depend on nothing but the inputs in `constants`. A preparation lays its result
// out as the loops of the tree read it. Arrays of symbolic size stay.
AheadOfTime split_ahead(const loops::LoopTree& tree, const std::set<int64_t>& constants);

}  // namespace tenon
