#include "runtime/cpu_features.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "runtime/short_name.h"
#include "runtime/system.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tenon::runtime {
namespace {

#ifdef __x86_64__

enum Register : uint8_t { kEax, kEbx, kEcx, kEdx };

// Registers that the system must save when it switches threads: bits of XCR0.
enum Saved : uint32_t { kNothing = 0, kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000, kMoreIntegers = 0x80000 };

// Pages of CPUID.
enum Leaf : uint8_t { kBasic, kExtended, kMore, kEvenMore, kVectors, kLeaves };

struct Feature {
  ShortName<20> name;
  Leaf leaf;
  Register where;
  uint8_t bit;
  Saved saved;
};

constexpr Feature kFeatures[] = {
    {"x87", kBasic, kEdx, 0, kNothing},
    {"cx8", kBasic, kEdx, 8, kNothing},
    {"cmov", kBasic, kEdx, 15, kNothing},
    {"mmx", kBasic, kEdx, 23, kNothing},
    {"fxsr", kBasic, kEdx, 24, kNothing},
    {"sse", kBasic, kEdx, 25, kNothing},
    {"sse2", kBasic, kEdx, 26, kNothing},
    {"sse3", kBasic, kEcx, 0, kNothing},
    {"pclmul", kBasic, kEcx, 1, kNothing},
    {"ssse3", kBasic, kEcx, 9, kNothing},
    {"fma", kBasic, kEcx, 12, kYmm},
    {"cx16", kBasic, kEcx, 13, kNothing},
    {"sse4.1", kBasic, kEcx, 19, kNothing},
    {"sse4.2", kBasic, kEcx, 20, kNothing},
    {"crc32", kBasic, kEcx, 20, kNothing},
    {"movbe", kBasic, kEcx, 22, kNothing},
    {"popcnt", kBasic, kEcx, 23, kNothing},
    {"avx", kBasic, kEcx, 28, kYmm},
    {"f16c", kBasic, kEcx, 29, kYmm},
    {"sahf", kExtended, kEcx, 0, kNothing},
    {"lzcnt", kExtended, kEcx, 5, kNothing},
    {"sse4a", kExtended, kEcx, 6, kNothing},
    {"prfchw", kExtended, kEcx, 8, kNothing},
    {"xop", kExtended, kEcx, 11, kYmm},
    {"fma4", kExtended, kEcx, 16, kYmm},
    {"tbm", kExtended, kEcx, 21, kNothing},
    {"64bit", kExtended, kEdx, 29, kNothing},
    {"bmi", kMore, kEbx, 3, kNothing},
    {"avx2", kMore, kEbx, 5, kYmm},
    {"bmi2", kMore, kEbx, 8, kNothing},
    {"avx512f", kMore, kEbx, 16, kZmm},
    {"evex512", kMore, kEbx, 16, kZmm},
    {"avx512dq", kMore, kEbx, 17, kZmm},
    {"avx512ifma", kMore, kEbx, 21, kZmm},
    {"avx512cd", kMore, kEbx, 28, kZmm},
    {"avx512bw", kMore, kEbx, 30, kZmm},
    {"avx512vl", kMore, kEbx, 31, kZmm},
    {"avx512vbmi", kMore, kEcx, 1, kZmm},
    {"avx512vbmi2", kMore, kEcx, 6, kZmm},
    {"gfni", kMore, kEcx, 8, kNothing},
    {"avx512vnni", kMore, kEcx, 11, kZmm},
    {"avx512bitalg", kMore, kEcx, 12, kZmm},
    {"avx512vpopcntdq", kMore, kEcx, 14, kZmm},
    {"avx512vp2intersect", kMore, kEdx, 8, kZmm},
    {"amx-bf16", kMore, kEdx, 22, kTiles},
    {"avx512fp16", kMore, kEdx, 23, kZmm},
    {"amx-tile", kMore, kEdx, 24, kTiles},
    {"amx-int8", kMore, kEdx, 25, kTiles},
    {"avxvnni", kEvenMore, kEax, 4, kYmm},
    {"avx512bf16", kEvenMore, kEax, 5, kZmm},
    {"amx-fp16", kEvenMore, kEax, 21, kTiles},
    {"avxifma", kEvenMore, kEax, 23, kYmm},
    {"avxvnniint8", kEvenMore, kEdx, 4, kYmm},
    {"avxneconvert", kEvenMore, kEdx, 5, kYmm},
    {"amx-complex", kEvenMore, kEdx, 8, kTiles},
    {"avxvnniint16", kEvenMore, kEdx, 10, kYmm},
    {"egpr", kEvenMore, kEdx, 21, kMoreIntegers},
    {"push2pop2", kEvenMore, kEdx, 21, kMoreIntegers},
    {"ppx", kEvenMore, kEdx, 21, kMoreIntegers},
    {"ndd", kEvenMore, kEdx, 21, kMoreIntegers},
    {"ccmp", kEvenMore, kEdx, 21, kMoreIntegers},
    {"cf", kEvenMore, kEdx, 21, kMoreIntegers},
    {"avx10.1-256", kVectors, kEbx, 17, kZmm},
    {"avx10.1-512", kVectors, kEbx, 18, kZmm},
};

// Read once: in a virtual machine, each CPUID instruction is a call to the hypervisor.
class Cpu {
 public:
  Cpu() {
    read(kBasic, 1, 0);
    read(kExtended, 0x80000001, 0);
    read(kMore, 7, 0);
    read(kEvenMore, 7, 1);
    read(kVectors, 0x24, 0);
    constexpr uint8_t kXgetbv = 27;  // the feature bit of the XGETBV instruction
    if (has(kBasic, kEcx, kXgetbv)) asm("xgetbv" : "=a"(saved_) : "c"(0) : "edx");
  }

  bool has(Leaf leaf, Register where, uint8_t bit) const { return registers_[leaf][where] >> bit & 1; }
  bool saves(Saved registers) const { return (saved_ & registers) == registers; }

 private:
  void read(Leaf which, uint32_t leaf, uint32_t subleaf) {
    uint32_t* const to = registers_[which];  // stays 0 if the CPU lacks the leaf
    __get_cpuid_count(leaf, subleaf, &to[kEax], &to[kEbx], &to[kEcx], &to[kEdx]);
  }

  uint32_t registers_[kLeaves][4] = {};
  uint32_t saved_ = 0;
};

// The system saves tiles only for a process that asked for permission.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  static const bool granted = ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
}

bool is_here(const Feature& feature) {
  static const Cpu cpu;
  if (!cpu.has(feature.leaf, feature.where, feature.bit) || !cpu.saves(feature.saved)) return false;
  return feature.saved != kTiles || may_use_tiles();
}

#elif defined(__aarch64__)

// Bits of cpu_capabilities().
struct Feature {
  ShortName<20> name;
  uint8_t word;
  uint8_t bit;
};

constexpr Feature kFeatures[] = {
    {"aarch64", 0, 1},  // NEON, which every 64-bit CPU has
    {"dotprod", 0, 20}, {"i8mm", 1, 13}, {"bf16", 1, 14}, {"sve256", 2, 2}, {"sve512", 2, 4},
};

bool is_here(const Feature& feature) { return cpu_capabilities().words[feature.word] >> feature.bit & 1; }

#endif

}  // namespace

bool has_feature(std::string_view name) {
#if defined(__x86_64__) || defined(__aarch64__)
  const auto* const found = std::ranges::find(kFeatures, name, &Feature::name);
  return found != std::end(kFeatures) && is_here(*found);
#else
  return false && name.empty();
#endif
}

}  // namespace tenon::runtime
