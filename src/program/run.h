// Inside of program: one run.
#pragma once

#include "program/program.h"

namespace tenon {

// Runs a task on its own, of static shapes: what is computed of constants while a program is compiled.
std::vector<Tensor> run_task_once(const Task& task, const std::vector<Slot>& slots, const std::vector<Tensor>& inputs);

// A tensor that is not zeroed.
Tensor new_tensor(DType dtype, Sizes shape);

// Runs a graph of one node as a function of the runtime, where there is one, else on the reference backend. `sizes` are
// those that are known, whether the shapes of the inputs tell them or not.
std::vector<Tensor> run_whole(const Graph& body, const std::vector<Tensor>& inputs, const symbolic::Bindings& sizes);

}  // namespace tenon
