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
  std::atomic<int> wrong = 0;
  const auto work = [&, runs = artifact.runs]() mutable {
    Session own;
    own.program = shared.program;
    const bool created = own.create({.threads = 2}) == TENON_OK;
    for (int i = 0; created && i < kRuns; ++i) {
      Case& run = runs[static_cast<size_t>(i) % runs.size()];
      std::vector<Array> outputs;
      const bool ran = own.run(run.inputs, &outputs) == TENON_OK;
      const bool is_stateless = i < static_cast<int>(runs.size()) || name != "1.0/library";
      if (!ran || (is_stateless && !close(outputs, run.outputs))) ++wrong;
    }
    if (!created) ++wrong;
    own.program = nullptr;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(All, Threads, testing::Combine(testing::ValuesIn(names()), testing::Bool()),
                         [](const auto& all) {
                           const std::string& name = std::get<0>(all.param);
                           return name.substr(name.find('/') + 1) + (std::get<1>(all.param) ? "Native" : "Portable");
                         });

}  // namespace
}  // namespace tenon::golden
