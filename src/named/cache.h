// Compiled kernels, found by full equality of what was compiled.
#pragma once

#include "backends/backend.h"

namespace tenon::named {

struct Kernel {
  loops::LoopTree tree;  // as it was compiled: of the first that asked, so names may be another's
  std::unique_ptr<Compiled> compiled;
};

// The same kernel under names that say nothing: variables, sizes, lookups and nodes are numbered in order.
loops::IR canonical(const loops::IR& ir);

// Which loops a kernel runs by: those of its IR, or those that the backend finds best for it.
enum class Loops : uint8_t { kAsGiven, kOfBackend };

// The kernel of an IR, compiled when there is none that equals it. Safe from several threads; each kernel is compiled
// once. Throws an Error where the backend cannot.
std::shared_ptr<const Kernel> kernel_for(const loops::IR& ir, const std::shared_ptr<const Backend>& backend,
                                         Loops loops);

}  // namespace tenon::named
