// Inside of program: memory for runs. A frame is the plan for one set of sizes; the last few are kept, and so are
// arenas that no run uses.
#pragma once

#include <list>
#include <mutex>

#include "program/program.h"

namespace tenon {

struct Frame {
  std::vector<int64_t> sizes;    // of the symbols that inputs bind
  std::vector<int64_t> offsets;  // of each slot in the arena; -1 for those that are not there
  int64_t arena_bytes = 0;
};

struct Arena {
  std::unique_ptr<std::byte, void (*)(void*)> memory{nullptr, std::free};
  int64_t bytes = 0;
};

struct Program::Frames {
 public:
  Frames(const std::vector<Slot>& slots, std::vector<Symbol> symbols, size_t bound);

  std::shared_ptr<const Frame> find(std::span<const int64_t> sizes, const std::vector<Slot>& slots);
  Arena take(int64_t bytes);  // throws an Error when there is no memory
  void give_back(Arena arena);
  int64_t last_arena_bytes();

 private:
  std::shared_ptr<const Frame> make(std::span<const int64_t> sizes, const std::vector<Slot>& slots) const;

  std::vector<Symbol> symbols_;
  size_t bound_;
  std::shared_ptr<const Frame> fixed_;  // of a program without symbolic sizes
  std::mutex mutex_;
  std::list<std::shared_ptr<const Frame>> recent_;  // the last used one first
  std::vector<Arena> free_;
};

}  // namespace tenon
