#include "support/zip.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <ranges>
#include <set>

namespace tenon {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr size_t kLocalHeaderSize = 30;
constexpr size_t kDirectoryEntrySize = 46;
constexpr size_t kEndSize = 22;
constexpr size_t kEnd64Size = 56;
constexpr size_t kEnd64LocatorSize = 20;
constexpr uint16_t kZip64Extra = 1;
constexpr uint16_t kEncrypted = 1;
constexpr uint16_t kUtf8Name = 1 << 11;
constexpr uint16_t kFirstZip64Version = 45;
constexpr uint16_t kDosEpoch = 0x21;  // the first of January 1980: an archive of the same data is the same bytes
constexpr uint32_t kIn64 = 0xffffffff;

// ---- reading --------------------------------------------------------------------------------------------------------

template <class T>
T little_endian(Bytes bytes, uint64_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) fail("the zip archive is damaged: a record is cut off");
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(bytes[at + i]) << (8 * i));
  return value;
}

Bytes part(Bytes bytes, uint64_t at, uint64_t size, std::string_view what) {
  if (at > bytes.size() || bytes.size() - at < size) fail("the zip archive is damaged: {} is outside of it", what);
  return bytes.subspan(at, size);
}

struct Directory {
  uint64_t count;
  uint64_t offset;
};

// The end record is last, and a comment may follow it.
uint64_t find_end(Bytes archive) {
  if (archive.size() < kEndSize) fail("not a zip archive");
  const size_t longest_comment = std::numeric_limits<uint16_t>::max();
  const size_t last = archive.size() - kEndSize;
  for (size_t back = 0; back <= std::min(longest_comment, last); ++back) {
    if (little_endian<uint32_t>(archive, last - back) == kEnd) return last - back;
  }
  fail("not a zip archive");
}

Directory find_directory(Bytes archive) {
  const uint64_t end = find_end(archive);
  const Directory small = {little_endian<uint16_t>(archive, end + 10), little_endian<uint32_t>(archive, end + 16)};
  const bool has_locator =
      end >= kEnd64LocatorSize && little_endian<uint32_t>(archive, end - kEnd64LocatorSize) == kEnd64Locator;
  if (!has_locator) return small;
  const auto at = little_endian<uint64_t>(archive, end - kEnd64LocatorSize + 8);
  const Bytes record = part(archive, at, kEnd64Size, "its directory");
  if (little_endian<uint32_t>(record, 0) != kEnd64) fail("the zip archive is damaged: its directory is missing");
  return {little_endian<uint64_t>(record, 32), little_endian<uint64_t>(record, 48)};
}

struct Record {
  std::string name;
  uint16_t flags;
  uint16_t method;
  uint32_t crc32;
  uint64_t packed_size;
  uint64_t size;
  uint64_t offset;     // of the local header
  size_t record_size;  // in the directory
};

// The sizes and offsets that do not fit 32 bits are in an extra field, in this order.
void read_zip64(Bytes extra, Record& record) {
  for (uint64_t at = 0; at + 4 <= extra.size();) {
    const auto id = little_endian<uint16_t>(extra, at);
    const Bytes field = part(extra, at + 4, little_endian<uint16_t>(extra, at + 2), "an extra field");
    at += 4 + field.size();
    if (id != kZip64Extra) continue;
    uint64_t next = 0;
    for (uint64_t* value : {&record.size, &record.packed_size, &record.offset}) {
      if (*value != kIn64) continue;
      *value = little_endian<uint64_t>(field, next);
      next += 8;
    }
  }
}

Record read_record(Bytes archive, uint64_t at) {
  const Bytes fixed = part(archive, at, kDirectoryEntrySize, "its directory");
  if (little_endian<uint32_t>(fixed, 0) != kDirectoryEntry) {
    fail("the zip archive is damaged: its directory is garbled");
  }
  const auto name_size = little_endian<uint16_t>(fixed, 28);
  const auto extra_size = little_endian<uint16_t>(fixed, 30);
  const auto comment_size = little_endian<uint16_t>(fixed, 32);
  const Bytes name = part(archive, at + kDirectoryEntrySize, name_size, "a name");
  Record record{.name = std::string(reinterpret_cast<const char*>(name.data()), name.size()),
                .flags = little_endian<uint16_t>(fixed, 8),
                .method = little_endian<uint16_t>(fixed, 10),
                .crc32 = little_endian<uint32_t>(fixed, 16),
                .packed_size = little_endian<uint32_t>(fixed, 20),
                .size = little_endian<uint32_t>(fixed, 24),
                .offset = little_endian<uint32_t>(fixed, 42),
                .record_size = kDirectoryEntrySize + size_t{name_size} + extra_size + comment_size};
  read_zip64(part(archive, at + kDirectoryEntrySize + name_size, extra_size, "an extra field"), record);
  return record;
}

// A name must not lead outside of the folder that an archive is unpacked to.
void check_name(const std::string& name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (name.empty()) fail("an entry of the zip archive has no name");
  if (std::ranges::any_of(name, is_control)) fail("an entry of the zip archive has control characters in its name");
  const bool has_drive = name.size() > 1 && name[1] == ':';
  if (name.front() == '/' || has_drive) fail("'{}' in the zip archive is an absolute path", name);
  if (name.find('\\') != std::string::npos) fail("'{}' in the zip archive has a backslash in its name", name);
  for (const auto part : std::views::split(name, '/')) {
    if (std::string_view(part.begin(), part.end()) == "..") fail("'{}' in the zip archive leaves its folder", name);
  }
}

// A part of the archive: an entry with its header, or the directory.
struct Extent {
  uint64_t begin;
  uint64_t end;
  std::string_view name;
};

struct Located {
  ZipEntry entry;
  Extent extent;
};

Located locate(Bytes archive, const Record& record) {
  if (record.flags & kEncrypted) fail("'{}' in the zip archive is encrypted", record.name);
  if (record.method != 0) fail("'{}' in the zip archive is compressed; store it without compression", record.name);
  if (record.size != record.packed_size) fail("the zip archive is damaged: '{}' has two sizes", record.name);
  const Bytes header = part(archive, record.offset, kLocalHeaderSize, "an entry");
  if (little_endian<uint32_t>(header, 0) != kLocalHeader) {
    fail("the zip archive is damaged: '{}' is not there", record.name);
  }
  const uint64_t skipped = uint64_t{little_endian<uint16_t>(header, 26)} + little_endian<uint16_t>(header, 28);
  const uint64_t begin = record.offset + kLocalHeaderSize + skipped;
  const Bytes data = part(archive, begin, record.size, "an entry");
  return {{record.name, data, record.crc32}, {record.offset, begin + record.size, {}}};
}

// Entries that share bytes would let a small archive ask for a lot of memory.
void check_disjoint(std::vector<Extent> extents) {
  std::ranges::sort(extents, {}, &Extent::begin);
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i - 1].end > extents[i].begin) {
      fail("the zip archive is damaged: '{}' and '{}' overlap", extents[i - 1].name, extents[i].name);
    }
  }
}

void check_unique(const std::vector<ZipEntry>& entries) {
  std::set<std::string_view> names;
  for (const ZipEntry& entry : entries) {
    if (!names.insert(entry.name).second) fail("the zip archive has two entries '{}'", entry.name);
  }
}

std::vector<ZipEntry> read_entries(Bytes archive) {
  const Directory directory = find_directory(archive);
  if (directory.count > archive.size() / kDirectoryEntrySize) {
    fail("the zip archive is damaged: it has too few entries");
  }
  std::vector<ZipEntry> entries;
  std::vector<Extent> extents;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i) {
    const Record record = read_record(archive, at);
    at += record.record_size;
    check_name(record.name);
    if (record.name.ends_with('/')) continue;
    Located located = locate(archive, record);
    entries.push_back(std::move(located.entry));
    extents.push_back(located.extent);
  }
  for (size_t i = 0; i < entries.size(); ++i) extents[i].name = entries[i].name;
  extents.push_back({directory.offset, at, "the directory"});
  check_disjoint(std::move(extents));
  check_unique(entries);
  return entries;
}

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0xedb88320u : 0);
    table[i] = value;
  }
  return table;
}();

// ---- writing --------------------------------------------------------------------------------------------------------

template <class... Fields>
std::string little_endian_fields(Fields... fields) {
  std::string text;
  const auto append = [&](auto field) {
    for (size_t i = 0; i < sizeof field; ++i) text += static_cast<char>(static_cast<uint64_t>(field) >> (8 * i));
  };
  (append(fields), ...);
  return text;
}

// Sizes always have 64 bits, in the extra field: one form for small and large archives.
std::string local_header(const std::string& name, uint64_t size, uint32_t crc32) {
  return little_endian_fields(kLocalHeader, kFirstZip64Version, kUtf8Name, uint16_t{0}, uint16_t{0}, kDosEpoch, crc32,
                              kIn64, kIn64, static_cast<uint16_t>(name.size()), uint16_t{20}) +
         name + little_endian_fields(kZip64Extra, uint16_t{16}, size, size);
}

std::string directory_entry(const std::string& name, uint64_t size, uint32_t crc32, uint64_t offset) {
  return little_endian_fields(kDirectoryEntry, kFirstZip64Version, kFirstZip64Version, kUtf8Name, uint16_t{0},
                              uint16_t{0}, kDosEpoch, crc32, kIn64, kIn64, static_cast<uint16_t>(name.size()),
                              uint16_t{28}, uint16_t{0}, uint16_t{0}, uint16_t{0}, uint32_t{0}, kIn64) +
         name + little_endian_fields(kZip64Extra, uint16_t{24}, size, size, offset);
}

std::string end_records(uint64_t count, uint64_t directory_size, uint64_t offset) {
  const uint16_t in64 = 0xffff;
  return little_endian_fields(kEnd64, uint64_t{kEnd64Size - 12}, kFirstZip64Version, kFirstZip64Version, uint32_t{0},
                              uint32_t{0}, count, count, directory_size, offset) +
         little_endian_fields(kEnd64Locator, uint32_t{0}, offset + directory_size, uint32_t{1}) +
         little_endian_fields(kEnd, uint16_t{0}, uint16_t{0}, in64, in64, kIn64, kIn64, uint16_t{0});
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

Result<std::vector<ZipEntry>> read_zip(Bytes archive) {
  return attempt([&] { return read_entries(archive); });
}

uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t crc) {
  crc = ~crc;
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

void check_crc(const ZipEntry& entry) {
  if (crc32_of(entry.data) != entry.crc32) fail("'{}' in the zip archive is damaged: its checksum differs", entry.name);
}

void ZipWriter::add(std::string name, Pieces data) {
  if (name.size() > std::numeric_limits<uint16_t>::max()) {
    fail("a name of {} bytes is too long for a zip archive", name.size());
  }
  auto entry = std::make_unique<Added>(Added{std::move(name), {}, std::move(data), size_, 0, 0});
  for (const auto& piece : entry->data) {
    entry->size += piece.size();
    entry->crc32 = crc32_of(piece, entry->crc32);
  }
  entry->header = local_header(entry->name, entry->size, entry->crc32);
  size_ += entry->header.size() + entry->size;
  entries_.push_back(std::move(entry));
}

ZipWriter::Pieces ZipWriter::finish() {
  Pieces pieces;
  for (const auto& entry : entries_) {
    pieces.push_back(bytes_of(entry->header));
    pieces.insert(pieces.end(), entry->data.begin(), entry->data.end());
    directory_ += directory_entry(entry->name, entry->size, entry->crc32, entry->offset);
  }
  directory_ += end_records(entries_.size(), directory_.size(), size_);
  pieces.push_back(bytes_of(directory_));
  return pieces;
}

}  // namespace tenon
