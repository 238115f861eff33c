// The part of linking that depends on the architecture: relocations, and jumps to functions at any address.
//
// loader.cpp links with the target of this machine. Both targets are compiled everywhere, so that tests of one machine
// link objects of the other, without running them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::runtime {

struct LinkTarget {
  struct Kind {
    uint8_t bytes;     // that a relocation of the kind changes; 0: it cannot be loaded
    bool is_by_table;  // its target is the symbol's entry in the table of addresses
  };

  const char* name;
  uint16_t machine;  // in the header of the object
  size_t stub_bytes;
  Kind (*kind_of)(uint32_t type);
  // Points the place to the target. Writes nothing but the bytes of the kind, whatever the object holds. False if the
  // place cannot express the target.
  bool (*relocate)(uint32_t type, std::byte* place, uint64_t target);
  // Writes a jump to the address that `entry` holds, less than 2 GB away.
  void (*write_stub)(std::byte* stub, const std::byte* entry);
};

extern const LinkTarget kX86Link;
extern const LinkTarget kArm64Link;

}  // namespace tenon::runtime
