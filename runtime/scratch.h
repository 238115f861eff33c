// Memory for the scratch of kernels. Each thread keeps what it released for the next kernel, so that a call neither
// asks the system for memory nor touches fresh pages.
#pragma once

#include <cstdint>

namespace tenon {

// At most this much is kept for each thread; it goes back to the system when the thread ends.
inline constexpr int64_t kMostScratchKept = int64_t{64} << 20;
// A larger block is never kept.
inline constexpr int64_t kLargestScratchKept = int64_t{32} << 20;

// Aligned to 64 bytes, with any content; null where there is no memory, and for a negative size. A block of 0 bytes is
// a block of its own. With AddressSanitizer nothing is kept, so that it sees each block's end and its use after
// release.
void* allocate_scratch(int64_t bytes) noexcept;
// On the thread that allocated it. Null is nothing.
void release_scratch(void* memory) noexcept;

int64_t scratch_kept();  // bytes that the calling thread keeps

// The same from the system itself, for those who keep blocks in their own way. Any thread may free it.
void* allocate_uncached_scratch(int64_t bytes) noexcept;
void free_uncached_scratch(void* memory) noexcept;

}  // namespace tenon
