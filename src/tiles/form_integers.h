// Inside of tiles: layers of quantized models. The pass `quantized` has written them as sums of products of bytes in
// i32, a correction for zero points, a scale, a bias, and the quantization of the result (src/passes/quantized.cpp).
//
//   - With the quantization behind it, a layer is one node with a result in i8. The bias is rounded to a sum in i32.
//     A quantized residual is added before that, in f32, and relu, relu6 and hardtanh cut off the result.
//   - Else the layer gives sums times scales, in f32, or the sums.
//
// Bytes without a sign are shifted by 128: x - 128 is an i8, and 128 * (the sum of an output's weights) is part of its
// bias. Between two layers nothing is shifted.
#pragma once

#include "graph/graph.h"
#include "tiles/machine.h"

namespace tenon {

Graph form_integer_layers(const Graph& graph, const tenon_tile_machine& machine);

}  // namespace tenon
