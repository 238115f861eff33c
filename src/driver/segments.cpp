#include "driver/segments.h"

#include <algorithm>

#include "backends/device_backend.h"
#include "driver/kernels.h"
#include "graph/node_symbols.h"
#include "partition/outline.h"
#include "partition/partition.h"
#include "passes/passes.h"
#include "program/tables.h"
#include "tiles/form.h"

namespace tenon {
namespace {

bool has_late_size(const Graph& graph, const Node& node, const std::set<Symbol>& bound) {
  std::set<Symbol> symbols = symbols_of(graph, node);
  for (const auto& values : {node.operands, node.results}) {
    for (ValueRef value : values) {
      if (value) add_symbols(graph.type(value), symbols);
    }
  }
  return !std::ranges::includes(bound, symbols);
}

Claimant claimant_of(const Backend& backend, const std::set<Symbol>& bound) {
  Claimant claimant{.name = backend.name()};
  claimant.claim = [&](const Graph& graph, NodeRef node) -> Claim {
    if (has_late_size(graph, graph.node(node), bound)) return {.reason = "a size of it is known only when it runs"};
    return claim_of(backend, graph, node);
  };
  if (const auto device = device_of(backend)) {
    claimant.crossing_seconds = device->info().crossing_seconds;
    if (device->info().bytes_per_second > 0) claimant.bytes_per_second = device->info().bytes_per_second;
  } else {
    claimant.shares_host_memory = true;
  }
  return claimant;
}

std::vector<std::shared_ptr<const Backend>> backends_of(const ProgramOptions& options) {
  std::vector<std::shared_ptr<const Backend>> backends;
  for (const std::string& name : options.devices) {
    if (name == options.backend) break;  // it takes every node that is left
    if (std::ranges::find(backends, name, &Backend::name) != backends.end()) fail("device {} is named twice", name);
    backends.push_back(find_backend(name).value());
    const std::string missing = backends.back()->missing_hardware();
    if (!missing.empty()) fail("device {} needs {}, which this machine lacks", name, missing);
    const std::shared_ptr<runtime::Device> device = device_of(*backends.back());
    if (device && (device->info().flags & TENON_DEVICE_HOST_CODE) != 0 && options.cpu != "native")
      fail("device {} runs code for this CPU: nothing can be compiled for {} with it", name, options.cpu);
  }
  return backends;
}

}  // namespace

void form_layers_of(Module& module, const BuildTarget&, const ProgramOptions& options) {
  for (const auto& backend : backends_of(options)) {
    const tenon_tile_machine* const machine = tile_machine_of(*backend);
    if (machine == nullptr) continue;
    // A dead node would make a layer's result one of its segment, and a permutation that is there twice an operand.
    const Graph formed = eliminate_dead_code(canonicalize(form_layers(module.graph, *machine)));
    module.graph = eliminate_common_subexpressions(formed);
  }
}

void partition_module(Module& module, const BuildTarget& target, const ProgramOptions& options) {
  const std::vector<std::shared_ptr<const Backend>> backends = backends_of(options);
  if (backends.empty()) return;
  std::set<Symbol> bound;
  for (const SymbolBinding& binding : bind_symbols(module.graph)) bound.insert(binding.symbol);
  std::vector<Claimant> claimants;
  for (const auto& backend : backends) claimants.push_back(claimant_of(*backend, bound));
  claimants.push_back(pytorch_claimant());
  claimants.push_back(cpu_claimant());
  claimants.back().name = target.backend->name();
  Partition parts = partition(module.graph, claimants);
  Outlined outlined = outline(
      module.graph, parts, [&](uint32_t claimant) { return claimant < backends.size(); },
      [&](const Leaf& leaf) { return is_frozen(module.graph, leaf, options); });
  module.placement = std::make_shared<const Placement>(std::move(module.graph), std::move(parts));
  module.graph = std::move(outlined.graph);
  for (OutlinedSegment& segment : outlined.segments) {
    const auto backend = std::ranges::find(backends, segment.claimant, [](const auto& each) { return each->name(); });
    module.segments.push_back({*backend, std::make_shared<Module>(new_module(segment.body))});
  }
}

}  // namespace tenon
