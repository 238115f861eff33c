// Objects that one thread at a time may use. A second thread gets an Error; it does not wait.
#pragma once

#include <atomic>
#include <string_view>
#include <thread>

#include "support/diagnostic.h"

namespace tenon {

class Exclusive {
 public:
  // While a Use lives, no other thread can make one: its constructor throws an Error that calls the object `what`. A
  // thread may hold several, one inside of the other.
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
  int depth_ = 0;  // how many Uses the thread holds
};

}  // namespace tenon
