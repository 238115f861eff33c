#include "runtime/cpu_quota.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/system.h"

namespace tenon {
namespace {

// The first bytes of a file of the system. Empty if there is no such file.
std::string contents(const std::string& path) {
  constexpr size_t kMost = 4096;
  const runtime::Descriptor file(runtime::system().open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(kMost, '\0');
  const ssize_t size = file.number() < 0 ? 0 : runtime::system().read(file.number(), text.data(), text.size());
  text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

// "200000 100000" is two CPUs: microseconds of each period. The quota is "max" or -1 without a limit.
int64_t whole_cpus(const std::string& quota_and_period) {
  char* end = nullptr;
  const int64_t quota = std::strtoll(quota_and_period.c_str(), &end, 10);
  const int64_t period = std::strtoll(end, nullptr, 10);
  return quota <= 0 || period <= 0 ? kNoQuota : std::max<int64_t>(1, quota / period);
}

int64_t quota_of_group(const std::string& group) {
  const std::string both = contents(group + "/cpu.max");  // version 2
  if (!both.empty()) return whole_cpus(both);
  return whole_cpus(contents(group + "/cpu.cfs_quota_us") + " " + contents(group + "/cpu.cfs_period_us"));
}

// Of a group and all groups around it. A container sees its own group as the root, or only part of the path.
int64_t quota_within(const std::string& mount, std::string path) {
  int64_t least = kNoQuota;
  for (size_t end = path.size(); end != std::string::npos; end = path.rfind('/')) {
    path.resize(end);
    least = std::min(least, quota_of_group(mount + path));
  }
  return least;
}

// A line of /proc/self/cgroup: "0::/user.slice" is a group of version 2, "4:cpu,cpuacct:/user.slice" of version 1.
int64_t quota_of_line(std::string_view line) {
  const size_t first = line.find(':'), second = line.find(':', first + 1);
  if (second == std::string_view::npos) return kNoQuota;
  const std::string controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
  const std::string path(line.substr(second + 1));
  if (controllers == ",,") return quota_within("/sys/fs/cgroup", path);
  return controllers.find(",cpu,") == std::string::npos ? kNoQuota : quota_within("/sys/fs/cgroup/cpu", path);
}

int64_t quota_of_process() {
  const std::string groups = contents("/proc/self/cgroup");
  int64_t least = kNoQuota;
  for (size_t begin = 0; begin < groups.size();) {
    const size_t end = std::min(groups.find('\n', begin), groups.size());
    least = std::min(least, quota_of_line(std::string_view(groups).substr(begin, end - begin)));
    begin = end + 1;
  }
  return least;
}

}  // namespace

int64_t cpu_quota() noexcept {
  try {
    return quota_of_process();
  } catch (...) {  // no memory
    return kNoQuota;
  }
}

}  // namespace tenon
