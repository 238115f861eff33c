// The name of a kernel: a hash of its expression.
#pragma once

#include "named/term.h"

namespace tenon::named {

// "lazy_" (saved texts have it) and 16 hexadecimal digits. The name is the same in every process for expressions of
// equal structure, dtypes, constants and facts about sizes. Names of Symbols, data and sizes of data do not change it.
std::string kernel_name(const Term& output);

}  // namespace tenon::named
