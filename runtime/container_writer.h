// Lays sections out as one file (format/container.h), which runtime/container.h reads. The same sections give the same
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/container.h"

namespace tenon::runtime {

struct SectionContent {
  format::SectionKind kind;
  std::string name;                                // shorter than 32 characters, and unique among sections of its kind
  std::vector<std::span<const std::byte>> pieces;  // concatenated without gaps
  uint32_t flags = 0;
};

uint64_t size_of(const SectionContent& content);  // in bytes
// The size of the file. Reads no section.
uint64_t container_size(std::span<const SectionContent> sections);

struct FileLayout {
  std::vector<std::byte> front;                    // the header and the table
  std::vector<std::span<const std::byte>> pieces;  // of the file: the front, then sections and zeros for alignment
};
FileLayout lay_out(std::span<const SectionContent> sections);  // in this order

// Appends zeros to pieces of `size` bytes in all, up to a multiple of 64. Returns the padded size.
uint64_t pad(std::vector<std::span<const std::byte>>& pieces, uint64_t size);

}  // namespace tenon::runtime
