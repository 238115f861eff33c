#include "runtime/container.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "runtime/checksum.h"
#include "runtime/error.h"
#include "runtime/system.h"

namespace tenon::runtime {
namespace {

using format::Header;
using format::SectionKind;
using Bytes = std::span<const std::byte>;

// ---- the header and the table ---------------------------------------------------------------------------------------

void check_magic(Bytes bytes) {
  const auto* const magic = reinterpret_cast<const unsigned char*>(bytes.data());
  const size_t given = std::min(bytes.size(), sizeof format::kMagic);
  if (given == sizeof format::kMagic && std::equal(magic, magic + given, format::kMagic)) return;
  constexpr size_t kName = 4;  // before the line ends
  const bool is_named = given >= kName && std::equal(magic + 1, magic + kName, format::kMagic + 1);
  if (is_named) fail(TENON_BAD_FILE, "the file is damaged: it was transferred as text, or cut short");
  fail(TENON_BAD_FILE, "this is not a Tenon file");
}

Header read_header(Bytes bytes) {
  check_magic(bytes);
  Header header;
  if (bytes.size() < sizeof header) fail(TENON_BAD_FILE, "the file is cut short: it has ", bytes.size(), " bytes");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.major != format::kMajor) {
    fail(TENON_UNSUPPORTED, "the file has format ", header.major, ".", header.minor,
         ", and this is a reader of format ", format::kMajor, ": load it with a Tenon that reads format ", header.major,
         ", or compile the model with this one");
  }
  if (header.file_size != bytes.size()) {
    fail(TENON_BAD_FILE, "the file is damaged: it has ", bytes.size(), " bytes, and should have ", header.file_size);
  }
  const uint64_t space = (bytes.size() - sizeof header) / sizeof(format::Section);
  if (header.section_count > format::kMostSections || header.section_count > space) {
    fail(TENON_BAD_FILE, "the file is damaged: it says that it has ", header.section_count, " sections");
  }
  return header;
}

// With the header before it, whose checksum field is 0.
uint64_t checksum_of_table(Header header, std::span<const format::Section> table) {
  header.checksum = 0;
  std::vector<std::byte> bytes(sizeof header + table.size_bytes());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!table.empty()) std::memcpy(bytes.data() + sizeof header, table.data(), table.size_bytes());
  return checksum(bytes);
}

std::vector<format::Section> read_table(Bytes bytes) {
  const Header header = read_header(bytes);
  std::vector<format::Section> table(header.section_count);
  if (!table.empty()) std::memcpy(table.data(), bytes.data() + sizeof header, std::span(table).size_bytes());
  if (checksum_of_table(header, table) != header.checksum) {
    fail(TENON_BAD_FILE, "the file is damaged: its header or its table does not match its checksum");
  }
  const auto is_zero = [](uint64_t value) { return value == 0; };
  if (header.flags != 0 || !std::ranges::all_of(header.reserved, is_zero)) {
    fail(TENON_BAD_FILE, "the file's header has fields that format 1 does not define");
  }
  return table;
}

// ---- sections -------------------------------------------------------------------------------------------------------

bool is_known(uint32_t kind) {
  return kind >= static_cast<uint32_t>(SectionKind::kGraph) &&
         kind <= static_cast<uint32_t>(SectionKind::kDeviceNative);
}

std::string_view name_of(const format::Section& section) {
  return {section.name, ::strnlen(section.name, sizeof section.name)};
}

bool is_name(const format::Section& section) {
  const auto is_printable = [](char c) { return c > ' ' && c < 127; };
  const size_t size = name_of(section).size();
  return size < sizeof section.name && std::all_of(section.name, section.name + size, is_printable) &&
         std::all_of(section.name + size, std::end(section.name), [](char c) { return c == 0; });
}

void check_flags(const format::Section& section, size_t number) {
  const bool is_required = section.flags & format::kSectionRequired;
  if (is_required && !is_known(section.kind)) {
    fail(TENON_UNSUPPORTED, "section ", number, " is of kind ", section.kind,
         ", which this reader does not know and must: load the file with a newer Tenon");
  }
  if (is_known(section.kind) && section.flags & ~format::kSectionRequired) {
    fail(TENON_UNSUPPORTED, "section ", number, " has flags ", section.flags,
         ", which this reader does not know: load the file with a newer Tenon");
  }
}

bool is_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

// Checks that sections follow each other to the end of the file, with zeros between.
void check_places(std::span<const format::Section> table, Bytes bytes) {
  uint64_t end = sizeof(Header) + table.size_bytes();
  for (size_t i = 0; i < table.size(); ++i) {
    const auto& [kind, flags, name, offset, size, sum] = table[i];
    if (offset < end || offset > bytes.size() || size > bytes.size() - offset) {
      fail(TENON_BAD_FILE, "section ", i, " has ", size, " bytes from ", offset, " on, in a file of ", bytes.size(),
           " where ", end, " are taken");
    }
    if (offset % format::alignment_of(kind) != 0) {
      fail(TENON_BAD_FILE, "section ", i, " is at ", offset, ", which is not a multiple of ",
           format::alignment_of(kind));
    }
    if (!is_zero(bytes.subspan(end, offset - end))) {
      fail(TENON_BAD_FILE, "the file is damaged: there are bytes before section ", i);
    }
    end = offset + size;
  }
  if (end != bytes.size()) fail(TENON_BAD_FILE, "the file has ", bytes.size() - end, " bytes that are in no section");
}

void check_names(std::span<const format::Section> table) {
  for (size_t i = 0; i < table.size(); ++i) {
    if (!is_name(table[i])) fail(TENON_BAD_FILE, "section ", i, " has an invalid name");
    check_flags(table[i], i);
  }
  std::set<std::pair<uint32_t, std::string_view>> names;
  for (const format::Section& section : table) {
    if (names.emplace(section.kind, name_of(section)).second) continue;
    fail(TENON_BAD_FILE, "two sections are of kind ", section.kind, " and have the name '", name_of(section), "'");
  }
}

void check_content(const format::Section& section, size_t number, Bytes content) {
  if (checksum(content) == section.checksum) return;
  fail(TENON_BAD_FILE, "the file is damaged: section ", number, " does not match its checksum");
}

// ---- memory ---------------------------------------------------------------------------------------------------------

Mapping copy_of(Bytes bytes) {
  Mapping copy(bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (!bytes.empty()) std::memcpy(copy.bytes().data(), bytes.data(), bytes.size());
  return copy;
}

bool is_aligned(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % format::kSectionAlignment == 0; }

// Verifies the structure that the rest of the runtime reads by offsets.
bool must_stay(uint32_t kind) {
  const auto known = static_cast<SectionKind>(kind);
  return known != SectionKind::kWeights && known != SectionKind::kNative && known != SectionKind::kDeviceNative;
}

Mapping map_file(const char* path) {
  // opening a pipe would wait for a writer
  const Descriptor file(system().open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) fail_with_errno("open");
  struct stat info = {};
  if (system().stat(file.number(), &info) != 0) fail_with_errno("read");
  if (!S_ISREG(info.st_mode)) fail(TENON_IO, "this is not a regular file");
  return Mapping(static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, file.number());
}

}  // namespace

Mapping::Mapping(size_t size, int rights, int flags, int descriptor) {
  if (size == 0) return;
  void* const memory = system().map(size, rights, flags, descriptor);
  if (memory == MAP_FAILED) fail_with_errno("map it into memory");
  bytes_ = {static_cast<std::byte*>(memory), size};
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (!bytes_.empty()) system().unmap(bytes_.data(), bytes_.size());
}

// ---- the container --------------------------------------------------------------------------------------------------

Container::Container(Bytes bytes) : table_(read_table(bytes)) {
  check_names(table_);
  check_places(table_, bytes);
  for (size_t i = 0; i < table_.size(); ++i) {
    const format::Section& section = table_[i];
    Bytes content = bytes.subspan(section.offset, section.size);
    if (is_known(section.kind) && must_stay(section.kind)) content = owned_.emplace_back(copy_of(content)).bytes();
    check_content(section, i, content);
    if (is_known(section.kind)) {
      sections_.push_back({static_cast<SectionKind>(section.kind), name_of(section), content});
    }
  }
}

Container Container::of_memory(Bytes bytes) {
  if (is_aligned(bytes.data())) return Container(bytes);
  Mapping copy = copy_of(bytes);
  Container container(copy.bytes());
  container.owned_.push_back(std::move(copy));
  return container;
}

Container Container::open(const std::string& path) {
  return with_path(path, [&] {
    Mapping file = map_file(path.c_str());
    Container container(file.bytes());
    container.file_ = file.bytes();
    container.owned_.push_back(std::move(file));
    return container;
  });
}

void Container::forget(Bytes bytes) const {
  const auto* const end = bytes.data() + bytes.size();
  if (file_.empty() || bytes.data() < file_.data() || end > file_.data() + file_.size()) return;
  static const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t from = (static_cast<size_t>(bytes.data() - file_.data()) + page - 1) / page * page;
  const size_t to = static_cast<size_t>(end - file_.data()) / page * page;
  if (from < to) system().forget(file_.data() + from, to - from);
}

const Container::Section* Container::find(SectionKind kind, std::string_view name) const {
  const auto found = std::ranges::find_if(
      sections_, [&](const Section& section) { return section.kind == kind && section.name == name; });
  return found == sections_.end() ? nullptr : &*found;
}

}  // namespace tenon::runtime
