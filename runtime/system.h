// The calls to the operating system that loading a model and writing a checkpoint make, in one table: a test puts its
// own there, and lets the n-th call fail.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <string_view>
#include <utility>

namespace tenon::runtime {

// As in POSIX: they return -1 (map: MAP_FAILED) and set errno.
struct System {
  int (*open)(const char* path, int flags);
  int (*close)(int descriptor);
  int (*stat)(int descriptor, struct stat* info);
  void* (*map)(size_t size, int rights, int flags, int descriptor);  // from offset 0, where the system likes
  int (*unmap)(void* memory, size_t size);
  int (*protect)(void* memory, size_t size, int rights);
  int (*forget)(void* memory, size_t size);  // pages of a file, which come back from it when somebody reads them
  int (*create)(const char* path);           // a new file, to write to
  ssize_t (*write)(int descriptor, const void* bytes, size_t size);
  int (*sync)(int descriptor);
  int (*rename)(const char* from, const char* to);
  int (*unlink)(const char* path);
};

extern const System kSystem;  // the real one

// What is used now.
const System& system() noexcept;
// Null goes back to the real one. For tests: nothing may be loading meanwhile.
void use_system(const System* system) noexcept;

// Closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}  // below 0: none
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) system().close(number_);
  }
  int number() const { return number_; }
  int close() { return system().close(std::exchange(number_, -1)); }

 private:
  int number_;
};

// Throws a StatusError, "cannot <what>: " and what errno says: TENON_OUT_OF_MEMORY or TENON_IO.
[[noreturn]] void fail_with_errno(std::string_view what);

}  // namespace tenon::runtime
