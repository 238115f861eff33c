// Mixed precision: products in bf16, of values that stay f32.
#pragma once

#include "graph/graph.h"

namespace tenon {

// The graph with each product of f32 (matmul, linear, convolution, attention) computed of operands rounded to bf16,
// with sums in f32, and a result that is f32 again. States stay as they are: f32 is the master copy.
Graph with_bf16_products(const Graph& graph);

}  // namespace tenon
