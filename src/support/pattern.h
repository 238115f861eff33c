// Patterns of names.
#pragma once

#include <string_view>

namespace tenon {

// Whether the pattern matches the whole name: * is any text, ? any character.
bool name_matches(std::string_view pattern, std::string_view name);

}  // namespace tenon
