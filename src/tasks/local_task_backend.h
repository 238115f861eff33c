// LocalTaskBackend: runs tasks that somebody put together by hand, in memory of a budget.
//
//     tasks::TaskGraph graph;
//     const TaskId product = graph.add({.task = "matmul", .tensor_slots = {{0, f32_2x3}, {1, f32_3x4}}});
//     const TaskId result = graph.add({.task = "relu", .tensor_dependencies = {{0, {product, 2}}}});
//
//     tasks::LocalTaskBackend backend(1 << 20);
//     backend.insert_graph(graph);
//     backend.get_tensor({product, 0}).copy_from(x);
//     backend.launch();
//     const Tensor y = backend.get_tensor({result, 1});
//
// Ops are compiled when they are inserted, so their sizes and attributes must be known by then. fuse() makes one
// program of several ops: tensors that only they read have no memory then. One thread at a time may use a backend.
#pragma once

#include <memory>
#include <span>

#include "program/program.h"
#include "runtime/allocator.h"
#include "tasks/retriever.h"

namespace tenon::runtime {
class Context;
}

namespace tenon::tasks {

class LocalTaskBackend {
 public:
  explicit LocalTaskBackend(int64_t budget = runtime::kNoBudget);  // in bytes, of tensors and of launches
  ~LocalTaskBackend();
  LocalTaskBackend(const LocalTaskBackend&) = delete;

  // The number that each node of the graph has from now on. Throws an Error, and has inserted nothing then, for an
  // unknown task, a slot that the task does not have, a missing tensor or argument of an op, and memory that the budget
  // does not hold.
  std::vector<TaskId> insert_graph(const TaskGraph& graph);
  TaskId insert_task(const TaskNode& node);  // whose dependencies are tasks of the backend

  // All tasks, or one of them. Throws an Error for a tensor or an argument that is not there, and for a task that a
  // task before it needs; what a task throws passes through.
  void launch();
  void launch(TaskId task);

  // One task that does the work of several ops, in their place. Its tensors are those that others set or read, and
  // those that nobody reads: they stay where they are, under their numbers.
  TaskId fuse(std::span<const TaskId> tasks);
  // The task is gone. Its memory is freed when no other task reads it.
  void cleanup(TaskId task);

  const Tensor& get_tensor(SlotRef slot) const;
  const Attr& get_arg(SlotRef slot) const;
  // Memory of the caller's. Throws an Error for another type, and for a slot that depends on another task.
  void set_tensor(SlotRef slot, const Tensor& tensor);
  void set_arg(SlotRef slot, Attr value);  // likewise; not of an op

  const TaskSignature& signature(TaskId task) const;
  const Retriever& retriever() const { return retriever_; }
  const runtime::Allocator& allocator() const { return *allocator_; }
  std::vector<TaskId> order() const;  // of the launch

 private:
  struct Inserted;

  Inserted& task_at(TaskId task) const;
  std::string describe(TaskId task) const;  // "task 3 (matmul)"
  SlotRef checked(SlotRef slot) const;      // of a task that is there, and has it
  void insert_tensors(TaskId task, const TaskNode& node);
  void insert_args(TaskId task, const TaskNode& node);
  void make_body(TaskId task);  // of an op
  void compile(Inserted& task) const;
  Tensor allocate(TaskId task, const std::string& slot, const TensorType& type);
  void require_launched(TaskId reader, SlotRef source) const;
  std::vector<Tensor> tensors_for(TaskId task) const;
  std::vector<Attr> args_for(TaskId task) const;
  void launch_program(TaskId task);
  void launch_function(TaskId task);
  Graph join(std::span<const TaskId> members, Inserted& fused) const;
  void replace_in_order(std::span<const TaskId> members, TaskId fused);

  std::shared_ptr<runtime::Allocator> allocator_;
  Retriever retriever_;
  std::map<TaskId, std::unique_ptr<Inserted>> tasks_;
  std::vector<TaskId> order_;
  TaskId next_ = 0;
};

}  // namespace tenon::tasks
