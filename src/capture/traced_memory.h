// Where PyTorch's trace has the elements of a tensor in memory. as_strided and its kin count places in memory, and a
// value of a Graph has no memory: Tenon counts in the order of its elements. call_on_memory finds the tensor whose
// elements fill that memory, in which order they lie there, and counts among them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/importer.h"

namespace tenon {

struct TracedTensor {
  AtenArg tensor = {};
  std::string target = {};  // The call that gave the tensor; empty for a leaf.
  Shape sizes = {};
  std::vector<Expr> strides = {};  // In elements. Of another number than sizes: the layout is not known.
  Expr offset = 0;                 // The place in memory of the first element.
};

// Gives a tensor, then the first operand of the call that gave the tensor, and so on; nothing after a leaf.
using TracedOperands = std::function<std::optional<TracedTensor>()>;

// Whether a call counts places in the memory of its first operand.
bool counts_places(std::string_view target);

// Whether a tensor's elements lie in memory in the tensor's own order, from the start and without gaps, whatever sizes
// its symbols have.
bool lies_in_order(const TracedTensor& tensor);

// Adds a call that counts places. `operands` begins with the call's first operand. Throws an Error where the trace does
// not say which tensor has the elements at these places.
AtenArg call_on_memory(Importer& importer, AtenRequest request, const TracedOperands& operands);

}  // namespace tenon
