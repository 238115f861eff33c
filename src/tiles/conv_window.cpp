#include "tiles/conv_window.h"

#include <fmt/format.h>

#include <utility>

#include "tiles/layer.h"

namespace tenon {
namespace {

// Of the last two dimensions; a missing one is `neutral`.
std::array<int64_t, 2> pair_of(std::span<const int64_t> given, size_t count, int64_t neutral) {
  const int64_t last = given.empty() ? neutral : given.back();
  return {count == 1 || given.empty() ? neutral : given.front(), last};
}

std::array<int64_t, 2> sizes_of(const TensorType& type) {
  return {type.rank() == 3 ? 1 : type.size(2).constant(), type.shape.back().constant()};
}

// Whether a layer computes `x`, perhaps in another order.
bool is_of_layer(Value x) {
  const NodeRef producer = x.graph().producer(x.ref());
  if (!producer) return false;
  const Node& node = x.graph().node(producer);
  if (node.op->name.get() == "permute") return is_of_layer({x.graph(), node.operands[0]});
  return is_tile_layer(node);
}

}  // namespace

std::vector<int64_t> ConvWindow::shape(const Shape& result) const {
  std::vector<int64_t> sizes;
  for (const Expr& size : result) sizes.push_back(size.constant());
  const int64_t outputs_ = sizes[1];
  sizes.erase(sizes.begin() + 1);
  sizes.push_back(outputs_);
  return sizes;
}

std::string no_window(const OpView& conv, const tenon_tile_machine& machine) {
  const TensorType &x = conv.type(0), &weights = conv.type(1);
  const int64_t groups = conv.integer("groups");
  if (conv.flag("transposed")) return "it is a transposed convolution";
  if (x.rank() != 3 && x.rank() != 4) return fmt::format("it is a convolution over {} dimensions", x.rank() - 2);
  const int64_t channels = weights.size(1).constant(), outputs = weights.size(0).constant() / groups;
  if (groups > 1 && (channels < machine.rows || outputs < machine.columns))
    return fmt::format("its groups of {} channels and {} outputs leave most of an array of {} x {} idle", channels,
                       outputs, machine.rows, machine.columns);
  return {};
}

ConvWindow window_of(const OpView& conv, const TensorType& x, const TensorType& weights) {
  const auto count = static_cast<size_t>(x.rank() - 2);
  return {.image = sizes_of(x),
          .kernel = sizes_of(weights),
          .stride = pair_of(conv.ints("stride"), count, 1),
          .padding = pair_of(conv.ints("padding"), count, 0),
          .dilation = pair_of(conv.ints("dilation"), count, 1),
          .batch = x.size(0).constant(),
          .channels = x.size(1).constant(),
          .outputs = weights.size(0).constant(),
          .groups = conv.integer("groups")};
}

NamedAttrs window_attrs(const ConvWindow& window, const Shape& result) {
  const auto ints = [](const std::array<int64_t, 2>& pair) { return std::vector(pair.begin(), pair.end()); };
  const auto [height, width] = window.image;
  const std::vector<int64_t> rows = {1, window.batch * height * width, 1, window.channels};
  NamedAttrs all{{"image", window.is_pixel() ? rows : std::vector{window.batch, height, width, window.channels}},
                 {"outputs", window.outputs},
                 {"shape", window.shape(result)}};
  if (window.runs) all.emplace_back("runs", true);
  if (window.groups != 1) all.emplace_back("groups", window.groups);
  if (window.is_pixel()) return all;
  all.emplace_back("kernel", ints(window.kernel));
  all.emplace_back("stride", ints(window.stride));
  all.emplace_back("padding", ints(window.padding));
  all.emplace_back("dilation", ints(window.dilation));
  return all;
}

Value by_channel(Builder& b, Value x) {
  return b.permute(x, x.rank() == 3 ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{0, 2, 3, 1});
}

Value by_image(Builder& b, Value y) {
  return b.permute(y, y.rank() == 3 ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{0, 3, 1, 2});
}

WindowOperands with_runs(Builder& b, WindowOperands o, double pad, const tenon_tile_machine& machine) {
  ConvWindow& window = o.window;
  const bool is_thin = window.channels * 2 <= machine.rows && window.kernel[1] > 1;
  const bool is_padded = window.padding != std::array<int64_t, 2>{0, 0};
  if (!is_thin || window.groups != 1 || window.dilation[1] != 1 || (is_padded && is_of_layer(o.x))) return o;
  std::vector<Expr> border = {0, window.padding[0], window.padding[1], 0};
  if (o.x.rank() == 3) border.erase(border.begin() + 1);
  if (is_padded) o.x = b.pad(o.x, border, border, pad);
  for (size_t dim : {0, 1}) window.image[dim] += 2 * std::exchange(window.padding[dim], 0);
  window.runs = true;
  const auto [height, width] = window.kernel;
  o.weights = b.reshape(b.permute(o.weights, {0, 3, 1, 2}), {window.outputs, width * window.channels, height, 1});
  return o;
}

Value window_weights(Builder& b, Value weights) {
  return weights.rank() == 4 ? weights : b.reshape(weights, {weights.size(0), weights.size(1), 1, weights.size(2)});
}

}  // namespace tenon
