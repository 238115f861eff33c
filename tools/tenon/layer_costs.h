// What the layers of a model cost on devices that are tile machines: their work, the least cycles that the machine's
// description allows (a roofline), and the cycles that the device takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tenon::cli {

struct LayerCost {
  std::string device;      // its spec
  std::string name;        // of the layer's result
  std::string shape;       // "20x40 -> 64"
  Location location = {};  // in the model
  int64_t macs = 0;
  int64_t peak = 0;        // multiplications of the array in a cycle
  int64_t load_bytes = 0;  // that its code moves, more than once where blocks need that
  int64_t store_bytes = 0;
  double array_cycles = 0;            // at least: macs / peak
  double dma_cycles = 0;              // at least: the bytes of the busier way
  std::optional<double> cycles = {};  // of the layer alone; none if the device does not tell

  double limit() const { return array_cycles > dma_cycles ? array_cycles : dma_cycles; }
  const char* bound() const { return array_cycles > dma_cycles ? "array" : "DMA"; }
  // The part of the array's peak that the layer reaches.
  std::optional<double> utilization() const { return cycles ? std::optional(array_cycles / *cycles) : std::nullopt; }
};

enum class LayerTimes { kNone, kMeasured };

// Of all layers that the devices run, in order. With kMeasured, runs each layer alone, on zeros. Throws an Error.
std::vector<LayerCost> layer_costs(const Graph& graph, const std::vector<std::string>& devices, LayerTimes times);

// The part of the peak that all of them reach together; none if a layer was not measured.
std::optional<double> mean_utilization(const std::vector<LayerCost>& layers);

}  // namespace tenon::cli
