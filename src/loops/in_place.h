// Which outputs of a kernel may lie in the memory of which inputs.
//
// An element may be overwritten once nothing reads it any more. So an output may take an input's place where they are
// the same elements in the same order, and each element of the input is read at the index at which it is then written,
// before it is written:
//
//   - wherever the kernel reads the input, it does so at the position in memory that the output is written at there: no
//     transposition, no gather, no reversal; a guard may leave the read out;
//   - the loops around both the read and the write go over variables of the output, so that an element is read and
//     written in one iteration of each of them, on one thread;
//   - in that iteration the read comes first, in the same loop or in one that is over by then.
//
// It is a matter of the loops, not of the expression: ask it of the tree that is compiled. Every backend runs a tree so
// that what comes first in it is done first, element by element, and reads no element twice for one access. Whoever
// runs the kernel may then pass one address for both, for as many pairs at a time as have no array in common. Other
// outputs overlap nothing.
#pragma once

#include "loops/loop_tree.h"

namespace tenon::loops {

struct InPlacePair {
  int64_t input;  // slots
  int64_t output;
  bool operator==(const InPlacePair&) const = default;
};

std::vector<InPlacePair> in_place_pairs(const LoopTree& tree);

}  // namespace tenon::loops
