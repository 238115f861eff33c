#include "runtime/cpus.h"

#include <sched.h>

namespace tenon {
namespace {

// A set of CPUs in the system's format, for any number of CPUs.
class CpuSet {
 public:
  explicit CpuSet(int most) : words_(static_cast<size_t>(most) / kBitsOfWord + 1) {}

  void add(int cpu) { CPU_SET_S(static_cast<size_t>(cpu), bytes(), get()); }
  bool has(int cpu) { return CPU_ISSET_S(static_cast<size_t>(cpu), bytes(), get()); }
  size_t bytes() const { return words_.size() * sizeof(unsigned long); }
  cpu_set_t* get() { return reinterpret_cast<cpu_set_t*>(words_.data()); }

 private:
  static constexpr size_t kBitsOfWord = 8 * sizeof(unsigned long);
  std::vector<unsigned long> words_;
};

constexpr int kMostCpus = 1 << 16;

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  for (int most = 1024; most <= kMostCpus && cpus.empty(); most *= 4) {
    CpuSet set(most);
    if (sched_getaffinity(0, set.bytes(), set.get()) != 0) continue;  // the set is too small for this machine
    for (int cpu = 0; cpu < most; ++cpu) {
      if (set.has(cpu)) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

void run_on(pthread_t thread, const std::vector<int>& cpus) {
  CpuSet set(cpus.back() + 1);
  for (const int cpu : cpus) set.add(cpu);
  pthread_setaffinity_np(thread, set.bytes(), set.get());
}

int current_cpu() { return sched_getcpu(); }

}  // namespace tenon
