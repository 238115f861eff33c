// The kernels of an artifact, for people: as loop trees are written.
#pragma once

#include <string>

#include "runtime/task_graph.h"

namespace tenon::runtime {

// The loops of a task that is a kernel, of a program from a file: the runtime has checked its tables.
//
//     for v0 in N parallel
//       for v1 in 16
//         %p[16*v0 + v1] = mul(%x[16*v0 + v1], 0.5)
//         %s[v0] = reduce add(%p[v1])
//
// Variables and lookups have numbers for names; inside of a loop over v0, v0' runs over what an iteration covers.
std::string loops_text(const TaskGraph& graph, const TaskNode& task);

}  // namespace tenon::runtime
