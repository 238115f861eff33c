// A machine with no memory left, and a system whose calls fail: whichever it is, loading and running end with a status,
// nothing is lost, and the next attempt works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "tests/robustness/support_failing.h"
#include "tests/robustness/support_golden.h"
#include "tests/runtime/support_system.h"

namespace tenon::golden {
namespace {

using testing::AnyOf;

// All that a user does. Tensors are taken and compared where allocations do not fail.
tenon_status use(const Artifact& artifact, std::vector<Array>& inputs, bool native) {
  Session session;
  if (const tenon_status status = session.load_file(artifact.path, native)) return status;
  if (const tenon_status status = session.create({.threads = 1, .telemetry = 1})) return status;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const tenon_tensor input = inputs[i].view();
    if (const tenon_status status = tenon_set_input(session.context, i, &input)) return status;
  }
  return tenon_run(session.context);
}

void expect_works(Artifact& artifact, bool native) {
  Session session;
  std::vector<Array> outputs;
  ASSERT_EQ(session.load_file(artifact.path, native), TENON_OK) << tenon_error();
  ASSERT_EQ(session.create(), TENON_OK) << tenon_error();
  ASSERT_EQ(session.run(artifact.runs[0].inputs, &outputs), TENON_OK) << tenon_error();
  EXPECT_TRUE(close(outputs, artifact.runs[0].outputs));
}

class Failures : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  // Memory for the text of an error stays with its thread: there is enough of it from here on.
  Failures() { tenon_load_file(std::string(1000, 'x').c_str(), nullptr, &none_); }

  tenon_program* none_ = nullptr;
  Artifact artifact_ = read(std::get<0>(GetParam()));
  bool native_ = std::get<1>(GetParam());
};

TEST_P(Failures, OfEachAllocationAreTold) {
  std::vector<Array>& inputs = artifact_.runs[0].inputs;
  for (const bool all_after : {false, true}) {
    ASSERT_EQ(use(artifact_, inputs, native_), TENON_OK) << tenon_error();
    int64_t number = 0;
    for (bool reached = true; reached; ++number) {
      const int64_t before = live_blocks();
      tenon_status status;
      {
        const FailAllocation fail(number, all_after);
        status = use(artifact_, inputs, native_);
        reached = FailAllocation::count() > number;
      }
      ASSERT_EQ(live_blocks(), before) << "allocation " << number << " leaks";
      ASSERT_EQ(status, reached ? TENON_OUT_OF_MEMORY : TENON_OK) << "allocation " << number << ": " << tenon_error();
      ASSERT_STRNE(tenon_error(), "");
    }
    EXPECT_GT(number, 20);
    std::printf("%lld allocations\n", static_cast<long long>(number - 1));
  }
  expect_works(artifact_, native_);
}

TEST_P(Failures, OfEachCallOfTheSystemAreTold) {
  std::vector<Array>& inputs = artifact_.runs[0].inputs;
  int64_t count;
  {
    const runtime::testing::CountedSystem system;
    ASSERT_EQ(use(artifact_, inputs, native_), TENON_OK) << tenon_error();
    count = system.calls();
  }
  EXPECT_GE(count, native_ ? 7 : 5);  // open, stat, map, two copies; memory for code, its protection
  for (int64_t number = 0; number < count; ++number) {
    for (const int why : {EIO, ENOMEM, EACCES}) {
      const int64_t before = live_blocks();
      {
        const runtime::testing::CountedSystem system(number, why);
        const tenon_status status = use(artifact_, inputs, native_);
        if (why == ENOMEM) ASSERT_EQ(status, TENON_OUT_OF_MEMORY) << number << ": " << tenon_error();
        ASSERT_THAT(status, AnyOf(TENON_IO, TENON_OUT_OF_MEMORY, TENON_UNSUPPORTED)) << number;
        ASSERT_STRNE(tenon_error(), "");
        EXPECT_EQ(system.descriptors(), 0) << number;
        EXPECT_EQ(system.mapped(), 0) << number;
      }
      ASSERT_EQ(live_blocks(), before) << "call " << number << " leaks";
    }
  }
  expect_works(artifact_, native_);
}

TEST(CheckpointFailures, OfEachAllocationAreTold) {
  const std::string path = testing::TempDir() + "failures_test." + std::to_string(::getpid()) + ".states";
  Session session;
  tenon_states* states = nullptr;
  ASSERT_EQ(session.load_file(read("1.1/training").path, false), TENON_OK) << tenon_error();
  ASSERT_EQ(tenon_states_create(session.program, nullptr, &states), TENON_OK) << tenon_error();
  ASSERT_EQ(tenon_set_note(states, "epoch", "1"), TENON_OK);
  EXPECT_EQ(tenon_states_load(states, std::string(1000, 'x').c_str()), TENON_IO);  // memory for the text of errors
  const auto save_and_load = [&] {
    const tenon_status saved = tenon_states_save(states, path.c_str());
    return saved != TENON_OK ? saved : tenon_states_load(states, path.c_str());
  };
  ASSERT_EQ(save_and_load(), TENON_OK) << tenon_error();
  int64_t number = 0;
  for (bool reached = true; reached; ++number) {
    const int64_t before = live_blocks();
    tenon_status status;
    {
      const FailAllocation fail(number, false);
      status = save_and_load();
      reached = FailAllocation::count() > number;
    }
    ASSERT_EQ(live_blocks(), before) << "allocation " << number << " leaks";
    ASSERT_EQ(status, reached ? TENON_OUT_OF_MEMORY : TENON_OK) << "allocation " << number << ": " << tenon_error();
  }
  EXPECT_GT(number, 20);
  tenon_states_free(states);
  std::remove(path.c_str());
}

INSTANTIATE_TEST_SUITE_P(All, Failures, testing::Combine(testing::ValuesIn(names()), testing::Bool()),
                         [](const auto& all) {
                           return label(std::get<0>(all.param)) + (std::get<1>(all.param) ? "Native" : "Portable");
                         });

}  // namespace
}  // namespace tenon::golden
