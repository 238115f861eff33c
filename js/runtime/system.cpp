// There is no file system: models come as bytes (tenon_load_memory).
#include "runtime/system.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "format/container.h"
#include "runtime/error.h"
#include "runtime/replace_file.h"

namespace tenon::runtime {
namespace {

int failure = 0;  // In place of errno, which the C library has for one thread only.

int unavailable() {
  failure = ENOSYS;
  return -1;
}

void* map_memory(size_t size, int, int, int descriptor) {
  void* memory = nullptr;
  if (descriptor < 0 && posix_memalign(&memory, format::kSectionAlignment, size) == 0) return memory;
  failure = ENOMEM;
  return MAP_FAILED;
}

}  // namespace

const System kSystem = {
    .open = [](const char*, int) { return unavailable(); },
    .close = [](int) { return unavailable(); },
    .stat = [](int, struct stat*) { return unavailable(); },
    .map = map_memory,
    .unmap = [](void* memory, size_t) { return std::free(memory), 0; },
    .protect = [](void*, size_t, int) { return unavailable(); },
    .forget = [](void*, size_t) { return 0; },
    .create = [](const char*) { return unavailable(); },
    .read = [](int, void*, size_t) { return static_cast<ssize_t>(unavailable()); },
    .write = [](int, const void*, size_t) { return static_cast<ssize_t>(unavailable()); },
    .sync = [](int) { return unavailable(); },
    .rename = [](const char*, const char*) { return unavailable(); },
    .unlink = [](const char*) { return unavailable(); },
};

const System& system() noexcept { return kSystem; }

void fail_with_errno(std::string_view what) {
  const int why = std::exchange(failure, 0);
  if (why == ENOSYS) fail(TENON_UNSUPPORTED, "cannot ", what, ": there are no files here");
  fail(why == ENOMEM ? TENON_OUT_OF_MEMORY : TENON_IO, "cannot ", what, ": ", std::generic_category().message(why));
}

void replace_file(const std::string&, Pieces, bool) { fail(TENON_UNSUPPORTED, "there are no files here"); }

}  // namespace tenon::runtime
