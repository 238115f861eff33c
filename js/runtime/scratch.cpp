// Scratch memory from the C library, which keeps freed blocks itself: memory never goes back to the page.
#include "runtime/scratch.h"

#include <cstdlib>

namespace tenon {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

void* allocate_scratch(int64_t bytes) noexcept {
  void* memory = nullptr;
  const bool fits = bytes >= 0 && static_cast<uint64_t>(bytes) < SIZE_MAX;
  return fits && posix_memalign(&memory, kAlignment, static_cast<size_t>(bytes) + 1) == 0 ? memory : nullptr;
}
void release_scratch(void* memory) noexcept { std::free(memory); }
int64_t scratch_kept() { return 0; }

void* allocate_uncached_scratch(int64_t bytes) noexcept { return allocate_scratch(bytes); }
void free_uncached_scratch(void* memory, int64_t) noexcept { std::free(memory); }

}  // namespace tenon

// For the page. The linker may give others these functions of the C library (threads/heap.cpp), but does not export
// them.
extern "C" void* tenon_allocate(size_t alignment, size_t size) { return std::aligned_alloc(alignment, size); }
extern "C" void tenon_release_memory(void* memory) { std::free(memory); }
