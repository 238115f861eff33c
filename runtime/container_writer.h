// Sections as one file (format/container.h); runtime/container.h reads it. The same sections give the same bytes.
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
  std::string name;                                // shorter than 32 characters; no other section of the kind has it
  std::vector<std::span<const std::byte>> pieces;  // one after the other, nothing between
  uint32_t flags = 0;
};

uint64_t size_of(const SectionContent& content);  // in bytes
// Of the file; nothing is read.
uint64_t container_size(std::span<const SectionContent> sections);

struct FileLayout {
  std::vector<std::byte> front;                    // the header and the table
  std::vector<std::span<const std::byte>> pieces;  // of the file: the front, then where sections are, and zeros
};
FileLayout lay_out(std::span<const SectionContent> sections);  // in this order

// Puts zeros behind pieces of that size in all, so that what comes next is aligned to 64. Returns where it will be.
uint64_t pad(std::vector<std::span<const std::byte>>& pieces, uint64_t size);

}  // namespace tenon::runtime
