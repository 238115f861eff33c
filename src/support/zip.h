// Zip archives whose entries are stored, not compressed: .npz and .pt2 files. Entries are read in place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/diagnostic.h"
#include "support/file.h"

namespace tenon {

struct ZipEntry {
  std::string name;
  Bytes data;          // in the archive
  uint32_t crc32 = 0;  // as the archive states it: see check_crc
};

// The entries in the order of the archive's directory, without folders. The archive is not trusted. Errors: a malformed
// archive, a compressed entry, entries that overlap or share a name, an absolute name, ".." in a name. Reads ZIP64.
Result<std::vector<ZipEntry>> read_zip(Bytes archive);

uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t crc = 0);  // `crc` continues an earlier one
void check_crc(const ZipEntry& entry);                                  // throws an Error when the data is damaged

// The pieces of an archive, to be written one after the other. They refer to the data, and to memory of the writer.
class ZipWriter {
 public:
  using Pieces = std::vector<std::span<const std::byte>>;

  void add(std::string name, Pieces data);  // the data must outlive the pieces
  Pieces finish();                          // once, after the last entry

 private:
  struct Added {
    std::string name;
    std::string header;
    Pieces data;
    uint64_t offset;
    uint64_t size;
    uint32_t crc32;
  };

  std::vector<std::unique_ptr<Added>> entries_;
  uint64_t size_ = 0;
  std::string directory_;
};

}  // namespace tenon
