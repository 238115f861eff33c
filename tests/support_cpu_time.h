// The processor's time, for tests of how much work something is: other processes on the machine do not change it.
#pragma once

#include <ctime>

namespace tenon::test {

// In seconds, of all threads of the process.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <class Work>
double cpu_seconds_of(Work work) {
  const double before = cpu_seconds();
  work();
  return cpu_seconds() - before;
}

}  // namespace tenon::test
