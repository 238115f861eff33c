#include "codegen/cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <span>
#include <vector>

#include "support/diagnostic.h"
#include "support/text.h"
#include "support/warning.h"

namespace tenon::codegen {
namespace {

constexpr int64_t kDefaultBytes = int64_t{512} << 20;
constexpr time_t kUsedLately = 3600;  // an entry that was marked as used within an hour is not marked again
constexpr time_t kAbandoned = 3600;
constexpr std::array<char, 8> kMagic = {'t', 'e', 'n', 'o', 'n', 'o', 'b', '1'};

// The start of a file. The key and the content follow.
struct Header {
  std::array<char, 8> magic = kMagic;
  uint64_t key_bytes;
  uint64_t content_bytes;
  Digest checksum;
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

std::optional<std::string> read_text(int file, size_t size) {
  std::string text(size, '\0');
  return read_all(file, text.data(), size) ? std::optional(std::move(text)) : std::nullopt;
}

std::optional<Header> read_header(int file) {
  Header header;
  if (!read_all(file, reinterpret_cast<char*>(&header), sizeof header) || header.magic != kMagic) return {};
  return header;
}

// Reads no more bytes than the header says.
std::optional<std::string> content_of(const PrivateFolder::File& file, std::string_view key, int64_t most_bytes) {
  const int number = file.descriptor->number();
  const auto bytes = static_cast<uint64_t>(file.info.st_size);
  const uint64_t before = sizeof(Header) + key.size();
  if (file.info.st_size > most_bytes || bytes < before) return {};
  const std::optional<Header> header = read_header(number);
  if (!header || header->key_bytes != key.size() || header->content_bytes != bytes - before) return {};
  if (read_text(number, key.size()) != key) return {};
  std::optional<std::string> content = read_text(number, header->content_bytes);
  if (!content || digest(*content) != header->checksum) return {};
  return content;
}

void mark_used(const PrivateFolder::File& file) {
  if (file.info.st_mtime + kUsedLately < ::time(nullptr)) ::futimens(file.descriptor->number(), nullptr);
}

// Returns the result of the body. If a file is not private, warns and returns an empty result.
template <class Body>
auto if_private(Body&& body) -> decltype(body()) {
  auto result = attempt(body);
  if (result.ok()) return std::move(result).value();
  warn_once(fmt::format(
      "no compiled code is taken from the cache: {}. Nobody else may write to the code that is run here. Set "
      "TENON_CACHE to a folder of your own, or to off",
      result.diagnostic().message));
  return {};
}

std::string default_folder() {
  if (const std::string folder = environment("XDG_CACHE_HOME"); !folder.empty()) return folder + "/tenon";
  if (const std::string folder = environment("HOME"); !folder.empty()) return folder + "/.cache/tenon";
  return "";
}

int64_t limit_from_environment() {
  const std::string text = environment("TENON_CACHE_SIZE");
  if (text.empty()) return kDefaultBytes;
  int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size() || bytes < 0) {
    fail("TENON_CACHE_SIZE must be a number of bytes, got '{}'", text);
  }
  return bytes;
}

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == text.npos; }
bool is_number(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

constexpr size_t kNameSize = 32 + std::string_view(".tenon").size();
bool is_name_of_entry(std::string_view name) {
  return name.size() == kNameSize && is_hex(name.substr(0, 32)) && name.ends_with(".tenon");
}

// NAME.tmp.PID.NUMBER
bool is_name_of_unfinished(std::string_view name) {
  constexpr std::string_view kMark = ".tmp.";
  if (name.size() < kNameSize || !is_name_of_entry(name.substr(0, kNameSize))) return false;
  name.remove_prefix(kNameSize);
  const size_t dot = name.rfind('.');
  return name.starts_with(kMark) && dot >= kMark.size() && is_number(name.substr(dot + 1)) &&
         is_number(name.substr(kMark.size(), dot - kMark.size()));
}

// Also removes unfinished files of processes that died.
std::vector<PrivateFolder::Entry> entries_of(const PrivateFolder& folder) {
  std::vector<PrivateFolder::Entry> entries;
  const time_t now = ::time(nullptr);
  for (PrivateFolder::Entry& file : folder.files()) {
    if (is_name_of_entry(file.name)) {
      entries.push_back(std::move(file));
    } else if (is_name_of_unfinished(file.name) && file.info.st_mtime + kAbandoned < now) {
      folder.remove_file(file.name);
    }
  }
  return entries;
}

bool begins_as_entry(const PrivateFolder& folder, const std::string& name) {
  const auto file = attempt([&] { return folder.open_file(name); });
  return file.ok() && file.value() && read_header(file.value()->descriptor->number());
}

std::pair<time_t, long> last_use(const PrivateFolder::Entry& entry) {
  return {entry.info.st_mtim.tv_sec, entry.info.st_mtim.tv_nsec};
}

}  // namespace

std::optional<ObjectCache> ObjectCache::from_environment() {
  std::string folder = environment("TENON_CACHE");
  if (folder == "off") return {};
  if (folder.empty()) folder = default_folder();
  if (folder.empty()) return {};
  ObjectCache cache(std::move(folder), limit_from_environment());
  return cache.is_usable() ? std::optional(std::move(cache)) : std::nullopt;
}

bool ObjectCache::is_usable() const {
  return if_private([&] {
    PrivateFolder::open(folder_);
    return true;
  });
}

std::optional<std::string> ObjectCache::find(std::string_view key) const { return find(key, digest(key)); }

bool ObjectCache::store(std::string_view key, std::string_view content) const {
  return store(key, content, digest(key));
}

std::optional<std::string> ObjectCache::find(std::string_view key, const Digest& digest) const {
  return if_private([&]() -> std::optional<std::string> {
    const std::optional<PrivateFolder> folder = PrivateFolder::open(folder_);
    const std::optional<PrivateFolder::File> file = folder ? folder->open_file(name(digest)) : std::nullopt;
    if (!file) return {};
    std::optional<std::string> content = content_of(*file, key, most_bytes_);
    if (content) mark_used(*file);
    return content;
  });
}

bool ObjectCache::store(std::string_view key, std::string_view content, const Digest& digest) const {
  const Header header{.key_bytes = key.size(), .content_bytes = content.size(), .checksum = tenon::digest(content)};
  const std::array pieces = {std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(key)),
                             std::as_bytes(std::span(content))};
  const size_t bytes = sizeof header + key.size() + content.size();
  if (bytes > static_cast<size_t>(most_bytes_)) return false;
  return if_private([&] {
    const std::optional<PrivateFolder> folder = PrivateFolder::create(folder_);
    if (!folder || !folder->replace_file(name(digest), pieces)) return false;
    // Listing all files is slow if there are many. The digest decides when to do it: on average once per 1/32 of the
    // limit written, by any process, without a shared counter.
    const auto share = static_cast<uint64_t>(most_bytes_ / 32 + 1);
    if (digest.low % share < bytes) evict(*folder);
    return true;
  });
}

void ObjectCache::evict(const PrivateFolder& folder) const {
  std::vector<PrivateFolder::Entry> entries = entries_of(folder);
  int64_t bytes = 0;
  for (const auto& entry : entries) bytes += entry.info.st_size;
  if (bytes <= most_bytes_) return;
  std::ranges::sort(entries, {}, last_use);
  for (const auto& entry : entries) {
    if (begins_as_entry(folder, entry.name)) folder.remove_file(entry.name);
    bytes -= entry.info.st_size;
    if (bytes <= most_bytes_ - most_bytes_ / 8) return;  // leaves room for new entries
  }
}

}  // namespace tenon::codegen
