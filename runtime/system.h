// The calls to the operating system that loading a model makes, in one table: a test puts its own there, and lets the
// n-th call fail.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>

namespace tenon::runtime {

// As in POSIX: they return -1 (map: MAP_FAILED) and set errno.
struct System {
  int (*open)(const char* path, int flags);
  int (*close)(int descriptor);
  int (*stat)(int descriptor, struct stat* info);
  void* (*map)(size_t size, int rights, int flags, int descriptor);  // from offset 0, where the system likes
  int (*unmap)(void* memory, size_t size);
  int (*protect)(void* memory, size_t size, int rights);
};

extern const System kSystem;  // the real one

// What is used now.
const System& system() noexcept;
// Null goes back to the real one. For tests: nothing may be loading meanwhile.
void use_system(const System* system) noexcept;

}  // namespace tenon::runtime
