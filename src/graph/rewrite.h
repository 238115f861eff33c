// How passes are written: a Rewriter walks an old graph and builds a new one, value by value. Leaves are copied first:
// inputs, then the others, as the text form lists them. Then the pass decides for each node whether to copy it, to
// replace it, or to leave it out.
#pragma once

#include <functional>
#include <vector>

#include "graph/builder.h"

namespace tenon {

class Rewriter {
 public:
  // Copies the name, the symbols, and each leaf that `keep` accepts.
  explicit Rewriter(const Graph& source, const std::function<bool(const Leaf&)>& keep = {});

  const Graph& source() const { return *source_; }
  Graph& target() { return target_; }

  // The new value of an old one; empty for an empty ref. It must have been copied or replaced before.
  ValueRef map(ValueRef old) const;
  std::vector<ValueRef> map(const std::vector<ValueRef>& old) const;
  ValueRef find(ValueRef old) const { return map_[old.id]; }  // empty if it was left out so far

  void copy(const Node& node);                                           // same op, mapped operands
  void replace(const Node& node, const std::vector<ValueRef>& results);  // results of the new graph, of the same types
  void replace(ValueRef old, ValueRef replacement);
  void replace_or_copy(const Node& node, Value result);  // Copies the node if the result is empty.

  // Maps outputs and updates, and returns the new graph. The rewriter is spent.
  Graph finish();

 private:
  const Graph* source_;
  Graph target_;
  std::vector<ValueRef> map_;  // by old value
};

// Old values to new ones, for callers that hold refs across a rewrite.
class RewriteMap {
 public:
  ValueRef at(ValueRef old) const { return new_values_.at(old.id); }

 private:
  friend Graph expand_where(const Graph&, const std::function<bool(const OpDef&)>&, RewriteMap*);
  std::vector<ValueRef> new_values_;
};

// Expands composites that the predicate accepts, again and again until none is left.
Graph expand_where(const Graph& graph, const std::function<bool(const OpDef&)>& wanted, RewriteMap* moved = nullptr);

}  // namespace tenon
