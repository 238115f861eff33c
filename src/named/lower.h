// Lowers the expression of a named tensor to a kernel.
#pragma once

#include <set>

#include "named/sizes.h"

namespace tenon::named {

struct LoweredTensor {
  loops::IR ir;
  std::vector<std::shared_ptr<Storage>> inputs;  // by slot
  std::vector<Condition> conditions;             // over the IR's size symbols: what a run must check
};

// Inputs without data, and those in `open`, have the sizes that the data of a run will have.
LoweredTensor lower(const TermPtr& output, const std::set<const Storage*>& open);

}  // namespace tenon::named
