#include <elf.h>

#include <bit>
#include <cstring>

#include "runtime/link_target.h"

namespace tenon::runtime {
namespace {

constexpr size_t kStubBytes = 8;

LinkTarget::Kind kind_of(uint32_t type) {
  switch (type) {
    case R_X86_64_64:
    case R_X86_64_PC64:
      return {8, false};
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      return {4, false};
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      return {4, true};
    default:
      return {};
  }
}

bool relocate(uint32_t type, std::byte* place, uint64_t target) {
  const uint64_t from = type == R_X86_64_64 ? 0 : std::bit_cast<uintptr_t>(place);
  const auto value = static_cast<int64_t>(target - from);
  const size_t bytes = kind_of(type).bytes;
  if (bytes == 4 && value != static_cast<int32_t>(value)) return false;
  std::memcpy(place, &value, bytes);
  return true;
}

void write_stub(std::byte* stub, const std::byte* entry) {
  constexpr uint8_t kJump[] = {0xff, 0x25};  // jmp *distance(%rip)
  const auto distance = static_cast<int32_t>(entry - (stub + sizeof kJump + sizeof(int32_t)));
  std::memcpy(stub, kJump, sizeof kJump);
  std::memcpy(stub + sizeof kJump, &distance, sizeof distance);
}

}  // namespace

const LinkTarget kX86Link = {"x86-64", EM_X86_64, kStubBytes, kind_of, relocate, write_stub};

}  // namespace tenon::runtime
