#include "runtime/parallel_loop.h"

#include <algorithm>
#include <chrono>

namespace tenon {
namespace {

// The number of stretches per thread: more balance the load, fewer cost less.
constexpr int64_t kStretchesPerThread = 4;
constexpr auto kSpin = std::chrono::microseconds(40);

void pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

}  // namespace

uint32_t wait_for_change(const std::atomic<uint32_t>& value, uint32_t from, bool spin) {
  using Clock = std::chrono::steady_clock;
  constexpr int kPausesBetweenLooksAtTheClock = 16;
  uint32_t now = value.load(std::memory_order_acquire);
  if (now != from) return now;
  for (const auto end = spin ? Clock::now() + kSpin : Clock::time_point(); spin && Clock::now() < end;) {
    for (int i = 0; i < kPausesBetweenLooksAtTheClock; ++i) {
      now = value.load(std::memory_order_acquire);
      if (now != from) return now;
      pause();
    }
  }
  value.wait(from, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

// ---- loops ----------------------------------------------------------------------------------------------------------

void Loop::start(int64_t begin, int64_t end, int64_t threads, StretchFn stretch, void* context) {
  const int64_t count = end - begin;
  stretch_ = stretch;
  context_ = context;
  error_.store(0, std::memory_order_relaxed);
  share_count_ = std::min(threads, count);
  stretch_size_ = std::max<int64_t>(1, count / (share_count_ * kStretchesPerThread));
  const int64_t each = count / share_count_, rest = count % share_count_;
  for (int64_t i = 0, at = begin; i < share_count_; ++i) {
    Share& share = shares_[static_cast<size_t>(i)];
    share.next.store(at, std::memory_order_relaxed);
    share.end = at += each + (i < rest ? 1 : 0);
  }
}

void Loop::help(int64_t share) {
  for (int64_t i = 0; i < share_count_; ++i) drain(shares_[static_cast<size_t>((share + i) % share_count_)]);
}

void Loop::drain(Share& share) {
  while (share.next.load(std::memory_order_relaxed) < share.end) {
    const int64_t from = share.next.fetch_add(stretch_size_, std::memory_order_relaxed);
    if (from < share.end) run(from, std::min(from + stretch_size_, share.end));
  }
}

void Loop::run(int64_t begin, int64_t end) {
  if (error() != 0) return;
  int64_t none = 0;
  if (const int64_t failure = stretch_(context_, begin, end)) error_.compare_exchange_strong(none, failure);
}

// ---- gates ----------------------------------------------------------------------------------------------------------

bool Gate::enter(int64_t helper) {
  uint32_t state = state_.load(std::memory_order_relaxed);
  while (helper >= 0 && helper < (state >> kInvited)) {
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

void Gate::leave() {
  constexpr uint32_t kClosedWithOneInside = 1;
  if (state_.fetch_sub(1, std::memory_order_release) == kClosedWithOneInside) state_.notify_one();
}

void Gate::close_and_wait(bool spin) {
  uint32_t inside = state_.fetch_and(kInside, std::memory_order_acquire) & kInside;
  while (inside > 0) inside = wait_for_change(state_, inside, spin);
}

}  // namespace tenon
