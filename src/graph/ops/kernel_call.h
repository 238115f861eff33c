// For what calls the kernels of the runtime with tensors.
#pragma once

#include "graph/reference.h"
#include "runtime/kernels.h"

namespace tenon {

inline tenon_dtype code_of(DType dtype) { return static_cast<tenon_dtype>(dtype); }
static_assert(static_cast<int>(DType::kF64) == TENON_F64 && static_cast<int>(DType::kBF16) == TENON_BF16 &&
              static_cast<int>(DType::kI64) == TENON_I64 && static_cast<int>(DType::kBool) == TENON_BOOL);

inline int64_t* integers(const Tensor& tensor) { return reinterpret_cast<int64_t*>(tensor.data()); }

inline void check_memory(int64_t error, const OpView& node) {
  if (error != 0) fail("{}: there is no memory for its scratch", node.op().name.get());
}

}  // namespace tenon
