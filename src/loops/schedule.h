// Schedule edits: pure functions from tree to tree. A legal edit never changes the result of a kernel. An illegal edit
// returns a Diagnostic with the reason. Refs of the old tree are invalid in the new one: see map_ref.
#pragma once

#include "loops/loop_tree.h"

namespace tenon::loops {

// ---- loops ----
// The loop becomes two: an inner loop of `size` iterations and an outer loop around it. "k in 16" split by 10 is
// "k in 1 r 6 by 10" around "k in 10".
Result<LoopTree> split(const LoopTree& tree, TreeRef loop, int64_t size);
// The inverse of split: a loop and its only child, over the same variable, become one loop. It is parallel if the outer
// loop was; otherwise it has the annotation of the inner loop.
Result<LoopTree> merge(const LoopTree& tree, TreeRef loop);
// Exchanges a loop with a loop around it or inside of it. Nodes that only the outer loop contains keep their loops.
Result<LoopTree> swap_loops(const LoopTree& tree, TreeRef a, TreeRef b);
// Joins the loop with the loop before it. Both have the same parent, variable, size and annotation.
Result<LoopTree> fuse(const LoopTree& tree, TreeRef loop);
// Cuts a loop in two, before the given child.
Result<LoopTree> unfuse(const LoopTree& tree, TreeRef loop, TreeRef child);
// Gives the loops of one node a new order.
Result<LoopTree> reorder(const LoopTree& tree, NodeRef node, const std::vector<LoopSpec>& loops);
Result<LoopTree> annotate(const LoopTree& tree, TreeRef loop, Annotation annotation);

// ---- nodes ----
// Exchanges two nodes in the order of execution.
Result<LoopTree> swap_nodes(const LoopTree& tree, NodeRef a, NodeRef b);
// The node reads an input through a copy in scratch memory. The copy is made in the loop `inside`, which is around the
// node, for the elements that one iteration needs. An empty `inside` copies the whole input before all loops.
Result<LoopTree> copy_input(const LoopTree& tree, NodeRef node, NodeRef input, TreeRef inside = {});
// Removes a copy. Its readers read the original.
Result<LoopTree> delete_copy(const LoopTree& tree, NodeRef copy);
// Folds in two stages. `loop` is over a variable that `node` folds. Each of its iterations gives a partial result, and
// a second node folds these. Partial results are independent, so their loop can be parallel or vectorized.
Result<LoopTree> split_node(const LoopTree& tree, NodeRef node, TreeRef loop);

// ---- for tools ----
bool is_parallel(const LoopTree& tree, TreeRef loop);  // iterations may run at the same time
// The loop or node of `after` that corresponds to `ref` of `before`: around the same node, over the same variable.
TreeRef map_ref(const LoopTree& before, TreeRef ref, const LoopTree& after);

// Loops and an order of nodes to start scheduling from: each node takes the loop order of its consumers and runs next
// to the nodes that it can share most loops with. A schedule for a machine is schedule/default_schedule.h's.
// With `repeats_cheap`, a node of one reader that is cheap to compute runs in the loops of the reader, once for each of
// their iterations, instead of being stored: for machines where a pass over memory costs more than arithmetic.
IR initial_schedule(IR ir, bool repeats_cheap = false);
// Orders nodes so that each shares as many loops as possible with the node before it.
IR ordered_by_loops(IR ir);

}  // namespace tenon::loops
