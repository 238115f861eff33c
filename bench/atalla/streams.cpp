// What a model costs on Atalla, layer by layer: the streams that Tenon compiles for it, through the timing model of
// accelerators/atalla (timing.h). Time does not depend on data, so nothing is computed. With --rtl, the RTL runs the
// same streams, on random bytes.
//
//     bench_atalla model.pt2 build/accelerators/atalla.so [options of the device] [--rtl]
//
// Writes JSON: a list of layers in the order in which they run, and what is left to the CPU. bench/atalla/__main__.py
// reads it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>

#include "accelerators/atalla/body.h"
#include "accelerators/atalla/check.h"
#include "accelerators/atalla/plugin/encode.h"
#include "accelerators/atalla/plugin/options.h"
#include "accelerators/atalla/timing.h"
#include "backends/device_backend.h"
#include "capture/import_pt2.h"
#include "driver/pipeline.h"
#include "runtime/device.h"
#include "tiles/blocks.h"
#include "tiles/compile.h"
#include "tiles/layer.h"

namespace {

using namespace tenon;

constexpr uint64_t kFirstAddress = 4096;

// One layer on the device.
struct Row {
  TileLayer layer;
  size_t segment;
  uint64_t cycles = 0;  // from the end of the layer before it to its own
  uint64_t rtl_cycles = 0;
  double estimate = 0;     // choose_blocks'
  uint64_t dma_bytes = 0;  // both ways
  uint64_t commands = 0;
  uint64_t array_rows = 0;  // that its multiplications feed
};

struct Measured {
  std::vector<Row> rows;
  bool has_rtl = false;
  double rtl_seconds = 0;  // of the simulation alone
};

double multiplications(const TileLayer& layer) {
  return static_cast<double>(layer.batch * layer.out_height() * layer.out_width() * layer.taps()) *
         static_cast<double>(layer.groups * layer.channels * layer.outputs);
}

int64_t bytes_of(const TensorType& type) {
  int64_t bytes = size_of(type.dtype);
  for (const Expr& size : type.shape) bytes *= size.constant();
  return bytes;
}

// Addresses of the buffers of a launch, one behind the other, and then scratch and zeros.
class Addresses {
 public:
  Addresses(const Graph& segment, const TileCode& code) {
    for (uint32_t id = 0; id < segment.value_count(); ++id) {
      const bool is_output = std::ranges::find(segment.outputs(), ValueRef{id}) != segment.outputs().end();
      if (!segment.producer({id}) || is_output) buffers_.push_back(place(bytes_of(segment.type({id}))));
    }
    scratch_ = place(code.scratch_bytes);
  }

  uint64_t of(uint32_t buffer) const {
    return buffer == atalla::kZeros ? 0 : buffer == TENON_SCRATCH ? scratch_ : buffers_.at(buffer);
  }
  uint64_t end() const { return next_; }

 private:
  uint64_t place(int64_t bytes) {
    const uint64_t address = next_;
    next_ = (next_ + static_cast<uint64_t>(bytes) + 63) / 64 * 64;
    return address;
  }

  uint64_t next_ = kFirstAddress, scratch_ = 0;
  std::vector<uint64_t> buffers_;
};

template <class T>
atalla::Command moved(const atalla::Command& command, uint64_t base) {
  T decoded = atalla::decode<T>(command);
  set_address(decoded, address_of(decoded) + base);
  return atalla::encode(decoded);
}

std::vector<atalla::Command> encoded(const TileCode& code, const Addresses& addresses) {
  std::vector<atalla::Command> commands;
  for (const tenon_tile_action& action : code.actions) {
    const atalla::Relocatable it = atalla::encode(action);
    if (it.buffer == atalla::kNoBuffer) {
      commands.push_back(it.command);
    } else if (action.kind == TENON_TILE_LOAD) {
      commands.push_back(moved<atalla::Load>(it.command, addresses.of(it.buffer)));
    } else {
      commands.push_back(moved<atalla::Store>(it.command, addresses.of(it.buffer)));
    }
  }
  return commands;
}

uint64_t transferred(const tenon_tile_action& action) {
  const uint64_t count = uint64_t{action.inner} * action.outer * action.run;
  if (action.kind == TENON_TILE_LOAD) return count;
  if (action.kind != TENON_TILE_STORE) return 0;
  return count * static_cast<uint64_t>(size_of(static_cast<DType>(action.dtype)));
}

// By layer: from the end of the layer before it to its own.
std::vector<uint64_t> layer_cycles(const TileCode& code, const std::vector<atalla::Event>& events, size_t layers) {
  std::vector<uint64_t> ends(layers), cycles(layers);
  for (size_t i = 0; i < events.size(); ++i) {
    uint64_t& end = ends[code.actions[i].node];
    end = std::max(end, events[i].end);
  }
  for (size_t i = 0; i < layers; ++i) cycles[i] = ends[i] - (i == 0 ? 0 : ends[i - 1]);
  return cycles;
}

std::vector<atalla::Event> run_rtl(const std::vector<atalla::Command>& commands, const atalla::Machine& machine,
                                   uint64_t memory_bytes, double& seconds) {
  std::string error;
  const auto body = atalla::make_body("rtl", machine, {.memory_bytes = memory_bytes}, error);
  if (body == nullptr) fail("no body rtl: {}", error);
  std::mt19937 random(1);
  std::ranges::generate(body->memory(), [&] { return static_cast<uint8_t>(random() >> 24); });
  const auto start = std::chrono::steady_clock::now();
  atalla::RunResult run = body->submit(commands, {.events = true});
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (run.fault) fail("the RTL stops at command {}: {}", run.fault->command, run.fault->reason);
  return std::move(run.events);
}

void measure(const Graph& segment, size_t number, const tenon_tile_machine& machine,
             const atalla::Machine& atalla_machine, Measured& measured) {
  const TileCode code = compile_tiles(segment, machine).value();
  const Addresses addresses(segment, code);
  const std::vector<atalla::Command> commands = encoded(code, addresses);
  if (const auto fault = atalla::Checker(atalla_machine, addresses.end()).check(commands))
    fail("command {} of segment {} breaks a rule: {}", fault->command, number, fault->reason);
  std::vector<atalla::Event> events;
  atalla::Timing(atalla_machine, commands).run(&events);
  const size_t layers = segment.nodes().size();
  const std::vector<uint64_t> cycles = layer_cycles(code, events, layers);
  std::vector<uint64_t> rtl_cycles(layers);
  if (measured.has_rtl)
    rtl_cycles = layer_cycles(code, run_rtl(commands, atalla_machine, addresses.end(), measured.rtl_seconds), layers);
  const size_t first = measured.rows.size();
  for (size_t i = 0; i < layers; ++i) {
    const TileLayer layer = layer_of(segment, segment.nodes()[i]);
    measured.rows.push_back({.layer = layer,
                             .segment = number,
                             .cycles = cycles[i],
                             .rtl_cycles = rtl_cycles[i],
                             .estimate = choose_blocks(layer, machine).value().cycles});
  }
  for (const tenon_tile_action& action : code.actions) {
    Row& row = measured.rows[first + action.node];
    row.dma_bytes += transferred(action);
    ++row.commands;
    if (action.kind == TENON_TILE_MULTIPLY) row.array_rows += uint64_t{action.inner} * action.outer;
  }
}

// What crosses between the CPU and segments, and what the CPU does around them.
struct Rest {
  size_t transfers = 0;  // activations into and out of segments
  int64_t transfer_bytes = 0;
  size_t permutations = 0;     // nodes of the CPU that change a layout
  double multiplications = 0;  // of products that the CPU computes
};

// By value: whether it depends on an input of the model. What does not is computed once, and weights are uploaded once.
std::vector<bool> changing_values(const Graph& graph) {
  std::vector<bool> changes(graph.value_count());
  for (ValueRef input : graph.inputs()) changes[input.id] = true;
  for (const Node& node : graph.nodes()) {
    const bool any = std::ranges::any_of(node.operands, [&](ValueRef value) { return value && changes[value.id]; });
    for (ValueRef result : node.results) changes[result.id] = any;
  }
  return changes;
}

Rest rest_of(const Module& module) {
  Rest rest;
  const std::vector<bool> changes = changing_values(module.graph);
  for (const Node& node : module.graph.nodes()) {
    const std::string_view op = node.op->name.get();
    if (op == "permute") rest.permutations += changes[node.results[0].id];
    if (node.op->flops != nullptr) {
      const OpView view = view_of(module.graph, *node.op, node.operands, node.attrs);
      rest.multiplications += node.op->flops(view, module.graph.type(node.results[0])) / 2;
    }
    if (op != "segment") continue;
    for (const auto& values : {node.operands, node.results}) {
      for (ValueRef value : values) {
        if (!changes[value.id]) continue;
        ++rest.transfers;
        rest.transfer_bytes += bytes_of(module.graph.type(value));
      }
    }
  }
  return rest;
}

std::string text_of(const Row& row) {
  const TileLayer& l = row.layer;
  return fmt::format(
      R"({{"segment": {}, "batch": {}, "height": {}, "width": {}, "channels": {}, "outputs": {}, "kernel": [{}, {}], )"
      R"("stride": {}, "rows": {}, "operand": "{}", "output": "{}", "residual": {}, "macs": {:.0f}, "cycles": {}, )"
      R"("rtl_cycles": {}, "estimate": {:.0f}, "dma_bytes": {}, "commands": {}, "array_rows": {}}})",
      row.segment, l.batch, l.height, l.width, l.channels, l.outputs, l.kernel[0], l.kernel[1], l.stride[0] * l.skip[0],
      l.batch * l.out_height() * l.out_width(), name_of(l.operand), name_of(l.output), l.has_residual,
      multiplications(l), row.cycles, row.rtl_cycles, row.estimate, row.dma_bytes, row.commands, row.array_rows);
}

void print(const Measured& measured, const Rest& rest, size_t segments) {
  fmt::print(
      "{{\"segments\": {}, \"transfers\": {}, \"transfer_bytes\": {}, \"permutations\": {}, \"cpu_macs\": {:.0f},\n",
      segments, rest.transfers, rest.transfer_bytes, rest.permutations, rest.multiplications);
  fmt::print(" \"rtl_seconds\": {:.3f}, \"layers\": [", measured.rtl_seconds);
  for (size_t i = 0; i < measured.rows.size(); ++i)
    fmt::print("{}\n  {}", i == 0 ? "" : ",", text_of(measured.rows[i]));
  fmt::print("]}}\n");
}

void run(const std::string& model, const std::string& plugin, const std::string& options, bool has_rtl) {
  runtime::load_plugin(plugin);
  const std::string device = options.empty() ? "atalla" : "atalla:" + options;
  const ProgramOptions program{.devices = {device}};
  Module module = new_module(import_pt2(model).value().graph);
  const auto stages = pipeline();
  // Behind the partition, ops of the CPU become others that may permute for themselves.
  const auto partition = std::ranges::find(stages, "partition", &Stage::name);
  run_stages(module, stages.first(static_cast<size_t>(partition - stages.begin()) + 1), target_of(program), program);
  Measured measured{.has_rtl = has_rtl};
  for (size_t i = 0; i < module.segments.size(); ++i)
    measure(module.segments[i].module->graph, i, *tile_machine_of(*module.segments[i].backend),
            atalla::parse_options(options).machine, measured);
  print(measured, rest_of(module), module.segments.size());
}

}  // namespace

int main(int count, char** given) {
  std::vector<std::string> arguments(given + 1, given + count);
  const bool has_rtl = std::erase(arguments, "--rtl") > 0;
  if (arguments.size() != 2 && arguments.size() != 3) {
    fmt::print(stderr, "usage: bench_atalla model.pt2 atalla.so [options] [--rtl]\n");
    return 2;
  }
  try {
    run(arguments[0], arguments[1], arguments.size() == 3 ? arguments[2] : "", has_rtl);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
