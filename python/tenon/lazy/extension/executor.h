// PyTorch finds the compiled form of a graph by a hash that takes all inputs of a type for one: after a graph of `a +
// b` and `a - b`, one of `a + b` and `b - a` is the same to it, and gives the results of the first. Here the hash also
// has which node each node reads, and which each result is.
#pragma once

#include <torch/csrc/lazy/core/lazy_graph_executor.h>

#include <unordered_map>

namespace tenon::lazy_device {

class Executor : public torch::lazy::LazyGraphExecutor {
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
    return data;
  }
};

// For the rest of the process.
inline void register_executor() {
  static Executor* const executor = new Executor;
  torch::lazy::LazyGraphExecutor::Register(executor);
}

}  // namespace tenon::lazy_device
