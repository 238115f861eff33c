#include "runtime/calls.h"

#include <cstdlib>
#include <memory>
#include <mutex>

#include "runtime/allocator.h"
#include "runtime/checked.h"
#include "runtime/error.h"
#include "runtime/shared.h"

namespace tenon::runtime {
namespace {

// The newest of a name counts.
struct Registration {
  std::string name;
  HostCall call;
  std::unique_ptr<Registration> next;
};

std::mutex registry_mutex;
std::unique_ptr<Registration> registry;

// A call under way.
struct RunningCall : tenon_call {
  std::vector<FallbackResult> results;

  static void* make(tenon_call* call, uint64_t output, const int64_t* shape) noexcept {
    try {
      return static_cast<RunningCall*>(call)->made(output, shape);
    } catch (const std::exception&) {
      return nullptr;
    }
  }

  void* made(uint64_t output, const int64_t* shape) {
    if (output >= output_count) return nullptr;
    FallbackResult& result = results[output];
    result.shape.assign(shape, shape + outputs[output].rank);
    auto bytes = static_cast<int64_t>(tenon_dtype_size(outputs[output].dtype));
    for (int64_t size : result.shape) {
      if (size < 0) return nullptr;
      bytes = checked_mul(bytes, size);
    }
    result.owner = owned(allocate_aligned(bytes), std::free);
    return result.data = result.owner.get();
  }
};

}  // namespace

void register_call(const std::string& name, const HostCall& call) {
  const std::lock_guard lock(registry_mutex);
  registry = std::unique_ptr<Registration>(new Registration{name, call, std::move(registry)});
}

HostCall registered_call(void*, const TaskNode& task) {
  const std::lock_guard lock(registry_mutex);
  for (const Registration* it = registry.get(); it != nullptr; it = it->next.get()) {
    if (it->name == task.function) return it->call;
  }
  return {};
}

HostCall absent_call(void*, const TaskNode&) {
  return {[](void*, tenon_call*, tenon_text*) { return TENON_UNSUPPORTED; }};
}

std::vector<HostCall> find_calls(const TaskGraph& graph, const CallFinder& finder) {
  std::vector<HostCall> calls(graph.tasks.size());
  std::string missing;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (graph.tasks[i].kind != TaskKind::Fallback) continue;
    calls[i] = finder.find(finder.self, graph.tasks[i]);
    const std::string line = text_of("\n  ", graph.tasks[i].function);
    const bool is_named = (missing + "\n").find(line + "\n") != std::string::npos;  // a name may begin another
    if (calls[i].function == nullptr && !is_named) missing += line;
  }
  if (!missing.empty()) {
    fail(TENON_INVALID_ARGUMENT,
         "the file needs calls that this process does not have (tenon_register_call):", missing);
  }
  return calls;
}

std::vector<FallbackResult> run_call(const HostCall& call, const TaskGraph& graph, const TaskNode& task,
                                     std::span<const TensorView> operands) {
  std::vector<tenon_tensor> tensors;
  std::vector<int64_t> sizes;  // of the results
  for (uint32_t slot : task.outputs) {
    for (const Expr& size : graph.slots[slot].shape) {
      const Instruction& only = graph.code[size.first()];
      sizes.push_back(size.count() == 1 && only.op() == format::ExprOp::Constant ? only.value() : -1);
    }
  }
  for (const TensorView& view : operands)
    tensors.push_back({view.data, view.dtype, static_cast<int32_t>(view.shape.size()), view.shape.data(), nullptr});
  const int64_t* shape = sizes.data();
  for (uint32_t slot : task.outputs) {
    const auto rank = static_cast<int32_t>(graph.slots[slot].shape.size());
    tensors.push_back({nullptr, graph.slots[slot].dtype, rank, shape, nullptr});
    shape += rank;
  }
  RunningCall running{{.size = sizeof(tenon_call),
                       .name = task.function.data(),
                       .text = task.text.empty() ? "" : task.text.data(),
                       .inputs = tensors.data(),
                       .input_count = operands.size(),
                       .outputs = tensors.data() + operands.size(),
                       .output_count = task.outputs.size(),
                       .make_output = RunningCall::make}};
  running.results.resize(task.outputs.size());
  HostFailure failure;
  failure.check(call.function(call.user_data, &running, failure.place()), "", task.function);
  for (const FallbackResult& result : running.results) {
    if (result.data == nullptr) fail(TENON_RUN_FAILED, task.function, " did not make each of its results");
  }
  return std::move(running.results);
}

}  // namespace tenon::runtime
