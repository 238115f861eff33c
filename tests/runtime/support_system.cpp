#include "tests/runtime/support_system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <vector>

#include "runtime/system.h"

namespace tenon::runtime::testing {
namespace {

struct {
  int64_t failing, calls, descriptors, mapped;
  int error;
} state;

bool fails() {
  if (state.calls++ != state.failing) return false;
  errno = state.error;
  return true;
}

constexpr System kCounted = {
    .open =
        [](const char* path, int flags) {
          const int descriptor = fails() ? -1 : kSystem.open(path, flags);
          state.descriptors += descriptor >= 0;
          return descriptor;
        },
    .close =
        [](int descriptor) {
          --state.descriptors;
          return kSystem.close(descriptor);
        },
    .stat = [](int descriptor, struct stat* info) { return fails() ? -1 : kSystem.stat(descriptor, info); },
    .map =
        [](size_t size, int rights, int flags, int descriptor) {
          void* const memory = fails() ? MAP_FAILED : kSystem.map(size, rights, flags, descriptor);
          if (memory != MAP_FAILED) state.mapped += static_cast<int64_t>(size);
          return memory;
        },
    .unmap =
        [](void* memory, size_t size) {
          state.mapped -= static_cast<int64_t>(size);
          return kSystem.unmap(memory, size);
        },
    .protect = [](void* memory, size_t size,
                  int rights) { return fails() ? -1 : kSystem.protect(memory, size, rights); },
    .forget = [](void* memory, size_t size) { return kSystem.forget(memory, size); },
    .create =
        [](const char* path) {
          const int descriptor = fails() ? -1 : kSystem.create(path);
          state.descriptors += descriptor >= 0;
          return descriptor;
        },
    .read = [](int descriptor, void* bytes, size_t size) { return kSystem.read(descriptor, bytes, size); },
    .write = [](int descriptor, const void* bytes, size_t size) -> ssize_t {
      return fails() ? -1 : kSystem.write(descriptor, bytes, std::min<size_t>(size, 1000));  // as a slow disk may do
    },
    .sync = [](int descriptor) { return fails() ? -1 : kSystem.sync(descriptor); },
    .rename = [](const char* from, const char* to) { return fails() ? -1 : kSystem.rename(from, to); },
    .unlink = [](const char* path) { return kSystem.unlink(path); },
};

}  // namespace

CountedSystem::CountedSystem(int64_t failing, int error) {
  state = {.failing = failing, .calls = 0, .descriptors = 0, .mapped = 0, .error = error};
  use_system(&kCounted);
}

CountedSystem::~CountedSystem() { use_system(nullptr); }

int64_t CountedSystem::calls() const { return state.calls; }
int64_t CountedSystem::descriptors() const { return state.descriptors; }
int64_t CountedSystem::mapped() const { return state.mapped; }

int64_t resident(std::span<const std::byte> bytes) {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  const auto first = reinterpret_cast<intptr_t>(bytes.data()) / page;
  const auto last = (reinterpret_cast<intptr_t>(bytes.data()) + std::ssize(bytes) + page - 1) / page;
  std::vector<uint64_t> pages(static_cast<size_t>(last - first));
  const Descriptor map(kSystem.open("/proc/self/pagemap", O_RDONLY));
  const auto size = static_cast<ssize_t>(std::span(pages).size_bytes());
  if (::pread(map.number(), pages.data(), std::span(pages).size_bytes(), first * 8) != size)
    throw std::runtime_error("/proc/self/pagemap cannot be read");
  return page * std::ranges::count_if(pages, [](uint64_t entry) { return entry >> 63 != 0; });
}

}  // namespace tenon::runtime::testing
