#include "runtime/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/cpu_features.h"
#include "runtime/thread_pool.h"

namespace tenon::runtime {

static_assert(std::endian::native == std::endian::little);

uint64_t combine(uint64_t hash, uint64_t next) {
  hash = (hash ^ next) * 0x9fb21c651e98df25;
  return hash ^ (hash >> 32);
}

namespace {

// Several vector registers; the compiler splits it into those of the CPU.
using Words = uint64_t __attribute__((vector_size(64)));
constexpr size_t kWords = 4;  // this many are a row
constexpr size_t kRow = kWords * sizeof(Words);

struct States {
  Words words[kWords];
};

[[gnu::always_inline]] inline States first_states() {
  States states;
  for (size_t i = 0; i < kWords; ++i) {
    for (size_t lane = 0; lane < 8; ++lane) states.words[i][lane] = (8 * i + lane + 1) * 0xc2b2ae3d27d4eb4f;
  }
  return states;
}

[[gnu::always_inline]] inline void take_row(States& states, const std::byte* row) {
  constexpr uint64_t kFactor = 0x9e3779b1;  // 32 bits: the product is two multiplications of half words
  for (size_t i = 0; i < kWords; ++i) {
    Words word;
    std::memcpy(&word, row + i * sizeof word, sizeof word);
    word ^= states.words[i];
    const Words low = (word & 0xffffffff) * kFactor, high = (word >> 32) * kFactor;
    const Words product = low + (high << 32);
    states.words[i] = product << 32 | product >> 32;
  }
}

[[gnu::always_inline]] inline uint64_t hash_rows(const std::byte* block, size_t size) {
  States states = first_states();
  const size_t whole = size / kRow * kRow;
  for (size_t at = 0; at < whole; at += kRow) take_row(states, block + at);
  if (whole < size) {
    std::byte padded[kRow] = {};
    std::memcpy(padded, block + whole, size - whole);
    take_row(states, padded);
  }
  uint64_t hash = 0;
  for (const Words& words : states.words) {
    for (size_t lane = 0; lane < 8; ++lane) hash = combine(hash, words[lane]);
  }
  return hash;
}

uint64_t hash_plain(const std::byte* block, size_t size) { return hash_rows(block, size); }

#ifdef __x86_64__
[[gnu::target("avx2")]] uint64_t hash_avx2(const std::byte* block, size_t size) { return hash_rows(block, size); }
[[gnu::target("avx512f,avx512vl")]] uint64_t hash_avx512(const std::byte* block, size_t size) {
  return hash_rows(block, size);
}
#endif

}  // namespace

std::vector<HashBlockFn> block_hashes() {
  std::vector<HashBlockFn> hashes;
#ifdef __x86_64__
  if (missing_features("avx512f,avx512vl").empty()) hashes.push_back(hash_avx512);
  if (has_feature("avx2")) hashes.push_back(hash_avx2);
#endif
  hashes.push_back(hash_plain);
  return hashes;
}

uint64_t hash_block(std::span<const std::byte> block) {
  static const HashBlockFn fastest = block_hashes().front();
  return fastest(block.data(), block.size());
}

uint64_t checksum(std::span<const std::byte> bytes) {
  struct Work {
    std::span<const std::byte> bytes;
    std::vector<uint64_t> hashes;
  } work{bytes, std::vector<uint64_t>((bytes.size() + kChecksumBlock - 1) / kChecksumBlock)};
  const auto run = [](void* context, int64_t begin, int64_t end) -> int64_t {
    auto& [all, hashes] = *static_cast<Work*>(context);
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const std::span<const std::byte> rest = all.subspan(i * kChecksumBlock);
      hashes[i] = hash_block(rest.first(std::min(rest.size(), kChecksumBlock)));
    }
    return 0;
  };
  parallel_for(0, static_cast<int64_t>(work.hashes.size()), run, &work);
  uint64_t total = 0;
  for (const uint64_t hash : work.hashes) total = combine(total, hash);
  return combine(total, bytes.size());
}

}  // namespace tenon::runtime
