// Files, read and written whole. A failure is a Diagnostic with the name of the file and the message of the system.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/diagnostic.h"

namespace tenon {

using Bytes = std::span<std::byte>;

// The content of a file; `owner` keeps it alive.
struct FileContent {
  Bytes bytes;
  std::shared_ptr<void> owner;

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

// A regular file is mapped: it costs no memory until it is touched, and writing to the bytes leaves the file alone.
// Anything else (a pipe, a terminal) is read to its end, which must come within 1 GiB.
Result<FileContent> read_file(const std::string& path);
Result<FileContent> read_descriptor(int descriptor, const std::string& name);

// Writes the pieces one after the other. A regular file is replaced in one step: a reader sees the old content or the
// new content, and a failure leaves the old content.
Status write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces);
Status write_file(const std::string& path, std::string_view text);
bool write_all(int descriptor, std::span<const std::byte> bytes);  // False: errno has the reason.

}  // namespace tenon
