// Kernels for AArch64 on this machine, whatever it is: tests/arm64/kernel_server.cpp runs them under qemu. `make arm64`
// builds it.
#pragma once

#include <memory>
#include <string>

#include "tests/arm64/wire.h"
#include "tests/backends/support_fenced_call.h"

namespace tenon::test {

class Arm64Emulator {
 public:
  // What has to be there and is not, and what to do. Empty: nothing.
  static std::string missing();
  // The emulator of this process, of a CPU whose SVE registers have this length (0: any). The first call starts it.
  static Arm64Emulator& get(int sve_bits = 0);

  // The number of the kernel. Throws an Error with the complaint of the loader.
  int64_t load(const std::string& object, const std::string& function);
  FencedResult call(int64_t kernel, std::span<const FencedArray> arrays, std::span<const int64_t> sizes);

 private:
  Arm64Emulator(FILE* in, FILE* out) : wire_(in, out) {}

  Wire wire_;
};

}  // namespace tenon::test
