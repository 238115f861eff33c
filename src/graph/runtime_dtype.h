// Element types as the runtime numbers them.
#pragma once

#include "graph/dtype.h"
#include "tenon/tenon.h"

namespace tenon {

constexpr tenon_dtype code_of(DType dtype) { return static_cast<tenon_dtype>(dtype); }
static_assert(code_of(DType::kF64) == TENON_F64 && code_of(DType::kBF16) == TENON_BF16 &&
              code_of(DType::kI64) == TENON_I64 && code_of(DType::kBool) == TENON_BOOL);

}  // namespace tenon
