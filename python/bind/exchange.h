// Tensors to and from PyTorch by DLPack's table of C functions: a fraction of a microsecond, where the Python methods
// of DLPack take several.
#pragma once

#include <optional>

#include "bind.h"

namespace tenon::python {

bool is_torch(nb::handle array);

// Whether a torch tensor has a shape and no values: a fake one.
bool is_without_memory(nb::handle array);

// The memory of a plain torch tensor on the CPU, which the result keeps alive; nothing for all others, and where this
// PyTorch has no table.
std::optional<Tensor> borrow_torch(nb::handle array);

// A plain torch tensor in the memory of an NVIDIA GPU.
struct CudaMemory {
  DType dtype;
  Sizes shape;
  std::byte* data;
  int device;
  bool is_row_major;
};
// Nothing for all others.
std::optional<CudaMemory> cuda_memory_of(nb::handle array);

// Throws an Error where one of the arrays has a tangent of forward-mode differentiation: a run would lose it.
void check_no_tangents(nb::handle arrays);

// A torch tensor that shares the memory. An invalid object where this PyTorch has no table, or the memory is read-only.
nb::object share_with_torch(const Tensor& tensor);

}  // namespace tenon::python
