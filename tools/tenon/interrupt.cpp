#include "interrupt.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "command.h"

namespace tenon::cli {
namespace {

volatile std::sig_atomic_t is_interrupted = 0;

// What a signal handler may do is little: it cannot throw, nor print as print_error does.
void end_process(int) {
  constexpr std::string_view kMessage = "interrupted\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(kInterrupted);
}

void note_interrupt(int signal) {
  is_interrupted = 1;
  std::signal(signal, end_process);
}

}  // namespace

void end_on_interrupt() {
  if (std::signal(SIGINT, end_process) == SIG_IGN) std::signal(SIGINT, SIG_IGN);  // as `nohup` wants it
}

Interruptible::Interruptible() : before_(std::signal(SIGINT, note_interrupt)) { is_interrupted = 0; }
Interruptible::~Interruptible() { std::signal(SIGINT, before_); }

bool Interruptible::was_interrupted() { return is_interrupted != 0; }

}  // namespace tenon::cli
