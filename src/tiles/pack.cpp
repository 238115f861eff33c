#include "tiles/pack.h"

namespace tenon {

Value packed_weights(Builder& b, Value weights, const tenon_tile_machine& machine, int64_t groups) {
  const int64_t k = machine.rows, n = machine.columns;
  const int64_t outputs = weights.size(0).constant() / groups, channels = weights.size(1).constant();
  const int64_t tiles = ceil_div(outputs, n), channel_tiles = ceil_div(channels, k);
  Value all = b.reshape(weights, {groups, outputs, channels, weights.size(2), weights.size(3)});
  if (tiles * n != outputs || channel_tiles * k != channels)
    all = b.pad(all, {0, 0, 0, 0, 0}, {0, tiles * n - outputs, channel_tiles * k - channels, 0, 0});
  const Value tiled = b.reshape(all, {groups * tiles, n, channel_tiles, k, weights.size(2), weights.size(3)});
  return b.permute(tiled, {0, 2, 4, 5, 3, 1});
}

Value packed_vectors(Builder& b, int64_t outputs, Value bias, Value scale, const tenon_tile_machine& machine,
                     int64_t groups) {
  if (!bias && !scale) return {};
  const int64_t own = outputs / groups, tiles = ceil_div(own, machine.columns);
  const int64_t padding = tiles * machine.columns - own;
  const auto row = [&](Value x, double otherwise) {
    Value all = x ? b.expand(x, {outputs}) : b.full(otherwise, {outputs}, DType::kF32);
    all = b.reshape(all, {groups, own});
    if (padding > 0) all = b.pad(all, {0, 0}, {0, padding});
    return b.reshape(all, {groups * tiles, 1, int64_t{machine.columns}});
  };
  return b.concat({row(bias, 0), row(scale, 1)}, 1);
}

}  // namespace tenon
