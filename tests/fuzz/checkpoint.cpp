// Checkpoints, with checksums put right: the container, the table, and what is taken of it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tenon/tenon.h"
#include "tests/robustness/support_seal.h"

namespace {

tenon_states* golden_states() {
  tenon_program* program = nullptr;
  tenon_states* states = nullptr;
  const tenon_load_options options{.no_native = 1};
  if (tenon_load_file("tests/golden/1.1/training.tenon", &options, &program) != TENON_OK ||
      tenon_states_create(program, nullptr, &states) != TENON_OK) {
    std::abort();
  }
  tenon_program_free(program);
  return states;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static tenon_states* const states = golden_states();
  static const int file = ::memfd_create("checkpoint", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  const auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> sealed(bytes.begin(), bytes.end());
  tenon::golden::seal(sealed);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, sealed.data(), size, 0) != static_cast<ssize_t>(size)) std::abort();
  tenon_states_load(states, path.c_str());
  return 0;
}
