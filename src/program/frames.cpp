#include "program/frames.h"

#include <algorithm>

#include "support/checked.h"

namespace tenon {
namespace {

constexpr size_t kMostFrames = 8;
constexpr size_t kMostFreeArenas = 4;

bool is_bound(const Shape& shape, std::span<const Symbol> bound) {
  return std::ranges::all_of(shape, [&](const Expr& size) {
    return std::ranges::all_of(symbols_of(size),
                               [&](Symbol symbol) { return std::ranges::find(bound, symbol) != bound.end(); });
  });
}

}  // namespace

Program::Frames::Frames(const std::vector<Slot>& slots, std::vector<Symbol> symbols, size_t bound)
    : symbols_(std::move(symbols)), bound_(bound) {
  if (bound_ == 0) fixed_ = make({}, slots);
}

std::shared_ptr<const Frame> Program::Frames::find(std::span<const int64_t> sizes, const std::vector<Slot>& slots) {
  if (fixed_) return fixed_;
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(recent_, [&](const auto& frame) { return std::ranges::equal(frame->sizes, sizes); });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
  } else {
    recent_.push_front(make(sizes, slots));
    if (recent_.size() > kMostFrames) recent_.pop_back();
  }
  return recent_.front();
}

std::shared_ptr<const Frame> Program::Frames::make(std::span<const int64_t> sizes,
                                                   const std::vector<Slot>& slots) const {
  const std::span<const Symbol> bound(symbols_.data(), bound_);
  symbolic::Bindings bindings;
  for (size_t i = 0; i < bound_; ++i) bindings[symbols_[i]] = sizes[i];
  auto frame = std::make_shared<Frame>(Frame{{sizes.begin(), sizes.end()}, std::vector<int64_t>(slots.size(), -1), 0});
  std::vector<size_t> planned;
  std::vector<Lifetime> lifetimes;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    if (slot.kind != SlotKind::kTemporary || slot.root != i || !is_bound(slot.type.shape, bound)) continue;
    const int64_t elements = element_count(evaluate(slot.type.shape, bindings));
    planned.push_back(i);
    lifetimes.push_back({checked_mul(elements, size_of(slot.type.dtype)), slot.first_task, slot.last_task});
  }
  const ArenaPlan plan = plan_arena(lifetimes);
  for (size_t i = 0; i < planned.size(); ++i) frame->offsets[planned[i]] = plan.offsets[i];
  frame->arena_bytes = plan.bytes;
  return frame;
}

// An arena that is much too large is no good either: memory returns when shapes shrink.
Arena Program::Frames::take(int64_t bytes) {
  if (bytes == 0) return {};
  {
    const std::lock_guard lock(mutex_);
    const auto fits = [&](const Arena& arena) { return arena.bytes >= bytes && arena.bytes / 2 <= bytes; };
    const auto found = std::ranges::find_if(free_, fits);
    if (found != free_.end()) {
      Arena arena = std::move(*found);
      free_.erase(found);
      return arena;
    }
  }
  Arena arena;
  arena.bytes = bytes;
  arena.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kArenaAlignment, static_cast<size_t>(bytes))));
  if (!arena.memory) fail("there is no memory for an arena of {} bytes", bytes);
  return arena;
}

void Program::Frames::give_back(Arena arena) {
  if (!arena.memory) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(arena));
  if (free_.size() > kMostFreeArenas) free_.erase(free_.begin());
}

int64_t Program::Frames::last_arena_bytes() {
  const std::lock_guard lock(mutex_);
  if (fixed_) return fixed_->arena_bytes;
  return recent_.empty() ? 0 : recent_.front()->arena_bytes;
}

}  // namespace tenon
