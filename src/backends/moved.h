// Runs kernels that only move elements, and run once, without compiling them.
#pragma once

#include <optional>

#include "graph/tensor.h"
#include "loops/ir.h"

namespace tenon {

// The result of a kernel that writes views of one input. Each view has one piece, linear indices, and zero as fill
// value. Empty for any other kernel. `input` has the type that the kernel reads.
std::optional<Tensor> moved(const loops::IR& kernel, const Tensor& input);

// The inverse: the input of such a kernel, computed from its result. Elements that the kernel does not read are zero.
// Empty for any other kernel, and if the result does not fit the kernel.
std::optional<Tensor> moved_back(const loops::IR& kernel, const Tensor& result);

}  // namespace tenon
