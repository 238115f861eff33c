// The version of the compiler, for keys of the cache.
#pragma once

#include <string>

namespace tenon::codegen {

// The versions of Tenon and LLVM, and a digest of the compiler's sources.
const std::string& compiler_version();

std::string llvm_version();  // "19.1.7"

}  // namespace tenon::codegen
