#include "runtime/checksum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "runtime/thread_pool.h"

namespace tenon::runtime {
namespace {

std::vector<std::byte> noise(size_t size, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// As the header states it, a word at a time.
uint64_t step(uint64_t hash, uint64_t next) {
  hash = (hash ^ next) * 0x9fb21c651e98df25;
  return hash ^ (hash >> 32);
}

uint64_t plain_block(std::span<const std::byte> block) {
  uint64_t states[32];
  for (uint64_t i = 0; i < 32; ++i) states[i] = (i + 1) * 0xc2b2ae3d27d4eb4f;
  for (size_t at = 0; at < (block.size() + 255) / 256 * 256; at += 8) {
    uint64_t word = 0;
    if (at < block.size()) std::memcpy(&word, block.data() + at, std::min<size_t>(8, block.size() - at));
    uint64_t& state = states[at / 8 % 32];
    state = (state ^ word) * 0x9e3779b1;
    state = state << 32 | state >> 32;
  }
  uint64_t hash = 0;
  for (const uint64_t state : states) hash = step(hash, state);
  return hash;
}

uint64_t plain(std::span<const std::byte> bytes) {
  uint64_t total = 0;
  for (size_t at = 0; at < bytes.size(); at += kChecksumBlock) {
    total = step(total, plain_block(bytes.subspan(at, std::min(kChecksumBlock, bytes.size() - at))));
  }
  return step(total, bytes.size());
}

TEST(Checksum, IsWhatTheHeaderSays) {
  for (size_t size = 0; size < 1100; ++size) EXPECT_EQ(checksum(noise(size)), plain(noise(size))) << size;
  for (const size_t size : {kChecksumBlock - 1, kChecksumBlock, kChecksumBlock + 1, 3 * kChecksumBlock + 777}) {
    EXPECT_EQ(checksum(noise(size)), plain(noise(size))) << size;
  }
}

TEST(Checksum, EveryWayToHashABlockIsTheSame) {
  for (const HashBlockFn hash : block_hashes()) {
    for (size_t size = 0; size < 1100; ++size) {
      const std::vector<std::byte> bytes = noise(size);
      EXPECT_EQ(hash(bytes.data(), size), plain_block(bytes)) << size;
    }
  }
}

// In every release: files hold it.
TEST(Checksum, StaysTheSame) {
  std::vector<std::byte> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  EXPECT_EQ(checksum({}), 0u);
  EXPECT_EQ(checksum(std::span(bytes).first(1)), 0x4ad0974ab5c7ae7cu);
  EXPECT_EQ(checksum(bytes), 0x34bc86835c7b464u);
}

TEST(Checksum, ThreadsAndPlacesMakeNoDifference) {
  std::vector<std::byte> bytes = noise(5 * kChecksumBlock + 123);
  const uint64_t expected = checksum(bytes);
  for (const int64_t threads : {1, 2, 3, 7}) {
    const ThreadCount count(threads);
    EXPECT_EQ(checksum(bytes), expected) << threads;
  }
  for (size_t shift = 1; shift < 64; shift += 5) {
    std::vector<std::byte> moved(shift);
    moved.insert(moved.end(), bytes.begin(), bytes.end());
    EXPECT_EQ(checksum(std::span(moved).subspan(shift)), expected) << shift;
  }
}

TEST(Checksum, EveryChangeOfAByteShows) {
  for (const size_t size : {1u, 7u, 8u, 255u, 256u, 257u, 700u}) {
    std::vector<std::byte> bytes = noise(size);
    const uint64_t before = checksum(bytes);
    for (std::byte& byte : bytes) {
      const std::byte was = byte;
      for (int change = 1; change < 256; ++change) {
        byte = was ^ static_cast<std::byte>(change);
        EXPECT_NE(checksum(bytes), before) << size;
      }
      byte = was;
    }
  }
}

TEST(Checksum, EveryLengthOfZerosIsAnother) {
  const std::vector<std::byte> zeros(5000);
  std::set<uint64_t> seen;
  for (size_t size = 0; size <= zeros.size(); ++size) seen.insert(checksum(std::span(zeros).first(size)));
  EXPECT_EQ(seen.size(), zeros.size() + 1);
}

TEST(Checksum, ExchangesOfWordsRowsAndBlocksShow) {
  std::vector<std::byte> bytes = noise(3 * kChecksumBlock);
  const uint64_t before = checksum(bytes);
  for (const size_t size : {size_t{8}, size_t{64}, size_t{256}, kChecksumBlock}) {
    std::vector<std::byte> changed = bytes;
    std::swap_ranges(changed.begin(), changed.begin() + static_cast<ptrdiff_t>(size),
                     changed.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_NE(checksum(changed), before) << size;
  }
}

// One bit of the input is half of the output's, wherever it is.
TEST(Checksum, ABitMovesHalfOfAll) {
  std::vector<std::byte> bytes = noise(1024);
  const uint64_t before = checksum(bytes);
  int64_t moved = 0, flips = 0;
  for (std::byte& byte : bytes) {
    for (int bit = 0; bit < 8; ++bit, ++flips) {
      byte ^= static_cast<std::byte>(1 << bit);
      const int count = std::popcount(checksum(bytes) ^ before);
      EXPECT_GT(count, 8);
      moved += count;
      byte ^= static_cast<std::byte>(1 << bit);
    }
  }
  EXPECT_NEAR(static_cast<double>(moved) / static_cast<double>(flips), 32, 0.5);
}

}  // namespace
}  // namespace tenon::runtime
