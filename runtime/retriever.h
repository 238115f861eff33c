// The Retriever has the address of each tensor and the value of each argument of each task, in flat tables: launching a
// task needs no lookups.
//
// The tensor slots of a task are its inputs, then its outputs. The argument slots of a kernel are its sizes.
#pragma once

#include <vector>

#include "runtime/task_graph.h"

namespace tenon::runtime {

class Retriever {
 public:
  explicit Retriever(const TaskGraph& graph);  // which must outlive it

  // ---- what tasks get ----
  void* get_tensor(uint32_t task, size_t slot) const { return tensors_[tasks_[task].first_tensor + slot]; }
  int64_t get_arg(uint32_t task, size_t slot) const { return args_[tasks_[task].first_arg + slot]; }
  void* const* tensors(uint32_t task) const { return tensors_.data() + tasks_[task].first_tensor; }
  const int64_t* args(uint32_t task) const { return args_.data() + tasks_[task].first_arg; }

  // ---- where tensors lie: of a home, and so of all slots in it ----
  void place(uint32_t home, void* data) { places_[home] = data; }
  void* place_of(uint32_t slot) const { return places_[graph_.slots[slot].home]; }

  // Writes the placed addresses and the values of symbols into the tables of one task, or of all tasks.
  void resolve(uint32_t task, std::span<const int64_t> symbols);
  void resolve(std::span<const int64_t> symbols);
  // Updates only the addresses of the caller's memory.
  void resolve_callers();

 private:
  struct Entry {
    size_t first_tensor;
    size_t first_arg;
  };
  struct CallersTensor {
    size_t tensor;
    uint32_t home;
  };

  void insert_task(const TaskNode& task);

  const TaskGraph& graph_;
  std::vector<void*> places_;   // by home
  std::vector<void*> tensors_;  // of all tasks, concatenated
  std::vector<int64_t> args_;
  std::vector<Entry> tasks_;
  std::vector<CallersTensor> callers_;
};

}  // namespace tenon::runtime
