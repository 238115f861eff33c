// The functions of the runtime that compute a whole op (runtime/library.h), called with tensors.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/reference.h"

namespace tenon {

// A node's attributes as a library function takes them: those that are booleans, integers or expressions, in the
// record's order, where a symbol that the op defines itself is runtime::kAnyCount; and the one that is a string.
std::vector<Expr> library_numbers(const OpDef& op, std::span<const Attr> attrs);
std::string library_text(const OpDef& op, std::span<const Attr> attrs);

// Runs the function that has the op's name, on the host's threads: what a record's reference function does. Throws an
// Error for a run-time error.
void run_library_function(ReferenceContext& context);

}  // namespace tenon
