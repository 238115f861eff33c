// The interpreter of sized kernels.
#pragma once

#include "runtime/kernel.h"
#include "runtime/portable/sized_kernel.h"

namespace tenon::runtime::portable {

// See PortableKernel::run.
int64_t run(const SizedKernel& kernel, void* const* memory, int64_t* error, const tenon_services& services,
            int64_t step_limit) noexcept;

}  // namespace tenon::runtime::portable
