// The ops that are run as a whole, by a function of the runtime (runtime/library.h): those with LibraryTask in their
// record, and composites that such a function computes faster than the ops they expand to. Bit by bit the reference's
// results, but for which NaN it is and for sums of products, which are rounded in another order.
#pragma once

#include "graph/reference.h"

namespace tenon {

// Runs one node on the host's threads. Reads the inputs of the context and writes its outputs, as a record's reference
// function does; throws an Error for a run-time error.
using LibraryTaskFn = void (*)(ReferenceContext&);

LibraryTaskFn find_library_task(const OpDef& op);  // null when the op is none of these

}  // namespace tenon
