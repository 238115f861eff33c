// Lets a user end long work with Ctrl-C.
//
// Whoever runs the process installs a check: in Python it asks the interpreter for signals and throws what their
// handlers raise. The command line needs none: its signal handler ends the process. Loops whose length a model's file
// decides (nodes of a graph, elements that are computed at compile time, kernels) call `check_interrupt` as they go.
#pragma once

#include <exception>

namespace tenon {

// Throws to end the work. Any thread may call it.
using InterruptCheck = void (*)();

// For the process; null removes it. Returns the check that was installed before.
InterruptCheck set_interrupt_check(InterruptCheck check) noexcept;

// What `check_interrupt` throws. It is no std::exception: nobody on the way takes it for a failure.
struct InterruptedWork {
  std::exception_ptr cause;  // what the installed check threw
};

// Calls the installed check, at most 20 times a second in each thread: cheap enough for each node of a graph, not for
// each element of a tensor.
void check_interrupt();

}  // namespace tenon
