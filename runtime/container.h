// An artifact's sections, as they lie in a file or in memory (format/container.h). Opening verifies everything about
// this layer: the header, the table, every checksum, and that nothing lies between sections.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/container.h"

namespace tenon::runtime {

// Memory of the system's, by the page. Moves; the last owner gives it back.
class Mapping {
 public:
  Mapping() = default;
  Mapping(size_t size, int rights, int flags, int descriptor);  // MAP_FAILED is a StatusError
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

  // Maps the file, read-only and shared: processes that open the same one have one copy of its weights. Regular files
  // only. All tables are copied, so that what was verified stays as it is; but who cuts a file short
  // that is open ends the process: replace it by another instead, as `tenon` does.
  //
  // Throws a StatusError that begins with the path: TENON_IO, TENON_OUT_OF_MEMORY, or as of_memory does.
  static Container open(const std::string& path);

  // `bytes` must outlive the container. They are copied when they are not aligned to 64. Throws a StatusError:
  // TENON_BAD_FILE for what is no artifact or damaged, TENON_UNSUPPORTED for a format that this reader does not know.
  static Container of_memory(std::span<const std::byte> bytes);

  // Those of a kind that is known here, in the order of the file.
  std::span<const Section> sections() const { return sections_; }
  const Section* find(format::SectionKind kind, std::string_view name = "") const;  // null where there is none

  // Gives the memory of these bytes back to the system where they are of a file that is mapped here: whoever reads them
  // next reads the file. Whole pages only. Elsewhere it does nothing.
  void forget(std::span<const std::byte> bytes) const;

 private:
  explicit Container(std::span<const std::byte> bytes);  // verifies it

  std::vector<format::Section> table_;
  std::vector<Section> sections_;
  std::vector<Mapping> owned_;
  std::span<std::byte> file_;  // of those, the one that is a file's; empty where there is none
};

}  // namespace tenon::runtime
