// Inside of loops: the kernel that lowering builds. Only context.cpp and lower.cpp include it.
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
  loops::NodeRef constant(DType dtype, loops::Scalar value);  // equal constants are one node
  void require_sizes(const Expr& expr);                       // makes the symbols in it sizes of the kernel
  bool is_inside(const loops::Constraint& constraint, std::span<const loops::Lookup> lookups = {}) const;

  loops::IR ir;
  loops::Box box;  // of all variables

 private:
  Symbol new_name(std::string_view letters, int& count);

  std::set<Symbol> symbols_;                                       // of the graph
  std::set<Symbol> sizes_;                                         // symbols in sizes of variables
  std::map<std::pair<DType, int64_t>, loops::NodeRef> constants_;  // by bits
  int vars_named_ = 0;
  int lookups_named_ = 0;
};

}  // namespace tenon
