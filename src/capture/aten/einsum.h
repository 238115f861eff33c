// Einstein sums as contractions.
#pragma once

#include <string_view>

#include "capture/aten.h"

namespace tenon::aten {

// PyTorch's `einsum`: "bij,bjk->bik", with "..." and without the result. Fails for an equation that does not fit.
Value einsum(AtenCall& c, std::string_view equation, std::vector<Value> tensors);

// A sum of products of two tensors over pairs of their dimensions; the others stay, those of `a` first.
Value tensordot(AtenCall& c, Value a, Value b, std::vector<int64_t> a_dims, std::vector<int64_t> b_dims);

}  // namespace tenon::aten
