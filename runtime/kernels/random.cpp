// Philox, sixteen blocks at a time: their lanes are 64 bits wide, for the products of words of 32.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/cpu_features.h"
#include "runtime/kernels.h"
#include "runtime/kernels/parallel.h"
#include "runtime/philox.h"

namespace tenon {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kWordsPerBlock = 4;
constexpr int64_t kBatch = kLanes * kWordsPerBlock * 4;  // words that are made at once

typedef uint64_t Lanes __attribute__((vector_size(kLanes * sizeof(uint64_t))));

struct Key {
  uint64_t seed;
  uint64_t offset;
  explicit Key(const int64_t* key) : seed(static_cast<uint64_t>(key[0])), offset(static_cast<uint64_t>(key[1])) {}
};

// A batch of words, of which the first belongs to block `block`.
[[gnu::always_inline]] inline void make_words(uint64_t seed, uint64_t block, uint32_t* words) {
  constexpr uint64_t kWord = 0xFFFFFFFF;
  constexpr Lanes kCount = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int64_t made = 0; made < kBatch; made += kLanes * kWordsPerBlock, block += kLanes) {
    const Lanes counter = kCount + block;
    Lanes c0 = counter & kWord, c1 = counter >> 32, c2 = {}, c3 = {};
    uint64_t key0 = seed & kWord, key1 = seed >> 32;
    for (int round = 0; round < kPhiloxRounds; ++round) {
      // The masks say that these are products of 32 bits.
      const Lanes a = (c0 & kWord) * uint64_t{kPhiloxFactors[0]}, b = (c2 & kWord) * uint64_t{kPhiloxFactors[1]};
      c0 = (b >> 32) ^ c1 ^ key0;
      c1 = b & kWord;
      c2 = (a >> 32) ^ c3 ^ key1;
      c3 = a & kWord;
      key0 = (key0 + kPhiloxSteps[0]) & kWord;
      key1 = (key1 + kPhiloxSteps[1]) & kWord;
    }
    const Lanes low = c0 | c1 << 32, high = c2 | c3 << 32;
    const Lanes first = __builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const Lanes second =
        __builtin_shufflevector(low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    std::memcpy(words + made, &first, sizeof first);
    std::memcpy(words + made + kLanes * 2, &second, sizeof second);
  }
}

// ---- for several levels of CPUs ----

using MakeWords = void(uint64_t seed, uint64_t block, uint32_t* words);

#ifdef __x86_64__
// Without lanes of 64 bits that are worth it. Cold: few CPUs of today are that old.
[[gnu::cold]] void make_words_anywhere(uint64_t seed, uint64_t block, uint32_t* words) {
  const auto halves = [](uint64_t x) { return std::array{static_cast<uint32_t>(x), static_cast<uint32_t>(x >> 32)}; };
  for (uint32_t* const end = words + kBatch; words != end; words += kWordsPerBlock, ++block) {
    const PhiloxKey counter = halves(block);
    std::ranges::copy(philox({counter[0], counter[1], 0, 0}, halves(seed)), words);
  }
}

[[gnu::target("arch=x86-64-v3")]] void make_words_v3(uint64_t seed, uint64_t block, uint32_t* words) {
  make_words(seed, block, words);
}

[[gnu::target("arch=x86-64-v4")]] void make_words_v4(uint64_t seed, uint64_t block, uint32_t* words) {
  make_words(seed, block, words);
}

MakeWords* fastest() {
  if (runtime::has_level(4)) return make_words_v4;
  return runtime::has_level(3) ? make_words_v3 : make_words_anywhere;
}
#else
MakeWords* fastest() { return make_words; }
#endif

using UseWords = void(const void* self, const uint32_t* words, int64_t position, int64_t count);

void run_batches(const tenon_services* services, const Key& key, int64_t size, int64_t words_each, UseWords* body,
                 const void* self) {
  const int64_t in_batch = kBatch / words_each;
  const int64_t batches = (size + in_batch - 1) / in_batch;
  static MakeWords* const make = fastest();
  in_parallel(services, 0, batches, size, [&](int64_t begin, int64_t end) -> int64_t {
    alignas(64) uint32_t words[kBatch];
    for (int64_t batch = begin; batch < end; ++batch) {
      make(key.seed, key.offset + static_cast<uint64_t>(batch * (kBatch / kWordsPerBlock)), words);
      body(self, words, batch * in_batch, std::min(in_batch, size - batch * in_batch));
    }
    return 0;
  });
}

// Calls body(words, position, count): `count` elements from `position` on have these words, `words_each` for each.
template <class Body>
void for_each_batch(const tenon_services* services, const Key& key, int64_t size, int64_t words_each,
                    const Body& body) {
  const auto call = [](const void* self, const uint32_t* words, int64_t position, int64_t count) {
    (*static_cast<const Body*>(self))(words, position, count);
  };
  run_batches(services, key, size, words_each, call, &body);
}

// ---- from words to numbers: as the records say ----------------------------------------------------------------------

// A number of up to 59 bits from two words.
int64_t wide_number(const uint32_t* words, int bits) {
  constexpr int kLow = 27;
  const uint64_t high = words[0] & ((uint64_t{1} << (bits - kLow)) - 1);
  return static_cast<int64_t>(high << kLow | (words[1] & ((1u << kLow) - 1)));
}

// k * 2^-11, for k below 2^11.
uint16_t half_from(uint32_t k) {
  if (k == 0) return 0;
  const auto power = static_cast<uint32_t>(std::bit_width(k)) - 1;
  return static_cast<uint16_t>((power + 4) << 10 | ((k << (10 - power)) & 0x3FF));
}

// k * 2^-8, for k below 2^8.
uint16_t bfloat_from(uint32_t k) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(k) * 0x1p-8f) >> 16);
}

template <class T, class Convert>
void fill(const tenon_services* services, const Key& key, int64_t size, T* out, Convert convert) {
  for_each_batch(services, key, size, 1, [&](const uint32_t* words, int64_t position, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[position + i] = convert(words[i]);
  });
}

}  // namespace
}  // namespace tenon

void tenon_philox(const tenon_services* services, const int64_t* key, int64_t size, int64_t* out) {
  tenon::fill(services, tenon::Key(key), size, out, [](uint32_t word) -> int64_t { return word; });
}

void tenon_uniform(const tenon_services* services, tenon_dtype dtype, const int64_t* key, int64_t size, void* out) {
  const tenon::Key of(key);
  if (dtype == TENON_F32) {
    const auto convert = [](uint32_t word) {
      return static_cast<float>(static_cast<int32_t>(word & 0xFFFFFF)) * 0x1p-24f;
    };
    return tenon::fill(services, of, size, static_cast<float*>(out), convert);
  }
  if (dtype == TENON_F16) {
    const auto convert = [](uint32_t word) { return tenon::half_from(word & 0x7FF); };
    return tenon::fill(services, of, size, static_cast<uint16_t*>(out), convert);
  }
  if (dtype == TENON_BF16) {
    const auto convert = [](uint32_t word) { return tenon::bfloat_from(word & 0xFF); };
    return tenon::fill(services, of, size, static_cast<uint16_t*>(out), convert);
  }
  tenon::for_each_batch(services, of, size, 2, [&](const uint32_t* words, int64_t position, int64_t count) {
    auto* const numbers = static_cast<double*>(out) + position;
    for (int64_t i = 0; i < count; ++i) {
      numbers[i] = static_cast<double>(tenon::wide_number(words + 2 * i, 53)) * 0x1p-53;
    }
  });
}

void tenon_randint(const tenon_services* services, const int64_t* key, int64_t low, int64_t range, int64_t size,
                   int64_t* out) {
  const auto fill = [&](auto reduce) {
    tenon::for_each_batch(services, tenon::Key(key), size, 2,
                          [&](const uint32_t* words, int64_t position, int64_t count) {
                            for (int64_t i = 0; i < count; ++i)
                              out[position + i] = reduce(tenon::wide_number(words + 2 * i, 59)) + low;
                          });
  };
  const bool is_power_of_two = (range & (range - 1)) == 0;
  if (is_power_of_two) return fill([&](int64_t number) { return number & (range - 1); });
  fill([&](int64_t number) { return number % range; });
}
