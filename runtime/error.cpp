#include "runtime/error.h"

#include <cstdio>

namespace tenon::runtime {

void append(std::string& text, double part) {
  char digits[32];
  text.append(digits, static_cast<size_t>(std::snprintf(digits, sizeof digits, "%g", part)));
}

}  // namespace tenon::runtime
