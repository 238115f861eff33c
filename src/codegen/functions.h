// The functions that generated code may call, by name.
#pragma once

#include <string_view>

namespace tenon::codegen {

void* find_function(std::string_view name);  // null where there is none

}  // namespace tenon::codegen
