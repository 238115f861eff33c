// Writes the sections of an artifact as one file (format/container.h); runtime/container.h reads it. The same sections
// give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/container.h"
#include "support/diagnostic.h"

namespace tenon {

struct SectionContent {
  format::SectionKind kind;
  std::string name;                                // shorter than 32 characters; no other section of the kind has it
  std::vector<std::span<const std::byte>> pieces;  // one after the other, nothing between
};

uint64_t size_of(const SectionContent& content);  // in bytes

// In this order. Replaces a file in one step, as write_file does; the pieces are written from where they are.
Status write_container(const std::string& path, std::span<const SectionContent> sections);

std::vector<std::byte> container_bytes(std::span<const SectionContent> sections);  // what it writes
uint64_t container_size(std::span<const SectionContent> sections);                 // how much that is

}  // namespace tenon
