// Calls of the runtime's C++ functions: their errors become the compiler's.
#pragma once

#include "runtime/error.h"
#include "support/diagnostic.h"

namespace tenon {

// Runs `body`, which calls the runtime: a runtime::StatusError leaves as an Error with the same text, or as an
// InternalError where it is our bug.
template <class Body>
auto call_runtime(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const runtime::StatusError& error) {
    check(error.status() != TENON_INTERNAL, "{}", error.message());
    fail("{}", error.message());
  }
}

}  // namespace tenon
