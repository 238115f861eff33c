// Splits a kernel into a part that depends on constants alone and runs once, and the rest, which runs every time. So
// weights are packed, cast and transposed when a program is compiled.
#pragma once

#include <set>

#include "loops/loop_tree.h"

namespace tenon {

// A kernel that computes one input of another kernel, once.
struct Preparation {
  loops::IR kernel;             // has one output
  std::vector<int64_t> inputs;  // slots of the kernel that was split
  // Of a kernel that only moves the elements of its one input: the position of each element along the dimensions of the
  // result, over the variables of the input. Empty for a kernel that computes.
  std::vector<Expr> positions = {};
};

struct AheadOfTime {
  loops::LoopTree tree;
  // The source of each input of the tree: a slot of the kernel that was split, or a preparation. The other is -1.
  struct Input {
    int64_t slot = -1;
    int64_t preparation = -1;
  };
  std::vector<Input> inputs;
  std::vector<Preparation> preparations;
};

// Moves all arrays that depend only on the inputs in `constants` out of the tree, into preparations. A preparation
// stores its result in the order in which the loops of the tree read it. Arrays of symbolic size stay in the tree.
AheadOfTime split_ahead(const loops::LoopTree& tree, const std::set<int64_t>& constants);

// The kernel with input `slot` in the layout of a preparation that only moves elements. The input has the type of the
// preparation's input.
loops::IR read_prepared(const loops::IR& ir, int64_t slot, const Preparation& layout);

}  // namespace tenon
