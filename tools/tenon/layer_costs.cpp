#include "layer_costs.h"

#include <fmt/format.h>

#include <map>

#include "backends/device_backend.h"
#include "driver/pipeline.h"
#include "graph/value_names.h"
#include "runtime/device.h"
#include "support/checked.h"
#include "support/runtime_call.h"
#include "tiles/compile.h"
#include "tiles/layer.h"

namespace tenon::cli {
namespace {

// A graph of one layer, whose operands are inputs.
Graph layer_alone(const Graph& graph, const Node& node) {
  Graph body("layer");
  std::map<ValueRef, ValueRef> inside;
  std::vector<ValueRef> operands;
  for (ValueRef operand : node.operands) {
    if (operand && !inside.contains(operand))
      inside[operand] = body.add_input(fmt::format("in{}", inside.size()), graph.type(operand));
    operands.push_back(operand ? inside.at(operand) : ValueRef());
  }
  const NodeRef copy = body.add_node(*node.op, std::move(operands), node.attrs, node.location);
  body.set_outputs(body.node(copy).results);
  return body;
}

int64_t bytes_of(const TensorType& type) {
  int64_t bytes = size_of(type.dtype);
  for (const Expr& size : type.shape) bytes = checked_mul(bytes, size.constant());
  return bytes;
}

// The nanoseconds that the device takes for a graph; none if it does not tell.
std::optional<double> device_time(const DeviceBackend& backend, const Graph& graph) {
  const std::unique_ptr<Compiled> compiled = backend.compile_graph(graph);
  return call_runtime([&]() -> std::optional<double> {
    const std::shared_ptr<const runtime::DeviceProgram> program = compiled->device_program();
    const std::shared_ptr<runtime::Device>& device = program->shared_device();
    if (!device->has_events()) return std::nullopt;
    std::vector<runtime::DeviceBlock> blocks;
    std::vector<void*> buffers;
    for (uint32_t id = 0; id < graph.value_count(); ++id) {
      const std::vector<std::byte> zeros(static_cast<size_t>(bytes_of(graph.type({id}))));
      blocks.emplace_back(device, static_cast<int64_t>(zeros.size()));
      buffers.push_back(blocks.back().data());
      device->wait(device->copy_in(buffers.back(), zeros.data(), blocks.back().bytes()));
    }
    const runtime::DeviceBlock scratch(device, program->scratch_bytes());
    const tenon_launch launch{.size = sizeof(tenon_launch),
                              .buffers = buffers.data(),
                              .buffer_count = buffers.size(),
                              .scratch = scratch.bytes() == 0 ? nullptr : scratch.data()};
    const runtime::Ticket ticket = device->submit(program->get(), launch);
    device->wait(ticket);
    const tenon_device_event event = device->event_of(ticket);
    if (event.end_ns <= event.begin_ns) return std::nullopt;
    return static_cast<double>(event.end_ns - event.begin_ns);
  });
}

void count_bytes(const tenon_tile_action& action, LayerCost& cost) {
  const int64_t runs = checked_mul(int64_t{action.inner}, int64_t{action.outer});
  if (action.kind == TENON_TILE_LOAD && (action.flags & TENON_TILE_ZEROS) == 0)
    cost.load_bytes = checked_add(cost.load_bytes, checked_mul(runs, int64_t{action.run}));
  if (action.kind == TENON_TILE_STORE) {
    const auto element = static_cast<int64_t>(tenon_dtype_size(static_cast<tenon_dtype>(action.dtype)));
    cost.store_bytes = checked_add(cost.store_bytes, checked_mul(runs, int64_t{action.run} * element));
  }
}

std::string shape_of(const TileLayer& layer) {
  if (layer.taps() == 1 && layer.width == 1)
    return fmt::format("{}x{} -> {}", layer.batch * layer.height, layer.channels, layer.outputs);
  return fmt::format("{}x{}x{}x{} * {}x{} -> {}", layer.batch, layer.height, layer.width, layer.channels,
                     layer.kernel[0], layer.kernel[1], layer.outputs);
}

class CostFinder {
 public:
  CostFinder(const DeviceBackend& backend, LayerTimes times) : backend_(backend), times_(times) {}

  LayerCost cost(const Graph& graph, const Node& node, std::string name) {
    const tenon_tile_machine& machine = *backend_.tile_machine();
    const TileLayer layer = layer_of(graph, node);
    LayerCost cost{.device = backend_.name(), .name = std::move(name), .shape = shape_of(layer)};
    cost.location = node.location;
    const int64_t pixels = checked_mul(checked_mul(layer.batch, layer.out_height()), layer.out_width());
    cost.macs = checked_mul(checked_mul(pixels, layer.outputs), checked_mul(layer.channels, layer.taps()));
    cost.peak = int64_t{machine.rows} * machine.columns;
    const Graph alone = layer_alone(graph, node);
    const TileCode code = compile_tiles(alone, machine).value();
    for (const tenon_tile_action& action : code.actions) count_bytes(action, cost);
    cost.array_cycles = static_cast<double>(cost.macs) / static_cast<double>(cost.peak);
    cost.dma_cycles = static_cast<double>(std::max(cost.load_bytes, cost.store_bytes)) / machine.dma_bytes;
    if (times_ == LayerTimes::kMeasured && machine.hertz > 0) cost.cycles = cycles_of(alone, machine.hertz);
    return cost;
  }

 private:
  // Equal layers are measured once.
  std::optional<double> cycles_of(const Graph& alone, double hertz) {
    const auto [place, is_new] = measured_.try_emplace(to_string(alone));
    if (is_new) {
      if (const std::optional<double> time = device_time(backend_, alone)) place->second = *time * hertz / 1e9;
    }
    return place->second;
  }

  const DeviceBackend& backend_;
  LayerTimes times_;
  std::map<std::string, std::optional<double>> measured_;
};

}  // namespace

std::vector<LayerCost> layer_costs(const Graph& graph, const std::vector<std::string>& devices, LayerTimes times) {
  const ProgramOptions options{.devices = devices};
  Module module = new_module(graph);
  const auto stages = static_cast<size_t>(&stage_named("partition") - pipeline().data()) + 1;
  run_stages(module, pipeline().first(stages), target_of(options), options);
  std::vector<LayerCost> costs;
  std::map<std::string, CostFinder> finders;
  for (const ModuleSegment& segment : module.segments) {
    if (tile_machine_of(*segment.backend) == nullptr) continue;
    const DeviceBackend& backend = device_backend(*segment.backend);
    CostFinder& finder = finders.try_emplace(backend.name(), backend, times).first->second;
    const Graph& body = segment.module->graph;
    const std::vector<std::string> names = value_names(body);
    for (const Node& node : body.nodes()) costs.push_back(finder.cost(body, node, names[node.results[0].id]));
  }
  return costs;
}

std::optional<double> mean_utilization(const std::vector<LayerCost>& layers) {
  double array = 0, cycles = 0;
  for (const LayerCost& layer : layers) {
    if (!layer.cycles) return std::nullopt;
    array += layer.array_cycles;
    cycles += *layer.cycles;
  }
  return cycles > 0 ? std::optional(array / cycles) : std::nullopt;
}

}  // namespace tenon::cli
