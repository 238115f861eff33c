#include "runtime/replace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "runtime/error.h"
#include "runtime/system.h"

namespace tenon::runtime {
namespace {

std::string final_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), std::free);
  return resolved ? resolved.get() : path;
}

void write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = system().write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with_errno("write");
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void write_new(const std::string& path, Pieces pieces, bool durable) {
  Descriptor file(system().create(path.c_str()));
  if (file.number() < 0) fail_with_errno("write");
  for (const auto& piece : pieces) write_all(file.number(), piece);
  if (durable && system().sync(file.number()) != 0) fail_with_errno("write");
  if (file.close() != 0) fail_with_errno("write");
}

// Flushes the folder, which holds the file's name.
void sync_folder(const std::string& path) {
  const size_t end = path.rfind('/');
  const std::string folder = end == std::string::npos ? "." : path.substr(0, end + 1);
  const Descriptor file(system().open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (file.number() < 0 || system().sync(file.number()) != 0) fail_with_errno("write its folder");
}

void check_target(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) fail(TENON_IO, "this is not a regular file");
}

}  // namespace

void replace_file(const std::string& path, Pieces pieces, bool durable) {
  static std::atomic<unsigned> counter = 0;
  const std::string target = final_path(path);
  check_target(target);
  const std::string temporary = text_of(target, ".tmp.", ::getpid(), ".", counter++);
  try {
    write_new(temporary, pieces, durable);
    if (system().rename(temporary.c_str(), target.c_str()) != 0) fail_with_errno("write");
  } catch (...) {
    system().unlink(temporary.c_str());
    throw;
  }
  if (durable) sync_folder(target);
}

}  // namespace tenon::runtime
