// Python functions that run the external calls of programs.
#pragma once

#include "bind.h"
#include "program/program.h"

namespace tenon::python {

// function(call, operands) gives a list of results; None: there is no fallback. The function is called and freed with
// the interpreter's lock held.
FallbackFn fallback_from(nb::object function);

}  // namespace tenon::python
