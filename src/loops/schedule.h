// Schedule edits: pure functions from tree to tree. A legal edit never changes what a kernel computes; an illegal one
// is a Diagnostic that says why. Refs of the old tree are not those of the new one: see map_ref.
#pragma once

#include "loops/loop_tree.h"

namespace tenon::loops {

// ---- loops ----
// The loop's iterations become a loop of their own, of `size` iterations each: "k in 16" split by 10 is
// "k in 1 r 6 by 10" around "k in 10".
Result<LoopTree> split(const LoopTree& tree, TreeRef loop, int64_t size);
// The inverse: a loop and its only child, over the same variable, become one. It is parallel where the outer one was,
// else it has the annotation of the inner one.
Result<LoopTree> merge(const LoopTree& tree, TreeRef loop);
// Exchanges a loop with a loop around it or inside of it. What is in the outer but not in the inner keeps its loops.
Result<LoopTree> swap_loops(const LoopTree& tree, TreeRef a, TreeRef b);
// Lets the loop share with the one before it: same parent, same variable, size and annotation.
Result<LoopTree> fuse(const LoopTree& tree, TreeRef loop);
// Cuts a loop in two, before the given child of it.
Result<LoopTree> unfuse(const LoopTree& tree, TreeRef loop, TreeRef child);
// Gives the loops of one node a new order.
Result<LoopTree> reorder(const LoopTree& tree, NodeRef node, const std::vector<LoopSpec>& loops);
Result<LoopTree> annotate(const LoopTree& tree, TreeRef loop, Annotation annotation);

// ---- nodes ----
// Exchanges two nodes in the order of execution.
Result<LoopTree> swap_nodes(const LoopTree& tree, NodeRef a, NodeRef b);
// Reads an input through a copy in scratch memory, laid out as its loops run. The copy is made inside of `inside` (a
// loop around the node; empty: outside of all), for as much as is needed there.
Result<LoopTree> copy_input(const LoopTree& tree, NodeRef node, NodeRef input, TreeRef inside = {});
// Removes a copy; its readers read what it copied.
Result<LoopTree> delete_copy(const LoopTree& tree, NodeRef copy);
// Folds in two stages: `loop`, over a variable that `node` folds, becomes a variable of partial results, which a second
// node folds. The partial results are independent of each other: their loop can be parallel or a vector's lanes.
Result<LoopTree> split_node(const LoopTree& tree, NodeRef node, TreeRef loop);

// ---- for tools ----
bool is_parallel(const LoopTree& tree, TreeRef loop);  // its iterations may run at the same time
// The loop or node of `after` that `ref` of `before` became: the one around the same node, over the same variable.
TreeRef map_ref(const LoopTree& before, TreeRef ref, const LoopTree& after);

// Loops and an order of nodes to start from: each node takes the loop order of its consumers, and runs next to the
// nodes that it can share most loops with.
IR default_schedule(IR ir);

}  // namespace tenon::loops
