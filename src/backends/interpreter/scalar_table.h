// The elementwise ops as a table of C++ functions, with which the runtime runs portable kernels: the text of
// runtime/scalar_ops.inc.
#pragma once

#include <string>

namespace tenon {

std::string scalar_table();

}  // namespace tenon
