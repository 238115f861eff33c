// The backend "cuda": kernels for NVIDIA GPUs.
//
// It compiles here, to PTX and tables (code.h). The device "cuda" of the runtime loads and runs them: libtenon_cuda.so
// with the driver's libcuda, and cuBLASLt.
#pragma once

#include <string>
#include <string_view>

#include "backends/cuda/code.h"
#include "loops/loop_tree.h"

namespace tenon {

// Needs no GPU. Throws an Error for what a GPU cannot compute. `cpu` is another target in tests: then an object of
// emulated threads (codegen/threads.h) takes the place of PTX.
CudaCode compile_cuda(const loops::LoopTree& tree, std::string_view cpu = "nvptx64");

// Its steps and PTX, for people.
std::string to_text(const CudaCode& code);

}  // namespace tenon
