#include "support/interrupt.h"

#include <atomic>
#include <chrono>

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPause(50);

std::atomic<InterruptCheck> installed = nullptr;

}  // namespace

InterruptCheck set_interrupt_check(InterruptCheck check) noexcept { return installed.exchange(check); }

void check_interrupt() {
  const InterruptCheck check = installed.load(std::memory_order_relaxed);
  if (check == nullptr) return;
  thread_local Clock::time_point next = {};
  const Clock::time_point now = Clock::now();
  if (now < next) return;
  next = now + kPause;
  try {
    check();
  } catch (...) {
    throw InterruptedWork{std::current_exception()};
  }
}

}  // namespace tenon
