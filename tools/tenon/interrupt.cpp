#include "interrupt.h"

#include <csignal>

namespace tenon::cli {
namespace {

volatile std::sig_atomic_t is_interrupted = 0;

void note_interrupt(int signal) {
  is_interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

Interruptible::Interruptible() : before_(std::signal(SIGINT, note_interrupt)) { is_interrupted = 0; }
Interruptible::~Interruptible() { std::signal(SIGINT, before_); }

bool Interruptible::was_interrupted() { return is_interrupted != 0; }

}  // namespace tenon::cli
