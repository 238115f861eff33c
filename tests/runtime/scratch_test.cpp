#include "runtime/scratch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "runtime/services.h"

namespace tenon {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS_NOTHING 1
#endif
#endif

bool is_aligned(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % 64 == 0; }

struct Block {
  unsigned char* memory;
  int64_t bytes;
  int mark;

  explicit Block(int64_t size, int with)
      : memory(static_cast<unsigned char*>(allocate_scratch(size))), bytes(size), mark(with) {
    std::memset(memory, mark, static_cast<size_t>(bytes));
  }
  bool is_intact() const {
    return std::all_of(memory, memory + bytes, [&](unsigned char byte) { return byte == mark; });
  }
};

// Blocks come and go in any order; none touches another.
void use_many_blocks(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Block> blocks;
  for (int round = 0; round < 2000; ++round) {
    if (blocks.size() > 8 || (!blocks.empty() && random() % 2 == 0)) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      ASSERT_TRUE(blocks.back().is_intact());
      release_scratch(blocks.back().memory);
      blocks.pop_back();
    }
    blocks.emplace_back(static_cast<int64_t>(random()) >> (12 + random() % 20), static_cast<int>(random() % 256));
    ASSERT_TRUE(is_aligned(blocks.back().memory));
    ASSERT_LE(scratch_kept(), kMostScratchKept);
  }
  for (const Block& block : blocks) {
    ASSERT_TRUE(block.is_intact());
    release_scratch(block.memory);
  }
}

TEST(Scratch, BlocksOfAnySizeAreAlignedAndApart) { use_many_blocks(1); }

TEST(Scratch, ThreadsHaveTheirOwn) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back([i] { use_many_blocks(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Scratch, WhatCannotBeIsNull) {
  EXPECT_EQ(allocate_scratch(-1), nullptr);
  EXPECT_EQ(allocate_scratch(INT64_MIN), nullptr);
#ifndef KEEPS_NOTHING  // AddressSanitizer ends the process for such sizes
  EXPECT_EQ(allocate_scratch(INT64_MAX), nullptr);
  EXPECT_EQ(allocate_scratch(INT64_MAX - 100), nullptr);
  EXPECT_EQ(allocate_scratch(int64_t{1} << 60), nullptr);
#endif
  release_scratch(nullptr);
}

TEST(Scratch, NoBytesAreABlockToo) {
  void* const a = allocate_scratch(0);
  void* const b = allocate_scratch(0);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(a, b);
  release_scratch(a);
  release_scratch(b);
}

TEST(Scratch, TheServicesHandItOut) {
  const tenon_services* const services = tenon_default_services();
  void* const memory = services->allocate(services, 1000);
  EXPECT_TRUE(memory && is_aligned(memory));
  services->release(services, memory);
}

#ifndef KEEPS_NOTHING

// On a thread of its own, which keeps nothing yet.
template <class Body>
void on_a_fresh_thread(Body body) {
  std::thread(body).join();
}

TEST(Scratch, ABlockIsUsedAgain) {
  on_a_fresh_thread([] {
    void* const first = allocate_scratch(300 << 10);
    release_scratch(first);
    EXPECT_GE(scratch_kept(), 300 << 10);
    EXPECT_LE(scratch_kept(), (300 << 10) * 5 / 4);
    void* const again = allocate_scratch((300 << 10) - 100);
    EXPECT_EQ(again, first);
    EXPECT_EQ(scratch_kept(), 0);
    release_scratch(again);
  });
}

TEST(Scratch, KeepsNoMoreThanItMay) {
  on_a_fresh_thread([] {
    std::vector<void*> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(allocate_scratch(10 << 20));
    for (void* block : blocks) release_scratch(block);
    EXPECT_EQ(scratch_kept(), 60 << 20);
    release_scratch(allocate_scratch(kLargestScratchKept + 1));
    EXPECT_EQ(scratch_kept(), 60 << 20);
  });
}

// Bytes that the process has in memory.
int64_t resident() {
  int64_t size = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> size >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

TEST(Scratch, UncachedBlocksGoBackToTheSystem) {
  constexpr int64_t kPin = 64 << 10;
  const int64_t before = resident();
  std::vector<void*> pins;  // after each block: the C library cannot shrink its heap
  for (int64_t megabytes : {8, 7, 6, 5, 4, 3, 8, 9}) {
    const int64_t bytes = megabytes << 20;
    void* const block = allocate_uncached_scratch(bytes);
    ASSERT_TRUE(block != nullptr && is_aligned(block));
    std::memset(block, 1, static_cast<size_t>(bytes));
    pins.push_back(allocate_uncached_scratch(kPin));
    free_uncached_scratch(block, bytes);
  }
  EXPECT_LT(resident() - before, 2 << 20);
  for (void* pin : pins) free_uncached_scratch(pin, kPin);
}

#endif

}  // namespace
}  // namespace tenon
