// Reverse-mode differentiation, Graph to Graph, from the op table's gradients.
#pragma once

#include <span>

#include "graph/graph.h"
#include "graph/rewrite.h"

namespace tenon {

// A graph that computes the gradients of `graph` with respect to the values `wrt`, in their order. It takes the inputs
// of `graph`, then one cotangent for each floating output, named grad_0, grad_1, ... by the output's position
// (grad_grad_0, ... where the graph has such a leaf, so that gradients can be differentiated again). Sums at fan-out
// are explicit `add` nodes; a value that no output depends on has gradient zero. Differentiating through an op that has
// no gradient is an error that names the op.
Result<Graph> differentiate(const Graph& graph, std::span<const ValueRef> wrt);

// For training, whose graphs compute gradients beside other values:
//
// Expands the composites whose gradient is that of their expansion.
Graph expand_for_gradients(const Graph& graph, RewriteMap* moved = nullptr);
// Adds to an expanded graph the gradients of one scalar with respect to `wrt`, in their order. An empty ref: the scalar
// does not depend on that value. Throws an Error as `differentiate` does.
std::vector<ValueRef> add_gradients(Graph& graph, ValueRef scalar, std::span<const ValueRef> wrt);

}  // namespace tenon
