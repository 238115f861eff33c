// What compilation made, on disk, by what it was made of: objects of kernels, schedules that were tuned, whole programs
// (program/cache.h). Any number of processes of one user share a folder.
//
// An entry is a file that holds its whole key, the content and a checksum. It is written elsewhere and renamed, so that
// nobody sees a part of it. A file that is damaged, or has another key of the same digest, is as good as none. Files of
// other names, and files that do not begin as an entry does, are left alone.
//
// Entries are run as they are found, so only those are found that this user wrote (support/private_folder.h). Where
// others can write to the folder, or it is another user's, there are no entries, and a warning says so once.
//
// Nothing here fails: without a folder that can be written, there are no entries.
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
  // Files beyond `most_bytes` in all are removed, those first that were not used for the longest time.
  ObjectCache(std::string folder, int64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  // The folder is $TENON_CACHE, or $XDG_CACHE_HOME/tenon, or ~/.cache/tenon, and its limit $TENON_CACHE_SIZE bytes
  // (default 512 MiB). Nothing where TENON_CACHE=off, where none of them is set, and where the folder is not private.
  // Throws an Error for a limit that is no number.
  static std::optional<ObjectCache> from_environment();

  std::optional<std::string> find(std::string_view key) const;
  bool store(std::string_view key, std::string_view content) const;  // whether it is kept now

  const std::string& folder() const { return folder_; }
  int64_t most_bytes() const { return most_bytes_; }
  std::string path(const Digest& digest) const { return folder_ + "/" + name(digest); }

  // What find and store do, for a key whose digest is given.
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
