// What a user should know although the work goes on: a cache that is not used, a mistake of ours that only cost time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct Warning {
  std::string text;
  int64_t count;  // how often it was given
};

// Prints "tenon: warning: <text>" on standard error the first time that this process gives the text, and counts it each
// time. Safe to call from several threads.
void warn_once(std::string_view text);

// Those of this process, in the order in which they were first given.
std::vector<Warning> warnings();

}  // namespace tenon
