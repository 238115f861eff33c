// Objects of LLVM IR that tests state as text.
#pragma once

#include <string>
#include <string_view>

#include "codegen/target.h"

namespace tenon::codegen::testing {

std::string object_of(std::string_view ir, const Target& target);
std::string asm_of(std::string_view ir, const Target& target);

}  // namespace tenon::codegen::testing
