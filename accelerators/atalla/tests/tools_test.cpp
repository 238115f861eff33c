// What tools build on: digests, logs of writes, events, waveforms, and the text of commands.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support.h"

namespace atalla {
namespace {

const Layer kLayer{.height = 20, .channels = 32, .outputs = 32, .store_flags = Store::kBias | Store::kScale};

TEST(Tools, DigestsFindTheFirstCommandThatDiffers) {
  const Problem problem = random_problem({}, kLayer, 1);
  const auto stream = emit({}, kLayer);
  const auto run = [&](uint8_t change) {
    const auto body = open_body("model");
    std::ranges::copy(problem.memory, body->memory().begin());
    body->memory()[problem.layer.weights + 300] ^= change;
    return body->submit(emit({}, problem.layer), {.digests = true}).digests;
  };
  const auto right = run(0), wrong = run(1);
  const size_t first = static_cast<size_t>(std::ranges::mismatch(right, wrong).in1 - right.begin());
  ASSERT_LT(first, stream.size());
  EXPECT_EQ(unit_of(stream[first]), Unit::kLoad);
  EXPECT_EQ(run(0), right);
}

TEST(Tools, LogsHoldTheWritesOfOneCommand) {
  const Problem problem = random_problem({}, kLayer, 1);
  const auto stream = emit({}, problem.layer);
  const size_t last = stream.size() - 1;
  const auto body = open_body("model");
  std::ranges::copy(problem.memory, body->memory().begin());
  const auto writes = body->submit(stream, {.log = static_cast<uint32_t>(last)}).writes;
  ASSERT_EQ(writes.size(), 20U);
  for (const Write& write : writes)
    EXPECT_TRUE(std::ranges::equal(write.bytes, body->memory().subspan(write.address, write.bytes.size())));
}

TEST(Tools, AddressesOfWritesCountFromBases) {
  Problem problem = random_problem({}, kLayer, 1);
  const auto run = [&](uint64_t shift, bool has_bases) {
    Problem moved = problem;
    moved.layer.result += shift;
    const auto stream = emit({}, moved.layer);
    std::vector<uint64_t> bases;
    for (const Command& command : stream)
      bases.push_back(command.opcode == static_cast<uint8_t>(Opcode::kStore) ? moved.layer.result : 0);
    const auto body = open_body("model");
    std::ranges::copy(moved.memory, body->memory().begin());
    RunOptions options{.digests = true, .log = static_cast<uint32_t>(stream.size() - 1)};
    if (has_bases) options.bases = bases;
    return body->submit(stream, options);
  };
  EXPECT_NE(run(0, false).digests, run(4096, false).digests);
  EXPECT_EQ(run(0, true).digests, run(4096, true).digests);
  EXPECT_EQ(run(0, true).writes, run(4096, true).writes);
}

TEST(Tools, RtlLogsTheSameWrites) {
  ATALLA_NEEDS_RTL();
  const Problem problem = random_problem({}, kLayer, 1);
  const auto stream = emit({}, problem.layer);
  const auto log = [&](const char* name, uint32_t command) {
    const auto body = open_body(name);
    std::ranges::copy(problem.memory, body->memory().begin());
    return body->submit(stream, {.log = command}).writes;
  };
  for (uint32_t i = 0; i < stream.size(); ++i) EXPECT_EQ(log("model", i), log("rtl", i)) << text(stream[i]);
}

TEST(Tools, EventsOfAUnitFollowEachOther) {
  const Problem problem = random_problem({}, kLayer, 1);
  const auto stream = emit({}, problem.layer);
  const auto run = open_body("cycles")->submit(stream, {.events = true});
  ASSERT_EQ(run.events.size(), stream.size());
  std::array<uint64_t, kUnits> ends{};
  for (size_t i = 0; i < stream.size(); ++i) {
    const Event& event = run.events[i];
    EXPECT_EQ(event.command, i);
    EXPECT_EQ(event.unit, unit_of(stream[i]));
    EXPECT_LT(event.begin, event.end);
    EXPECT_GT(event.end, ends[static_cast<size_t>(event.unit)]);
    EXPECT_LE(event.end, run.counters.cycles);
    ends[static_cast<size_t>(event.unit)] = event.end;
  }
}

TEST(Tools, RtlWritesWaveforms) {
  ATALLA_NEEDS_RTL();
  const Problem problem = random_problem({}, kLayer, 1);
  const std::string path = testing::TempDir() + "atalla_waves.vcd";
  const auto body = open_body("rtl");
  EXPECT_FALSE(body->submit(emit({}, problem.layer), {.waves = 5, .waves_path = path}).fault);
  std::ifstream file(path);
  const std::string waves((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(waves, testing::HasSubstr("read_address"));
  EXPECT_GT(std::ranges::count(waves, '#'), 100);
  std::filesystem::remove(path);
  EXPECT_TRUE(body->submit(emit({}, problem.layer), {.waves = 0, .waves_path = "/nowhere/x.vcd"}).fault);
}

TEST(Tools, CommandsHaveAText) {
  Load load{.tokens = wait(Unit::kStore) | signal(Unit::kCompute) | signal(Unit::kStore), .run = 64};
  set_address(load, 0x123456789a);
  EXPECT_EQ(text(encode(load)),
            "load address=78187493530 run=64 inner=1 outer=1 inner_stride=0 outer_stride=0 line=0 inner_lines=0 "
            "outer_lines=0 pad=0 wait=store signal=compute,store");
  EXPECT_THAT(text(encode(Matmul{.flags = Matmul::kFloat | Matmul::kTranspose})),
              testing::HasSubstr("matmul float transpose"));
  EXPECT_THAT(text(encode(Store{.flags = 1 | Store::kClamp})), testing::HasSubstr("store bf16 clamp"));
  EXPECT_EQ(text(Command{}), "opcode 0");
}

TEST(Tools, LayoutsAreThoseOfTheSpecification) {
  Load load{.run = 0x1234, .inner = 0x5678, .outer = 0x9abc};
  set_address(load, 0x010203040506);
  const Command bytes = encode(load);
  EXPECT_EQ(bytes.operands[0], 6);                                      // byte 4: address
  EXPECT_EQ(bytes.operands[12], 2);                                     // byte 16: address, high
  EXPECT_EQ(bytes.operands[14], 0x34);                                  // byte 18: run
  EXPECT_EQ(bytes.operands[18], 0xbc);                                  // byte 22: outer
  EXPECT_EQ(encode(Matmul{.accumulator = 0x1234}).operands[18], 0x34);  // byte 22
  EXPECT_EQ(encode(Matmul{.weight_lines = 7}).operands[22], 7);         // byte 26
  EXPECT_EQ(encode(Epilogue{.low = 1.0F}).operands[7], 0x3f);           // byte 11
  EXPECT_EQ(encode(Store{.residual = 0x1234}).operands[22], 0x34);      // byte 26
}

}  // namespace
}  // namespace atalla
