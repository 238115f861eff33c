#include "plugin/device.h"

#include <algorithm>

namespace atalla {

namespace {

uint64_t base_of(tenon_device* device, const tenon_launch& launch, uint32_t buffer) {
  if (buffer == kZeros) return 0;
  if (buffer == TENON_SCRATCH) return offset_in(device, launch.scratch, 0);
  if (buffer >= launch.buffer_count) throw std::runtime_error("the code names a buffer that the launch does not have");
  return offset_in(device, launch.buffers[buffer], 0);
}

template <typename T>
Command moved(const Command& command, uint64_t base) {
  auto c = decode<T>(command);
  set_address(c, address_of(c) + base);
  return encode(c);
}

}  // namespace

uint64_t offset_in(tenon_device* device, const void* address, uint64_t bytes) {
  const auto offset = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(address));
  const uint64_t size = device->body->memory().size();
  if (offset < kZeroPage || offset > size || bytes > size - offset)
    throw std::runtime_error("an address is outside of the device's memory");
  return offset;
}

Stream stream_of(tenon_device* device, const tenon_device_program& program, const tenon_launch& launch) {
  Stream stream;
  stream.commands.reserve(program.commands.size());
  for (const Relocatable& it : program.commands) {
    const uint64_t base = it.buffer == kNoBuffer ? 0 : base_of(device, launch, it.buffer);
    const bool is_load = it.command.opcode == static_cast<uint8_t>(Opcode::kLoad);
    stream.commands.push_back(it.buffer == kNoBuffer ? it.command
                              : is_load              ? moved<Load>(it.command, base)
                                                     : moved<Store>(it.command, base));
    stream.bases.push_back(is_load ? 0 : base);  // a load writes to the scratchpad
  }
  return stream;
}

std::string fault_text(const Fault& fault, std::span<const Command> commands) {
  const size_t command = std::min<size_t>(fault.command, commands.size() - 1);
  return "command " + std::to_string(fault.command) + ", " + text(commands[command]) + ": " + fault.reason;
}

}  // namespace atalla
