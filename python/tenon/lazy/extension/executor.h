// When recorded calls run, and which compiled graph runs them.
//
// Whoever asks for one tensor has everything run that shares a call with it. So each recorded call runs once: the next
// graph reads its result, and random numbers are drawn once. (PyTorch runs what the tensor needs, and keeps nothing
// else of it: a training that asks for its loss, and never ends a step, would run and compile all earlier steps again.)
//
// PyTorch finds the compiled form of a graph by a hash that takes all inputs of a type for one: after a graph of `a +
// b` and `a - b`, one of `a + b` and `b - a` is the same to it, and gives the results of the first. Here the hash also
// has which node each node reads, which each result is, and the device.
#pragma once

#include <torch/csrc/lazy/core/internal_ops/ltc_ops.h>
#include <torch/csrc/lazy/core/ir_util.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>

#include <unordered_map>

#include "threads.h"

namespace tenon::lazy_device {

using torch::lazy::LazyTensorPtr;

// Nodes in groups: two are in one where a path of nodes that compute something leads from one to the other.
class Groups {
 public:
  explicit Groups(const std::vector<const torch::lazy::Node*>& nodes) {
    for (const torch::lazy::Node* node : nodes) {
      for (const torch::lazy::Output& operand : node->operands()) {
        if (!operand.node->operands().empty()) parents_[group_of(node)] = group_of(operand.node);
      }
    }
  }

  const torch::lazy::Node* group_of(const torch::lazy::Node* node) {
    const torch::lazy::Node* root = node;
    for (auto next = parents_.find(root); next != parents_.end() && next->second != root; next = parents_.find(root)) {
      root = next->second;
    }
    while (node != root) node = std::exchange(parents_[node], root);
    return root;
  }

 private:
  std::unordered_map<const torch::lazy::Node*, const torch::lazy::Node*> parents_;  // a root has none, or itself
};

class Executor : public torch::lazy::LazyGraphExecutor {
 public:
  void RegisterTensor(std::shared_ptr<torch::lazy::LazyTensor::Data> data) override {
    TensorOwners::get().add(data->unique_id);  // before others can see it
    LazyGraphExecutor::RegisterTensor(std::move(data));
  }

  void UnregisterTensor(torch::lazy::LazyTensor::Data* data) override {
    LazyGraphExecutor::UnregisterTensor(data);
    TensorOwners::get().remove(data->unique_id);
  }

  void SyncLiveTensorsGraph(const torch::lazy::BackendDevice* device, c10::ArrayRef<std::string> devices,
                            bool wait) override {
    std::vector<LazyTensorPtr> tensors = live_tensors(device);
    run(tensors, devices, wait);
  }

  // Of what would run if these were asked for, which does not run.
  torch::lazy::hash_t hash_of(const std::vector<LazyTensorPtr>& tensors) {
    const Chosen chosen;
    return GetGraphHash(tensors);
  }

 protected:
  // The sequence of parameters has a part in the hash, and no other use.
  PostOrderData RunPostOrder(const std::vector<torch::lazy::Value>& roots, SyncTensorCollection* tensors) override {
    PostOrderData data = LazyGraphExecutor::RunPostOrder(roots, tensors);
    std::unordered_map<const torch::lazy::Node*, size_t> places;
    const auto add = [&](const torch::lazy::Node* node, size_t result) {
      data.parameter_sequence.push_back(places[node]);
      data.parameter_sequence.push_back(result);
    };
    for (const torch::lazy::Node* node : data.post_order) {
      for (const torch::lazy::Output& operand : node->operands()) add(operand.node, operand.index);
      places.emplace(node, places.size() + 1);
    }
    for (const torch::lazy::Value& root : roots) add(root.node.get(), root.index);
    data.parameter_sequence.push_back(static_cast<size_t>(tensors->device.ordinal()));
    return data;
  }

 private:
  // While there is one in a thread, it is known which tensors run: no others are to join them.
  class Chosen {
   public:
    Chosen() : before_(std::exchange(is_there(), true)) {}
    Chosen(const Chosen&) = delete;
    Chosen& operator=(const Chosen&) = delete;
    ~Chosen() { is_there() = before_; }

    static bool& is_there() {
      static thread_local bool there = false;
      return there;
    }

   private:
    bool before_;
  };

  // PyTorch asks this of each tensor that somebody wants the value of, before it runs them.
  bool ShouldSyncTensor(const LazyTensorPtr& tensor) const override {
    if (Chosen::is_there()) return tensor->GetIrValue()->op() != torch::lazy::ltc_not_supported;
    TensorOwners::get().take(tensor->GetUniqueId());
    std::vector<LazyTensorPtr> tensors = sharing_calls_with(tensor);
    static_cast<Executor*>(Get())->run(tensors, {}, /*wait=*/true);
    return false;
  }

  void run(std::vector<LazyTensorPtr>& tensors, c10::ArrayRef<std::string> devices, bool wait) {
    const Chosen chosen;
    SyncTensorsGraph(&tensors, devices, wait, /*sync_ltc_data=*/true);
  }

  std::vector<LazyTensorPtr> live_tensors(const torch::lazy::BackendDevice* device) const {
    std::vector<LazyTensorPtr> tensors = Get()->GetLiveTensors(device);
    std::erase_if(tensors, [](const auto& tensor) { return !TensorOwners::get().take(tensor->GetUniqueId()); });
    return tensors;
  }

  std::vector<LazyTensorPtr> sharing_calls_with(const LazyTensorPtr& asked) const {
    std::vector<LazyTensorPtr> tensors = live_tensors(&asked->GetDevice());
    std::erase_if(tensors, [&](const auto& tensor) {
      return tensor->CurrentDataHandle() || !tensor->CurrentIrValue() || tensor->GetUniqueId() == asked->GetUniqueId();
    });
    tensors.push_back(asked);  // it may be new, and not among those that live
    std::vector<const torch::lazy::Node*> roots;
    for (const LazyTensorPtr& tensor : tensors) roots.push_back(tensor->CurrentIrValue().node.get());
    Groups groups(torch::lazy::Util::ComputePostOrder(roots));
    const torch::lazy::Node* wanted = groups.group_of(roots.back());
    std::vector<LazyTensorPtr> sharing;
    for (size_t i = 0; i < roots.size(); ++i) {
      if (groups.group_of(roots[i]) == wanted) sharing.push_back(tensors[i]);
    }
    return sharing;
  }
};

// For the rest of the process.
inline Executor& executor() {
  static Executor* const executor = new Executor;
  return *executor;
}

}  // namespace tenon::lazy_device
