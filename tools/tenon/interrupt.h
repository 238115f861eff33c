// Ctrl-C, for commands that have something to finish.
#pragma once

#include <string>

namespace tenon::cli {

// While one lives, Ctrl-C does not end the process: the command asks for it, and ends in its own way. Who is impatient
// presses it again.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;

  static bool was_interrupted();

 private:
  void (*before_)(int);
};

// Thrown when a command that was interrupted has finished what it had to: `message` says what is left to do.
struct Interrupted {
  std::string message;
};

}  // namespace tenon::cli
