// Passes: functions from Graph to Graph, one in each file. A pass is pure and logs nothing. driver/pipeline.cpp lists
// the passes that compile a model; its runner skips, times, verifies and shows them.
#pragma once

#include "graph/dead_code.h"
#include "graph/graph.h"

namespace tenon {

Graph canonicalize(const Graph& graph);  // simplifies nodes and folds constants
Graph eliminate_common_subexpressions(const Graph& graph);
Graph decompose(const Graph& graph);      // expands every composite
Graph arrange_views(const Graph& graph);  // moves reshapes and slices out of the way of fusion
// Puts batch norms into the weights of the convolutions before them. Only for weights that do not change any more.
Graph fold_norms(const Graph& graph);
// Rewrites convolutions as products of matrices, where that is faster because the weights change on every run
// (training). Parameters and buffers that nothing updates are fixed if they are frozen.
Graph rewrite_convolutions(const Graph& graph, bool freeze);
// Moves, pads and pools quantized tensors as bytes, instead of dequantizing and quantizing them again.
Graph keep_bytes(const Graph& graph);
// Computes products of quantized tensors in integers. Parameters and buffers that nothing updates are fixed if they are
// frozen.
Graph multiply_in_integers(const Graph& graph, bool freeze);

}  // namespace tenon
