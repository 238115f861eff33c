#include "tiles/pack.h"

namespace tenon {

Value packed_weights(Builder& b, Value weights, const tenon_tile_machine& machine) {
  const int64_t k = machine.rows, n = machine.columns;
  const int64_t outputs = weights.size(0).constant(), channels = weights.size(1).constant();
  const int64_t tiles = ceil_div(outputs, n), channel_tiles = ceil_div(channels, k);
  if (tiles * n != outputs || channel_tiles * k != channels)
    weights = b.pad(weights, {0, 0, 0, 0}, {tiles * n - outputs, channel_tiles * k - channels, 0, 0});
  const Value tiled = b.reshape(weights, {tiles, n, channel_tiles, k, weights.size(2), weights.size(3)});
  return b.permute(tiled, {0, 2, 4, 5, 3, 1});
}

Value packed_vectors(Builder& b, int64_t outputs, Value bias, Value scale, const tenon_tile_machine& machine) {
  if (!bias && !scale) return {};
  const int64_t tiles = ceil_div(outputs, machine.columns), padding = tiles * machine.columns - outputs;
  const auto row = [&](Value x, double otherwise) {
    Value all = x ? b.expand(x, {outputs}) : b.full(otherwise, {outputs}, DType::kF32);
    if (padding > 0) all = b.pad(all, {0}, {padding});
    return b.reshape(all, {tiles, 1, int64_t{machine.columns}});
  };
  return b.concat({row(bias, 0), row(scale, 1)}, 1);
}

}  // namespace tenon
