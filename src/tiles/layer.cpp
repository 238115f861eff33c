#include "tiles/layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "support/is_in.h"
#include "tiles/blocks.h"
#include "tiles/conv_window.h"

namespace tenon {
namespace {

enum Operand : uint8_t { kX, kWeights, kVectors, kResidual };

std::optional<float> bound(const OpView& view, std::string_view name) {
  if (!view.given(name)) return std::nullopt;
  return static_cast<float>(view.real(name));
}

// A row of the window as channels of its first pixel.
TileLayer with_runs(TileLayer layer) {
  layer.width = layer.out_width();
  layer.channels *= layer.kernel[1];
  layer.skip[1] = layer.stride[1];
  layer.kernel[1] = layer.stride[1] = 1;
  return layer;
}

TileLayer without_skipped(TileLayer layer) {
  const bool is_pixel = layer.taps() == 1 && layer.padding == std::array<int64_t, 2>{0, 0};
  if (!is_pixel) return layer;
  const std::array seen = {layer.out_height(), layer.out_width()};
  layer.skip = std::exchange(layer.stride, {1, 1});
  layer.height = seen[0], layer.width = seen[1];
  return layer;
}

// Packed weights are in tiles of another machine.
bool are_foreign(const OpView& view, const tenon_tile_machine& machine) {
  if (!view.flag("packed")) return false;
  const TensorType& weights = view.type(kWeights);
  return !weights.size(4).is_constant(machine.rows) || !weights.size(5).is_constant(machine.columns);
}

bool is_sized(const TensorType& type) {
  return std::ranges::all_of(type.shape, [](const Expr& size) { return size.is_constant(); });
}

// Why tiles/form.h made no layer of a node.
std::string why_no_layer(const Graph& graph, const Node& node, const tenon_tile_machine& machine) {
  constexpr std::string_view kProducts[] = {"conv", "linear", "matmul", "addmm", "contract"};
  const std::string_view op = node.op->name.get();
  if (!is_in(kProducts, op)) return fmt::format("its tiles do not do {}", op);
  const auto is_known = [&](ValueRef value) { return !value || is_sized(graph.type(value)); };
  if (!std::ranges::all_of(node.operands, is_known) || !is_known(node.results[0]))
    return "its tiles need sizes that are known before it runs";
  const OpView view = view_of(graph, *node.op, node.operands, node.attrs);
  const std::string no = op == "conv" ? no_window(view, machine) : "";
  if (!no.empty()) return no;
  const size_t first = op == "addmm" ? 1 : 0;
  for (size_t operand : {first, first + 1}) {
    if (!multiplies(machine, view.type(operand).dtype))
      return fmt::format("its array does not multiply {}", name_of(view.type(operand).dtype));
  }
  return fmt::format("this {} is no product of rows of channels and weights", op);
}

}  // namespace

bool is_tile_layer(const Node& node) { return node.op->name.get() == "tile_layer"; }

TileLayer layer_of(const Graph& graph, const Node& node) {
  check(is_tile_layer(node), "{} is no layer of a tile machine", node.op->name.get());
  const OpView view = view_of(graph, *node.op, node.operands, node.attrs);
  const std::span<const int64_t> image = view.ints("image");
  const int64_t groups = view.integer("groups");
  const auto pair = [&](std::string_view name) { return std::array{view.ints(name)[0], view.ints(name)[1]}; };
  const TileLayer layer{.batch = image[0],
                        .height = image[1],
                        .width = image[2],
                        .groups = groups,
                        .channels = image[3] / groups,
                        .outputs = view.integer("outputs") / groups,
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
                        .zero_point = view.integer("zero_point"),
                        .stored = {image[1], image[2]},
                        .stored_channels = image[3]};
  return view.flag("runs") ? with_runs(layer) : without_skipped(layer);
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
  if (!is_tile_layer(node)) return why_no_layer(graph, node, machine);
  const OpView view = view_of(graph, *node.op, node.operands, node.attrs);
  if (are_foreign(view, machine)) return "its weights are in tiles of another machine";
  if (view.type(kWeights).dtype != view.type(kX).dtype) return "its operands differ in dtype";
  if (view.has(kResidual) && view.type(kResidual).dtype != view.type(kX).dtype) return "its residual has another dtype";
  return misfit(layer_of(graph, node), machine);
}

}  // namespace tenon
