#include "codegen/version.h"

#include <fmt/format.h>
#include <llvm/Config/llvm-config.h>

#include "embedded/kSourceDigest.h"

namespace tenon::codegen {

const std::string& compiler_version() {
  static const std::string version =
      fmt::format("tenon {} {} llvm {}", TENON_VERSION, kSourceDigest, LLVM_VERSION_STRING);
  return version;
}

std::string llvm_version() { return LLVM_VERSION_STRING; }

}  // namespace tenon::codegen
