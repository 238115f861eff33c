#include "runtime/allocator.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tenon::runtime {
namespace {

TEST(Allocator, AnExactFitFitsAndOneByteLessDoesNot) {
  Allocator exact(1000), less(999);
  void* const memory = exact.allocate(1000);
  EXPECT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % kAlignment, 0u);
  EXPECT_EQ(exact.used(), 1000);
  EXPECT_EQ(exact.allocate(1), nullptr);
  EXPECT_EQ(exact.would_need(), 1001);
  exact.deallocate(memory, 1000);
  EXPECT_EQ(exact.used(), 0);
  EXPECT_EQ(exact.peak(), 1000);
  EXPECT_EQ(less.allocate(1000), nullptr);
  EXPECT_EQ(less.would_need(), 1000);
  EXPECT_EQ(less.used(), 0);
}

TEST(Allocator, TheSumOfRequestsDoesNotOverflow) {
  Allocator allocator;
  EXPECT_TRUE(allocator.reserve(100));
  EXPECT_FALSE(allocator.reserve(INT64_MAX));
  EXPECT_EQ(allocator.would_need(), kNoBudget);
}

TEST(Allocator, ABlockGivesItsMemoryBack) {
  const auto allocator = std::make_shared<Allocator>(100);
  {
    Block block(allocator, 60);
    EXPECT_NE(block.data(), nullptr);
    EXPECT_EQ(Block(allocator, 60).data(), nullptr);
    Block moved = std::move(block);
    EXPECT_EQ(allocator->used(), 60);
    moved = Block(allocator, 40);
    EXPECT_EQ(allocator->used(), 40);
  }
  EXPECT_EQ(allocator->used(), 0);
}

TEST(Allocator, ThreadsNeverExceedTheBudget) {
  Allocator allocator(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        if (allocator.reserve(400)) allocator.release(400);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.used(), 0);
  EXPECT_LE(allocator.peak(), 800);
}

}  // namespace
}  // namespace tenon::runtime
