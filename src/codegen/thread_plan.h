// Inside of codegen: how the marks `block` and `thread` of a LoopTree map to a GPU. Each root of the tree is a launch.
//
//   - A root marked `block`, and the loops marked `block` that are alone in it, run on blocks: a grid.
//   - A root marked `thread`, and the loops marked `thread` that are alone in it, run on the threads of all blocks.
//   - If such a root folds, each block folds its own part, and a second launch folds the results of the blocks.
//   - In a block, everything outside of loops marked `thread` is computed by every thread of the block, with the same
//     result. What it writes to memory that threads share is written by the first thread.
//   - A loop marked `thread` in a block runs on the block's threads. If it folds, each thread folds its own elements,
//     and the block folds the results: every thread has the total.
//   - All other marks, and marks where there are no threads left, mean nothing: the loop is serial. So every tree has
//     code.
//
// Where scratch memory lies follows from its lca and from the threads that use it.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "loops/compiler.h"

namespace tenon::codegen {

enum class ThreadRole : uint8_t {
  kSerial,
  kBlock,       // on blocks
  kGridThread,  // on the threads of all blocks
  kThread,      // on the threads of a block
  kFold,        // on the threads of a block, which folds the results
  kGridFold,    // on the threads of all blocks. Another launch folds the results of blocks
};

enum class Place : uint8_t {
  kThread,  // each thread has its own
  kBlock,   // the threads of a block share it
  kDevice,  // all launches share it
};

class ThreadPlan {
 public:
  explicit ThreadPlan(const loops::Compiler& compiler);

  ThreadRole role(loops::TreeRef loop) const;
  // The loop and those nested in it that run together, as one loop over all their iterations.
  std::vector<loops::TreeRef> chain(loops::TreeRef loop) const;
  bool has_threads(loops::TreeRef root) const;  // whether blocks have more than one thread
  Place place(const loops::Compiler::Allocation& memory) const { return places_.at(memory.mem_idx); }
  // The sums that a loop of kind kFold folds.
  std::vector<loops::NodeRef> folded_by(loops::TreeRef loop) const;

  // Positions in the list of memory that threads share. In a launch, what one thread writes there may be read by
  // another one after a barrier alone. An output has the position of the input whose memory it may use.
  struct Touched {
    std::set<int64_t> read, written;
  };
  Touched touched_below(loops::TreeRef ref) const;
  bool is_only_read(int64_t mem_idx) const;  // an input whose memory no output may use

  static constexpr int64_t kMostOwnBytes = 1024;  // of an array that every thread of a block computes for itself

 private:
  using TreeRef = loops::TreeRef;
  using NodeRef = loops::NodeRef;
  enum class Level : uint8_t { kGrid, kBlock, kThread };

  void assign(TreeRef ref, Level level);
  bool is_independent(TreeRef loop) const;
  bool can_fold(TreeRef loop) const;
  TreeRef only_loop_in(TreeRef loop) const;
  bool runs_on_threads(TreeRef ref) const;
  TreeRef spread_loop(TreeRef around, TreeRef leaf) const;
  Place place_of(NodeRef node, const loops::Compiler::Allocation& memory, bool is_carry) const;
  void find_places();
  void add_touched(const loops::Compiler::Allocation& memory, std::set<int64_t>& positions) const;

  const loops::Compiler& compiler_;
  const loops::LoopTree& tree_;
  std::map<TreeRef, ThreadRole> roles_;
  std::map<TreeRef, TreeRef> heads_;  // of the loops of a chain but its first: the first
  std::map<int64_t, Place> places_;   // by mem_idx
  std::map<int64_t, int64_t> same_;   // outputs that may use the memory of an input
};

}  // namespace tenon::codegen
