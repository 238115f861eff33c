// A TaskGraph by hand: which tasks run, in order, over which memory.
#pragma once

#include <map>

#include "graph/type.h"
#include "tasks/task.h"

namespace tenon::tasks {

struct SlotRef {
  TaskId task;
  SlotId slot;
  auto operator<=>(const SlotRef&) const = default;
};

// Each tensor of the signature has memory of its own, or is a tensor of a task before, or is set by the caller; what an
// op writes has memory of its own if nothing else is said. Each argument has a value, or is an argument of a task
// before, with the value that it has after that task.
struct TaskNode {
  std::string task;  // registered, or an op
  std::map<SlotId, TensorType> tensor_slots = {};
  std::map<SlotId, SlotRef> tensor_dependencies = {};
  std::map<SlotId, Attr> arg_slots = {};
  std::map<SlotId, SlotRef> arg_dependencies = {};
};

struct TaskGraph {
  std::vector<TaskNode> nodes;  // A dependency names a node by its position here.

  TaskId add(TaskNode node) {
    nodes.push_back(std::move(node));
    return static_cast<TaskId>(nodes.size() - 1);
  }
};

}  // namespace tenon::tasks
