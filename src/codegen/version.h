// What objects depend on besides their kernel and target.
#pragma once

#include <string>

namespace tenon::codegen {

// The versions of Tenon and LLVM, and a digest of the compiler's sources.
const std::string& compiler_version();

}  // namespace tenon::codegen
