// Code of the compiler as bytes of a file: nobody says that they are its.
#pragma once

#include <span>

#include "driver.h"
#include "format/cuda_generated.h"

namespace tenon::cuda {

// Checks all that holds for every set of sizes: expressions, numbers of buffers, what each step has. Throws a
// StatusError.
const format::cuda::Code& verified(std::span<const std::byte> bytes);

std::span<const format::Instruction> instructions_of(const format::cuda::Code& code);

}  // namespace tenon::cuda
