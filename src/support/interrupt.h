// Lets a user end long work with Ctrl-C.
//
// The Python module installs a check, which asks the interpreter for signals and throws the exception of a signal's
// handler. The command line installs none: a signal ends its process. Loops whose length depends on a model's file
// (nodes of a graph, elements that are computed at compile time, kernels) call `check_interrupt`.
#pragma once

#include <exception>

namespace tenon {

// Throws to end the work. Any thread may call it.
using InterruptCheck = void (*)();

// For the process; null removes it. Returns the check that was installed before.
InterruptCheck set_interrupt_check(InterruptCheck check) noexcept;

// `check_interrupt` throws this. It is no std::exception, so that no handler takes it for a failure.
struct InterruptedWork {
  std::exception_ptr cause;  // the exception of the installed check
};

// Calls the installed check, at most 20 times a second in each thread: cheap enough for each node of a graph, not for
// each element of a tensor.
void check_interrupt();

}  // namespace tenon
