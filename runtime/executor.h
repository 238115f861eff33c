// Parallel loops on threads that the caller brings (tenon_executor).
#pragma once

#include "runtime/parallel_loop.h"
#include "tenon/tenon.h"

namespace tenon {

// Runs one loop at a time. The results do not depend on what the executor does: the calling thread runs all that is
// left when `parallel` returns or throws, and waits for bodies that run then. Bodies that start later do nothing.
class ExecutorLoop {
 public:
  explicit ExecutorLoop(const tenon_executor& executor) : executor_(executor) {}

  // As parallel_for. A loop in a stretch of a loop stays on its thread.
  int64_t run(int64_t begin, int64_t end, StretchFn stretch, void* context) noexcept;
  // Throws a StatusError with the text of what `parallel` threw since the last call of either.
  void check();
  void forget() { has_thrown_ = false; }

 private:
  void invite() noexcept;
  void note(const char* thrown) noexcept;
  static void help(void* self, int64_t index) noexcept;

  const tenon_executor executor_;
  bool has_thrown_ = false;
  char thrown_[256] = {};
  Loop loop_;
  Gate gate_;
};

}  // namespace tenon
