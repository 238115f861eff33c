#include "isolate.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "support/diagnostic.h"

namespace tenon::cli {
namespace {

// In memory that both processes have.
struct Notes {
  char step[256];
  char call[128];
  bool is_done;  // `body` returned, or failed
};
Notes* notes = nullptr;

template <size_t Size>
void write_note(char (&place)[Size], std::string_view text) {
  const size_t count = std::min(text.size(), Size - 1);
  std::memcpy(place, text.data(), count);
  place[count] = 0;
}

[[noreturn]] void fail_errno(const char* what) { fail("cannot {}: {}", what, std::generic_category().message(errno)); }

[[noreturn]] void end_as(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) == -1) {
    if (errno != EINTR) fail_errno("wait for the check");
  }
  if (WIFEXITED(status) && notes->is_done) std::exit(WEXITSTATUS(status));
  const std::string how = WIFEXITED(status)
                              ? fmt::format("ended the process with exit code {}", WEXITSTATUS(status))
                              : fmt::format("crashed: signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  const std::string step = notes->step[0] == 0 ? "" : fmt::format(", while it was checked with {}", notes->step);
  fail("the plug-in {}{}. Its last call was {}. Run it in a debugger, or build it with -fsanitize=address", how, step,
       notes->call[0] == 0 ? "that of its entry" : notes->call);
}

}  // namespace

void run_in_child(const std::function<void()>& body) {
  void* const shared = ::mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) fail_errno("share memory with the check");
  notes = new (shared) Notes();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == -1) fail_errno("start a process for the check");
  if (child != 0) end_as(child);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const struct Done {
    ~Done() { notes->is_done = true; }
  } at_end;
  body();
}

void note_step(std::string_view step) {
  if (notes != nullptr) write_note(notes->step, step);
}

void note_call(std::string_view device, const char* function) {
  if (notes != nullptr) write_note(notes->call, fmt::format("{}() of device {}", function, device));
}

}  // namespace tenon::cli
