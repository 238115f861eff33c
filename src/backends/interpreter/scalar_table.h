// The elementwise ops as a table of C++ functions: the text of runtime/scalar_ops.inc, for who runs portable kernels.
#pragma once

#include <string>

namespace tenon {

std::string scalar_table();

}  // namespace tenon
