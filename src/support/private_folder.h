// Folders whose files are trusted as they are found, such as a cache of machine code: only this user may have written
// them.
//
// A folder or file is private when it belongs to the effective user, and neither its group nor others can write to it.
// A folder is checked after it was opened, and files are reached through the open folder: a folder that is put in its
// place later is never looked at.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/system.h"

namespace tenon {

class PrivateFolder {
 public:
  // Nothing where no folder can be opened there. Throws an Error that says whose it is, and what to do, where it is not
  // private.
  static std::optional<PrivateFolder> open(const std::string& path);
  // Makes the folder first, and the missing ones above it, for this user alone.
  static std::optional<PrivateFolder> create(const std::string& path);

  struct File {
    std::shared_ptr<const runtime::Descriptor> descriptor;
    struct stat info;
  };
  // To read. Nothing where there is no regular file of the name: links are not followed, and a pipe does not block.
  // Throws an Error where the file is not private.
  std::optional<File> open_file(const std::string& name) const;

  // Replaces the file in one step, by one that only this user can read. False where that fails (a full disk, a limit on
  // the size of files, no right to write): then nothing has changed.
  bool replace_file(const std::string& name, std::span<const std::span<const std::byte>> pieces) const;
  void remove_file(const std::string& name) const;

  struct Entry {
    std::string name;
    struct stat info;
  };
  // The regular files of this user. Any of them may be gone by now.
  std::vector<Entry> files() const;

 private:
  PrivateFolder(std::string path, std::shared_ptr<const runtime::Descriptor> descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  std::string path_;
  std::shared_ptr<const runtime::Descriptor> descriptor_;
};

}  // namespace tenon
