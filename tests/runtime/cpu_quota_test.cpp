#include "runtime/cpu_quota.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/cpus.h"
#include "runtime/system.h"
#include "runtime/thread_pool.h"

namespace tenon {
namespace {

using Files = std::map<std::string, std::string>;

struct {
  const Files* files;
  std::vector<const std::string*> opened;
} shown;

int open_shown(const char* path, int) {
  const auto found = shown.files->find(path);
  if (found == shown.files->end()) return errno = ENOENT, -1;
  shown.opened.push_back(&found->second);
  return static_cast<int>(shown.opened.size()) - 1;
}

ssize_t read_shown(int descriptor, void* bytes, size_t size) {
  const std::string& text = *shown.opened[static_cast<size_t>(descriptor)];
  const size_t count = std::min(size, text.size());
  std::memcpy(bytes, text.data(), count);
  return static_cast<ssize_t>(count);
}

// While it lives, these are the files of the system.
class ShownFiles {
 public:
  explicit ShownFiles(Files files) : files_(std::move(files)), system_(runtime::kSystem) {
    shown = {&files_, {}};
    system_.open = open_shown;
    system_.read = read_shown;
    system_.close = [](int) { return 0; };
    runtime::use_system(&system_);
  }
  ~ShownFiles() { runtime::use_system(nullptr); }
  ShownFiles(const ShownFiles&) = delete;

 private:
  const Files files_;
  runtime::System system_;
};

int64_t quota_with(const Files& files) {
  const ShownFiles guard(files);
  return cpu_quota();
}

Files version_2(const std::string& limit) {
  return {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", limit}};
}

TEST(CpuQuota, OfVersion2) {
  EXPECT_EQ(quota_with(version_2("200000 100000\n")), 2);
  EXPECT_EQ(quota_with(version_2("max 100000\n")), kNoQuota);
  EXPECT_EQ(quota_with(version_2("350000 50000\n")), 7);
}

TEST(CpuQuota, IsRoundedDownToAtLeastOne) {
  EXPECT_EQ(quota_with(version_2("150000 100000\n")), 1);
  EXPECT_EQ(quota_with(version_2("299999 100000\n")), 2);
  EXPECT_EQ(quota_with(version_2("5000 100000\n")), 1);
}

TEST(CpuQuota, IsTheLeastOfAllGroupsAround) {
  Files files = {{"/proc/self/cgroup", "0::/a.slice/b.service\n"},
                 {"/sys/fs/cgroup/a.slice/b.service/cpu.max", "max 100000\n"},
                 {"/sys/fs/cgroup/a.slice/cpu.max", "300000 100000\n"}};
  EXPECT_EQ(quota_with(files), 3);
  files["/sys/fs/cgroup/a.slice/b.service/cpu.max"] = "200000 100000\n";
  EXPECT_EQ(quota_with(files), 2);
  files["/sys/fs/cgroup/cpu.max"] = "100000 100000\n";
  EXPECT_EQ(quota_with(files), 1);
}

TEST(CpuQuota, OfVersion1) {
  Files files = {{"/proc/self/cgroup", "12:cpuset:/\n4:cpu,cpuacct:/docker/1f\n1:name=systemd:/docker/1f\n0::/\n"},
                 {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n"},
                 {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(quota_with(files), 4) << "a container sees its group as the root";
  files["/sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "-1\n";
  EXPECT_EQ(quota_with(files), kNoQuota);
  files["/sys/fs/cgroup/cpu/docker/1f/cpu.cfs_quota_us"] = "250000\n";
  files["/sys/fs/cgroup/cpu/docker/1f/cpu.cfs_period_us"] = "100000\n";
  EXPECT_EQ(quota_with(files), 2);
}

TEST(CpuQuota, OfNoGroupOrDamagedFilesIsNone) {
  EXPECT_EQ(quota_with({}), kNoQuota);
  for (const char* groups : {"", "\n\n", "0", "0:", "0:cpu", ":::", "4:cpuacct:/"}) {
    EXPECT_EQ(quota_with({{"/proc/self/cgroup", groups}}), kNoQuota) << groups;
  }
  for (const char* limit : {"", "\n", "0 0", "200000", "200000 0", "-5 100000", "many 3"}) {
    EXPECT_EQ(quota_with(version_2(limit)), kNoQuota) << limit;
  }
}

TEST(CpuQuotaDeathTest, LimitsTheNumberOfThreads) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  unsetenv("TENON_THREADS");
  const auto threads_with = [](const char* limit) {
    const ShownFiles guard(version_2(limit));
    std::_Exit(static_cast<int>(thread_count()));
  };
  EXPECT_EXIT(threads_with("100000 100000"), ::testing::ExitedWithCode(1), "");
  const int cpus = static_cast<int>(allowed_cpus().size());
  EXPECT_EXIT(threads_with("max 100000"), ::testing::ExitedWithCode(cpus), "");
  EXPECT_EXIT(threads_with("9999900000 100000"), ::testing::ExitedWithCode(cpus), "");
  setenv("TENON_THREADS", "3", 1);
  EXPECT_EXIT(threads_with("100000 100000"), ::testing::ExitedWithCode(3), "");
  unsetenv("TENON_THREADS");
}

}  // namespace
}  // namespace tenon
