#include "tests/robustness/support_failing.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> calls = 0;     // of allocation
std::atomic<int64_t> failing = -1;  // number of the call that fails; none if negative
std::atomic<bool> and_all_after = false;
std::atomic<int64_t> blocks = 0;  // that are not freed

bool fails() {
  const int64_t number = calls++;
  const int64_t bad = failing;
  return bad >= 0 && (number == bad || (and_all_after && number > bad));
}

void* allocated(void* memory) {
  blocks += memory != nullptr;
  return memory;
}

void released(void* memory) {
  blocks -= memory != nullptr;
  std::free(memory);
}

}  // namespace

extern "C" {
void* __real_aligned_alloc(size_t alignment, size_t size);
void* __wrap_aligned_alloc(size_t alignment, size_t size);
}
void* __wrap_aligned_alloc(size_t alignment, size_t size) {
  return fails() ? nullptr : __real_aligned_alloc(alignment, size);
}

void* operator new(size_t size) {
  void* const memory = fails() ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return allocated(memory);
}
void* operator new(size_t size, std::align_val_t alignment) {
  const size_t whole = (size + static_cast<size_t>(alignment) - 1) / static_cast<size_t>(alignment);
  void* const memory =
      fails() ? nullptr : __real_aligned_alloc(static_cast<size_t>(alignment), whole * static_cast<size_t>(alignment));
  if (memory == nullptr) throw std::bad_alloc();
  return allocated(memory);
}
void operator delete(void* memory) noexcept { released(memory); }
void operator delete(void* memory, size_t) noexcept { released(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { released(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { released(memory); }

namespace tenon::golden {

FailAllocation::FailAllocation(int64_t number, bool all_after) {
  and_all_after = all_after;
  calls = 0;
  failing = number;
}

FailAllocation::~FailAllocation() { failing = -1; }

int64_t FailAllocation::count() { return calls; }

int64_t live_blocks() { return blocks; }

}  // namespace tenon::golden
