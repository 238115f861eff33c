// Compiled kernels, found by the structure of their loops.
#pragma once

#include "backends/backend.h"

namespace tenon::named {

struct Kernel {
  loops::LoopTree tree;  // as it was compiled. Its names are those of the first expression with this structure.
  std::unique_ptr<Compiled> compiled;
};

// The loops of a kernel: those of its IR, or the backend's default schedule.
enum class Loops : uint8_t { kAsGiven, kOfBackend };

// The kernel of an IR. Compiles it if no kernel has the same structure. Safe to call from several threads: each kernel
// is compiled once. Throws an Error if the backend cannot compile it.
std::shared_ptr<const Kernel> kernel_for(const loops::IR& ir, const std::shared_ptr<const Backend>& backend,
                                         Loops loops);

}  // namespace tenon::named
