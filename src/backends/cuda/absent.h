// Inside of cuda: the device of a machine without a GPU.
//
// Programs are compiled for it and written to files. It describes itself as libtenon_cuda.so does, so that partitions
// and files are the same; its memory has addresses alone. Copying from it and launching are errors.
#pragma once

#include <memory>
#include <string>

#include "runtime/device.h"

namespace tenon {

// `options` are those of the device, as the user wrote them after its name.
std::shared_ptr<runtime::Device> absent_cuda_device(const std::string& options);

}  // namespace tenon
