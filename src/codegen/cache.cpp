#include "codegen/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include "support/file.h"

namespace tenon::codegen {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kDefaultBytes = int64_t{512} << 20;
constexpr time_t kUsedLately = 3600;  // an entry that was used within an hour is not marked again
constexpr auto kAbandoned = std::chrono::hours(1);
constexpr std::array<char, 8> kMagic = {'t', 'e', 'n', 'o', 'n', 'o', 'b', '1'};

// Of a file; the key and the content follow.
struct Header {
  std::array<char, 8> magic = kMagic;
  uint64_t key_bytes;
  uint64_t content_bytes;
  Digest checksum;
};

struct OpenFile {
  int number;
  ~OpenFile() {
    if (number >= 0) ::close(number);
  }
};

bool read_all(int file, char* into, size_t size) {
  while (size > 0) {
    const ssize_t count = ::read(file, into, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    into += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

std::optional<std::string> content_of(std::string file, std::string_view key) {
  Header header;
  if (file.size() < sizeof header) return {};
  std::memcpy(&header, file.data(), sizeof header);
  const size_t body = file.size() - sizeof header;
  if (header.magic != kMagic || header.key_bytes != key.size() || key.size() > body ||
      header.content_bytes != body - key.size()) {
    return {};
  }
  if (std::string_view(file).substr(sizeof header, key.size()) != key) return {};
  std::string content = file.substr(sizeof header + key.size());
  if (digest(content) != header.checksum) return {};
  return content;
}

void mark_used(int file, const struct stat& info) {
  if (info.st_mtime + kUsedLately < ::time(nullptr)) ::futimens(file, nullptr);
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::string default_folder() {
  if (const std::string folder = variable("XDG_CACHE_HOME"); !folder.empty()) return folder + "/tenon";
  if (const std::string folder = variable("HOME"); !folder.empty()) return folder + "/.cache/tenon";
  return "";
}

int64_t limit_from_environment() {
  const std::string text = variable("TENON_CACHE_SIZE");
  if (text.empty()) return kDefaultBytes;
  int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size() || bytes < 0) {
    fail("TENON_CACHE_SIZE must be a number of bytes, got '{}'", text);
  }
  return bytes;
}

struct Entry {
  fs::path path;
  fs::file_time_type used;
  int64_t bytes;
};

// Also removes what a process that died left unfinished. Files may go at any time.
std::vector<Entry> entries_of(const std::string& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const fs::path path = it->path();
    const auto used = it->last_write_time(gone);
    const auto bytes = static_cast<int64_t>(gone ? 0 : it->file_size(gone));
    if (gone) continue;
    if (path.extension() == ".tenon") {
      entries.push_back({path, used, bytes});
    } else if (path.filename().string().find(".tenon.tmp.") != std::string::npos && now - used > kAbandoned) {
      fs::remove(path, gone);
    }
  }
  return entries;
}

}  // namespace

std::optional<ObjectCache> ObjectCache::from_environment() {
  std::string folder = variable("TENON_CACHE");
  if (folder == "off") return {};
  if (folder.empty()) folder = default_folder();
  if (folder.empty()) return {};
  return ObjectCache(std::move(folder), limit_from_environment());
}

std::optional<std::string> ObjectCache::find(std::string_view key) const { return find(key, digest(key)); }

void ObjectCache::store(std::string_view key, std::string_view content) const { store(key, content, digest(key)); }

std::optional<std::string> ObjectCache::find(std::string_view key, const Digest& digest) const {
  const OpenFile file{::open(path(digest).c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat info = {};
  if (file.number < 0 || ::fstat(file.number, &info) != 0 || !S_ISREG(info.st_mode)) return {};
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  if (!read_all(file.number, bytes.data(), bytes.size())) return {};
  std::optional<std::string> content = content_of(std::move(bytes), key);
  if (content) mark_used(file.number, info);
  return content;
}

void ObjectCache::store(std::string_view key, std::string_view content, const Digest& digest) const {
  const Header header{.key_bytes = key.size(), .content_bytes = content.size(), .checksum = tenon::digest(content)};
  const std::array pieces = {std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(key)),
                             std::as_bytes(std::span(content))};
  const size_t bytes = sizeof header + key.size() + content.size();
  if (bytes > static_cast<size_t>(most_bytes_)) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!write_file(path(digest), pieces).ok()) return;
  // To look at all files takes long where there are many. Digests are spread evenly, so that it happens about once for
  // each 32nd of the limit that is written, by whichever process, and nobody has to keep count.
  const auto share = static_cast<uint64_t>(most_bytes_ / 32 + 1);
  if (digest.low % share < bytes) evict();
}

void ObjectCache::evict() const {
  std::vector<Entry> entries = entries_of(folder_);
  int64_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.bytes;
  if (bytes <= most_bytes_) return;
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    std::error_code gone;
    fs::remove(entry.path, gone);
    bytes -= entry.bytes;
    if (bytes <= most_bytes_ - most_bytes_ / 8) return;  // room for some more
  }
}

}  // namespace tenon::codegen
