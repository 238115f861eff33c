// Simplification of a kernel, IR to IR: fewer views and fewer variables, the same results.
#pragma once

#include "loops/ir.h"

namespace tenon::loops {

// - A view of a view reads what that one reads, where the indices stay provably inside.
// - Two variables become one in the whole kernel where a view reads one at the other's index: of the same size, and no
//   node has both. So nodes that go over the same elements can share loops.
// - A view that thereby reads at its own index is gone, and so is what nobody reads. Reads and writes keep their types.
//
// Every node gets its default loops. Names stay; numbers do not.
IR unify(const IR& ir);

}  // namespace tenon::loops
