// Arguments and results of a run, in the host's memory or a device's.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "bind.h"
#include "cuda.h"
#include "program/run.h"

namespace tenon::python {

struct RunArguments {
  std::vector<Tensor> inputs;  // undefined for those that lie on devices
  DevicePlaces places;
  ArrayKind kind = ArrayKind::kTorch;     // of the first array
  std::optional<CudaStream> stream = {};  // that the run is part of
  std::shared_ptr<CudaResults> results = {};
};

// `kept` results stay on `device`, which is empty if there are none. Torch tensors on CUDA are arguments where they
// are; with `in_torch`, such results are, too: in memory of PyTorch's allocator, and the run is part of its current
// stream.
RunArguments arguments_from(nb::handle arrays, const std::string& device, const std::set<size_t>& kept,
                            bool in_torch = false);

// Warns of tensors on a device that the program uses with other options: the device is opened for each set of options,
// so each call copies such tensors.
void warn_of_copies(const RunArguments& run, const runtime::LoadedProgram& program);

// Result number `i`, where it is.
nb::object result_of(const RunArguments& run, const std::vector<Tensor>& outputs, size_t i);

}  // namespace tenon::python
