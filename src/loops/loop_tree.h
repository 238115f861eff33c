// LoopTree: the exact control flow of a kernel. Loops are its inner nodes, the nodes of the IR its leaves, and walking
// it depth-first is running it.
//
//     for m in 16
//       for n in 16
//         for k in 1 r 6 by 10
//           for k in 10
//             %p[m, n, k] = mul(%a, %b)
//             %c[m, n] = reduce add(%p)
//         %out[m, n] = write 0 (%c)
//
// Each node of the IR, in order, shares the loops of the node before as far as they are the same and it may: inside of
// a loop that it shares, what it reads must be complete. So a tree is legal by construction.
//
// Of `size`, `tail` and `step`: a loop has `size` iterations that cover `step` elements of its variable each, and one
// more that covers the `tail` where that is not 0. Loops of the same variable inside of it run over what the iteration
// covers: in the tail they are shorter than they say.
//
// A tree is a value: it owns its IR. Refs are 32-bit positions in it.
#pragma once

#include <functional>

#include "loops/ir.h"

namespace tenon::loops {

using TreeRef = Ref<struct TreeTag>;

class LoopTree {
 public:
  enum Kind : uint8_t { LOOP, NODE };

  struct Loop {
    VarRef var;
    Expr size;
    Expr tail;
    int64_t step;
    Annotation annotation;
    Expr iterations() const { return size + min(tail, 1); }  // with the tail
  };

  // Throws an Error where an annotation is not possible (a parallel reduction), and where a node is needed that a loop
  // without iterations would leave out.
  explicit LoopTree(IR ir);

  IR ir;  // to be read: another IR is another tree
  const std::vector<TreeRef>& roots() const { return roots_; }
  const std::vector<TreeRef>& children(TreeRef ref) const { return at(ref).children; }
  TreeRef parent(TreeRef ref) const { return at(ref).parent; }  // empty for a root
  Kind kind(TreeRef ref) const { return at(ref).node ? NODE : LOOP; }
  const Loop& loop(TreeRef ref) const { return loops_[at(ref).loop]; }
  NodeRef node(TreeRef ref) const { return at(ref).node; }
  int depth(TreeRef ref) const { return at(ref).depth; }  // 0 for a root
  size_t size() const { return elements_.size(); }
  bool owns(TreeRef ref) const { return ref.id < elements_.size(); }

  TreeRef find(NodeRef node) const { return leaves_[node.id]; }  // empty for a node without loops
  TreeRef lca(TreeRef a, TreeRef b) const;  // the innermost that contains both, themselves included; empty: the root
  bool contains(TreeRef outer, TreeRef inner) const;    // itself included; an empty outer contains all
  std::vector<TreeRef> path(TreeRef ref) const;         // the loops around it, from the outside in, itself included
  std::vector<NodeRef> nodes_below(TreeRef ref) const;  // in order; of an empty ref, all

  // Depth-first, in the order of execution; from the roots when `start` is empty.
  void walk(const std::function<void(TreeRef, int depth)>& visit, TreeRef start = {}) const;
  // The tree as text (above). `note` adds to a line.
  std::string dump(const std::function<std::string(TreeRef)>& note = {}) const;

 private:
  struct Element {
    NodeRef node = {};  // of a NODE
    uint32_t loop = 0;  // of a LOOP
    TreeRef parent;
    int depth = 0;
    std::vector<TreeRef> children = {};
  };

  const Element& at(TreeRef ref) const;
  TreeRef add(Element element);
  void place(NodeRef node, std::vector<TreeRef>& open);
  bool may_share(TreeRef loop, NodeRef node) const;
  void check_repeats() const;
  void check_annotations() const;

  std::vector<Element> elements_;
  std::vector<Loop> loops_;
  std::vector<TreeRef> roots_;
  std::vector<TreeRef> leaves_;  // by node
};

// Whether `reader` may read `input` in the loop over `var` that also makes it: in each iteration, what it reads must be
// complete.
bool may_share_loop(const IR& ir, NodeRef reader, NodeRef input, VarRef var);

// Why the iterations of a loop cannot run at the same time; nothing when they can.
std::optional<std::string> why_not_parallel(const LoopTree& tree, TreeRef loop);
// The same for threads that fold reductions of the loop's variable together.
std::optional<std::string> why_not_threads(const LoopTree& tree, TreeRef loop);

}  // namespace tenon::loops
