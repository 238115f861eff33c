#include "machine/machine.h"

#include <algorithm>

namespace tenon {

double Machine::busy_share(int64_t iterations) const {
  const int64_t workers = std::max<int64_t>(threads, 2);
  const int64_t rounds = (iterations + workers - 1) / workers;
  return static_cast<double>(iterations) / static_cast<double>(rounds * workers);
}

}  // namespace tenon
