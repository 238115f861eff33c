// The C library for wasm32 has no threads: one at a time uses its heap. The linker gives these functions the calls of
// the others (--wrap).
#include <atomic>
#include <cstddef>
#include <utility>

namespace {

std::atomic_flag taken;

// Spins: the lock is held for a moment, and the thread of a page must not sleep.
template <class Call>
auto alone(Call call) {
  while (taken.test_and_set(std::memory_order_acquire)) {
  }
  auto result = call();
  taken.clear(std::memory_order_release);
  return result;
}

}  // namespace

// NOLINTBEGIN: the linker's names
extern "C" {
void* __real_malloc(size_t size);
void* __real_calloc(size_t count, size_t size);
void* __real_realloc(void* memory, size_t size);
void* __real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void** memory, size_t alignment, size_t size);
void __real_free(void* memory);

void* __wrap_malloc(size_t size) {
  return alone([&] { return __real_malloc(size); });
}
void* __wrap_calloc(size_t count, size_t size) {
  return alone([&] { return __real_calloc(count, size); });
}
void* __wrap_realloc(void* memory, size_t size) {
  return alone([&] { return __real_realloc(memory, size); });
}
void* __wrap_aligned_alloc(size_t alignment, size_t size) {
  return alone([&] { return __real_aligned_alloc(alignment, size); });
}
int __wrap_posix_memalign(void** memory, size_t alignment, size_t size) {
  return alone([&] { return __real_posix_memalign(memory, alignment, size); });
}
void __wrap_free(void* memory) {
  alone([&] { return __real_free(memory), 0; });
}
}
// NOLINTEND
