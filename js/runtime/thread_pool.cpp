// One thread runs all loops.
#include "runtime/thread_pool.h"

namespace tenon {

int64_t thread_count() noexcept { return 1; }
void set_threads(int64_t) noexcept {}
int64_t set_own_threads(int64_t) noexcept { return 0; }

int64_t parallel_for(int64_t begin, int64_t end, StretchFn stretch, void* context) noexcept {
  return begin < end ? stretch(context, begin, end) : 0;
}

}  // namespace tenon

// The thread ends with the page: its variables need no destructors.
extern "C" int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }
