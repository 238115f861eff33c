// Which outputs of a kernel may lie in the memory of which inputs.
//
// An output may use the memory of an input if every element of the input is read before the output overwrites it, and
// never after. That holds if all of these do:
//
//   - Every read of the input is at the memory position that the output writes at that point: no transposition, gather
//     or reversal. A guard may skip the read.
//   - The loops around both the read and the write are over variables of the output. So an element is read and written
//     in one iteration of each of them, on one thread.
//   - In that iteration the read runs before the write.
//
// The answer depends on the loops: ask for the tree that is compiled. Every backend runs a tree in its order, element
// by element, and reads an element once per access. A caller of the kernel may pass one address for both arrays of a
// pair, for several pairs at a time if no array is in two of them. All other outputs must not overlap anything.
#pragma once

#include "loops/loop_tree.h"

namespace tenon::loops {

struct InPlacePair {
  int64_t input;  // a slot, as output is
  int64_t output;
  bool operator==(const InPlacePair&) const = default;
};

std::vector<InPlacePair> in_place_pairs(const LoopTree& tree);

}  // namespace tenon::loops
