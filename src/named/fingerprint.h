// What an expression computes, as a name.
#pragma once

#include "named/node.h"

namespace tenon::named {

// "lazy_" and 16 hexadecimal digits: the same for expressions of one structure, dtypes, constants and facts about
// sizes, in every process. Names of Symbols do not matter, nor do data and its sizes.
std::string kernel_name(const Node& output);

}  // namespace tenon::named
