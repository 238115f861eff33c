// The sections of an artifact, in a file or in memory (format/container.h). Opening verifies the header, the section
// table, every checksum, and that there are no bytes between sections.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/container.h"

namespace tenon::runtime {

// Pages of memory from the system. Movable; the destructor unmaps them.
class Mapping {
 public:
  Mapping() = default;
  Mapping(size_t size, int rights, int flags, int descriptor);  // throws a StatusError for MAP_FAILED
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

class Container {
 public:
  struct Section {
    format::SectionKind kind;
    std::string_view name;             // "x86-64-v4" of a native section; else usually empty
    std::span<const std::byte> bytes;  // aligned to 64
  };

  // Maps the file read-only and shared: processes that open the same file share one copy of its weights. Regular files
  // only. Tables are copied, so that they stay as verified. A process that truncates an open file crashes its readers:
  // replace a file instead, as `tenon` does.
  //
  // Throws a StatusError that begins with the path: TENON_IO, TENON_OUT_OF_MEMORY, or what of_memory throws.
  static Container open(const std::string& path);

  // `bytes` must outlive the container. They are copied if they are not aligned to 64. Throws a StatusError:
  // TENON_BAD_FILE if the bytes are not an artifact or are damaged, TENON_UNSUPPORTED for an unknown format.
  static Container of_memory(std::span<const std::byte> bytes);

  // The sections of known kinds, in file order.
  std::span<const Section> sections() const { return sections_; }
  const Section* find(format::SectionKind kind, std::string_view name = "") const;  // null where there is none

  // Drops the cached pages of these bytes, if they belong to a mapped file: the next read loads them from the file
  // again. Whole pages only. Does nothing for other memory.
  void forget(std::span<const std::byte> bytes) const;

 private:
  explicit Container(std::span<const std::byte> bytes);  // verifies it

  std::vector<format::Section> table_;
  std::vector<Section> sections_;
  std::vector<Mapping> owned_;
  std::span<std::byte> file_;  // the part of the memory that maps a file; empty if there is none
};

}  // namespace tenon::runtime
