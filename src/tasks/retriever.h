// The Retriever knows the tensor and the argument of each slot of each task, and how many slots read each tensor.
#pragma once

#include <map>
#include <set>

#include "tasks/task_graph.h"

namespace tenon::tasks {

class Retriever {
 public:
  // Throw an Error for a slot that nobody set. A slot that depends on another one has what that one has now; an
  // argument only until its own task changes it.
  const Tensor& get_tensor(SlotRef slot) const;
  const Attr& get_arg(SlotRef slot) const;
  const Attr& given_arg(SlotRef slot) const;  // what its task is launched with: of the slot that it depends on, if any
  bool has_tensor(SlotRef slot) const { return tensors_.contains(source_of(slot)); }
  bool has_arg(SlotRef slot) const { return args_.contains(arg_source_of(slot)); }
  bool depends(SlotRef slot) const { return tensor_sources_.contains(slot); }
  bool arg_depends(SlotRef slot) const { return arg_sources_.contains(slot); }
  SlotRef source_of(SlotRef slot) const;  // where its tensor is: itself, or the end of its dependencies

  void set_tensor(SlotRef slot, Tensor tensor) { tensors_[slot] = std::move(tensor); }
  void set_arg(SlotRef slot, Attr value) { args_[slot] = std::move(value); }
  void drop_arg(SlotRef slot) { args_.erase(slot); }
  void set_tensor_dependency(SlotRef slot, SlotRef source);
  void set_arg_dependency(SlotRef slot, SlotRef source) { arg_sources_[slot] = source; }

  int64_t ref_count(SlotRef source) const;  // of slots that read the tensor
  void drop_tensor(SlotRef slot) { tensors_.erase(slot); }
  // The task is gone: it reads nothing any more. Its own tensors stay until nobody else reads them.
  void release(TaskId task);

 private:
  SlotRef arg_source_of(SlotRef slot) const;
  void drop_unread(SlotRef source);

  std::map<SlotRef, Tensor> tensors_;
  std::map<SlotRef, Attr> args_;
  std::map<SlotRef, SlotRef> tensor_sources_;
  std::map<SlotRef, SlotRef> arg_sources_;
  std::map<SlotRef, int64_t> ref_counts_;
  std::set<TaskId> released_;
};

}  // namespace tenon::tasks
