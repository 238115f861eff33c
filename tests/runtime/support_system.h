// The operating system as the runtime sees it, with a count of its calls, of which one may fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon::runtime::testing {

// While it lives the runtime's calls go through it, and call number `failing` (from 0; none if negative) fails with
// `error`. Calls that give something back are never failed, and are not counted.
class CountedSystem {
 public:
  explicit CountedSystem(int64_t failing = -1, int error = 5 /* EIO */);
  ~CountedSystem();
  CountedSystem(const CountedSystem&) = delete;

  int64_t calls() const;
  int64_t descriptors() const;  // open now
  int64_t mapped() const;       // bytes, now
};

// How many bytes of the pages that these lie in are in this process's memory now.
int64_t resident(std::span<const std::byte> bytes);

}  // namespace tenon::runtime::testing
