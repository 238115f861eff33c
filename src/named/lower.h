// Lowers the expression of a named tensor to a kernel.
#pragma once

#include <set>

#include "named/sizes.h"

namespace tenon::named {

struct LoweredTensor {
  loops::IR ir;
  std::vector<std::shared_ptr<Storage>> inputs;  // by slot
  std::vector<Condition> conditions;             // checked in every run; over the IR's size symbols
};

// The sizes of inputs without data, and of inputs in `open`, come from the data of a run.
LoweredTensor lower(const TermPtr& output, const std::set<const Storage*>& open);

}  // namespace tenon::named
