#include "runtime/executor.h"

#include <exception>
#include <utility>

#include "runtime/error.h"

namespace tenon {

int64_t ExecutorLoop::run(int64_t begin, int64_t end, StretchFn stretch, void* context) noexcept {
  if (begin >= end) return 0;
  const int64_t threads = thread_count();
  if (threads == 1 || end - begin == 1) return stretch(context, begin, end);
  constexpr bool kSpin = false;  // A CPU may be what the other threads wait for.
  loop_.start(begin, end, threads, stretch, context);
  gate_.open(loop_.share_count());
  const ThreadCount one(1);
  invite();
  loop_.help(0);
  gate_.close_and_wait(kSpin);
  return loop_.error();
}

void ExecutorLoop::invite() noexcept {
  try {
    executor_.parallel(executor_.user, loop_.share_count(), help, this);
  } catch (const std::exception& error) {
    note(error.what());
  } catch (...) {
    note("an object that is not a std::exception");
  }
}

void ExecutorLoop::note(const char* thrown) noexcept {
  tenon_text text{thrown_, sizeof thrown_};
  tenon_write_text(&text, TENON_RUN_FAILED, thrown);
  has_thrown_ = true;
}

void ExecutorLoop::help(void* self, int64_t index) noexcept {
  auto& own = *static_cast<ExecutorLoop*>(self);
  if (!own.gate_.enter(index)) return;
  const ThreadCount one(1);
  own.loop_.help(index);
  own.gate_.leave();
}

void ExecutorLoop::check() {
  const char* const text = thrown_;
  if (std::exchange(has_thrown_, false)) runtime::fail(TENON_RUN_FAILED, "the executor threw: ", text);
}

}  // namespace tenon
