// Text for pages.
#pragma once

#include <string>
#include <string_view>

namespace tenon::cli {

std::string escaped(std::string_view text);  // names come from files, and must not be markup

}  // namespace tenon::cli
