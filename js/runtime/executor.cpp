// There are no executors: loops run on the threads of the pool.
#include "runtime/executor.h"

namespace tenon {

int64_t ExecutorLoop::run(int64_t begin, int64_t end, StretchFn stretch, void* context) noexcept {
  return parallel_for(begin, end, stretch, context);
}
void ExecutorLoop::check() {}

}  // namespace tenon
