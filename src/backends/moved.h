// Moves of elements that are done once: too little to compile a kernel for.
#pragma once

#include <optional>

#include "graph/tensor.h"
#include "loops/ir.h"

namespace tenon {

// The result of a kernel that writes views of one input, each of one piece, at indices that are sums of variables, and
// zero where there is nothing; nothing for any other kernel. The input is of the type that the kernel says.
std::optional<Tensor> moved(const loops::IR& kernel, const Tensor& input);

// The input of such a kernel, from its result: zero where the kernel reads nothing. Nothing for any other kernel, and
// where the kernel does not say what the result is, or reads outside of its input.
std::optional<Tensor> moved_back(const loops::IR& kernel, const Tensor& result);

}  // namespace tenon
