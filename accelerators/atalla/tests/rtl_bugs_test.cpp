// Each mistake of rtl/bugs.svh is found by comparing the RTL with the model, command by command.
#include <algorithm>

#include "random_streams.h"
#include "support.h"

namespace atalla {
namespace {

struct Found {
  Command command;
  Unit unit = Unit::kLoad;
  std::string how;  // empty: not found
};

// The first command whose writes differ, or the RTL's own fault.
Found difference(std::span<const Command> stream, std::span<const uint8_t> memory, int bug) {
  const auto model = open_body("model", {}, {.memory_bytes = memory.size()});
  const auto rtl = open_body("rtl", {}, {.memory_bytes = memory.size(), .rtl_bug = bug});
  std::ranges::copy(memory, model->memory().begin());
  std::ranges::copy(memory, rtl->memory().begin());
  const RunResult right = model->submit(stream, {.digests = true});
  const RunResult found = rtl->submit(stream, {.digests = true});
  EXPECT_FALSE(right.fault) << right.fault->reason;
  const size_t first =
      static_cast<size_t>(std::ranges::mismatch(right.digests, found.digests).in1 - right.digests.begin());
  if (first == stream.size()) return {};
  return {.command = stream[first],
          .unit = *unit_of(stream[first]),
          .how = found.fault ? found.fault->reason : "writes differ"};
}

// Commands with a row each way: the next command begins at the row that the one before ended with.
std::vector<Command> adjacent_rows() {
  std::vector<Command> stream = {encode(Load{.tokens = signal(Unit::kCompute), .run = 512})};
  for (uint16_t i = 0; i < 6; ++i) {
    Matmul m{.inner_lines = 1, .inner = 3, .inner_last = 3, .accumulator = static_cast<uint16_t>(2 * i)};
    m.flags = static_cast<uint8_t>(i == 0 ? 0 : Matmul::kAccumulate | Matmul::kKeepWeights);
    m.tokens = i == 0 ? wait(Unit::kLoad) : 0;
    stream.push_back(encode(m));
  }
  return stream;
}

// A load queue that is full: one token for many loads.
std::vector<Command> many_loads() {
  std::vector<Command> stream;
  for (uint16_t i = 0; i < 60; ++i) {
    Load load{.run = 400, .line = static_cast<uint16_t>(32 * i)};
    set_address(load, uint64_t{100} * i);
    stream.push_back(encode(load));
  }
  return stream;
}

// Tokens that are given while others are taken.
std::vector<Command> many_tokens() {
  std::vector<Command> stream;
  for (uint16_t i = 0; i < 40; ++i)
    stream.push_back(
        encode(Load{.tokens = signal(Unit::kCompute), .run = 16, .line = static_cast<uint16_t>(2048 + i)}));
  for (uint16_t i = 0; i < 40; ++i) stream.push_back(encode(Matmul{.tokens = wait(Unit::kLoad), .accumulator = i}));
  return stream;
}

// A load that must wait until a long matmul has read the lines.
std::vector<Command> late_overwrite() {
  Load again{.tokens = wait(Unit::kCompute), .run = 4096};
  set_address(again, 5000);
  return {encode(Load{.tokens = signal(Unit::kCompute), .run = 8192}),
          encode(Matmul{.tokens = wait(Unit::kLoad) | signal(Unit::kLoad),
                        .inner_lines = 1,
                        .inner = 256,
                        .inner_last = 256,
                        .weights = 300}),
          encode(again)};
}

Found find(int bug) {
  std::vector<uint8_t> memory(kStreamMemory);
  fill_random(memory, 1);
  for (const auto& stream : {adjacent_rows(), many_loads(), many_tokens(), late_overwrite()}) {
    const Found found = difference(stream, memory, bug);
    if (!found.how.empty()) return found;
  }
  const Problem layer = random_problem({}, {.height = 60, .channels = 200, .outputs = 64}, 1);
  const Found in_layer = difference(emit({}, layer.layer), layer.memory, bug);
  if (!in_layer.how.empty()) return in_layer;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    fill_random(memory, seed);
    const Found found = difference(random_stream(seed, 80), memory, bug);
    if (!found.how.empty()) return found;
  }
  return {};
}

// The unit of the first command that goes wrong, for each bug: the one with the mistake, or, if the mistake is to be
// early, the one that is disturbed.
constexpr std::string_view kUnitsOfBugs = "llllllccccllccscccccccccccssss";
static_assert(kUnitsOfBugs.size() == kRtlBugs);

class RtlBugs : public testing::TestWithParam<int> {};

TEST_P(RtlBugs, AreFound) {
  ATALLA_NEEDS_RTL();
  const Found found = find(GetParam());
  ASSERT_FALSE(found.how.empty());
  EXPECT_EQ(name(found.unit)[0], kUnitsOfBugs[static_cast<size_t>(GetParam()) - 1]) << text(found.command);
}

INSTANTIATE_TEST_SUITE_P(All, RtlBugs, testing::Range(1, kRtlBugs + 1));

TEST(RtlBugs, NoneWithoutABug) {
  ATALLA_NEEDS_RTL();
  EXPECT_EQ(find(0).how, "");
}

}  // namespace
}  // namespace atalla
