// A cache on disk for results of compilation: objects of kernels, tuned schedules, whole programs
// (driver/program_cache.h). All processes of one user share a folder.
//
// An entry is a file with its whole key, the content and a checksum. It is written under another name and renamed, so
// that no process sees a part of it. A damaged file, or one with another key of the same digest, is ignored. Other
// files in the folder are never touched.
//
// Entries contain code that is run. So only entries that this user wrote are found (support/private_folder.h). If other
// users can write to the folder or own it, the cache is empty, and one warning says so.
//
// Nothing here fails: without a writable folder the cache is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "support/digest.h"
#include "support/private_folder.h"

namespace tenon::codegen {

class ObjectCache {
 public:
  // When all files together exceed `most_bytes`, the least recently used ones are removed.
  ObjectCache(std::string folder, int64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  // The folder is $TENON_CACHE, $XDG_CACHE_HOME/tenon or ~/.cache/tenon; its limit is $TENON_CACHE_SIZE bytes (default
  // 512 MiB). Empty if TENON_CACHE=off, if no variable is set, or if the folder is not private. Throws an Error if the
  // limit is not a number.
  static std::optional<ObjectCache> from_environment();

  std::optional<std::string> find(std::string_view key) const;
  bool store(std::string_view key, std::string_view content) const;  // whether the entry was stored

  const std::string& folder() const { return folder_; }
  int64_t most_bytes() const { return most_bytes_; }
  std::string path(const Digest& digest) const { return folder_ + "/" + name(digest); }

  // find and store, for a key with the given digest.
  std::optional<std::string> find(std::string_view key, const Digest& digest) const;
  bool store(std::string_view key, std::string_view content, const Digest& digest) const;

 private:
  static std::string name(const Digest& digest) { return digest.hex() + ".tenon"; }
  bool is_usable() const;
  void evict(const PrivateFolder& folder) const;

  std::string folder_;
  int64_t most_bytes_;
};

}  // namespace tenon::codegen
