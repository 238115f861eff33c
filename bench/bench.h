// What the benches share.
#pragma once

#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

namespace tenon::bench {

inline double median(std::vector<double> rounds) {
  std::ranges::sort(rounds);
  return rounds[rounds.size() / 2];
}

// A main program that prints a table.
inline int run(void (*print_table)()) {
  try {
    print_table();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace tenon::bench
