// Calls reach 128 MB. So a call of a function that is not in the object goes to a stub behind the object's code (a
// veneer), which loads the address from the table.
#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "runtime/link_target.h"

namespace tenon::runtime {
namespace {

constexpr size_t kStubBytes = 16;

// How a relocation expresses its target.
enum class Form : uint8_t {
  kAddress,   // in 8 bytes
  kDistance,  // in 4 or 8 bytes
  kBranch,    // distance in words: the lowest 26 bits of an instruction
  kPage,      // distance in pages of 4 KB: 2 bits from bit 29 on, and 19 bits from bit 5 on
  kInPage,    // bytes from the page's start, in units: 12 bits from bit 10 on
};

struct Relocation {
  uint32_t type;
  Form form;
  uint8_t bytes;
  uint8_t unit_bits = 0;  // of kInPage
  bool is_by_table = false;
};

constexpr Relocation kRelocations[] = {
    {R_AARCH64_ABS64, Form::kAddress, 8},
    {R_AARCH64_PREL64, Form::kDistance, 8},
    {R_AARCH64_PREL32, Form::kDistance, 4},
    {R_AARCH64_CALL26, Form::kBranch, 4},
    {R_AARCH64_JUMP26, Form::kBranch, 4},
    {R_AARCH64_ADR_PREL_PG_HI21, Form::kPage, 4},
    {R_AARCH64_ADD_ABS_LO12_NC, Form::kInPage, 4},
    {R_AARCH64_LDST8_ABS_LO12_NC, Form::kInPage, 4},
    {R_AARCH64_LDST16_ABS_LO12_NC, Form::kInPage, 4, 1},
    {R_AARCH64_LDST32_ABS_LO12_NC, Form::kInPage, 4, 2},
    {R_AARCH64_LDST64_ABS_LO12_NC, Form::kInPage, 4, 3},
    {R_AARCH64_LDST128_ABS_LO12_NC, Form::kInPage, 4, 4},
    {R_AARCH64_ADR_GOT_PAGE, Form::kPage, 4, 0, true},
    {R_AARCH64_LD64_GOT_LO12_NC, Form::kInPage, 4, 3, true},
};

const Relocation* find(uint32_t type) {
  const auto* const found = std::ranges::find(kRelocations, type, &Relocation::type);
  return found == std::end(kRelocations) ? nullptr : found;
}

LinkTarget::Kind kind_of(uint32_t type) {
  const Relocation* const found = find(type);
  return found == nullptr ? LinkTarget::Kind{} : LinkTarget::Kind{found->bytes, found->is_by_table};
}

bool fits(int64_t value, int bits) { return value >= -(int64_t{1} << (bits - 1)) && value < int64_t{1} << (bits - 1); }

bool set_bits(std::byte* place, uint32_t mask, uint32_t bits) {
  uint32_t instruction;
  std::memcpy(&instruction, place, sizeof instruction);
  instruction = (instruction & ~mask) | (bits & mask);
  std::memcpy(place, &instruction, sizeof instruction);
  return true;
}

bool set_number(std::byte* place, int64_t value, size_t bytes) {
  if (bytes == 4 && !fits(value, 32)) return false;
  std::memcpy(place, &value, bytes);
  return true;
}

bool set_page(std::byte* place, uint64_t target) {
  constexpr uint64_t kPageBits = 12;
  const auto pages = static_cast<int64_t>((target >> kPageBits) - (std::bit_cast<uintptr_t>(place) >> kPageBits));
  if (!fits(pages, 21)) return false;
  const auto number = static_cast<uint32_t>(pages);
  return set_bits(place, 0x60ffffe0, (number & 3) << 29 | number >> 2 << 5);
}

bool set_in_page(std::byte* place, uint64_t target, uint8_t unit_bits) {
  if (target & ((1U << unit_bits) - 1)) return false;
  return set_bits(place, 0x003ffc00, static_cast<uint32_t>(target & 0xfff) >> unit_bits << 10);
}

bool set_branch(std::byte* place, int64_t distance) {
  if (distance % 4 != 0 || !fits(distance, 28)) return false;
  return set_bits(place, 0x03ffffff, static_cast<uint32_t>(distance >> 2));
}

bool relocate(uint32_t type, std::byte* place, uint64_t target) {
  const Relocation& relocation = *find(type);
  const auto distance = static_cast<int64_t>(target - std::bit_cast<uintptr_t>(place));
  switch (relocation.form) {
    case Form::kAddress:
      return set_number(place, static_cast<int64_t>(target), relocation.bytes);
    case Form::kDistance:
      return set_number(place, distance, relocation.bytes);
    case Form::kBranch:
      return set_branch(place, distance);
    case Form::kPage:
      return set_page(place, target);
    case Form::kInPage:
      return set_in_page(place, target, relocation.unit_bits);
  }
  return false;
}

void write_stub(std::byte* stub, const std::byte* entry) {
  constexpr uint32_t kCode[] = {
      0x90000010,  // adrp x16, entry
      0xf9400210,  // ldr x16, [x16, entry]
      0xd61f0200,  // br x16
      0,
  };
  static_assert(sizeof kCode == kStubBytes);
  std::memcpy(stub, kCode, sizeof kCode);
  const auto target = std::bit_cast<uintptr_t>(entry);
  set_page(stub, target);
  set_in_page(stub + 4, target, 3);
}

}  // namespace

const LinkTarget kArm64Link = {"aarch64", EM_AARCH64, kStubBytes, kind_of, relocate, write_stub};

}  // namespace tenon::runtime
