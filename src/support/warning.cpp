#include "support/warning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <mutex>

namespace tenon {
namespace {

struct Given {
  std::mutex mutex;
  std::vector<Warning> warnings;
};

Given& given() {
  static Given given;
  return given;
}

// Whether it is new.
bool count(std::string_view text) {
  Given& all = given();
  const std::lock_guard lock(all.mutex);
  const auto found = std::ranges::find(all.warnings, text, &Warning::text);
  if (found != all.warnings.end()) return ++found->count, false;
  all.warnings.push_back({std::string(text), 1});
  return true;
}

}  // namespace

void warn_once(std::string_view text) {
  if (!count(text)) return;
  const std::string line = fmt::format("tenon: warning: {}\n", text);
  std::fputs(line.c_str(), stderr);
}

std::vector<Warning> warnings() {
  Given& all = given();
  const std::lock_guard lock(all.mutex);
  return all.warnings;
}

}  // namespace tenon
