// Where PyTorch's trace has the elements of a tensor in memory. as_strided counts places in memory, and a value of a
// Graph lies in its own order: Tenon finds the same elements only where PyTorch's tensor lies so, too.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/type.h"

namespace tenon {

struct TracedTensor {
  std::string target = {};  // The call that gave the tensor; empty for a leaf.
  Shape sizes = {};
  std::vector<Expr> strides = {};  // In elements. Of another number than sizes: not known.
  Expr offset = 0;
};

// Whether a call counts places in the memory of its first operand: as_strided and its kin.
bool counts_places(std::string_view target);

// Why such a call is external unless its operand lies in order.
inline constexpr std::string_view kOtherOrder = "PyTorch has its operand in memory in another order than Tenon";

// Whether a tensor's elements lie in memory in the tensor's own order, from the start and without gaps, whatever sizes
// its symbols have.
bool lies_in_order(const TracedTensor& tensor);
// The same with more to prove it by: `next` gives the tensor, then the first operand of the call that gave the tensor,
// and so on; nothing after a leaf. The operands count where strides do not prove the order of a reshape: those of its
// operand may.
bool lies_in_order(const std::function<std::optional<TracedTensor>()>& next);

}  // namespace tenon
