#include "plugin/options.h"

#include <charconv>
#include <stdexcept>

namespace atalla {

namespace {

constexpr const char* kOptions =
    "the options are body=model|cycles|rtl, size, scratchpad, scratchpad_banks, accumulators, accumulator_banks, "
    "queue, dma_bytes, dma_latency, memory, mhz, and bug of the rtl; sizes in bytes, KiB, MiB or GiB";

[[noreturn]] void refuse(const std::string& what) { throw std::runtime_error(what + "; " + kOptions); }

// "256KiB", "1024".
uint64_t number(std::string_view name, std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  const int shift = unit == "KiB" ? 10 : unit == "MiB" ? 20 : unit == "GiB" ? 30 : unit.empty() ? 0 : -1;
  if (error != std::errc() || shift < 0 || value > (uint64_t{1} << 40) >> shift)
    refuse("option " + std::string(name) + " is '" + std::string(text) + "', which is no size up to 1024GiB");
  return value << shift;
}

uint32_t small(std::string_view name, std::string_view text) {
  const uint64_t value = number(name, text);
  if (value > UINT32_MAX) refuse("option " + std::string(name) + " is too large: " + std::string(text));
  return static_cast<uint32_t>(value);
}

struct Sizes {
  uint64_t scratchpad = 256 << 10, accumulators = 128 << 10;  // bytes
};

void set(DeviceOptions& options, Sizes& sizes, std::string_view name, std::string_view text) {
  Machine& machine = options.machine;
  if (name == "body")
    options.body = text;
  else if (name == "size")
    machine.size = small(name, text);
  else if (name == "scratchpad")
    sizes.scratchpad = number(name, text);
  else if (name == "scratchpad_banks")
    machine.scratchpad_banks = small(name, text);
  else if (name == "accumulators")
    sizes.accumulators = number(name, text);
  else if (name == "accumulator_banks")
    machine.accumulator_banks = small(name, text);
  else if (name == "queue")
    machine.queue_depth = small(name, text);
  else if (name == "dma_bytes")
    machine.dma_bytes = small(name, text);
  else if (name == "dma_latency")
    machine.dma_latency = small(name, text);
  else if (name == "memory")
    options.memory_bytes = number(name, text);
  else if (name == "mhz")
    options.hertz = 1e6 * small(name, text);
  else if (name == "bug")
    options.rtl_bug = static_cast<int>(std::min<uint64_t>(number(name, text), INT32_MAX));
  else
    refuse("there is no option '" + std::string(name) + "'");
}

}  // namespace

DeviceOptions parse_options(std::string_view text) {
  DeviceOptions options;
  Sizes sizes;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t equals = item.find('=');
    const bool is_body = equals == item.npos;
    set(options, sizes, is_body ? "body" : item.substr(0, equals), is_body ? item : item.substr(equals + 1));
  }
  Machine& machine = options.machine;
  if (machine.size == 0) refuse("the array has a size of 0");
  machine.scratchpad_lines = static_cast<uint32_t>(sizes.scratchpad / machine.size);
  machine.accumulator_rows = static_cast<uint32_t>(sizes.accumulators / machine.size / 4);
  if (const std::string reason = invalid(machine); !reason.empty()) throw std::runtime_error(reason);
  if (options.hertz <= 0) refuse("the clock stands still");
  if (options.rtl_bug != 0 && options.body != "rtl") refuse("only the body rtl has bugs");
  if (options.memory_bytes < 1 << 16) refuse("the memory has less than 64KiB");
  return options;
}

}  // namespace atalla
