// What an expression computes, as a name.
#pragma once

#include "named/term.h"

namespace tenon::named {

// "lazy_" (kept: saved texts have it) and 16 hexadecimal digits: the same for expressions of one structure, dtypes,
// constants and facts about sizes, in every process. Names of Symbols do not matter, nor do data and its sizes.
std::string kernel_name(const Term& output);

}  // namespace tenon::named
