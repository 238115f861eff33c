// Objects that one thread at a time may use. Whoever comes meanwhile is told so, and does not wait.
#pragma once

#include <atomic>
#include <string_view>
#include <thread>

#include "support/diagnostic.h"

namespace tenon {

class Exclusive {
 public:
  // While it lives, no other thread can make one. A thread may hold several, one inside of the other. Throws an Error
  // where another thread holds one; `what` is the name of the object in its message.
  class Use {
   public:
    Use(Exclusive& of, std::string_view what) : of_(of) {
      const std::thread::id self = std::this_thread::get_id();
      std::thread::id user = {};
      if (!of_.user_.compare_exchange_strong(user, self, std::memory_order_acquire) && user != self)
        fail("{} is in use: a call from another thread has not returned yet", what);
      ++of_.depth_;
    }
    ~Use() {
      if (--of_.depth_ == 0) of_.user_.store({}, std::memory_order_release);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Exclusive& of_;
  };

 private:
  std::atomic<std::thread::id> user_ = {};
  int depth_ = 0;  // of the thread that uses it
};

}  // namespace tenon
