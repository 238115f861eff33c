// Scratch memory of kernels. Each thread keeps released blocks for the next kernel: a call then needs no memory from
// the system, and touches no fresh pages.
#pragma once

#include <cstdint>

namespace tenon {

// A thread keeps at most this many bytes. It frees them when it ends.
inline constexpr int64_t kMostScratchKept = int64_t{64} << 20;
// Larger blocks are not kept.
inline constexpr int64_t kLargestScratchKept = int64_t{32} << 20;

// Returns 64-byte aligned, uninitialized memory. Returns null if there is no memory, and for a negative size. A block
// of 0 bytes has an address of its own. With AddressSanitizer nothing is kept, so that it detects overruns and use
// after release.
void* allocate_scratch(int64_t bytes) noexcept;
// Must be called on the thread that allocated the memory. Does nothing for null.
void release_scratch(void* memory) noexcept;

int64_t scratch_kept();  // bytes kept by the calling thread

// Whole pages of the system, which has them back at once: the C library would keep freed blocks, and a budget could not
// count them. `bytes` is positive. Any thread may free the memory, with the same size.
void* allocate_uncached_scratch(int64_t bytes) noexcept;
void free_uncached_scratch(void* memory, int64_t bytes) noexcept;

}  // namespace tenon
