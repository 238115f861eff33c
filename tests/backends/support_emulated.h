// A GPU without a GPU: the code of backend cuda, compiled for this CPU, with a coroutine for each thread of a block.
//
//   - The threads of a block run one after the other, each until the next barrier or shuffle, the last thread first or
//     the first one, in turn. A missing barrier gives wrong results.
//   - What a barrier is left out of by some of the threads is an error, as is an access of a launch beside its buffers'
//     pages.
//   - Products of cuBLASLt are computed from their tables, with sums in f64.
#pragma once

#include "backends/backend.h"
#include "backends/cuda/cuda.h"

namespace tenon::test {

std::unique_ptr<Compiled> compile_emulated(const loops::LoopTree& tree);

}  // namespace tenon::test
