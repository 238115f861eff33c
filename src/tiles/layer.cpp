#include "tiles/layer.h"

#include <fmt/format.h>

#include "tiles/blocks.h"

namespace tenon {
namespace {

enum Operand : uint8_t { kX, kWeights, kVectors, kResidual };

std::optional<float> bound(const OpView& view, std::string_view name) {
  if (!view.given(name)) return std::nullopt;
  return static_cast<float>(view.real(name));
}

// Packed weights are in tiles of another machine.
bool are_foreign(const OpView& view, const tenon_tile_machine& machine) {
  if (!view.flag("packed")) return false;
  const TensorType& weights = view.type(kWeights);
  return !weights.size(4).is_constant(machine.rows) || !weights.size(5).is_constant(machine.columns);
}

}  // namespace

bool is_tile_layer(const Node& node) { return node.op->name.get() == "tile_layer"; }

TileLayer layer_of(const Graph& graph, const Node& node) {
  check(is_tile_layer(node), "{} is no layer of a tile machine", node.op->name.get());
  const OpView view = view_of(graph, *node.op, node.operands, node.attrs);
  const std::span<const int64_t> image = view.ints("image");
  const auto pair = [&](std::string_view name) { return std::array{view.ints(name)[0], view.ints(name)[1]}; };
  return {.batch = image[0],
          .height = image[1],
          .width = image[2],
          .channels = image[3],
          .outputs = view.integer("outputs"),
          .kernel = pair("kernel"),
          .stride = pair("stride"),
          .padding = pair("padding"),
          .dilation = pair("dilation"),
          .operand = view.type(kX).dtype,
          .output = view.dtype("dtype"),
          .packed = view.flag("packed"),
          .transposed = view.flag("transposed"),
          .has_vectors = view.has(kVectors),
          .has_residual = view.has(kResidual),
          .low = bound(view, "low"),
          .high = bound(view, "high"),
          .residual_scale = view.real("residual_scale"),
          .residual_zero_point = view.integer("residual_zero_point"),
          .pad = view.integer("pad"),
          .zero_point = view.integer("zero_point")};
}

std::string misfit(const TileLayer& layer, const tenon_tile_machine& machine) {
  if (!multiplies(machine, layer.operand)) return fmt::format("its array does not multiply {}", name_of(layer.operand));
  const int64_t bytes = size_of(layer.operand);
  if (machine.rows * bytes % machine.line_bytes != 0 || machine.columns * bytes % machine.line_bytes != 0)
    return fmt::format("a row of its array in {} does not fill whole lines", name_of(layer.operand));
  if (!stores(machine, layer.output)) return fmt::format("it does not store {}", name_of(layer.output));
  const bool clamps = layer.low || layer.high;
  if (layer.output == DType::kI32 && (layer.has_vectors || layer.has_residual || clamps))
    return "sums in i32 have no epilogue";
  if (!layer.is_integer() && is_integral(layer.output)) return "it rounds sums of floats to floats only";
  const uint32_t needed = (layer.has_vectors ? TENON_TILE_BIAS | TENON_TILE_SCALE : 0) |
                          (layer.has_residual ? TENON_TILE_RESIDUAL : 0) | (clamps ? TENON_TILE_CLAMP : 0);
  if ((needed & ~machine.epilogues) != 0) return "it has no such epilogue";
  if (!choose_blocks(layer, machine)) return "no block of the layer fits its memories";
  return {};
}

std::string misfit(const Graph& graph, const Node& node, const tenon_tile_machine& machine) {
  if (!is_tile_layer(node)) return fmt::format("its tiles do not do {}", node.op->name.get());
  const OpView view = view_of(graph, *node.op, node.operands, node.attrs);
  if (are_foreign(view, machine)) return "its weights are in tiles of another machine";
  if (view.type(kWeights).dtype != view.type(kX).dtype) return "its operands differ in dtype";
  if (view.has(kResidual) && view.type(kResidual).dtype != view.type(kX).dtype) return "its residual has another dtype";
  return misfit(layer_of(graph, node), machine);
}

}  // namespace tenon
