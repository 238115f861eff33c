#include "program/history.h"

#include "program/run.h"

namespace tenon {

Tensor constant_of(const std::vector<Tensor>& constants, const ConstantUse& use) {
  const Tensor& data = constants[use.constant];
  const Sizes shape = evaluate(use.type.shape, {});
  return Tensor::borrow(data.dtype(), shape, contiguous_strides(shape), data.data(), data.owner());
}

std::optional<Packing::Part> part_of(const std::vector<ConstantStep>& steps, const std::vector<Tensor>& constants,
                                     const ConstantUse& use) {
  for (const ConstantStep& step : steps) {
    const bool makes = step.outputs.size() == 1 && step.outputs[0].constant == use.constant;
    if (!makes || !step.task || !step.task->tree || step.inputs.size() != 1) continue;
    return Packing::Part{constant_of(constants, step.inputs[0]), step.task->tree->ir};
  }
  return {};
}

void run_step(const ConstantStep& step, std::vector<Tensor>& constants, Preparer& preparer) {
  std::vector<Tensor> inputs;
  for (const ConstantUse& use : step.inputs) inputs.push_back(constant_of(constants, use));
  std::vector<TensorType> types;
  for (const ConstantUse& use : step.outputs) types.push_back(use.type);
  const std::vector<Tensor> outputs = step.preparation ? std::vector{preparer.run(*step.preparation, inputs)}
                                                       : run_task_once(*step.task, types, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) constants[step.outputs[i].constant] = outputs[i].contiguous();
}

}  // namespace tenon
