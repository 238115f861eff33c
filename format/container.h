// The outermost layer of an artifact (.tenon): a header, a table of sections, and the sections. Numbers are little
// endian. docs/format.md says what readers promise.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::format {

// The first byte is no text, and line ends of both kinds show a transfer that changes one to the other. The control
// character ends a listing on some terminals.
inline constexpr unsigned char kMagic[8] = {0x89, 'T', 'N', 'N', '\r', '\n', 0x1a, '\n'};

// A reader refuses another major version, and reads any minor one: it skips what it does not know.
inline constexpr uint32_t kMajor = 1;
inline constexpr uint32_t kMinor = 2;

inline constexpr uint32_t kMostSections = 4096;
inline constexpr uint64_t kSectionAlignment = 64;
inline constexpr uint64_t kWeightsAlignment = 4096;  // pages, which processes share

struct Header {
  unsigned char magic[8];
  uint32_t major;
  uint32_t minor;
  uint64_t file_size;
  uint32_t section_count;
  uint32_t flags;        // 0
  uint64_t checksum;     // of the header, with 0 here, and the table (runtime/checksum.h)
  uint64_t reserved[3];  // 0
};
static_assert(sizeof(Header) == 64);

enum class SectionKind : uint32_t {
  kGraph = 1,    // the portable truth
  kProgram = 2,  // tasks and the plan of memory
  kWeights = 3,
  kNative = 4,      // machine code for the CPU level that the section's name says
  kEntries = 5,     // from 1.1: the names of a file's programs, where it has several
  kCheckpoint = 6,  // from 1.1: the values of states; a file of its own
  // from 1.2: a program with tasks of devices, and machine code for its tasks of the CPU
  kDeviceProgram = 7,
  kDeviceNative = 8,
};

// A section of one of several programs: "step:x86-64-v4". Of a file with one program, just the level. Programs with
// devices have numbers for levels, in the order of preference: "step:0".
inline constexpr char kEntrySeparator = ':';
inline constexpr size_t kLongestEntry = 15;

// A section that a reader must know: one that does not refuses the file. Others of an unknown kind are skipped.
inline constexpr uint32_t kSectionRequired = 1;

// In the order of their offsets, and no two of the same kind and name. What lies between them is zero.
struct Section {
  uint32_t kind;
  uint32_t flags;
  char name[32];  // padded with zeros, of which there is at least one
  uint64_t offset;
  uint64_t size;
  uint64_t checksum;
};
static_assert(sizeof(Section) == 64);

constexpr uint64_t alignment_of(uint32_t kind) {
  return kind == static_cast<uint32_t>(SectionKind::kWeights) ? kWeightsAlignment : kSectionAlignment;
}

}  // namespace tenon::format
