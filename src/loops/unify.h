// Simplification of a kernel, IR to IR: fewer views and fewer variables, the same results.
#pragma once

#include "loops/ir.h"

namespace tenon::loops {

// - A view of a view reads the input of the inner view, if the indices are provably in range.
// - Two variables of equal size become one variable of the kernel if a view reads one at the other's index and no node
//   has both. Then nodes over the same elements can share loops.
// - A view that now reads at its own index is removed, and so are nodes that nothing reads. Reads and writes keep their
//   types.
//
// Every node gets its default loops. Nodes keep their names; their refs change.
IR unify(const IR& ir);

}  // namespace tenon::loops
