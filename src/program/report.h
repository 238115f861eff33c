// What a program is made of, for people.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace tenon {

// Tasks one after the other that one side runs.
struct TaskStretch {
  std::string side;  // a device; "cpu"; "fallback": PyTorch's
  std::vector<const Task*> tasks;
  size_t op_count() const;
};
std::vector<TaskStretch> segments_of(const Program& program);  // point into the program

// "Segment 0: cpu (3 ops)", with a line for each task: its kind, name, result types and place in the model. With
// devices, who runs how many nodes, and why others do not (partition/placement.h).
std::string describe(const Program& program);

}  // namespace tenon
