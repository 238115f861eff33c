// One launch on two devices, and the first command or element that they disagree about.
//
// Devices that run the same code, and tell what their commands do (device_debug.h), are compared command by command.
// Others are compared by the results of the launch, then node by node.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "device_debug.h"
#include "graph/graph.h"
#include "tiles/compile.h"

namespace tenon::cli {

// What both devices do.
struct DiffLaunch {
  std::string name;
  std::shared_ptr<const Graph> segment = {};  // null: a kernel, or actions of no model
  std::shared_ptr<const TileCode> tiles = {};
  Location location = {};                             // of a kernel: where its first op comes from
  std::vector<std::vector<std::byte>> buffers;        // before the launch
  std::vector<std::optional<TensorType>> types = {};  // of buffers; none: bytes
  std::vector<std::string> names = {};                // of buffers
  size_t inputs = 0;                                  // how many buffers are only read
  std::vector<Expr> size_exprs = {};
  std::vector<int64_t> sizes = {};  // values of those
};

// A device in a comparison.
struct DiffSide {
  std::string device;
  std::shared_ptr<const Backend> backend;                      // null: there is nothing to narrow down with
  std::shared_ptr<const runtime::DeviceProgram> program = {};  // of the launch
};

struct Difference {
  std::string launch = {};               // name
  std::optional<uint64_t> command = {};  // of the launch, of `commands`
  uint64_t commands = 0;
  std::string unit = {};
  std::string text = {};                   // of the command
  std::string node = {};                   // of the segment: "%y = tile_layer"
  Location location = {};                  // where the model has it
  std::vector<std::string> where = {};     // sentences about loops, tiles and elements
  std::string a = {}, b = {};              // the values
  std::string fault_a = {}, fault_b = {};  // of launches that failed
};

// What is asked besides: writes and waveforms around a command.
struct DiffFocus {
  std::optional<uint64_t> command = {};
  std::string waves = {};  // a file; empty: none
};

struct DiffResult {
  std::optional<Difference> difference = {};
  uint64_t commands = 0;                             // that were compared; 0: results only
  std::vector<std::vector<std::byte>> outputs = {};  // of a
};

// The first element of a value that differs, beyond a relative tolerance.
std::optional<Difference> value_difference(const std::string& name, DType dtype, std::span<const std::byte> a,
                                           std::span<const std::byte> b, double tolerance);
void set_node(Difference& difference, const Graph& graph, NodeRef node);

// With a focus, the difference is described in full; without, only its command is known.
DiffResult compare_launch(const DiffLaunch& launch, const DiffSide& a, const DiffSide& b, const DiffFocus& focus,
                          double tolerance);

}  // namespace tenon::cli
