// Calls that a file needs from its host: functions by name, which the process registers (tenon_register_call).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/task_graph.h"
#include "runtime/tensor_view.h"

namespace tenon::runtime {

// A function of the host that runs a task by TaskNode::function and TaskNode::text. Null: there is none.
struct HostCall {
  tenon_call_function function = nullptr;
  void* user_data = nullptr;
};

void register_call(const std::string& name, const HostCall& call);
HostCall registered_call(void*, const TaskNode& task);
HostCall absent_call(void*, const TaskNode& task);  // for a program that is loaded to look at: it is there, and fails

// Where a program finds its calls.
struct CallFinder {
  HostCall (*find)(void* self, const TaskNode& task) = registered_call;
  void* self = nullptr;
};

// By task. Throws a StatusError that lists those that are not there.
std::vector<HostCall> find_calls(const TaskGraph& graph, const CallFinder& finder);

// A result of a call: row-major memory of the promised dtype, kept alive by `owner`.
struct FallbackResult {
  std::vector<int64_t> shape;
  void* data;
  std::shared_ptr<void> owner;
};
std::vector<FallbackResult> run_call(const HostCall& call, const TaskGraph& graph, const TaskNode& task,
                                     std::span<const TensorView> operands);

}  // namespace tenon::runtime
