#include "runtime/system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <system_error>

#include "runtime/error.h"

#ifdef __linux__
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

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
    .forget = [](void* memory, size_t size) { return ::madvise(memory, size, MADV_DONTNEED); },
    .create = [](const char* path) { return ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); },
    .read = [](int descriptor, void* bytes, size_t size) { return ::read(descriptor, bytes, size); },
    .write = [](int descriptor, const void* bytes, size_t size) { return ::write(descriptor, bytes, size); },
    .sync = [](int descriptor) { return ::fsync(descriptor); },
    .rename = [](const char* from, const char* to) { return ::rename(from, to); },
    .unlink = [](const char* path) { return ::unlink(path); },
};

const System& system() noexcept {
  const System* const instead = used.load(std::memory_order_acquire);
  return instead ? *instead : kSystem;
}

void use_system(const System* system) noexcept { used.store(system, std::memory_order_release); }

std::string program_path() {
  std::string path(size_t{PATH_MAX} + 1, '\0');
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  return path;
}

CpuCapabilities cpu_capabilities() {
#ifdef __linux__
  const int sve = ::prctl(PR_SVE_GET_VL);  // below 0: none
  const uint64_t granules = sve < 0 ? 0 : static_cast<uint64_t>(sve & PR_SVE_VL_LEN_MASK) / 16;
  return {{::getauxval(AT_HWCAP), ::getauxval(AT_HWCAP2), granules == 0 ? 0 : uint64_t{1} << granules}};
#else
  return {};
#endif
}

void fail_with_errno(std::string_view what) {
  const int why = errno;
  fail(why == ENOMEM ? TENON_OUT_OF_MEMORY : TENON_IO, "cannot ", what, ": ", std::generic_category().message(why));
}

}  // namespace tenon::runtime
