// Calls of the runtime's C++ functions: their errors become the compiler's.
#pragma once

#include "runtime/error.h"
#include "runtime/out_of_range.h"
#include "support/position_error.h"

namespace tenon {

// Runs `body`, which calls the runtime. Throws an Error in place of a runtime::StatusError, or an InternalError if it
// is a bug of Tenon.
template <class Body>
auto call_runtime(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const runtime::OutOfRange& error) {
    throw PositionError({error.message(), {}});
  } catch (const runtime::StatusError& error) {
    check(error.status() != TENON_INTERNAL, "{}", error.message());
    fail("{}", error.message());
  }
}

}  // namespace tenon
