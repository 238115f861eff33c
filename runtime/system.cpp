#include "runtime/system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace tenon::runtime {
namespace {

std::atomic<const System*> used = nullptr;

}  // namespace

const System kSystem = {
    .open = [](const char* path, int flags) { return ::open(path, flags); },
    .close = [](int descriptor) { return ::close(descriptor); },
    .stat = [](int descriptor, struct stat* info) { return ::fstat(descriptor, info); },
    .map = [](size_t size, int rights, int flags,
              int descriptor) { return ::mmap(nullptr, size, rights, flags, descriptor, 0); },
    .unmap = [](void* memory, size_t size) { return ::munmap(memory, size); },
    .protect = [](void* memory, size_t size, int rights) { return ::mprotect(memory, size, rights); },
};

const System& system() noexcept {
  const System* const instead = used.load(std::memory_order_acquire);
  return instead ? *instead : kSystem;
}

void use_system(const System* system) noexcept { used.store(system, std::memory_order_release); }

}  // namespace tenon::runtime
