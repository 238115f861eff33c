// What code is generated for. One emitter serves all targets; this is where they differ.
//
// Only this folder includes LLVM, and its public headers (this one, codegen.h) do not show it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::codegen {

enum class Arch : uint8_t { kX86, kWasm, kPtx };

struct Target {
  std::string name;  // as a user says it: native, x86-64-v3, wasm32, ...
  Arch arch;
  std::string triple;  // as LLVM spells the rest
  std::string cpu;
  std::string features;  // "+avx2,+fma,...": all that the code may use, and no more

  int vector_bytes;      // of the widest registers that arithmetic should use
  int vector_registers;  // of that width
  int index_bits;        // of a pointer
  bool has_fma;          // a*b + c is one instruction
  bool has_masks;        // a vector load or store of some lanes only is one instruction
  bool has_gathers;      // a load from an address for each lane is faster than as many loads
  bool has_f16;          // f16 <-> f32 is one instruction
  bool has_bf16_dot;     // vdpbf16ps
  bool has_vnni;         // vpdpbusd
  bool has_amx;          // tiles of bf16 and int8
  bool has_threads;      // a parallel loop may run on several; else it is a plain loop
};

// `native` is the CPU of this machine, or what $TENON_CPU says; x86-64-v2, -v3, -v4, sapphirerapids and the like are
// levels of x86; wasm32 and nvptx64 are the others. An unknown name throws an Error that lists those there are.
Target find_target(std::string_view name);
std::vector<std::string> target_names();

// What code for an x86 target may need of a CPU, by the names of runtime/cpu_features.h: "avx2,fma,...".
std::string needed_features(const Target& target);

// What code for the target needs and this machine lacks: "avx512f", or "wasm32" for another architecture.
std::vector<std::string> missing_here(const Target& target);
// Whether this machine can run code for the target: it lacks nothing.
bool runs_here(const Target& target);

}  // namespace tenon::codegen
