// Saving where memory runs out or the disk fails: an error, nothing is lost, the file that was there stays.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <new>

#include "driver/pipeline.h"
#include "graph/builder.h"
#include "program/artifact.h"
#include "support/file.h"
#include "tests/robustness/support_failing.h"

namespace {

int calls = 0;     // of the system, while a file is written
int failing = -1;  // number of the one that fails

bool fails() {
  if (calls++ != failing) return false;
  errno = ENOSPC;
  return true;
}

}  // namespace

// The linker puts these in the place of the system's (-Wl,--wrap).
extern "C" {
int __real_open(const char* path, int flags, ...);
ssize_t __real_write(int descriptor, const void* bytes, size_t size);
int __real_rename(const char* from, const char* to);
int __wrap_open(const char* path, int flags, ...);
ssize_t __wrap_write(int descriptor, const void* bytes, size_t size);
int __wrap_rename(const char* from, const char* to);
}

int __wrap_open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = (flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0;
  va_end(arguments);
  return fails() ? -1 : __real_open(path, flags, mode);
}
// In pieces, as a disk that is slow may do.
ssize_t __wrap_write(int descriptor, const void* bytes, size_t size) {
  return fails() ? -1 : __real_write(descriptor, bytes, std::min<size_t>(size, 1000));
}
int __wrap_rename(const char* from, const char* to) { return fails() ? -1 : __real_rename(from, to); }

namespace tenon::golden {
namespace {

Program small_program() {
  Graph graph("small");
  Builder builder(graph);
  const Value x = builder.value(graph.add_input("x", {DType::kF32, {4, 8}}));
  const Tensor weight = Tensor::zeros(DType::kF32, {8, 8});
  const Value w = builder.value(graph.add_parameter("w", type_of(weight), weight));
  graph.set_outputs({builder.op("relu", {builder.op("linear", {x, w, Value()})}).ref()});
  return compile_program(graph).value();
}

class Save : public testing::Test {
 protected:
  Save() { std::filesystem::create_directory(folder_); }
  ~Save() override { std::filesystem::remove_all(folder_); }

  Status save() { return write_artifact(path_, {&program_}); }
  std::string content() const { return std::string(read_file(path_).value().text()); }
  void expect_untouched(const std::string& before, int64_t number) const {
    EXPECT_EQ(content(), before) << number;
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << number << " leaves a file behind";
  }

  std::string folder_ = testing::TempDir() + "save_test." + std::to_string(::getpid());
  std::string path_ = folder_ + "/model.tenon";
  Program program_ = small_program();
};

TEST_F(Save, TellsOfEachCallOfTheSystemThatFails) {
  calls = 0;
  ASSERT_TRUE(save().ok());
  const int count = calls;
  EXPECT_GT(count, 5);
  const std::string before = content();
  for (int number = 0; number < count; ++number) {
    calls = 0;
    failing = number;
    const Status status = save();
    failing = -1;
    ASSERT_FALSE(status.ok()) << number;
    EXPECT_NE(status.diagnostic().message.find("No space left"), std::string::npos) << status.diagnostic().message;
    expect_untouched(before, number);
  }
  EXPECT_TRUE(save().ok());
}

TEST_F(Save, TellsOfEachAllocationThatFails) {
  ASSERT_TRUE(save().ok());
  const std::string before = content();
  const auto save_is_refused = [&] {
    try {
      return !save().ok();
    } catch (const std::bad_alloc&) {
      return true;
    }
  };
  int64_t number = 0;
  for (bool reached = true; reached; ++number) {
    const int64_t live = live_blocks();
    bool refused;
    {
      const FailAllocation fail(number, false);
      refused = save_is_refused();
      reached = FailAllocation::count() > number;
    }
    ASSERT_EQ(live_blocks(), live) << "allocation " << number << " leaks";
    ASSERT_EQ(refused, reached) << number;
    expect_untouched(before, number);
  }
  EXPECT_GT(number, 20);
  EXPECT_TRUE(save().ok());
}

}  // namespace
}  // namespace tenon::golden
