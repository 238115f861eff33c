// Warnings: a cache that is not used, a bug of Tenon that costs only time. The work goes on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct Warning {
  std::string text;
  int64_t count;  // how often it occurred
};

// Prints "tenon: warning: <text>" on standard error, once per process and text, and counts every call. Safe to call
// from several threads.
void warn_once(std::string_view text);

// The warnings of this process, by their first occurrence.
std::vector<Warning> warnings();

}  // namespace tenon
