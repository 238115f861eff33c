// Fusion: which nodes of a graph run together, as one kernel.
//
// A group is built around at most one anchor:
//   - a contraction (matmul, convolution) takes what is computed element by element of its result;
//   - attention takes a permutation of its result;
//   - everything else streams: elementwise ops of one shape, gathers in front of them, and folds of its last dimensions
//     with what is computed of them, all in one pass.
// A view that the consumers can read through (permute, expand, slice, windows, ...) and a fill belong to no group of
// their own: every group that needs them has them. A reshape is another name for the same memory.
//
// Groups form no cycle, and are listed in an order in which they can run: also one that needs nothing but a size comes
// after the node that finds that size out.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tenon {

enum class GroupKind : uint8_t {
  kKernel,    // lowered to loops, compiled
  kLibrary,   // one node that a function of the runtime computes (sort, nonzero)
  kExternal,  // one external node, which PyTorch runs
  kSegment,   // one segment node, which a device runs
  kAlias,     // one reshape: its result is the memory of its operand
};

struct FusedGroup {
  GroupKind kind;
  std::vector<NodeRef> nodes;     // in order; those that are inlined are in several groups
  std::vector<ValueRef> inputs;   // what it reads: results of other groups, and leaves
  std::vector<ValueRef> outputs;  // what others need of it
  bool operator==(const FusedGroup&) const = default;
};

// Expands the composites that fusion sees through. The groups of `fuse` are of such a graph.
Graph expand_for_fusion(const Graph& graph);

std::vector<FusedGroup> fuse(const Graph& graph);

inline constexpr size_t kMostNodesOfGroup = 64;
// A shape without its dimensions of size 1: they change nothing about the order of elements.
Shape core_of(const Shape& shape);

}  // namespace tenon
