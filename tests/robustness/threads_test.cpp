// One program, many threads, each with a context of its own. Code of the file is not instrumented; the runtime is.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/robustness/support_golden.h"

namespace tenon::golden {
namespace {

constexpr int kThreads = 8;
constexpr int kRuns = 1'000;

class Threads : public testing::TestWithParam<std::tuple<std::string, bool>> {};

// Sizes change from run to run: plans are made, kept and given up meanwhile.
TEST_P(Threads, ShareAProgram) {
  const auto& [name, native] = GetParam();
  Artifact artifact = read(name);
  Session shared;
  ASSERT_EQ(shared.load(artifact.bytes, native), TENON_OK) << tenon_error();
  tenon_states* states = nullptr;
  ASSERT_EQ(tenon_states_create(shared.program, nullptr, &states), TENON_OK);
  const bool has_states = tenon_state_count(states) > 0;
  tenon_states_free(states);
  std::atomic<int> wrong = 0;
  const auto work = [&, runs = artifact.runs]() mutable {
    Session own;
    own.program = shared.program;
    const bool created = own.create({.threads = 2}) == TENON_OK;
    for (int i = 0; created && i < kRuns; ++i) {
      Case& run = runs[static_cast<size_t>(i) % runs.size()];
      std::vector<Array> outputs;
      const bool ran = own.run(run.inputs, &outputs) == TENON_OK;
      const bool is_known = i < static_cast<int>(runs.size()) || !has_states;
      if (!ran || (is_known && !close(outputs, run.outputs))) ++wrong;
    }
    if (!created) ++wrong;
    own.program = nullptr;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Over one set of states: one run at a time, and an error for the others.
TEST(SharedStates, AreUsedByOneRunAtATime) {
  Artifact artifact = read("1.1/training");
  Session shared;
  ASSERT_EQ(shared.load(artifact.bytes, false), TENON_OK) << tenon_error();
  tenon_states* states = nullptr;
  ASSERT_EQ(tenon_states_create(shared.program, nullptr, &states), TENON_OK) << tenon_error();
  std::atomic<int64_t> ran = 0, refused = 0, wrong = 0;
  const auto work = [&, inputs = artifact.runs[0].inputs]() mutable {
    Session own;
    const tenon_context_options options{.threads = 1};
    own.program = shared.program;
    if (tenon_context_create_with(shared.program, &options, states, &own.context) != TENON_OK) ++wrong;
    std::vector<Array> outputs;
    for (int i = 0; i < kRuns; ++i) {
      const tenon_status status = own.run(inputs, &outputs);
      ++(status == TENON_OK ? ran : status == TENON_INVALID_ARGUMENT ? refused : wrong);
    }
    own.program = nullptr;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  size_t number = 0;
  tenon_tensor steps;
  ASSERT_EQ(tenon_find_state(states, "steps", &number), TENON_OK);
  ASSERT_EQ(tenon_get_state(states, number, &steps), TENON_OK);
  EXPECT_EQ(*static_cast<const int64_t*>(steps.data), ran);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(ran + refused, kThreads * kRuns);
  tenon_states_free(states);
}

INSTANTIATE_TEST_SUITE_P(All, Threads, testing::Combine(testing::ValuesIn(names()), testing::Bool()),
                         [](const auto& all) {
                           return label(std::get<0>(all.param)) + (std::get<1>(all.param) ? "Native" : "Portable");
                         });

}  // namespace
}  // namespace tenon::golden
