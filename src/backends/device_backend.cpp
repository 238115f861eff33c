#include "backends/device_backend.h"

#include "runtime/device.h"

namespace tenon {
namespace {

const DeviceBackend* as_device(const Backend& backend) { return dynamic_cast<const DeviceBackend*>(&backend); }

}  // namespace

std::shared_ptr<const Backend> DeviceBackend::with_options(std::string_view) const { return nullptr; }

std::unique_ptr<Compiled> DeviceBackend::compile_graph(const Graph&) const {
  fail("backend {} compiles loops only", name());
}

std::unique_ptr<Compiled> DeviceBackend::load(const loops::LoopTree&, std::string_view) const {
  fail("backend {} keeps no code", name());
}

std::unique_ptr<Compiled> DeviceBackend::load_graph(const Graph&, std::string_view) const {
  fail("backend {} keeps no code", name());
}

std::shared_ptr<const Backend> with_options(const Backend& backend, std::string_view spec) {
  const DeviceBackend* const device = as_device(backend);
  return device ? device->with_options(spec) : nullptr;
}

std::string identity_of(const Backend& backend) {
  const DeviceBackend* const device = as_device(backend);
  return device ? device->identity() : "";
}

// The bytes of scratch, then the code.
std::string code_of(const Compiled& kernel) {
  const std::shared_ptr<const runtime::DeviceProgram> program = kernel.device_program();
  if (!program) return "";
  const int64_t scratch = program->scratch_bytes();
  std::string code(reinterpret_cast<const char*>(&scratch), sizeof scratch);
  return code.append(reinterpret_cast<const char*>(program->code().data()), program->code().size());
}

const DeviceBackend& device_backend(const Backend& backend) {
  const DeviceBackend* const device = as_device(backend);
  if (device == nullptr) fail("backend {} is not a device", backend.name());
  return *device;
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

const tenon_tile_machine* tile_machine_of(const Backend& backend) {
  const DeviceBackend* const device = as_device(backend);
  return device ? device->tile_machine() : nullptr;
}

const DeviceBackend* graph_compiler(const Backend& backend) {
  const DeviceBackend* const device = as_device(backend);
  return device && device->compiles_graphs() ? device : nullptr;
}

}  // namespace tenon
