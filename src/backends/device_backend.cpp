#include "backends/device_backend.h"

namespace tenon {
namespace {

const DeviceBackend* as_device(const Backend& backend) { return dynamic_cast<const DeviceBackend*>(&backend); }

}  // namespace

std::unique_ptr<Compiled> DeviceBackend::compile_graph(const Graph&) const {
  fail("backend {} compiles loops only", name());
}

Claim claim_of_loops(const Graph& graph, NodeRef node) {
  const OpDef& op = *graph.node(node).op;
  switch (role_of(op)) {
    case Role::kExternal:
      return {.reason = "PyTorch computes it"};
    case Role::kSegment:
      return {.reason = "another device computes it"};
    case Role::kLibrary:
      return {.reason = "a function of the runtime computes it"};
    default:
      return {.accepted = true};
  }
}

Claim claim_of(const Backend& backend, const Graph& graph, NodeRef node) {
  const DeviceBackend* const device = as_device(backend);
  return device ? device->claim(graph, node) : claim_of_loops(graph, node);
}

std::shared_ptr<runtime::Device> device_of(const Backend& backend) {
  const DeviceBackend* const device = as_device(backend);
  return device ? device->device() : nullptr;
}

const DeviceBackend* graph_compiler(const Backend& backend) {
  const DeviceBackend* const device = as_device(backend);
  return device && device->compiles_graphs() ? device : nullptr;
}

}  // namespace tenon
