// Random valid kernels with every kind of node, and inputs for them.
//
// Every value is a small integer, whatever its dtype, so that results are exact: a schedule that changes the order of
// additions must give equal numbers (zeros may differ in their sign). Indices are in range, and nothing divides by
// zero.
#pragma once

#include "loops/ir.h"
#include "tests/graph/support_values.h"

namespace tenon::test {

// The same for the same seed. Fewer than 5,000 iterations in all.
loops::IR random_ir(uint64_t seed);
// With sizes around those of vectors, up to 40. Fewer than 100,000 iterations.
loops::IR random_ir_around_vectors(uint64_t seed);

// Integers from -3 to 3, by slot.
std::vector<Tensor> inputs_for(const loops::IR& ir, uint64_t seed);

// The iterations of a node, whose sizes are constants.
int64_t iterations(const loops::IR& ir, loops::NodeRef node);

}  // namespace tenon::test
