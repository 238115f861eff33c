// A device with the memory and the code of accelerators/loopback, which claims the nodes that its owner chooses.
#pragma once

#include <functional>

#include "backends/device_backend.h"

namespace tenon::test {

class PartOfLoopback : public DeviceBackend {
 public:
  using Takes = std::function<bool(const Graph& graph, NodeRef node)>;

  // loopback must be loaded.
  PartOfLoopback(const std::string& name, Takes takes)
      : DeviceBackend(name), takes_(std::move(takes)), on_(find_backend("loopback").value()) {}

  Claim claim(const Graph& graph, NodeRef node) const override {
    return takes_(graph, node) ? claim_of(*on_, graph, node) : Claim{.reason = "of another part"};
  }
  std::shared_ptr<runtime::Device> device() const override { return device_of(*on_); }
  loops::LoopTree schedule(const loops::IR& kernel) const override { return on_->schedule(kernel); }
  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override { return on_->compile_impl(tree); }
  int hardware_requirement() const override { return kCpu; }

 private:
  Takes takes_;
  std::shared_ptr<const Backend> on_;
};

}  // namespace tenon::test
