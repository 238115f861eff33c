// Inside of schedule: what a sum of products is made of, and the register tiles for it.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "loops/ir.h"
#include "schedule/machine.h"

namespace tenon {

using Vars = std::vector<loops::VarRef>;

struct Contraction {
  loops::NodeRef sum;
  loops::NodeRef product;
  loops::NodeRef a;  // has the rows
  loops::NodeRef b;  // has the columns
  Vars batch;
  Vars rows;
  Vars columns;                           // the last is the one that results are contiguous along
  Vars folded;                            // the last is the one that `a` is contiguous along, if it is along any
  std::set<loops::NodeRef> makes_a = {};  // nodes that compute operands elementwise, the operand included
  std::set<loops::NodeRef> makes_b = {};
  std::vector<loops::NodeRef> epilogue = {};  // what is computed elementwise of the sum, and for that, in order
};

template <class Ref>
bool is_in(const std::vector<Ref>& refs, Ref ref) {
  return std::ranges::find(refs, ref) != refs.end();
}

bool is_op(const loops::Node& node, std::string_view name);  // computes it
// The last variable of more than one element: the one along which an array of these is contiguous.
loops::VarRef contiguous_of(const loops::IR& ir, const Vars& vars);
// The elementwise nodes that only serve to make `ref` for `user`.
void collect_makers(const loops::IR& ir, loops::NodeRef ref, loops::NodeRef user, std::set<loops::NodeRef>& makers);

// Nothing where a kernel has no sum of products, or several.
std::optional<Contraction> find_contraction(const loops::IR& ir);

// What is computed elementwise of a fold, in order.
std::vector<loops::NodeRef> epilogue_of(const loops::IR& ir, loops::NodeRef fold);
// Likewise with what is read and computed for that alone, element by element: a residual, say.
std::vector<loops::NodeRef> with_operands(const loops::IR& ir, loops::NodeRef fold,
                                          const std::vector<loops::NodeRef>& epilogue);
// The variable along which its results are written one after the other; none where there is only one.
loops::VarRef column_of(const loops::IR& ir, loops::NodeRef fold, const std::vector<loops::NodeRef>& epilogue);

inline int64_t divided_up(int64_t x, int64_t y) { return (x + y - 1) / y; }

// Of a size that is not known, something that is neither small nor large.
int64_t about(const symbolic::Expr& size);
int64_t about(const loops::IR& ir, const Vars& vars);

struct Tile {
  int64_t rows;
  int64_t columns;
};

// Multiply-adds of whole vectors to cover so many rows and columns, and a part of the loads that they wait for.
double cost_of(const Tile& tile, int64_t rows, int64_t columns, int64_t lanes);

// Accumulators, the vectors of one step and one broadcast fit the registers.
Tile pick_tile(int64_t lanes, int64_t registers, const std::function<double(const Tile&)>& cost_of);
Tile pick_tile(int64_t rows, int64_t columns, int64_t lanes, int64_t registers);

// The first loop that keeps all threads busy goes outside and runs on them.
std::vector<loops::LoopSpec> with_threads(const loops::IR& ir, std::vector<loops::LoopSpec> loops,
                                          const Machine& machine);

// Those of `loops` over variables that the node has, and loops over its others last.
std::vector<loops::LoopSpec> loops_it_has(const loops::IR& ir, loops::NodeRef ref, std::vector<loops::LoopSpec> loops);

// What those nodes need and is none of them, in order.
std::vector<loops::NodeRef> needed_by(const loops::IR& ir, const std::vector<loops::NodeRef>& core);
// First what they need, then themselves as they are listed, then all else.
void order_around(loops::IR& ir, const std::vector<loops::NodeRef>& core);

}  // namespace tenon
