// Inside of program: how its constants came to be, so that they can be made of other weights again (program/text.h).
#pragma once

#include <optional>
#include <vector>

#include "backends/bound.h"
#include "program/program.h"

namespace tenon {

// A constant by its number, and as which tensor it is read or written: an alias has another shape.
struct ConstantUse {
  uint32_t constant;
  TensorType type;
};

// Constants that are computed of others while the program is made.
struct ConstantStep {
  std::vector<ConstantUse> inputs = {};
  std::vector<ConstantUse> outputs = {};
  std::optional<loops::IR> preparation = {};  // else it is the task that runs
  std::optional<Task> task = {};
};

struct ConstantHistory {
  struct FromLeaf {
    uint32_t constant;
    uint32_t leaf;                         // of the graph as it was fused
    std::optional<uint32_t> segment = {};  // or of the graph of this segment
  };
  std::vector<FromLeaf> leaves;
  std::vector<ConstantStep> steps;  // in order
  uint32_t constants = 0;           // how many there were
  std::vector<uint32_t> kept;       // those that became constants of the program
};

// The constant in the shape in which it is used.
Tensor constant_of(const std::vector<Tensor>& constants, const ConstantUse& use);

// What a step before took the constant out of. Empty if no step did, or if its task has no kernel of one operand.
std::optional<Packing::Part> part_of(const std::vector<ConstantStep>& steps, const std::vector<Tensor>& constants,
                                     const ConstantUse& use);

// Sets the constants that the step computes.
void run_step(const ConstantStep& step, std::vector<Tensor>& constants, Preparer& preparer);

}  // namespace tenon
