// A machine with no memory left, and a system whose calls fail: whichever it is, loading and running end with a status,
// nothing is lost, and the next attempt works.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "tests/robustness/support_golden.h"
#include "tests/runtime/support_system.h"

namespace {

std::atomic<int64_t> calls = 0;     // of allocation
std::atomic<int64_t> failing = -1;  // number of the call that fails; none if negative
std::atomic<bool> and_all_after = false;
std::atomic<int64_t> blocks = 0;  // that are not freed

bool fails() {
  const int64_t number = calls++;
  const int64_t bad = failing;
  return bad >= 0 && (number == bad || (and_all_after && number > bad));
}

void* allocated(void* memory) {
  blocks += memory != nullptr;
  return memory;
}

void released(void* memory) {
  blocks -= memory != nullptr;
  std::free(memory);
}

}  // namespace

extern "C" {
void* __real_aligned_alloc(size_t alignment, size_t size);
void* __wrap_aligned_alloc(size_t alignment, size_t size);
}
void* __wrap_aligned_alloc(size_t alignment, size_t size) {
  return fails() ? nullptr : __real_aligned_alloc(alignment, size);
}

void* operator new(size_t size) {
  void* const memory = fails() ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return allocated(memory);
}
void* operator new(size_t size, std::align_val_t alignment) {
  const size_t whole = (size + static_cast<size_t>(alignment) - 1) / static_cast<size_t>(alignment);
  void* const memory =
      fails() ? nullptr : __real_aligned_alloc(static_cast<size_t>(alignment), whole * static_cast<size_t>(alignment));
  if (memory == nullptr) throw std::bad_alloc();
  return allocated(memory);
}
void operator delete(void* memory) noexcept { released(memory); }
void operator delete(void* memory, size_t) noexcept { released(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { released(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { released(memory); }

namespace tenon::golden {
namespace {

class FailAllocation {
 public:
  explicit FailAllocation(int64_t number, bool all_after) {
    and_all_after = all_after;
    calls = 0;
    failing = number;
  }
  ~FailAllocation() { failing = -1; }
  FailAllocation(const FailAllocation&) = delete;

  static int64_t count() { return calls; }
};

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
  Artifact artifact_ = read(std::get<0>(GetParam()));
  bool native_ = std::get<1>(GetParam());
};

TEST_P(Failures, OfEachAllocationAreTold) {
  std::vector<Array>& inputs = artifact_.runs[0].inputs;
  for (const bool all_after : {false, true}) {
    ASSERT_EQ(use(artifact_, inputs, native_), TENON_OK) << tenon_error();
    int64_t number = 0;
    for (bool reached = true; reached; ++number) {
      const int64_t before = blocks;
      tenon_status status;
      {
        const FailAllocation fail(number, all_after);
        status = use(artifact_, inputs, native_);
        reached = FailAllocation::count() > number;
      }
      ASSERT_EQ(blocks, before) << "allocation " << number << " leaks";
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
      const int64_t before = blocks;
      {
        const runtime::testing::CountedSystem system(number, why);
        const tenon_status status = use(artifact_, inputs, native_);
        ASSERT_EQ(status, why == ENOMEM ? TENON_OUT_OF_MEMORY : TENON_IO) << number << ": " << tenon_error();
        ASSERT_STRNE(tenon_error(), "");
        EXPECT_EQ(system.descriptors(), 0) << number;
        EXPECT_EQ(system.mapped(), 0) << number;
      }
      ASSERT_LE(blocks, before + 1) << "call " << number << " leaks";  // the text of the error may have grown
    }
  }
  expect_works(artifact_, native_);
}

INSTANTIATE_TEST_SUITE_P(All, Failures, testing::Combine(testing::ValuesIn(names()), testing::Bool()),
                         [](const auto& all) {
                           const std::string& name = std::get<0>(all.param);
                           return name.substr(name.find('/') + 1) + (std::get<1>(all.param) ? "Native" : "Portable");
                         });

}  // namespace
}  // namespace tenon::golden
