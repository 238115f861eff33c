// Random streams on all bodies: the same writes of every command, the same memory, and, with time, the same cycles.
#include <algorithm>
#include <cstdlib>

#include "random_streams.h"
#include "support.h"

namespace atalla {
namespace {

void expect_same_events(const RunResult& a, const RunResult& b) {
  ASSERT_EQ(a.events.size(), b.events.size());
  for (size_t i = 0; i < a.events.size(); ++i) {
    EXPECT_EQ(a.events[i].begin, b.events[i].begin) << "command " << i;
    EXPECT_EQ(a.events[i].end, b.events[i].end) << "command " << i;
  }
}

// Runs `streams` random streams on both bodies, and stops at the first difference.
void compare(const std::string& a_name, const std::string& b_name, uint32_t streams, bool with_time) {
  for (uint32_t seed = 0; seed < streams; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Machine machine{.dma_bytes = 4U << seed % 4, .dma_latency = 1 + seed * 7 % 50};
    const auto a = open_body(a_name, machine, {.memory_bytes = kStreamMemory});
    const auto b = open_body(b_name, machine, {.memory_bytes = kStreamMemory});
    fill_random(a->memory(), seed);
    std::ranges::copy(a->memory(), b->memory().begin());
    const auto stream = random_stream(seed, 80);
    const RunOptions options{.events = true, .digests = true};
    const RunResult a_run = a->submit(stream, options), b_run = b->submit(stream, options);
    ASSERT_FALSE(a_run.fault) << a_run.fault->reason;
    ASSERT_FALSE(b_run.fault) << b_run.fault->reason;
    for (size_t i = 0; i < stream.size(); ++i)
      ASSERT_EQ(a_run.digests[i], b_run.digests[i]) << "command " << i << ": " << text(stream[i]);
    ASSERT_TRUE(std::ranges::equal(a->memory(), b->memory()));
    if (!with_time) continue;
    EXPECT_EQ(a_run.counters, b_run.counters);
    expect_same_events(a_run, b_run);
    if (testing::Test::HasFailure()) return;
  }
}

// ATALLA_STREAMS=2000 compares more of them.
uint32_t stream_count(uint32_t otherwise) {
  const char* text = std::getenv("ATALLA_STREAMS");
  return text ? static_cast<uint32_t>(std::stoul(text)) : otherwise;
}

TEST(Agreement, ModelAndCycles) { compare("model", "cycles", stream_count(20), false); }

TEST(Agreement, CyclesAndRtl) {
  ATALLA_NEEDS_RTL();
  compare("cycles", "rtl", stream_count(100), true);
}

TEST(Agreement, RandomStreamsHaveEveryKindOfStall) {
  Counters sum;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto body = open_body("cycles", {.dma_bytes = 4}, {.memory_bytes = kStreamMemory});
    const Counters c = body->submit(random_stream(seed, 80)).counters;
    sum.load_waits += c.load_waits;
    sum.compute_waits += c.compute_waits;
    sum.store_waits += c.store_waits;
    sum.weight_stalls += c.weight_stalls;
    sum.bank_stalls += c.bank_stalls;
    sum.read_stalls += c.read_stalls;
    sum.write_stalls += c.write_stalls;
  }
  for (const uint64_t count : {sum.load_waits, sum.compute_waits, sum.store_waits, sum.weight_stalls, sum.bank_stalls,
                               sum.read_stalls, sum.write_stalls})
    EXPECT_GT(count, 0U);
}

}  // namespace
}  // namespace atalla
