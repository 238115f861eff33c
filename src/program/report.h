// What a program is made of, for people.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace tenon {

// Tasks one after the other that one side runs.
struct TaskStretch {
  bool is_fallback;  // PyTorch's; else ours
  std::vector<const Task*> tasks;
  size_t op_count() const;
};
std::vector<TaskStretch> segments_of(const Program& program);  // point into the program

// "Segment 0: cpu (3 ops)", with a line for each task: its kind, name, result types and place in the model.
std::string describe(const Program& program);

}  // namespace tenon
