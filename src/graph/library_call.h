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

// Whether the runtime has a function of the op's name: ops with LibraryTask in their record, and composites that such a
// function computes faster than the ops of their expansion. Results equal the reference's bit by bit, but for NaN
// payloads and for sums of products, which are rounded in another order.
bool has_library_function(const OpDef& op);

// Runs the function of the op's name on the runtime's threads. Record references call it. Throws an Error for a
// run-time error.
void run_library_function(ReferenceContext& context);

}  // namespace tenon
