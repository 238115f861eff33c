#include "runtime/container_writer.h"

#include <algorithm>
#include <cstring>

#include "runtime/checksum.h"
#include "runtime/error.h"

namespace tenon::runtime {
namespace {

using Piece = std::span<const std::byte>;

std::byte zeros[format::kWeightsAlignment];  // never written; a constant would take this many bytes of the library

uint64_t rounded_up(uint64_t size, uint64_t alignment) { return (size + alignment - 1) / alignment * alignment; }

// The checksum of pieces that are not contiguous.
class Checksum {
 public:
  void add(Piece piece) {
    size_ += piece.size();
    while (!piece.empty()) piece = piece.subspan(take(piece));
  }

  uint64_t value() const {
    const uint64_t all = pending_.empty() ? hash_ : combine(hash_, hash_block(pending_));
    return combine(all, size_);
  }

 private:
  // Hashes this many bytes.
  size_t take(Piece piece) {
    if (pending_.empty() && piece.size() >= kChecksumBlock) {
      hash_ = combine(hash_, hash_block(piece.first(kChecksumBlock)));
      return kChecksumBlock;
    }
    const size_t taken = std::min(piece.size(), kChecksumBlock - pending_.size());
    pending_.insert(pending_.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(taken));
    if (pending_.size() == kChecksumBlock) {
      hash_ = combine(hash_, hash_block(pending_));
      pending_.clear();
    }
    return taken;
  }

  uint64_t hash_ = 0;
  uint64_t size_ = 0;
  std::vector<std::byte> pending_;
};

format::Section entry_of(const SectionContent& content, uint64_t offset) {
  format::Section entry = {};
  entry.kind = static_cast<uint32_t>(content.kind);
  entry.flags = content.flags;
  entry.offset = offset;
  if (content.name.size() >= sizeof entry.name)
    fail(TENON_INTERNAL, "the name of a section is too long: ", content.name);
  content.name.copy(entry.name, content.name.size());
  Checksum checksum;
  for (const Piece& piece : content.pieces) checksum.add(piece);
  entry.size = size_of(content);
  entry.checksum = checksum.value();
  return entry;
}

std::vector<std::byte> front_of(std::span<const format::Section> table, uint64_t file_size) {
  format::Header header = {};
  std::ranges::copy(format::kMagic, header.magic);
  header.major = format::kMajor;
  header.minor = format::kMinor;
  header.file_size = file_size;
  header.section_count = static_cast<uint32_t>(table.size());
  std::vector<std::byte> front(sizeof header + table.size_bytes());
  std::memcpy(front.data(), &header, sizeof header);
  if (!table.empty()) std::memcpy(front.data() + sizeof header, table.data(), table.size_bytes());
  header.checksum = checksum(front);
  std::memcpy(front.data(), &header, sizeof header);
  return front;
}

uint64_t first_offset(std::span<const SectionContent> sections) {
  return sizeof(format::Header) + sections.size() * sizeof(format::Section);
}

uint64_t offset_of(const SectionContent& content, uint64_t end_of_last) {
  return rounded_up(end_of_last, format::alignment_of(static_cast<uint32_t>(content.kind)));
}

}  // namespace

uint64_t size_of(const SectionContent& content) {
  uint64_t size = 0;
  for (const Piece& piece : content.pieces) size += piece.size();
  return size;
}

uint64_t container_size(std::span<const SectionContent> sections) {
  uint64_t end = first_offset(sections);
  for (const SectionContent& content : sections) end = offset_of(content, end) + size_of(content);
  return end;
}

FileLayout lay_out(std::span<const SectionContent> sections) {
  FileLayout layout;
  layout.pieces.emplace_back();
  uint64_t end = first_offset(sections);
  std::vector<format::Section> table;
  for (const SectionContent& content : sections) {
    const uint64_t offset = offset_of(content, end);
    if (offset > end) layout.pieces.emplace_back(zeros, offset - end);
    layout.pieces.insert(layout.pieces.end(), content.pieces.begin(), content.pieces.end());
    table.push_back(entry_of(content, offset));
    end = offset + table.back().size;
  }
  layout.front = front_of(table, end);
  layout.pieces[0] = layout.front;
  return layout;
}

uint64_t pad(std::vector<std::span<const std::byte>>& pieces, uint64_t size) {
  const uint64_t whole = rounded_up(size, format::kSectionAlignment);
  if (whole > size) pieces.emplace_back(zeros, whole - size);
  return whole;
}

}  // namespace tenon::runtime
