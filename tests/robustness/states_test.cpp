// States and checkpoints through the C++ interface: what they give, and what damage, other files and a system whose
// calls fail do to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tenon/tenon.hpp"
#include "tests/robustness/support_golden.h"
#include "tests/robustness/support_seal.h"
#include "tests/runtime/support_system.h"

namespace tenon::golden {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const char* const kModel = "tests/golden/1.1/training.tenon";
const char* const kCheckpoint = "tests/golden/1.1/training.states";

std::string message_of(const auto& body) {
  try {
    body();
  } catch (const RuntimeError& error) {
    return error.what();
  }
  return "no error";
}

class States : public testing::Test {
 protected:
  States() { std::filesystem::create_directory(folder_); }
  ~States() override { std::filesystem::remove_all(folder_); }

  static std::vector<float> floats(const tenon::States& states, const std::string& name) {
    const std::span<float> values = states.get(name).values<float>();
    return {values.begin(), values.end()};
  }
  int64_t steps() const { return states_.get("steps").values<int64_t>()[0]; }

  float run(Context& context) {
    for (size_t i = 0; i < 2; ++i) context.set_input(i, Tensor(inputs_[i].view()));
    context.run();
    return context.output(0).values<float>()[0];
  }

  void write(const std::string& path, std::span<const std::byte> bytes) const {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  std::string folder_ = testing::TempDir() + "golden_states." + std::to_string(::getpid());
  std::string path_ = folder_ + "/checkpoint.states";
  std::vector<Array> inputs_ = read("1.1/training").runs[0].inputs;
  Program program_ = Program::load(kModel, {.no_native = 1});
  tenon::States states_{program_};
};

TEST_F(States, AreSharedByEntries) {
  EXPECT_THAT(program_.entries(), ElementsAre("step", "eval"));
  EXPECT_EQ(program_.entry("eval").output_count(), 2u);
  EXPECT_EQ(message_of([&] { program_.entry("train"); }), "the file has no entry 'train'; its entries are step, eval");
  Context step(program_.entry("step"), states_), eval(program_.entry("eval"), states_);
  const float before = run(eval);
  EXPECT_EQ(run(step), before);
  EXPECT_NE(run(eval), before);
  EXPECT_EQ(steps(), 1);
  EXPECT_EQ(step.states().get("steps").values<int64_t>()[0], 1);
  states_.reset();
  EXPECT_EQ(run(eval), before);
  EXPECT_EQ(steps(), 0);
}

TEST_F(States, AreReadAndSetByName) {
  EXPECT_EQ(states_.count(), 3u);
  EXPECT_EQ(states_.bytes(), 16 + 16 + 8);
  EXPECT_EQ(states_.info(0).name(), "line.weight");
  EXPECT_EQ(states_.info(2).text(), "i64[]");
  std::vector<float> values = {1, 2, 3, 4};
  const int64_t shape[] = {4}, other[] = {2, 2};
  states_.set("line.weight", Tensor::of(values, shape));
  EXPECT_EQ(floats(states_, "line.weight"), values);
  EXPECT_EQ(message_of([&] { states_.set("line.weight", Tensor::of(values, other)); }),
            "state 'line.weight' is f32[4], got f32[2, 2]");
  EXPECT_EQ(message_of([&] { states_.get("line.bias"); }), "there is no state 'line.bias'");
  EXPECT_EQ(message_of([&] { states_.get(3); }), "there is no state 3: there are 3");
  EXPECT_EQ(message_of([&] { tenon::States(program_, {.budget = 30}); }),
            "the states up to 'optimizer.momentum' need at least 32 bytes, and the budget is 30");
}

TEST_F(States, OfTheFirstFormatHaveNumbersForNames) {
  const Program old = Program::load("tests/golden/1.0/library.tenon", {.no_native = 1});
  EXPECT_THAT(old.entries(), ElementsAre("main"));
  EXPECT_EQ(tenon::States(old).info(0).name(), "state0");
}

TEST_F(States, OfEveryFormatAreLoadedForEver) {
  states_.load(kCheckpoint);
  EXPECT_EQ(steps(), 3);
  EXPECT_THAT(states_.notes(), ElementsAre(Pair("epoch", "3")));
  Context step(program_, states_);
  for (Case& each : read("1.1/training").runs) {
    inputs_ = each.inputs;
    run(step);
  }
  EXPECT_EQ(steps(), 6);
}

TEST_F(States, GoThroughACheckpoint) {
  Context step(program_, states_);
  run(step);
  states_.set_note("epoch", "1");
  states_.save(path_);
  const std::vector<float> weight = floats(states_, "line.weight");
  run(step);
  EXPECT_NE(floats(states_, "line.weight"), weight);
  tenon::States other(program_);
  other.load(path_);
  EXPECT_EQ(floats(other, "line.weight"), weight);
  EXPECT_THAT(other.notes(), ElementsAre(Pair("epoch", "1")));
  const Program library = Program::load("tests/golden/1.1/library.tenon", {.no_native = 1});
  tenon::States stranger(library);
  EXPECT_EQ(message_of([&] { stranger.load(path_); }),
            path_ + ": the file has a state 'line.weight', which this program lacks");
}

// ---- safetensors ----

TEST_F(States, AreExportedAsSafetensors) {
  states_.load(kCheckpoint);
  states_.set_note("a \"b\"\n", "\\");
  states_.export_safetensors(path_);
  const std::vector<std::byte> bytes = read_bytes(path_);
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  ASSERT_EQ(size % 8, 0u);
  ASSERT_EQ(bytes.size(), 8 + size + 40);
  const std::string header(reinterpret_cast<const char*>(bytes.data()) + 8, size);
  EXPECT_EQ(header.substr(0, header.find_last_not_of(' ') + 1),
            "{\"__metadata__\":{\"a \\\"b\\\"\\u000a\":\"\\\\\",\"epoch\":\"3\"},"
            "\"steps\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
            "\"line.weight\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]},"
            "\"optimizer.momentum\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[24,40]}}");
  int64_t steps = 0;
  std::memcpy(&steps, bytes.data() + 8 + size, sizeof steps);
  EXPECT_EQ(steps, 3);
}

// ---- damage ----

TEST_F(States, OfADamagedFileAreRefusedAndNothingChanges) {
  std::vector<std::byte> bytes = read_bytes(kCheckpoint);
  const std::vector<float> before = floats(states_, "line.weight");
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 64) {
    write(path_, std::span(bytes).first(size));
    ASSERT_NE(message_of([&] { states_.load(path_); }), "no error") << size;
  }
  for (size_t at = 0; at < bytes.size(); at += at < 1024 ? 1 : 7) {
    bytes[at] ^= std::byte{0x41};
    write(path_, bytes);
    ASSERT_NE(message_of([&] { states_.load(path_); }), "no error") << at;
    bytes[at] ^= std::byte{0x41};
  }
  EXPECT_EQ(floats(states_, "line.weight"), before);
  EXPECT_EQ(steps(), 0);
}

TEST_F(States, OfAFileWithTheRightChecksumsDoNotHarm) {
  std::vector<Piece> pieces = pieces_of(read_bytes(kCheckpoint));
  size_t accepted = 0, tried = 0;
  for (std::byte& byte : pieces[0].bytes) {
    for (const std::byte change : {std::byte{1}, std::byte{0x80}, std::byte{0xff}}) {
      byte ^= change;
      write(path_, joined(pieces));
      accepted += message_of([&] { states_.load(path_); }) == "no error", ++tried;
      byte ^= change;
    }
  }
  std::printf("%zu changes, of which %zu are accepted\n", tried, accepted);
  EXPECT_GT(accepted, 0u);
  EXPECT_LT(accepted, tried / 2);
}

// ---- a system whose calls fail ----

TEST_F(States, TellOfEachCallOfTheSystemThatFails) {
  states_.set_note("epoch", "1");
  int64_t saving, loading;
  {
    const runtime::testing::CountedSystem system;
    states_.save(path_);
    saving = system.calls();
    states_.load(path_);
    loading = system.calls();
  }
  EXPECT_GT(saving, 8) << "a new file, writes, its sync, the rename, the folder and its sync";
  const std::vector<std::byte> before = read_bytes(path_);
  states_.set_note("epoch", "2");
  for (int64_t number = 0; number < saving; ++number) {
    const runtime::testing::CountedSystem system(number, EIO);
    ASSERT_THAT(message_of([&] { states_.save(path_); }), HasSubstr("Input/output error")) << number;
    EXPECT_EQ(system.descriptors(), 0) << number;
    const bool is_renamed = number >= saving - 2;
    if (!is_renamed) ASSERT_EQ(read_bytes(path_), before) << number;
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << number << " leaves a file behind";
  }
  for (int64_t number = 0; number < loading - saving; ++number) {
    const runtime::testing::CountedSystem system(number, EIO);
    ASSERT_NE(message_of([&] { states_.load(path_); }), "no error") << number;
    EXPECT_EQ(system.descriptors(), 0) << number;
    EXPECT_EQ(system.mapped(), 0) << number;
  }
  states_.load(path_);
  EXPECT_THAT(states_.notes(), ElementsAre(Pair("epoch", "2")));
}

}  // namespace
}  // namespace tenon::golden
