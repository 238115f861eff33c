// What a model costs that is split between a device and the CPU: BERT with every second layer on accelerators/loopback.
//
//     bench_device_layers model.pt2 build/accelerators/loopback.so
//
// Prints crossings and transfers. Fails where a crossing takes more than two transfers, where a constant is moved
// twice, and where the results are not those of the CPU. bench/device_layers.py exports the model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "capture/import_pt2.h"
#include "driver/pipeline.h"
#include "runtime/device.h"
#include "tests/driver/support_part_of_loopback.h"

namespace {

using namespace tenon;

constexpr int kAfterAll = 1 << 20;  // the pooler, as one more layer

// The N of "encoder.layer.N.attention.output.dense.weight"; -1 without one.
int layer_in(const std::string& name) {
  if (name.find("pooler") != std::string::npos) return kAfterAll;
  const size_t at = name.find("layer.");
  return at == std::string::npos ? -1 : std::atoi(name.c_str() + at + 6);
}

// The layer that each node belongs to: the last one whose weights its result depends on.
std::vector<int> layers_of(const Graph& graph) {
  std::vector<int> of_value(graph.value_count(), -1), layers;
  for (const Leaf& leaf : graph.leaves()) of_value[leaf.value.id] = layer_in(leaf.name);
  for (const Node& node : graph.nodes()) {
    int layer = -1;
    for (ValueRef operand : node.operands) layer = std::max(layer, operand ? of_value[operand.id] : -1);
    for (ValueRef result : node.results) of_value[result.id] = layer;
    layers.push_back(layer);
  }
  return layers;
}

// Whether a node is of a layer of an odd number. All nodes of a graph are asked for one after the other.
class OddLayers {
 public:
  bool operator()(const Graph& graph, NodeRef node) {
    if (&graph != graph_) {
      graph_ = &graph;
      layers_ = layers_of(graph);
    }
    return layers_[node.id] % 2 == 1;
  }

 private:
  const Graph* graph_ = nullptr;
  std::vector<int> layers_;
};

// Tokens and masks: ones, and a zero here and there.
std::vector<Tensor> inputs_of(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (ValueRef input : graph.inputs()) {
    const TensorType& type = graph.type(input);
    Tensor tensor = Tensor::zeros(type.dtype, evaluate(type.shape, {}));
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      is_float(type.dtype) ? tensor.set_real(i, std::sin(static_cast<double>(i))) : tensor.set_integer(i, i % 7 != 3);
    }
    inputs.push_back(tensor);
  }
  return inputs;
}

double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (int64_t at = 0; at < a[i].numel(); ++at) {
      const double distance = std::abs(a[i].real(at) - b[i].real(at));
      most = std::isnan(distance) ? INFINITY : std::max(most, distance);
    }
  }
  return most;
}

struct Found {
  size_t crossings = 0;  // from the CPU to the device, or back
  size_t transfers = 0;
  size_t constants = 0;  // in the device's memory
  size_t twice = 0;      // values that are transferred twice, constants that are transferred or uploaded twice
};

Found examined(const Program& program) {
  Found found;
  const Partition& parts = program.placement->parts;
  for (const Segment& segment : parts.segments) {
    if (parts.claimants[segment.claimant] == "odd_layers") found.crossings += 2;  // into it, and out of it
  }
  std::set<uint32_t> moved;
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::kTransfer) continue;
    ++found.transfers;
    const bool is_constant = program.slots[task.inputs[0]].kind == SlotKind::kConstant;
    if (!moved.insert(task.inputs[0]).second || is_constant) ++found.twice;
  }
  std::set<const void*> uploaded;
  for (const Slot& slot : program.slots) {
    if (slot.space == 0 || slot.kind != SlotKind::kConstant || &slot != &program.slots[slot.root]) continue;
    ++found.constants;
    if (!uploaded.insert(program.constants[slot.position].data()).second) ++found.twice;
  }
  return found;
}

int run(const std::string& model, const std::string& plugin) {
  runtime::load_plugin(plugin);
  register_backend(std::make_shared<test::PartOfLoopback>("odd_layers", OddLayers()));
  const Graph graph = import_pt2(model).value().graph;
  const Program split = compile_program(graph, {.devices = {"odd_layers"}}).value();
  const Found found = examined(split);
  const std::vector<Tensor> inputs = inputs_of(graph);
  split.run(inputs);
  const double off = difference(split.run(inputs), compile_program(graph).value().run(inputs));
  const bool passes = found.crossings > 0 && found.transfers <= 2 * found.crossings && found.twice == 0 &&
                      found.constants > 0 && off < 1e-4;
  fmt::print(
      "{} crossings, {} transfers (at most 2 a crossing), {} constants on the device, {} moved twice, "
      "{:.1e} from the CPU {}\n",
      found.crossings, found.transfers, found.constants, found.twice, off, passes ? "PASS" : "MISS");
  return passes ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    fmt::print(stderr, "usage: bench_device_layers model.pt2 loopback.so\n");
    return 2;
  }
  try {
    return run(arguments[1], arguments[2]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
