// The functions that native code may call, by name: those of runtime/functions.h, and some of the C library.
#pragma once

#include <string_view>

namespace tenon::runtime {

void* find_function(std::string_view name);  // null if unknown

}  // namespace tenon::runtime
