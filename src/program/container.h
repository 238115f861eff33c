// Writes the sections of an artifact as one file (runtime/container_writer.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/container_writer.h"
#include "support/diagnostic.h"

namespace tenon {

using runtime::SectionContent;

// In this order. Replaces a file in one step, as write_file does; the pieces are written from where they are.
Status write_container(const std::string& path, std::span<const SectionContent> sections);

std::vector<std::byte> container_bytes(std::span<const SectionContent> sections);  // what it writes

}  // namespace tenon
