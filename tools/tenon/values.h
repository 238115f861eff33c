// Tensors as text.
#pragma once

#include <string>

#include "graph/tensor.h"

namespace tenon::cli {

// As NumPy prints arrays: rows in brackets, columns aligned, as many digits as tell the values apart (at most 8 after
// the point). Of more than 1000 elements only those at the edges are shown.
std::string format_values(const Tensor& tensor);

// Nested JSON arrays of all elements, exact. NaN and the infinities, which JSON lacks, are the strings "nan", "inf",
// "-inf".
std::string json_values(const Tensor& tensor);

}  // namespace tenon::cli
