#include "support/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "runtime/error.h"
#include "runtime/replace_file.h"
#include "runtime/system.h"

namespace tenon {
namespace {

using runtime::Descriptor;

constexpr size_t kLargestStream = size_t{1} << 30;  // A stream does not tell its size, and may have no end.

[[noreturn]] void fail_with_errno(const std::string& path, std::string_view what) {
  fail_at({path}, "cannot {}: {}", what, std::generic_category().message(errno));
}

FileContent map(int descriptor, size_t size, const std::string& path) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
  if (memory == MAP_FAILED) fail_with_errno(path, "map it into memory");
  return {Bytes(static_cast<std::byte*>(memory), size), {memory, [size](void* mapped) { ::munmap(mapped, size); }}};
}

FileContent read_to_end(int descriptor, const std::string& path) {
  auto buffer = std::make_shared<std::vector<std::byte>>();
  size_t size = 0;
  while (true) {
    if (buffer->size() - size < 4096) buffer->resize(buffer->size() * 2 + 65536);
    const ssize_t count = ::read(descriptor, buffer->data() + size, buffer->size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with_errno(path, "read");
    if (count == 0) break;
    size += static_cast<size_t>(count);
    if (size > kLargestStream) fail_at({path}, "more than {} bytes, and not a regular file", kLargestStream);
  }
  return {Bytes(buffer->data(), size), buffer};
}

using Pieces = std::span<const std::span<const std::byte>>;

// Writes to a terminal or a pipe, which cannot be replaced.
void write_in_place(const std::string& path, Pieces pieces) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.number() < 0) fail_with_errno(path, "write");
  for (const auto& piece : pieces) {
    if (!write_all(file.number(), piece)) fail_with_errno(path, "write");
  }
  if (file.close() != 0) fail_with_errno(path, "write");
}

}  // namespace

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = runtime::system().write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return true;
}

Result<FileContent> read_descriptor(int descriptor, const std::string& name) {
  return attempt([&] {
    struct stat info = {};
    if (::fstat(descriptor, &info) != 0) fail_with_errno(name, "read");
    const bool regular = S_ISREG(info.st_mode) && ::lseek(descriptor, 0, SEEK_CUR) == 0;
    if (!regular || info.st_size == 0) return read_to_end(descriptor, name);  // files of /proc say that their size is 0
    return map(descriptor, static_cast<size_t>(info.st_size), name);
  });
}

Result<FileContent> read_file(const std::string& path) {
  return attempt([&] {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.number() < 0) fail_with_errno(path, "open");
    return read_descriptor(file.number(), path).value();
  });
}

Status write_file(const std::string& path, Pieces pieces) {
  return attempt([&] {
    struct stat info = {};
    const bool special = ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
    if (special) return write_in_place(path, pieces);
    try {
      runtime::replace_file(path, pieces, false);
    } catch (const runtime::StatusError& error) {
      fail_at({path}, "{}", error.message());
    }
  });
}

Status write_file(const std::string& path, std::string_view text) {
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  return write_file(path, {&piece, 1});
}

}  // namespace tenon
