// Backends that share a model: each node goes to the first that claims it (partition/partition.h).
//
// Every backend can take part. A Backend claims all nodes that are lowered to loops, and its kernels run in the host's
// memory. A DeviceBackend says more: which nodes it takes, whose memory its kernels run in, and whether it compiles
// whole segments.
#pragma once

#include "backends/backend.h"
#include "graph/graph.h"
#include "partition/partition.h"

namespace tenon {

class DeviceBackend : public Backend {
 public:
  using Backend::Backend;

  // The backend with options: "cuda:1". Null: it has none.
  virtual std::shared_ptr<const Backend> with_options(std::string_view spec) const;

  virtual Claim claim(const Graph& graph, NodeRef node) const = 0;
  // Null: the host's memory.
  virtual std::shared_ptr<runtime::Device> device() const { return nullptr; }
  // Whether it compiles segments as graphs, with compile_graph, instead of kernels as loops.
  virtual bool compiles_graphs() const { return false; }
  virtual std::unique_ptr<Compiled> compile_graph(const Graph& segment) const;  // throws an Error

  // Of a device that is a tile machine: it compiles segments of nodes `tile_layer` (tiles/form.h). Else null.
  virtual const tenon_tile_machine* tile_machine() const { return nullptr; }

  // What its code depends on, for caches: name, version and options. Empty: its code cannot be kept.
  virtual std::string identity() const { return ""; }
  // Code that code_of returned, in this process or another. Each throws an Error.
  virtual std::unique_ptr<Compiled> load(const loops::LoopTree& tree, std::string_view code) const;
  virtual std::unique_ptr<Compiled> load_graph(const Graph& segment, std::string_view code) const;
};

std::shared_ptr<const Backend> with_options(const Backend& backend, std::string_view spec);  // null: it has none
std::string identity_of(const Backend& backend);              // empty if it is not a DeviceBackend
std::string code_of(const Compiled& kernel);                  // of a device, to keep it; empty if it is not one's
const DeviceBackend& device_backend(const Backend& backend);  // throws an Error if it is none

Claim claim_of(const Backend& backend, const Graph& graph, NodeRef node);
Claim claim_of_loops(const Graph& graph, NodeRef node);  // of a backend that takes whatever is lowered to loops
std::shared_ptr<runtime::Device> device_of(const Backend& backend);  // null: the host's memory
const tenon_tile_machine* tile_machine_of(const Backend& backend);   // null: it is none
// The same backend if it compiles graphs, else null.
const DeviceBackend* graph_compiler(const Backend& backend);

}  // namespace tenon
