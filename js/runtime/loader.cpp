// Loads relocatable WebAssembly objects: the counterpart of the loader of ELF objects.
//
// An object is nearly a module: its functions call each other by numbers that are right. Its data has addresses from 0
// on, and nothing of it is exported. So its data goes to memory of its own, the addresses in its code and data are
// moved there, and the page instantiates the module over the runtime's memory and table, in which the kernel gets a
// place. So does each function whose address the kernel gives away: what a thread runs of a parallel loop.
#include "runtime/loader.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "runtime/allocator.h"
#include "runtime/error.h"
#include "shared_code.h"

// What the page offers (js/runtime.mjs): places in the table.
extern "C" __attribute__((import_module("tenon"), import_name("reserve"))) uint32_t tenon_reserve();
extern "C" __attribute__((import_module("tenon"), import_name("release"))) void tenon_release(uint32_t place);

namespace tenon::runtime {
namespace {

using Bytes = std::span<const uint8_t>;

[[noreturn]] void damaged() { fail(TENON_BAD_FILE, "the object file is damaged"); }

// Reads numbers and names. Every read stays inside of the bytes.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}
  bool at_end() const { return at_ == bytes_.size(); }
  size_t position() const { return at_; }

  uint8_t byte() { return take(1)[0]; }

  uint32_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      const uint8_t part = byte();
      value |= static_cast<uint64_t>(part & 0x7f) << shift;
      if (!(part & 0x80)) return static_cast<uint32_t>(value);
    }
    damaged();
  }

  int32_t signed_number() {
    int64_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      const uint8_t part = byte();
      value |= static_cast<int64_t>(part & 0x7f) << shift;
      if (part & 0x80) continue;
      const bool is_negative = part & 0x40;
      return static_cast<int32_t>(is_negative ? value - (int64_t{1} << (shift + 7)) : value);
    }
    damaged();
  }

  Bytes take(size_t size) {
    if (size > bytes_.size() - at_) damaged();
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }

  Bytes sized() { return take(number()); }
  std::string name() {
    const Bytes bytes = sized();
    return {bytes.begin(), bytes.end()};
  }

 private:
  Bytes bytes_;
  size_t at_ = 0;
};

// ---- the parts of an object -----------------------------------------------------------------------------------------

enum SectionId : uint8_t { kCustom, kType, kImport, kFunction, kTable, kMemory, kGlobal, kExport, kStart, kElements };
constexpr uint8_t kCode = 10, kData = 11, kDataCount = 12;

struct Section {
  uint8_t id;
  Bytes content;
};

struct Segment {
  uint32_t address;  // in the object
  uint32_t size;
  size_t position;  // of its bytes in the section
};

struct Symbol {
  bool is_data = false;
  bool is_defined = false;
  bool is_exported = false;
  uint32_t number = 0;  // of the function, or of the data's segment
  uint32_t offset = 0;  // in the segment
  std::string name = {};
};

struct Relocation {
  uint8_t type;
  uint32_t offset;  // in the section
  uint32_t symbol;
  int32_t addend;
};

struct Relocations {
  uint32_t section;
  std::vector<Relocation> entries;
};

// Names of the object format (WebAssembly/tool-conventions, Linking.md).
enum RelocationType : uint8_t {
  kFunctionIndex = 0,
  kMemoryAddress = 3,
  kTablePlace = 1,
  kTablePlaceWord = 2,
  kSignedMemoryAddress = 4,
  kMemoryAddressWord = 5,
  kTypeIndex = 6,
  kGlobalIndex = 7,
  kRelativeMemoryAddress = 11,  // from __memory_base on, which is 0
  kRelativeTablePlace = 12,     // from __table_base on, which is 0
  kTableNumber = 20
};

bool is_address(uint8_t type) {
  return type == kMemoryAddress || type == kSignedMemoryAddress || type == kMemoryAddressWord ||
         type == kRelativeMemoryAddress;
}

bool is_place(uint8_t type) { return type == kTablePlace || type == kTablePlaceWord || type == kRelativeTablePlace; }

// A number of the object itself, which stays as it is.
bool is_index(uint8_t type) {
  return type == kFunctionIndex || type == kTypeIndex || type == kGlobalIndex || type == kTableNumber;
}

Relocation read_relocation(Reader& reader) {
  Relocation entry{.type = reader.byte(), .offset = reader.number(), .symbol = reader.number(), .addend = 0};
  if (!is_address(entry.type) && !is_place(entry.type) && !is_index(entry.type))
    fail(TENON_UNSUPPORTED, "the object has a relocation of type ", entry.type, ", which cannot be loaded");
  if (is_address(entry.type)) entry.addend = reader.signed_number();
  return entry;
}

Symbol read_symbol(Reader& reader) {
  enum : uint8_t { kFunctionSymbol, kDataSymbol, kSectionSymbol = 3 };
  enum : uint32_t { kWeak = 1, kLocal = 2, kUndefined = 0x10, kNamed = 0x40 };
  const uint8_t kind = reader.byte();
  const uint32_t flags = reader.number();
  Symbol symbol{.is_data = kind == kDataSymbol, .is_defined = !(flags & kUndefined)};
  if (kind == kSectionSymbol) return reader.number(), symbol;
  if (!symbol.is_data) symbol.number = reader.number();
  if (symbol.is_data || symbol.is_defined || flags & kNamed) symbol.name = reader.name();
  if (symbol.is_data && symbol.is_defined) {
    symbol.number = reader.number();
    symbol.offset = reader.number();
    reader.number();  // its size
  }
  symbol.is_exported = kind == kFunctionSymbol && symbol.is_defined && !(flags & kLocal);
  return symbol;
}

class Object {
 public:
  explicit Object(std::string_view bytes) {
    constexpr uint8_t kMagic[] = {0, 'a', 's', 'm', 1, 0, 0, 0};
    Reader reader({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    if (bytes.size() < sizeof kMagic || !std::ranges::equal(reader.take(sizeof kMagic), kMagic))
      fail(TENON_BAD_FILE, "this is not a WebAssembly object file");
    while (!reader.at_end()) {
      const uint8_t id = reader.byte();
      sections.push_back({id, reader.sized()});
    }
    for (const Section& section : sections) read(section);
  }

  std::vector<Section> sections;
  std::vector<Segment> segments;
  std::vector<Symbol> symbols;
  std::vector<Relocations> relocations;

 private:
  void read(const Section& section) {
    if (section.id == kStart)
      fail(TENON_UNSUPPORTED, "the object has a section of kind ", section.id, ", which cannot be loaded");
    if (section.id == kData) {
      if (std::exchange(has_data_, true)) damaged();  // segments do not say which section has their bytes
      read_segments(Reader(section.content));
    }
    if (section.id != kCustom) return;
    Reader reader(section.content);
    const std::string name = reader.name();
    if (name == "linking") read_linking(reader);
    if (name == "reloc.CODE" || name == "reloc.DATA") read_relocations(reader);
  }

  void read_segments(Reader reader) {
    constexpr uint8_t kI32Const = 0x41, kEnd = 0x0b;
    for (uint32_t count = reader.number(); count > 0; --count) {
      const bool is_plain = reader.number() == 0 && reader.byte() == kI32Const;
      const auto address = static_cast<uint32_t>(is_plain ? reader.signed_number() : 0);
      if (!is_plain || reader.byte() != kEnd) damaged();
      const uint32_t size = reader.number();
      segments.push_back({address, size, reader.position()});
      reader.take(size);
    }
  }

  void read_linking(Reader& reader) {
    constexpr uint32_t kVersion = 2;
    constexpr uint8_t kSymbols = 8;
    if (reader.number() != kVersion) fail(TENON_UNSUPPORTED, "the object is of another version than ", kVersion);
    while (!reader.at_end()) {
      const uint8_t kind = reader.byte();
      Reader part(reader.sized());
      if (kind != kSymbols) continue;
      for (uint32_t count = part.number(); count > 0; --count) symbols.push_back(read_symbol(part));
    }
  }

  void read_relocations(Reader& reader) {
    Relocations read{.section = reader.number()};
    if (read.section >= sections.size()) damaged();
    for (uint32_t count = reader.number(); count > 0; --count) read.entries.push_back(read_relocation(reader));
    relocations.push_back(std::move(read));
  }

  bool has_data_ = false;
};

// ---- the module -----------------------------------------------------------------------------------------------------

void append_number(std::vector<uint8_t>& bytes, size_t number) {
  for (; number >= 0x80; number >>= 7) bytes.push_back(static_cast<uint8_t>(number | 0x80));
  bytes.push_back(static_cast<uint8_t>(number));
}

void append_section(std::vector<uint8_t>& bytes, uint8_t id, Bytes content) {
  bytes.push_back(id);
  append_number(bytes, content.size());
  bytes.insert(bytes.end(), content.begin(), content.end());
}

// Functions by their numbers, under the names "0", "1", ...
std::vector<uint8_t> exports_of(const std::vector<uint32_t>& functions) {
  std::vector<uint8_t> content;
  append_number(content, functions.size());
  for (size_t i = 0; i < functions.size(); ++i) {
    const std::string name = text_of(i);
    append_number(content, name.size());
    content.insert(content.end(), name.begin(), name.end());
    content.push_back(0);  // a function
    append_number(content, functions[i]);
  }
  return content;
}

// The section of imports, in which the memory is one that threads share: the runtime's.
std::vector<uint8_t> with_shared_memory(Bytes imports) {
  enum : uint8_t { kFunctionImport, kTableImport, kMemoryImport, kGlobalImport };
  constexpr uint8_t kHasMaximum = 1, kShared = 3;
  constexpr uint32_t kMostPages = 65536;
  Reader reader(imports);
  const uint32_t count = reader.number();
  std::vector<uint8_t> content;
  append_number(content, count);
  for (uint32_t i = 0; i < count; ++i) {
    const size_t start = reader.position();
    reader.sized(), reader.sized();  // its names
    const uint8_t kind = reader.byte();
    if (kind == kTableImport || kind == kGlobalImport) reader.byte();  // of what
    if (kind == kGlobalImport) reader.byte();                          // whether it changes
    if (kind == kFunctionImport) reader.number();
    const size_t limits = reader.position();
    const bool has_limits = kind == kTableImport || kind == kMemoryImport;
    const uint8_t flags = has_limits ? reader.byte() : 0;
    const uint32_t least = has_limits ? reader.number() : 0;
    if (flags & kHasMaximum) reader.number();
    const size_t end = kind == kMemoryImport ? limits : reader.position();
    const Bytes own = imports.subspan(start, end - start);
    content.insert(content.end(), own.begin(), own.end());
    if (kind != kMemoryImport) continue;
    content.push_back(kShared);
    append_number(content, least);
    append_number(content, kMostPages);
  }
  return content;
}

// In five bytes, as the compiler leaves room for.
void write_number(uint8_t* place, uint32_t value, bool is_signed) {
  for (int i = 0; i < 4; ++i, value >>= 7) place[i] = static_cast<uint8_t>(value | 0x80);
  place[4] = static_cast<uint8_t>(is_signed && value & 8 ? value | 0x70 : value);
}

}  // namespace

class Linker {
 public:
  explicit Linker(const Object& object) : object_(object) {
    for (const Section& section : object.sections)
      contents_.emplace_back(section.content.begin(), section.content.end());
  }

  std::shared_ptr<const LoadedCode> link() {
    code_ = std::shared_ptr<LoadedCode>(new LoadedCode(data_bytes()));
    base_ = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(code_->memory_));
    place_of(the_function());
    for (const Relocations& each : object_.relocations) {
      for (const Relocation& entry : each.entries) relocate(entry, contents_[each.section]);
    }
    std::memset(code_->memory_, 0, code_->size_);
    copy_data(static_cast<uint8_t*>(code_->memory_));
    instantiate(module());
    return code_;
  }

 private:
  const Symbol& the_function() const {
    const auto found = std::ranges::find_if(object_.symbols, &Symbol::is_exported);
    if (found == object_.symbols.end()) fail(TENON_BAD_FILE, "the object has no function");
    return *found;
  }

  size_t data_bytes() const {
    uint64_t size = 0;
    for (const Segment& segment : object_.segments) size = std::max(size, uint64_t{segment.address} + segment.size);
    constexpr uint64_t kMost = uint64_t{1} << 30;
    if (size > kMost) damaged();
    return static_cast<size_t>(size);
  }

  void relocate(const Relocation& entry, std::vector<uint8_t>& content) {
    if (is_index(entry.type)) return;
    const bool is_word = entry.type == kMemoryAddressWord || entry.type == kTablePlaceWord;
    const size_t size = is_word ? 4 : 5;
    if (entry.offset > content.size() || size > content.size() - entry.offset) damaged();
    if (entry.symbol >= object_.symbols.size()) damaged();
    const Symbol& symbol = object_.symbols[entry.symbol];
    const uint32_t value =
        is_place(entry.type) ? place_of(symbol) : address_of(symbol) + static_cast<uint32_t>(entry.addend);
    uint8_t* const to = content.data() + entry.offset;
    if (is_word)
      std::memcpy(to, &value, size);
    else
      write_number(to, value, entry.type != kMemoryAddress);
  }

  // Of a function, in the table: a place of its own when it is first asked for.
  uint32_t place_of(const Symbol& function) {
    if (function.is_data || !function.is_defined) damaged();
    const auto [found, is_new] = code_->symbols_.try_emplace(function.name, nullptr);
    if (is_new) {
      found->second = reinterpret_cast<void*>(tenon_reserve());  // a function's address is its place in the table
      functions_.push_back(function.number);
      places_.push_back(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(found->second)));
    }
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(found->second));
  }

  uint32_t address_of(const Symbol& symbol) const {
    if (!symbol.is_data || !symbol.is_defined || symbol.number >= object_.segments.size()) damaged();
    return base_ + object_.segments[symbol.number].address + symbol.offset;
  }

  void copy_data(uint8_t* memory) const {
    for (size_t i = 0; i < contents_.size(); ++i) {
      if (object_.sections[i].id != kData) continue;
      for (const Segment& segment : object_.segments)
        std::memcpy(memory + segment.address, contents_[i].data() + segment.position, segment.size);
    }
  }

  std::vector<uint8_t> module() const {
    std::vector<uint8_t> bytes = {0, 'a', 's', 'm', 1, 0, 0, 0};
    for (size_t i = 0; i < contents_.size(); ++i) {
      const uint8_t id = object_.sections[i].id;
      if (id == kCustom || id == kExport || id == kElements || id == kData || id == kDataCount) continue;
      if (id == kCode) append_section(bytes, kExport, exports_of(functions_));
      append_section(bytes, id, id == kImport && kHasThreads ? with_shared_memory(contents_[i]) : contents_[i]);
    }
    return bytes;
  }

  void instantiate(std::vector<uint8_t> module) const {
    char text[256] = {};
    if (!tenon_instantiate(module.data(), module.size(), places_.data(), places_.size(), text, sizeof text - 1))
      fail(TENON_BAD_FILE, "the code of a kernel cannot be loaded: ", text);
    if constexpr (kHasThreads) publish_code(code_.get(), std::move(module), places_);
  }

  const Object& object_;
  std::vector<std::vector<uint8_t>> contents_;  // of the sections
  std::shared_ptr<LoadedCode> code_;
  std::vector<uint32_t> functions_;  // numbers of those that have a place in the table; the kernel is the first
  std::vector<uint32_t> places_;
  uint32_t base_ = 0;
};

std::shared_ptr<const LoadedCode> LoadedCode::load(std::string_view bytes, std::string_view) {
  const Object object(bytes);
  return Linker(object).link();
}

LoadedCode::LoadedCode(size_t size) : memory_(allocate_aligned(static_cast<int64_t>(size))), size_(size) {
  if (memory_ == nullptr) fail(TENON_OUT_OF_MEMORY, "there is no memory for ", size, " bytes of code");
}

LoadedCode::~LoadedCode() {
  if constexpr (kHasThreads) withdraw_code(this);
  for (const auto& [name, place] : symbols_) tenon_release(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(place)));
  std::free(memory_);
}

void* LoadedCode::address(std::string_view name) const {
  const auto found = symbols_.find(name);
  if (found == symbols_.end()) fail(TENON_BAD_FILE, "the object has no symbol '", name, "'");
  return found->second;
}

}  // namespace tenon::runtime
