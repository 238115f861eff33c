// Whole artifacts, with checksums put right: the container, the verifier, and runs of what it accepts.
#include "tests/robustness/support_seal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  tenon::golden::seal(file);
  tenon::golden::try_file(file);
  return 0;
}
