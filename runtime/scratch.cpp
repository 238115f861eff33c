#include "runtime/scratch.h"

#include <sys/mman.h>

#include <array>
#include <bit>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define TENON_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TENON_ADDRESS_SANITIZER 1
#endif
#endif

namespace tenon {
namespace {

constexpr size_t kAlignment = 64;

// Blocks of this size and larger use huge pages, if the system has them: fewer pages to touch for the first time.
constexpr size_t kWorthHugePages = size_t{8} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

void* from_system(size_t bytes) {
  const bool huge = bytes >= kWorthHugePages;
  void* memory = nullptr;
  if (posix_memalign(&memory, huge ? kHugePage : kAlignment, bytes) != 0) return nullptr;
  if (huge) madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

#ifndef TENON_ADDRESS_SANITIZER

// Size classes of blocks: four steps for each power of two, so that at most a fifth is wasted.
constexpr size_t kSmallest = 1024;
constexpr size_t kStepsLog2 = 2;
constexpr size_t kStepCount = size_t{1} << kStepsLog2;
constexpr size_t kNotKept = ~size_t{0};

constexpr size_t size_of_class(size_t number) {
  return (kSmallest << (number / kStepCount)) / kStepCount * (kStepCount + number % kStepCount);
}

constexpr size_t class_of(size_t bytes) {
  if (bytes <= kSmallest) return 0;
  const auto power = static_cast<size_t>(std::bit_width(bytes - 1)) - 1;  // 2^power < bytes <= 2^(power+1)
  const size_t step = (bytes - 1) >> (power - kStepsLog2);                // in [kStepCount, 2 * kStepCount)
  return (power - std::bit_width(kSmallest) + 1) * kStepCount + step - kStepCount + 1;
}

constexpr size_t kClassCount = class_of(kLargestScratchKept) + 1;
static_assert(size_of_class(kClassCount - 1) == kLargestScratchKept);
static_assert(class_of(1025) == 1 && size_of_class(1) == 1280 && class_of(1280) == 1 && class_of(1281) == 2);

// Stored before each block.
struct alignas(kAlignment) Header {
  size_t number;  // its size class, or kNotKept
  Header* next;   // in the list of kept blocks
};

thread_local bool ended = false;  // later destructors of the thread allocate from the system

class Cache {
 public:
  Cache() = default;
  Cache(const Cache&) = delete;
  ~Cache() {
    for (Header*& first : kept_) {
      while (Header* block = first) first = block->next, std::free(block);
    }
    ended = true;
  }

  Header* take(size_t number) {
    Header* const block = kept_[number];
    if (!block) return nullptr;
    kept_[number] = block->next;
    bytes_ -= static_cast<int64_t>(size_of_class(number));
    return block;
  }

  bool keep(Header* block) {
    const auto size = static_cast<int64_t>(size_of_class(block->number));
    if (bytes_ + size > kMostScratchKept) return false;
    block->next = kept_[block->number];
    kept_[block->number] = block;
    bytes_ += size;
    return true;
  }

  int64_t bytes() const { return bytes_; }

 private:
  std::array<Header*, kClassCount> kept_ = {};
  int64_t bytes_ = 0;
};

thread_local Cache cache;

#endif

}  // namespace

#ifdef TENON_ADDRESS_SANITIZER

void* allocate_uncached_scratch(int64_t bytes) noexcept { return from_system(static_cast<size_t>(bytes)); }
void free_uncached_scratch(void* memory, int64_t) noexcept { std::free(memory); }
void* allocate_scratch(int64_t bytes) noexcept { return bytes < 0 ? nullptr : from_system(static_cast<size_t>(bytes)); }
void release_scratch(void* memory) noexcept { std::free(memory); }
int64_t scratch_kept() { return 0; }

#else

void* allocate_uncached_scratch(int64_t bytes) noexcept {
  void* const memory =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}
void free_uncached_scratch(void* memory, int64_t bytes) noexcept { munmap(memory, static_cast<size_t>(bytes)); }

void* allocate_scratch(int64_t bytes) noexcept {
  if (bytes < 0) return nullptr;
  const bool large = bytes > kLargestScratchKept || ended;
  const size_t number = large ? kNotKept : class_of(static_cast<size_t>(bytes));
  Header* block = large ? nullptr : cache.take(number);
  if (!block) {
    const size_t size = large ? static_cast<size_t>(bytes) : size_of_class(number);
    block = static_cast<Header*>(from_system(sizeof(Header) + size));
    if (!block) return nullptr;
    block->number = number;
  }
  return block + 1;
}

void release_scratch(void* memory) noexcept {
  if (!memory) return;
  Header* const block = static_cast<Header*>(memory) - 1;
  if (block->number == kNotKept || ended || !cache.keep(block)) std::free(block);
}

int64_t scratch_kept() { return cache.bytes(); }

#endif

}  // namespace tenon
