// The kernel that a lowering builds. Only the two halves of the lowering include this: context.cpp and lower.cpp.
#pragma once

#include <map>
#include <set>

#include "loops/box.h"
#include "loops/lower.h"

namespace tenon {

struct LoopKernel {
  explicit LoopKernel(const Graph& graph);

  loops::VarRef add_var(const Expr& size);
  Symbol new_lookup();
  loops::NodeRef constant(DType dtype, loops::Scalar value);  // one node for all of the same bits
  void require_sizes(const Expr& expr);                       // makes its symbols sizes of the kernel
  bool is_inside(const loops::Constraint& constraint, std::span<const loops::Lookup> lookups = {}) const;

  loops::IR ir;
  loops::Box box;  // of all variables

 private:
  Symbol new_name(std::string_view letters, int& count);

  std::set<Symbol> symbols_;                                       // of the graph
  std::set<Symbol> sizes_;                                         // those that are in the size of a variable
  std::map<std::pair<DType, int64_t>, loops::NodeRef> constants_;  // by bits
  int vars_named_ = 0;
  int lookups_named_ = 0;
};

}  // namespace tenon
