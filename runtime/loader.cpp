#include "runtime/loader.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <system_error>
#include <vector>

#include "runtime/error.h"
#include "runtime/link_target.h"
#include "runtime/shared.h"
#include "runtime/symbols.h"
#include "runtime/system.h"

namespace tenon::runtime {

// ---- the file -------------------------------------------------------------------------------------------------------

namespace {

constexpr size_t kLongestName = 4096;  // of a symbol: without a limit, many symbols could share one long name

// An object file. Every read stays inside of it.
class Object {
 public:
  Object(std::string_view bytes, const LinkTarget& target) : bytes_(bytes) {
    const auto header = at<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != target.machine || header.e_type != ET_REL) {
      fail(TENON_BAD_FILE, "this is not an object file of ", target.name);
    }
    if (header.e_shoff > bytes.size()) damaged();
    size_t total = 0;
    for (size_t i = 0; i < header.e_shnum; ++i) {
      sections.push_back(at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
      if (sections[i].sh_type != SHT_NOBITS) total += content(i).size();
      if (total > bytes.size()) damaged();  // overlapping sections could make a small file expensive to load
    }
    for (size_t i = 0; i < sections.size(); ++i) {
      if (sections[i].sh_type == SHT_SYMTAB) symbols = table<Elf64_Sym>(i), strings_ = content(sections[i].sh_link);
    }
  }

  std::string_view content(size_t i) const {
    if (i >= sections.size()) damaged();
    const Elf64_Shdr& header = sections[i];
    if (header.sh_offset > bytes_.size() || header.sh_size > bytes_.size() - header.sh_offset) damaged();
    return bytes_.substr(header.sh_offset, header.sh_size);
  }

  template <class T>
  std::vector<T> table(size_t i) const {
    const std::string_view bytes = content(i);
    std::vector<T> entries(bytes.size() / sizeof(T));
    bytes.copy(reinterpret_cast<char*>(entries.data()), entries.size() * sizeof(T));
    return entries;
  }

  const Elf64_Sym& symbol(size_t i) const {
    if (i >= symbols.size()) damaged();
    return symbols[i];
  }

  std::string name(const Elf64_Sym& symbol) const {
    if (symbol.st_name >= strings_.size()) damaged();
    const std::string_view rest = strings_.substr(symbol.st_name);
    const std::string_view name = rest.substr(0, rest.find('\0'));
    if (name.size() > kLongestName) damaged();
    return std::string(name);
  }

  [[noreturn]] static void damaged() { fail(TENON_BAD_FILE, "the object file is damaged"); }

  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Sym> symbols;

 private:
  template <class T>
  T at(size_t offset) const {
    if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) damaged();
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  std::string_view bytes_;
  std::string_view strings_;
};

constexpr size_t kGap = 64;  // before the code: sanitizers read information about a function in front of it
constexpr size_t kLargest = size_t{1} << 30;  // relative addresses have 31 bits
constexpr size_t kLargestAlignment = 4096;    // that of mmap

size_t rounded_up(size_t size, size_t alignment) { return (size + alignment - 1) / alignment * alignment; }

}  // namespace

// ---- its place in memory --------------------------------------------------------------------------------------------

// One block of memory: code and stubs, then constants and the address table, then variables, each on pages of their
// own. A stub jumps to a function at any address.
class Linker {
 public:
  Linker(const Object& object, const LinkTarget& target)
      : object_(object), target_(target), places_(object.sections.size(), kNowhere) {
    find_functions();
    place_all();
  }

  std::shared_ptr<const LoadedCode> link() {
    auto* const made = new LoadedCode(size_);
    const std::shared_ptr<LoadedCode> code(owned(made, [](void* it) { delete static_cast<LoadedCode*>(it); }), made);
    base_ = static_cast<std::byte*>(code->memory_);
    copy_sections();
    write_stubs();
    for (size_t i = 0; i < object_.sections.size(); ++i) {
      if (object_.sections[i].sh_type == SHT_RELA) relocate_section(i);
    }
    __builtin___clear_cache(reinterpret_cast<char*>(base_), reinterpret_cast<char*>(base_ + constants_));
    protect(0, constants_, PROT_READ | PROT_EXEC);
    protect(constants_, variables_, PROT_READ);
    for (const Elf64_Sym& symbol : object_.symbols) {
      if (ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL || symbol.st_shndx == SHN_UNDEF) continue;
      code->symbols_[object_.name(symbol)] = base_ + offset_of(symbol);
    }
    return code;
  }

  void name_to_perf(std::string_view label) const {
    const std::string path = text_of("/tmp/perf-", ::getpid(), ".map");
    const std::unique_ptr<FILE, int (*)(FILE*)> map(std::fopen(path.c_str(), "a"), std::fclose);
    if (!map) return;
    for (const Elf64_Sym& symbol : object_.symbols) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      std::fprintf(map.get(), "%zx %zx %.*s %s\n", reinterpret_cast<size_t>(base_ + offset_of(symbol)),
                   static_cast<size_t>(symbol.st_size), static_cast<int>(label.size()), label.data(),
                   object_.name(symbol).c_str());
    }
  }

 private:
  static constexpr size_t kNowhere = ~size_t{0};
  enum Part { kCode, kConstants, kVariables };

  static Part part_of(const Elf64_Shdr& section) {
    return section.sh_flags & SHF_EXECINSTR ? kCode : section.sh_flags & SHF_WRITE ? kVariables : kConstants;
  }

  // The functions that the object calls, by symbol number.
  void find_functions() {
    for (size_t i = 1; i < object_.symbols.size(); ++i) {
      if (object_.symbols[i].st_shndx != SHN_UNDEF) continue;
      const std::string name = object_.name(object_.symbols[i]);
      void* const address = find_function(name);
      if (!address) fail(TENON_UNSUPPORTED, "the code needs a function '", name, "', which is not there");
      slots_[i] = functions_.size();
      functions_.push_back(address);
    }
    // The object's own symbols that it reads through the address table.
    for (size_t i = 0; i < object_.sections.size(); ++i) {
      if (object_.sections[i].sh_type != SHT_RELA) continue;
      for (const Elf64_Rela& entry : object_.table<Elf64_Rela>(i)) add_own_slot(entry);
    }
  }

  void add_own_slot(const Elf64_Rela& entry) {
    const size_t symbol = ELF64_R_SYM(entry.r_info);
    if (!kind_of(entry).is_by_table || slots_.contains(symbol)) return;
    slots_[symbol] = functions_.size();
    functions_.push_back(nullptr);
  }

  LinkTarget::Kind kind_of(const Elf64_Rela& entry) const { return target_.kind_of(ELF64_R_TYPE(entry.r_info)); }

  void place_all() {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    size_ = kGap;
    place(kCode);
    stubs_ = reserve(functions_.size() * target_.stub_bytes, target_.stub_bytes);
    constants_ = size_ = rounded_up(size_, page);
    place(kConstants);
    table_ = reserve(functions_.size() * sizeof(void*), sizeof(void*));
    variables_ = size_ = rounded_up(size_, page);
    place(kVariables);
    size_ = std::max(rounded_up(size_, page), page);
  }

  void place(Part part) {
    for (size_t i = 0; i < object_.sections.size(); ++i) {
      const Elf64_Shdr& section = object_.sections[i];
      if (!(section.sh_flags & SHF_ALLOC) || part_of(section) != part) continue;
      if (section.sh_flags & SHF_TLS) fail(TENON_UNSUPPORTED, "code with variables of a thread cannot be loaded");
      places_[i] = reserve(section.sh_size, std::max<size_t>(section.sh_addralign, 1));
    }
  }

  size_t reserve(size_t bytes, size_t alignment) {
    if (bytes > kLargest || alignment > kLargestAlignment) Object::damaged();
    const size_t offset = rounded_up(size_, alignment);
    size_ = offset + bytes;
    if (size_ > kLargest) fail(TENON_UNSUPPORTED, size_, " bytes of code are too many");
    return offset;
  }

  void copy_sections() {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i] == kNowhere || object_.sections[i].sh_type == SHT_NOBITS) continue;
      const std::string_view bytes = object_.content(i);
      std::memcpy(base_ + places_[i], bytes.data(), bytes.size());
    }
  }

  void write_stubs() {
    if (functions_.empty()) return;
    for (const auto& [symbol, slot] : slots_) {
      if (!functions_[slot]) functions_[slot] = base_ + offset_of(object_.symbol(symbol));
    }
    std::memcpy(base_ + table_, static_cast<const void*>(functions_.data()), functions_.size() * sizeof(void*));
    for (size_t slot = 0; slot < functions_.size(); ++slot) {
      target_.write_stub(base_ + stubs_ + slot * target_.stub_bytes, base_ + table_ + slot * sizeof(void*));
    }
  }

  size_t offset_of(const Elf64_Sym& symbol) const {
    if (symbol.st_shndx >= places_.size() || places_[symbol.st_shndx] == kNowhere ||
        symbol.st_value > object_.sections[symbol.st_shndx].sh_size) {
      Object::damaged();
    }
    return places_[symbol.st_shndx] + symbol.st_value;
  }

  void relocate_section(size_t i) {
    const size_t into = object_.sections[i].sh_info;
    if (into >= places_.size()) Object::damaged();
    if (places_[into] == kNowhere) return;
    for (const Elf64_Rela& entry : object_.table<Elf64_Rela>(i)) relocate(entry, into);
  }

  void relocate(const Elf64_Rela& entry, size_t into) {
    const auto type = static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info));
    const size_t bytes = kind_of(entry).bytes, space = object_.sections[into].sh_size;
    if (bytes == 0) fail(TENON_UNSUPPORTED, "the object has a relocation of type ", type, ", which cannot be loaded");
    if (bytes > space || entry.r_offset > space - bytes) Object::damaged();
    const uint64_t target = std::bit_cast<uintptr_t>(base_) + target_of(entry) + static_cast<uint64_t>(entry.r_addend);
    if (!target_.relocate(type, base_ + places_[into] + entry.r_offset, target)) Object::damaged();
  }

  // The target of a relocation, relative to the start of the memory.
  size_t target_of(const Elf64_Rela& entry) const {
    const size_t symbol = ELF64_R_SYM(entry.r_info);
    const auto slot = slots_.find(symbol);
    if (kind_of(entry).is_by_table) return table_ + slot->second * sizeof(void*);
    if (object_.symbol(symbol).st_shndx != SHN_UNDEF) return offset_of(object_.symbol(symbol));
    if (slot == slots_.end()) Object::damaged();  // symbol 0 is not a function
    return stubs_ + slot->second * target_.stub_bytes;
  }

  void protect(size_t begin, size_t end, int rights) {
    if (begin == end || system().protect(base_ + begin, end - begin, rights) == 0) return;
    const int why = errno;
    fail(why == ENOMEM ? TENON_OUT_OF_MEMORY : TENON_UNSUPPORTED,
         "the system does not let memory be executed: ", std::generic_category().message(why));
  }

  const Object& object_;
  const LinkTarget& target_;
  std::vector<size_t> places_;      // of sections
  std::map<size_t, size_t> slots_;  // positions in the address table, by symbol
  std::vector<void*> functions_;    // by slot
  size_t size_ = 0, stubs_ = 0, constants_ = 0, table_ = 0, variables_ = 0;
  std::byte* base_ = nullptr;
};

namespace {

#if defined(__aarch64__)
constexpr const LinkTarget& kHere = kArm64Link;
#else
constexpr const LinkTarget& kHere = kX86Link;
#endif

}  // namespace

std::shared_ptr<const LoadedCode> LoadedCode::load(std::string_view bytes, std::string_view label) {
  const Object object(bytes, kHere);
  Linker linker(object, kHere);
  std::shared_ptr<const LoadedCode> code = linker.link();
  const char* const perf = std::getenv("TENON_PERF");
  if (perf && perf == std::string_view("1")) linker.name_to_perf(label);
  return code;
}

std::shared_ptr<const LoadedCode> LoadedCode::link(std::string_view bytes, const LinkTarget& target) {
  return Linker(Object(bytes, target), target).link();
}

LoadedCode::LoadedCode(size_t size)
    : memory_(system().map(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1)), size_(size) {
  if (memory_ == MAP_FAILED) fail(TENON_OUT_OF_MEMORY, "there is no memory for ", size, " bytes of code");
}

LoadedCode::~LoadedCode() { system().unmap(memory_, size_); }

void* LoadedCode::address(std::string_view name) const {
  const auto found = symbols_.find(name);
  if (found == symbols_.end()) fail(TENON_BAD_FILE, "the object has no symbol '", name, "'");
  return found->second;
}

}  // namespace tenon::runtime
