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

#include <unordered_map>
#include <unordered_set>

#include "threads.h"

namespace tenon::lazy_device {

using torch::lazy::BackendData;
using torch::lazy::BackendDataPtr;
using DataSet = std::unordered_set<const BackendData*>;

using LiveTensors = std::vector<torch::lazy::LazyTensorPtr>;

inline DataSet held_by(const LiveTensors& tensors) {
  DataSet held;
  std::vector<torch::lazy::Value> recorded;  // keeps the nodes alive
  std::vector<const torch::lazy::Node*> roots;
  for (const torch::lazy::LazyTensorPtr& tensor : tensors) {
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

// No live tensor needs it. Nothing is known where others record while a graph runs: with torch's thread pool, and with
// several threads. (Tensors have owners before they are live: where nobody else has one now, all that were found are
// this thread's.)
inline std::vector<bool> dying_among(c10::ArrayRef<BackendDataPtr> arguments) {
  std::vector<bool> dying(arguments.size(), false);
  const LiveTensors tensors = torch::lazy::LazyGraphExecutor::Get()->GetLiveTensors(nullptr);
  if (FLAGS_torch_lazy_use_thread_pool || TensorOwners::get().has_others()) return dying;
  const DataSet held = held_by(tensors);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& data = static_cast<const torch::lazy::TSData&>(*arguments[i]);
    dying[i] =
        !data.scalar && !is_read_only(data) && !held.contains(&data) && arguments[i].use_count() <= kReferencesOfARun;
  }
  return dying;
}

// The arguments of a run, each tensor once: a parameter is often there twice, as itself and as what it was detached of.
struct Inputs {
  std::vector<at::Tensor> tensors;
  std::vector<bool> dying;      // nobody needs it after the run
  std::vector<bool> owned;      // and nobody else has its memory
  std::vector<size_t> sources;  // of each argument: which of the tensors it is
};

inline bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

// A tensor on the CPU that came from a lazy one is the same tensor, or one of its memory; so are several results of a
// run. Where `all` of those that have it are arguments, each is counted: once here, and once as the argument.
inline bool own_their_memory(const std::vector<const at::Tensor*>& all) {
  std::unordered_map<const c10::TensorImpl*, size_t> references;
  for (const at::Tensor* tensor : all) references[tensor->unsafeGetTensorImpl()] += 2;
  for (const at::Tensor* tensor : all) {
    if (tensor->use_count() != references[tensor->unsafeGetTensorImpl()]) return false;
  }
  return all[0]->is_contiguous() && all[0]->storage().use_count() == references.size();
}

inline Inputs inputs_of(c10::ArrayRef<BackendDataPtr> arguments, const std::vector<at::Tensor>& values) {
  const std::vector<bool> dying = dying_among(arguments);
  Inputs inputs;
  std::unordered_map<const void*, size_t> known;  // by memory
  std::vector<std::vector<const at::Tensor*>> members;
  std::vector<size_t> first;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_number = static_cast<const torch::lazy::TSData&>(*arguments[i]).scalar.has_value();
    size_t source = members.size();
    if (!is_number && values[i].numel() > 0)
      source = known.try_emplace(values[i].const_data_ptr(), source).first->second;
    if (source < members.size() && !is_same(values[i], values[first[source]])) source = members.size();
    if (source == members.size()) {
      members.emplace_back();
      first.push_back(i);
      inputs.dying.push_back(true);
    }
    members[source].push_back(&values[i]);
    inputs.dying[source] = inputs.dying[source] && dying[i];
    inputs.sources.push_back(source);
  }
  for (size_t source = 0; source < members.size(); ++source) {
    inputs.owned.push_back(inputs.dying[source] && own_their_memory(members[source]));
    inputs.tensors.push_back(values[first[source]]);
  }
  return inputs;
}

}  // namespace tenon::lazy_device
