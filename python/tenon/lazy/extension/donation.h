// Which arguments of a run die with it, so that its results may take their memory.
//
// A parameter that is updated in place is, to the lazy device, a new tensor: the old one is needed by the recorded
// graph alone. So an argument dies where no live tensor holds it, neither as its data nor in what it has recorded so
// far.
#pragma once

#include <torch/csrc/lazy/core/config.h>
#include <torch/csrc/lazy/core/ir_util.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>
#include <torch/csrc/lazy/ts_backend/ops/device_data.h>
#include <torch/csrc/lazy/ts_backend/ts_backend_impl.h>

#include <unordered_set>

namespace tenon::lazy_device {

using torch::lazy::BackendData;
using torch::lazy::BackendDataPtr;
using DataSet = std::unordered_set<const BackendData*>;

inline DataSet held_by_live_tensors() {
  DataSet held;
  std::vector<torch::lazy::Value> recorded;  // keeps the nodes alive
  std::vector<const torch::lazy::Node*> roots;
  for (const torch::lazy::LazyTensorPtr& tensor : torch::lazy::LazyGraphExecutor::Get()->GetLiveTensors(nullptr)) {
    if (const BackendDataPtr data = tensor->CurrentDataHandle()) held.insert(data.get());
    if (const torch::lazy::Value value = tensor->CurrentIrValue()) {
      recorded.push_back(value);
      roots.push_back(value.node.get());
    }
  }
  for (const torch::lazy::Node* node : torch::lazy::Util::ComputePostOrder(roots)) {
    if (const auto* data = torch::lazy::DeviceData::Cast(node)) held.insert(data->data().get());
  }
  return held;
}

// The run has one reference, and the recorded graph that it came from may still have another.
constexpr long kReferencesOfARun = 2;

inline bool is_read_only(const BackendData& data) {
  const auto* info = dynamic_cast<const torch::lazy::LazyGraphExecutor::DeviceDataInfo*>(data.info());
  return info != nullptr && info->read_only;
}

// Nobody else has the memory. A tensor on the CPU that came from the lazy one is the same tensor, or one of its memory.
inline bool owns_its_memory(const at::Tensor& tensor) {
  constexpr size_t kHereAndInTheData = 2;
  return tensor.use_count() == kHereAndInTheData && tensor.is_contiguous() && tensor.storage().use_count() == 1;
}

// By argument. With torch's thread pool, others go on recording while a graph runs: then nothing is known to die.
inline std::vector<bool> dying_among(c10::ArrayRef<BackendDataPtr> arguments) {
  std::vector<bool> dying(arguments.size(), false);
  if (FLAGS_torch_lazy_use_thread_pool) return dying;
  const DataSet held = held_by_live_tensors();
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto& data = static_cast<torch::lazy::TSData&>(*arguments[i]);
    if (data.scalar || is_read_only(data) || held.contains(&data)) continue;
    if (arguments[i].use_count() > kReferencesOfARun) continue;
    dying[i] = owns_its_memory(data.data());
  }
  return dying;
}

}  // namespace tenon::lazy_device
