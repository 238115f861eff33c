// A target of code generation. One emitter serves all targets; a Target says how they differ.
//
// Only this folder includes LLVM. The headers that other folders include (src/LAYERS) do not expose it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.h"

namespace tenon::codegen {

enum class Arch : uint8_t { kX86, kArm64, kWasm, kPtx };

struct Target {
  std::string name;  // as users write it: native, x86-64-v3, neoverse-n1, wasm32, ...
  Arch arch;
  std::string triple;  // triple, cpu, tuning and features: in LLVM's spelling
  std::string cpu;
  std::string tuning;    // the CPU whose timings order the instructions; empty: those of `cpu`
  std::string features;  // "+avx2,+fma,...": all features that the code may use

  int vector_bytes;      // bytes of the widest vector registers that arithmetic should use
  int vector_registers;  // number of registers of that width
  int sve_bits;          // length of SVE's registers: the code runs with no other; 0: the code has no SVE
  int index_bits;        // bits of a pointer
  bool has_fma;          // a*b + c is one instruction
  bool has_relaxed_fma;  // the same for vectors, where it may round twice: an engine's choice
  bool has_masks;        // a load or store of some lanes of a vector is one instruction
  bool has_gathers;      // a gather instruction is faster than one load per lane
  bool has_f16;          // f16 <-> f32 is one instruction
  bool has_bf16_dot;     // sums of two products of bf16: vdpbf16ps, bfdot
  bool has_vnni;         // sums of four products of u8 and i8: vpdpbusd, usdot
  bool has_dotprod;      // sums of four products of i8 and i8, or of u8 and u8: sdot, udot
  bool has_amx;          // tiles of bf16 and int8
  bool has_threads;      // parallel loops run on threads; otherwise they are serial
};

// Names: `native` (the CPU of this machine, or $TENON_CPU), x86-64-v2 to -v4 and every CPU of LLVM that has x86-64-v2
// (sapphirerapids, znver5, ...), aarch64 and every AArch64 CPU of LLVM (neoverse-n1, cortex-a76, ...), those with SVE
// also with the length of its registers (neoverse-v1+sve256, a64fx+sve512), wasm32, wasm32-relaxed, nvptx64. Throws an
// Error for an unknown name or an older CPU, with target_names().
Target find_target(std::string_view name);
std::vector<std::string> target_names();  // the common ones

// The model of the machine that a target's code is for. Its caches and threads are the defaults, not those of this
// machine: emitted code depends on the target alone.
Machine machine_of(const Target& target);

// The name of a target's code in files: the target's name, or the CPU that `native` stands for.
std::string level_of(const Target& target);

// The CPU features that code for a target of files may use, in the names of runtime/cpu_features.h: "avx2,fma,...". For
// other architectures than x86 the first one is the architecture: "aarch64,dotprod", "wasm32".
std::string needed_features(const Target& target);

// The features that the target needs and this machine lacks: "avx512f", or the name of another architecture: "aarch64".
std::vector<std::string> missing_here(const Target& target);
// Whether this machine can run code for the target.
bool runs_here(const Target& target);

}  // namespace tenon::codegen
