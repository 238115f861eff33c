// Ctrl-C: it ends the process at once, but for commands that have something to finish.
#pragma once

#include <string>

namespace tenon::cli {

// From now on Ctrl-C ends the process with exit code 130, whatever it is doing.
void end_on_interrupt();

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
