// The system calls of loading a model, of writing a checkpoint and of reading the limits of the process, in one table.
// Tests replace the table: to make the n-th call fail, or to show other files.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::runtime {

// As in POSIX: a call returns -1 (map: MAP_FAILED) and sets errno.
struct System {
  int (*open)(const char* path, int flags);
  int (*close)(int descriptor);
  int (*stat)(int descriptor, struct stat* info);
  // maps from offset 0, at an address of the system's choice
  void* (*map)(size_t size, int rights, int flags, int descriptor);
  int (*unmap)(void* memory, size_t size);
  int (*protect)(void* memory, size_t size, int rights);
  int (*forget)(void* memory, size_t size);  // drops pages of a mapped file; the next read loads them again
  int (*create)(const char* path);           // makes a new file, open for writing
  ssize_t (*read)(int descriptor, void* bytes, size_t size);
  ssize_t (*write)(int descriptor, const void* bytes, size_t size);
  int (*sync)(int descriptor);
  int (*rename)(const char* from, const char* to);
  int (*unlink)(const char* path);
};

extern const System kSystem;  // the real calls

// The table in use.
const System& system() noexcept;
// Sets the table; null restores the real one. For tests: no load may be in progress.
void use_system(const System* system) noexcept;

// The file of the program that runs, with its links followed. Empty where the system does not tell.
std::string program_path();

// Features of the CPU, as the system tells them: AT_HWCAP and AT_HWCAP2 of Linux, and bit n where SVE's registers have
// n times 16 bytes. 0 where the system does not tell.
struct CpuCapabilities {
  uint64_t words[3];
};
CpuCapabilities cpu_capabilities();

// A file descriptor. The destructor closes it.
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

// Throws a StatusError "cannot <what>: " with the text of errno: TENON_OUT_OF_MEMORY or TENON_IO.
[[noreturn]] void fail_with_errno(std::string_view what);

}  // namespace tenon::runtime
