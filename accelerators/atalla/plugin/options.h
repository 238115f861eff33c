// What a user writes after the name of the device: "atalla:body=cycles,size=8,scratchpad=64KiB". A word alone is the
// body: "atalla:cycles".
#pragma once

#include <string>
#include <string_view>

#include "isa.h"

namespace atalla {

struct DeviceOptions {
  std::string body = "model";
  Machine machine;
  uint64_t memory_bytes = uint64_t{2} << 30;  // pages that no run touches cost nothing
  double hertz = 1e9;
  int rtl_bug = 0;  // of the body rtl: a mistake that it makes on purpose, for tests of tools (rtl/bugs.svh)

  bool operator==(const DeviceOptions&) const = default;
};

// Throws std::runtime_error, which says what is wrong and lists the options.
DeviceOptions parse_options(std::string_view text);

}  // namespace atalla
