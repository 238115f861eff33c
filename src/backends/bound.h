// A kernel some of whose inputs are known when it is compiled: what depends on them alone is computed once.
#pragma once

#include <map>

#include "backends/backend.h"

namespace tenon {

// `constants` by slot. The kernel runs with the same memory as one of the tree itself; what is there for a constant is
// not looked at. Throws an Error for a constant of another type than the slot's.
std::unique_ptr<Compiled> compile_bound(const Backend& backend, const loops::LoopTree& tree,
                                        const std::map<int64_t, Tensor>& constants);

}  // namespace tenon
