// Compiles a LoopTree for a GPU: one text of PTX with an entry for each launch, and the table of launches.
//
// Launches run in order. Sizes of the kernel are parameters of its entries, and the numbers of a launch are expressions
// over them: one text serves all sizes. thread_plan.h says which loops run on which threads.
//
// For a CPU it makes an object with the same code, of one thread at a time, so that tests run launches without a GPU:
//
//     void ENTRY(const int64_t* parameters, const tenon::codegen::EmulatedThread* thread)
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "loops/compiler.h"

namespace tenon::codegen {

// An array of scratch memory that launches share, or of which each block or thread of a launch has a part.
struct DeviceScratch {
  int64_t mem_idx;  // of the loops' Compiler
  symbolic::Expr bytes;
};

// Parameters have 64 bits each.
struct LaunchParameter {
  enum Kind : uint8_t {
    kArray,    // the address of array `number` of the kernel: inputs by slot, then outputs by slot
    kScratch,  // the address of scratch array `number`
    kSize,     // size `number` of the kernel
    kErrors,   // the address of the error record (runtime/kernel.h)
  };
  Kind kind;
  int64_t number = 0;
  bool operator==(const LaunchParameter&) const = default;
};

struct Launch {
  loops::TreeRef root;
  std::string entry;
  symbolic::Expr blocks;   // 0: there is nothing to do
  symbolic::Expr threads;  // of a block
  std::vector<LaunchParameter> parameters;
};

struct ThreadCode {
  std::string text;
  std::vector<Launch> launches;
  std::vector<DeviceScratch> scratch;
};

// What a thread of an emulated launch has in place of a GPU's special registers and instructions.
struct EmulatedThread {
  int64_t thread, threads, block, blocks;
  void* shared;  // memory of the block: kMostSharedBytes
  void (*barrier)(const EmulatedThread* self);
  // The word of the thread of this warp whose number differs in the bit `distance`.
  uint32_t (*exchange)(const EmulatedThread* self, uint32_t word, uint32_t distance);
};
inline constexpr int64_t kMostSharedBytes = 48 << 10;

enum class ThreadText : uint8_t { kCode, kLlvm };

// `names` are made of `name`. Roots for which `is_skipped` holds get no launch: somebody else computes them. Throws an
// Error for what a GPU cannot compute.
ThreadCode emit_threads(const loops::LoopTree& tree, const std::string& name, const Target& target,
                        const std::function<bool(loops::TreeRef)>& is_skipped = {},
                        ThreadText text = ThreadText::kCode);

}  // namespace tenon::codegen
