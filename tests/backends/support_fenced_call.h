// A call of a kernel between fences (support_fenced.h). It needs nothing of the compiler, so that a program for another
// machine makes it, too (tests/arm64/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/kernel.h"

namespace tenon::test {

struct FencedArray {
  std::string name;  // for complaints
  void* data;        // an input is copied from here, an output to here
  size_t bytes;
  int64_t alignment;
  bool is_output;
};

struct FencedResult {
  int64_t code = 0;
  int64_t error[4] = {};
  std::string complaints;  // what the kernel did that it must not, a line each
};

// Calls the kernel with arrays that begin after, and then with arrays that end before, memory that must not be touched.
FencedResult call_fenced(tenon_kernel kernel, std::span<const FencedArray> arrays, std::span<const int64_t> sizes);

}  // namespace tenon::test
