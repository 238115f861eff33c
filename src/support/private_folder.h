// Folders whose files are trusted, such as a cache of machine code: only this user can have written them.
//
// A folder or file is private if it belongs to the effective user, and neither its group nor others can write to it. A
// folder is checked after it was opened, and files are opened through the open folder. So an attacker cannot exchange
// the folder after the check.
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
  // Empty if the folder cannot be opened. Throws an Error with the owner and a remedy if the folder is not private.
  static std::optional<PrivateFolder> open(const std::string& path);
  // Makes the folder and its missing parents first, for this user alone.
  static std::optional<PrivateFolder> create(const std::string& path);

  struct File {
    std::shared_ptr<const runtime::Descriptor> descriptor;
    struct stat info;
  };
  // Opens a file for reading. Empty if it is not a regular file: links are not followed, and a pipe does not block.
  // Throws an Error if the file is not private.
  std::optional<File> open_file(const std::string& name) const;

  // Replaces the file in one step; only this user can read the new file. False if that fails (a full disk, a limit on
  // the size of files, no right to write): then the file has not changed.
  bool replace_file(const std::string& name, std::span<const std::span<const std::byte>> pieces) const;
  void remove_file(const std::string& name) const;

  struct Entry {
    std::string name;
    struct stat info;
  };
  // The regular files of this user. Another process may remove them at any time.
  std::vector<Entry> files() const;

 private:
  PrivateFolder(std::string path, std::shared_ptr<const runtime::Descriptor> descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  std::string path_;
  std::shared_ptr<const runtime::Descriptor> descriptor_;
};

}  // namespace tenon
