// Tasks: functions over tensors and arguments, found by name.
//
//     tasks::register_task({.name = "scale",
//                           .tensors = {{.name = "x"}, {.name = "y", .is_written = true}},
//                           .args = {{.name = "factor", .kind = AttrKind::kReal}}},
//                          [](tasks::TaskCall& call) { ... call.tensor(0), std::get<double>(call.arg(0)) ... });
//
// Each op of the table is a task, too, by the name of the op: its tensors are the operands and then the results, its
// arguments are the attributes of the op.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/attr.h"
#include "graph/op.h"
#include "graph/tensor.h"

namespace tenon::tasks {

using TaskId = uint32_t;
using SlotId = uint32_t;  // a position among the tensors of a signature, or among its arguments

struct TaskTensor {
  std::string name;
  bool is_written = false;
  bool is_optional = false;
};

struct TaskArg {
  std::string name;
  AttrKind kind;
  bool is_optional = false;
};

struct TaskSignature {
  std::string name;
  std::vector<TaskTensor> tensors = {};
  std::vector<TaskArg> args = {};
};

// What a task is given when it runs.
class TaskCall {
 public:
  TaskCall(std::vector<Tensor> tensors, std::vector<Attr> args)
      : tensors_(std::move(tensors)), args_(std::move(args)) {}

  const Tensor& tensor(SlotId slot) const { return tensors_.at(slot); }  // undefined if it is optional and absent
  const Attr& arg(SlotId slot) const { return args_.at(slot); }
  void set_arg(SlotId slot, Attr value) { args_.at(slot) = std::move(value); }  // for the tasks that depend on it

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Attr>& args() const { return args_; }

 private:
  std::vector<Tensor> tensors_;
  std::vector<Attr> args_;
};

using TaskFn = std::function<void(TaskCall&)>;

struct TaskDef {
  TaskSignature signature;
  TaskFn run = {};            // empty for an op
  const OpDef* op = nullptr;  // null for a task that somebody registered
};

// Throws an Error without a name or a function, and for a name that is taken, by a task or an op.
void register_task(TaskSignature signature, TaskFn run);
void unregister_task(const std::string& name);
TaskDef find_task(const std::string& name);  // throws an Error that suggests the nearest name

}  // namespace tenon::tasks
