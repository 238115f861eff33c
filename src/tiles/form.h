// A pass for tile machines: contractions and convolutions with the elementwise nodes behind them become nodes
// `tile_layer`.
//
// A layer works on rows of channels. Everything that brings tensors into that form is nodes beside it: weights are put
// into tiles when the model is compiled, and activations are permuted where the layers around keep another order.
// canonicalize cancels the permutations between two layers.
#pragma once

#include "graph/graph.h"
#include "tiles/machine.h"

namespace tenon {

// A layer that turns out not to fit the machine runs elsewhere, by its expansion.
Graph form_layers(const Graph& graph, const tenon_tile_machine& machine);

}  // namespace tenon
