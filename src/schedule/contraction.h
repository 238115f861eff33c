// Inside of schedule: what a sum of products is made of, and the register tiles for it.
#pragma once

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
  std::vector<loops::NodeRef> epilogue = {};  // what is computed elementwise of the sum, in order
};

// Nothing where a kernel has no sum of products, or several.
std::optional<Contraction> find_contraction(const loops::IR& ir);

// What is computed elementwise of a fold, in order.
std::vector<loops::NodeRef> epilogue_of(const loops::IR& ir, loops::NodeRef fold);
// The variable along which its results are written one after the other; none where there is only one.
loops::VarRef column_of(const loops::IR& ir, loops::NodeRef fold, const std::vector<loops::NodeRef>& epilogue);

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

}  // namespace tenon
