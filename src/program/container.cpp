#include "program/container.h"

#include "support/file.h"

namespace tenon {

Status write_container(const std::string& path, std::span<const SectionContent> sections) {
  return write_file(path, runtime::lay_out(sections).pieces);
}

std::vector<std::byte> container_bytes(std::span<const SectionContent> sections) {
  const runtime::FileLayout layout = runtime::lay_out(sections);
  std::vector<std::byte> bytes;
  for (const auto& piece : layout.pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

}  // namespace tenon
