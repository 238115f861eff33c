// Bad streams are refused as a whole, with the command's index and the reason; every body says the same.
#include <gmock/gmock.h>

#include <algorithm>

#include "support.h"

namespace atalla {
namespace {

using testing::HasSubstr;

const Load kLoad{.run = 16};
const Matmul kMatmul{};
const Store kStore{.columns = 16};

template <typename T>
Command with_tokens(T command, int tokens) {
  command.tokens = static_cast<uint8_t>(tokens);
  return encode(command);
}

template <typename T, typename Change>
Command changed(T command, Change change) {
  change(command);
  return encode(command);
}

Command with_opcode(uint8_t opcode) {
  Command command;
  command.opcode = opcode;
  return command;
}

struct BadStream {
  const char* name;
  std::vector<Command> commands;
  uint32_t index;
  const char* reason;
};
void PrintTo(const BadStream& one, std::ostream* out) { *out << one.name; }

const BadStream kBad[] = {
    {"opcode", {encode(kLoad), with_opcode(9)}, 1, "unknown opcode 9"},
    {"zero", {with_opcode(0)}, 0, "unknown opcode 0"},
    {"memory_end",
     {changed(kLoad, [](Load& c) { set_address(c, (1 << 20) - 15); })},
     0,
     "memory bytes 1048561 to 1048576"},
    {"memory_far", {changed(kLoad, [](Load& c) { set_address(c, uint64_t{1} << 47); })}, 0, "outside of 0 to 1048575"},
    {"memory_before", {changed(kLoad, [](Load& c) { c.inner = 2, c.inner_stride = -1; })}, 0, "memory bytes -1 to 15"},
    {"lines", {changed(kLoad, [](Load& c) { c.line = 16383, c.run = 17; })}, 0, "scratchpad lines 16383 to 16384"},
    {"empty", {changed(kLoad, [](Load& c) { c.outer = 0; })}, 0, "none may be 0"},
    {"reserved", {changed(kLoad, [](Load& c) { c.reserved = 1; })}, 0, "reserved bits"},
    {"flags", {changed(kMatmul, [](Matmul& c) { c.flags = 16; })}, 0, "reserved bits"},
    {"rows",
     {changed(kMatmul, [](Matmul& c) { c.accumulator = 2040, c.inner = 3, c.outer = 3; })},
     0,
     "accumulator rows 2040 to 2048"},
    {"window", {changed(kMatmul, [](Matmul& c) { c.inner_last = 2; })}, 0, "the window ends"},
    {"odd_pair", {changed(kMatmul, [](Matmul& c) { c.flags = Matmul::kFloat, c.line = 1; })}, 0, "must be even"},
    {"activations",
     {changed(kMatmul, [](Matmul& c) { c.inner = c.inner_last = 2, c.inner_lines = -1; })},
     0,
     "scratchpad lines of activations -1 to 0"},
    {"weights", {changed(kMatmul, [](Matmul& c) { c.weights = 16380; })}, 0, "scratchpad lines of weights"},
    {"kept", {changed(kMatmul, [](Matmul& c) { c.flags = Matmul::kKeepWeights; })}, 0, "keeps weights"},
    {"kept_type",
     {encode(kMatmul),
      changed(kMatmul, [](Matmul& c) { c.flags = Matmul::kKeepWeights | Matmul::kFloat, c.weight_lines = 2; })},
     1,
     "keeps weights"},
    {"columns", {changed(kStore, [](Store& c) { c.columns = 17; })}, 0, "columns is 17"},
    {"i32", {changed(kStore, [](Store& c) { c.flags = 3 | Store::kScale; })}, 0, "i32 output"},
    {"residual",
     {changed(kStore, [](Store& c) { c.flags = Store::kResidual, c.residual = 16383, c.inner = 2; })},
     0,
     "scratchpad lines of the residual"},
    {"nan", {changed(Epilogue{}, [](Epilogue& c) { c.low = NAN; })}, 0, "NaN"},
    {"vectors",
     {changed(Epilogue{}, [](Epilogue& c) { c.flags = 1, c.line = 16377; })},
     0,
     "scratchpad lines 16377 to 16384"},
    {"underflow", {with_tokens(kLoad, signal(Unit::kCompute)), with_tokens(kStore, wait(Unit::kLoad))}, 1, "deadlock"},
    {"later_signal",
     {with_tokens(kMatmul, wait(Unit::kLoad)), with_tokens(kLoad, signal(Unit::kCompute))},
     0,
     "deadlock"},
    {"own_token", {with_tokens(kLoad, wait(Unit::kLoad))}, 0, "no tokens for itself"},
    {"token_bits", {with_tokens(kLoad, 0x80)}, 0, "two highest bits"},
    {"too_many", std::vector<Command>(256, with_tokens(kLoad, signal(Unit::kCompute))), 255, "255 tokens"},
    {"race_load", {encode(kLoad), encode(kMatmul)}, 1, "race: scratchpad line 0 was written"},
    {"race_overwrite", {encode(kMatmul), encode(kLoad)}, 1, "race: scratchpad line 0 was read"},
    {"race_sums", {encode(kMatmul), encode(kStore)}, 1, "race: accumulator row 0 was written"},
    {"race_memory", {encode(kStore), encode(kLoad)}, 1, "race: memory, in 16 bytes, 0 was written"},
    {"race_later_load",
     {with_tokens(kLoad, signal(Unit::kCompute)), encode(kLoad), with_tokens(kMatmul, wait(Unit::kLoad))},
     2,
     "race: scratchpad line 0 was written"},
    {"race_wrong_token",
     {with_tokens(kLoad, signal(Unit::kStore)), encode(kLoad),
      changed(kStore, [](Store& c) { c.tokens = wait(Unit::kLoad), set_address(c, 64); }), encode(kMatmul)},
     3,
     "race: scratchpad line 0"},
};

class Faults : public testing::TestWithParam<BadStream> {};

TEST_P(Faults, AreNamed) {
  for (const std::string name : {"model", "cycles", "rtl"}) {
    if (name == "rtl" && !has_rtl()) continue;
    const auto body = open_body(name, {}, {.memory_bytes = 1 << 20});
    const RunResult run = body->submit(GetParam().commands);
    ASSERT_TRUE(run.fault) << name;
    EXPECT_EQ(run.fault->command, GetParam().index) << run.fault->reason;
    EXPECT_THAT(run.fault->reason, HasSubstr(GetParam().reason)) << name;
    EXPECT_FALSE(body->submit(std::vector{encode(kLoad)}).fault) << "a body is usable after a fault";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Faults, testing::ValuesIn(kBad), [](const auto& each) { return each.param.name; });

TEST(Faults, TokensCarryWhatOtherUnitsHaveDone) {
  // load -> compute -> store -> load: the second load may overwrite what the matmul read.
  const std::vector<Command> stream = {
      with_tokens(kLoad, signal(Unit::kCompute)), with_tokens(kMatmul, wait(Unit::kLoad) | signal(Unit::kStore)),
      with_tokens(kStore, wait(Unit::kCompute) | signal(Unit::kLoad)), with_tokens(kLoad, wait(Unit::kStore))};
  EXPECT_FALSE(open_body("model")->submit(stream).fault);
}

TEST(Faults, RandomBytesNeverCrash) {
  std::mt19937 random(5);
  const auto body = open_body("cycles", {}, {.memory_bytes = 1 << 16});
  for (int i = 0; i < 20000; ++i) {
    Command command;
    command.opcode = static_cast<uint8_t>(1 + random() % 4);
    for (uint8_t& byte : command.operands) byte = random() % 3 ? 0 : static_cast<uint8_t>(random());
    command.flags = random() % 2 ? 0 : static_cast<uint8_t>(random());
    (void)body->submit(std::vector{command});
  }
}

// A load of the whole scratchpad from a memory that moves a byte in a cycle takes longer than any patience.
TEST(Rtl, LongCommandsAreNoHangs) {
  ATALLA_NEEDS_RTL();
  const auto body = open_body("rtl", {.dma_bytes = 1}, {.memory_bytes = 1 << 20});
  const Load load{.inner_stride = 16, .run = 16, .inner = 16384, .inner_lines = 1};
  const RunResult run = body->submit(std::vector{encode(load)});
  EXPECT_FALSE(run.fault) << run.fault->reason;
  EXPECT_GT(run.counters.cycles, 250000U);
}

TEST(Machines, BadOnesAreNamed) {
  std::string error;
  EXPECT_EQ(make_body("model", {.size = 12}, {}, error), nullptr);
  EXPECT_EQ(error, "size is 12; it must be 4, 8, 16, 32 or 64");
  EXPECT_EQ(make_body("cycles", {.queue_depth = 0}, {}, error), nullptr);
  EXPECT_THAT(error, HasSubstr("queue_depth is 0"));
  EXPECT_EQ(make_body("silicon", {}, {}, error), nullptr);
  EXPECT_EQ(error, "there is no body \"silicon\"; there are model, cycles and rtl");
  EXPECT_EQ(make_body("rtl", {.size = 8}, {}, error), nullptr);
  EXPECT_THAT(error, HasSubstr(has_rtl() ? "built as another machine" : "make rtl"));
}

}  // namespace
}  // namespace atalla
