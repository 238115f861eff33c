// What compilation made, on disk, by what it was made of: objects of kernels, schedules that were tuned, whole programs
// (program/cache.h). Any number of processes share a folder.
//
// An entry is a file that holds its whole key, the content and a checksum. It is written elsewhere and renamed, so that
// nobody sees a part of it. A file that is damaged, or has another key of the same digest, is as good as none. Nothing
// here fails: without a folder that can be written, there are no entries.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "support/digest.h"

namespace tenon::codegen {

class ObjectCache {
 public:
  // Files beyond `most_bytes` in all are removed, those first that were not used for the longest time.
  ObjectCache(std::string folder, int64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  // The folder is $TENON_CACHE, or $XDG_CACHE_HOME/tenon, or ~/.cache/tenon, and its limit $TENON_CACHE_SIZE bytes
  // (default 512 MiB). Nothing where TENON_CACHE=off, and where none of them is set. Throws an Error for a limit that
  // is no number.
  static std::optional<ObjectCache> from_environment();

  std::optional<std::string> find(std::string_view key) const;
  void store(std::string_view key, std::string_view content) const;

  const std::string& folder() const { return folder_; }
  int64_t most_bytes() const { return most_bytes_; }
  std::string path(const Digest& digest) const { return folder_ + "/" + digest.hex() + ".tenon"; }

  // What find and store do, for a key whose digest is given.
  std::optional<std::string> find(std::string_view key, const Digest& digest) const;
  void store(std::string_view key, std::string_view content, const Digest& digest) const;

 private:
  void evict() const;

  std::string folder_;
  int64_t most_bytes_;
};

}  // namespace tenon::codegen
