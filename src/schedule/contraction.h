// Inside of schedule: finds the parts of a sum of products, and picks the register tile for it.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "loops/ir.h"
#include "machine/machine.h"
#include "support/is_in.h"

namespace tenon {

using Vars = std::vector<loops::VarRef>;

struct Contraction {
  loops::NodeRef sum;
  loops::NodeRef product;
  loops::NodeRef a;  // the operand with the rows
  loops::NodeRef b;  // the operand with the columns
  Vars batch;
  Vars rows;
  Vars columns;                           // results are contiguous along the last
  Vars folded;                            // `a` is contiguous along the last, if along any of them
  std::set<loops::NodeRef> makes_a = {};  // elementwise nodes that compute `a`, with `a` itself
  std::set<loops::NodeRef> makes_b = {};
  std::vector<loops::NodeRef> epilogue = {};  // elementwise nodes on the sum and their own operands, in order
};

bool is_sum_of_products(const loops::IR& ir, loops::NodeRef ref);  // and nothing else reads the product
// The last variable of more than one element. An array over these variables is contiguous along it.
loops::VarRef contiguous_of(const loops::IR& ir, const Vars& vars);
// Collects the elementwise nodes whose results are used for `ref` only, which `user` reads.
void collect_makers(const loops::IR& ir, loops::NodeRef ref, loops::NodeRef user, std::set<loops::NodeRef>& makers);

// Empty unless the kernel has exactly one sum of products.
std::optional<Contraction> find_contraction(const loops::IR& ir);

// A contraction of narrow numbers: only the product reads the casts that widen its operands. `a`, `b` and what makes
// them are the operands of the casts.
struct NarrowContraction {
  Contraction c;
  std::vector<loops::NodeRef> casts = {};  // of a, of b
};
std::optional<NarrowContraction> find_narrow_contraction(const loops::IR& ir);

// The elementwise nodes that depend on a fold, in order.
std::vector<loops::NodeRef> epilogue_of(const loops::IR& ir, loops::NodeRef fold);
// The epilogue with the elementwise nodes that only it reads, such as the cast of a residual.
std::vector<loops::NodeRef> with_operands(const loops::IR& ir, loops::NodeRef fold,
                                          const std::vector<loops::NodeRef>& epilogue);
// The variable along which the results are contiguous. Empty if there is one result.
loops::VarRef column_of(const loops::IR& ir, loops::NodeRef fold, const std::vector<loops::NodeRef>& epilogue);

inline int64_t divided_up(int64_t x, int64_t y) { return (x + y - 1) / y; }

// A copy of the node, with its variables and a name that ends with the suffix.
loops::NodeRef add_named_copy(loops::IR& ir, loops::NodeRef of, std::string_view suffix);
// `name`, or a similar name that no variable of the kernel has.
std::string unused_var_name(const loops::IR& ir, const std::string& name);

// The first loops around the second.
using LoopSpecs = std::vector<loops::LoopSpec>;
LoopSpecs joined(LoopSpecs first, const LoopSpecs& second);
LoopSpecs loops_over(const Vars& vars);

// The size, or a typical one if it is not known at compile time. Limited, so that products do not overflow.
int64_t about(const symbolic::Expr& size);
int64_t about(const loops::IR& ir, const Vars& vars);

struct RegisterTile {
  int64_t rows;
  int64_t columns;
};

// The cost of covering so many rows and columns with tiles, in vector multiply-adds.
double cost_of(const RegisterTile& tile, int64_t rows, int64_t columns, int64_t lanes, const Machine& machine);

// The tile of the least cost among those that the machine's registers hold.
RegisterTile pick_tile(int64_t lanes, const Machine& machine,
                       const std::function<double(const RegisterTile&)>& cost_of);
RegisterTile pick_tile(int64_t rows, int64_t columns, int64_t lanes, const Machine& machine);

// Makes the first loop that keeps all threads busy the outermost one, and parallel.
LoopSpecs with_threads(const loops::IR& ir, LoopSpecs loops, const Machine& machine);

// The `loops` over variables of the node, and loops over its other variables: around those over lanes, else inside.
LoopSpecs loops_it_has(const loops::IR& ir, loops::NodeRef ref, LoopSpecs loops);

// All nodes that the core depends on, without the core, in order.
std::vector<loops::NodeRef> needed_by(const loops::IR& ir, const std::vector<loops::NodeRef>& core);
// Orders a kernel: first the nodes that the core needs, then the core as listed, then all others.
void order_around(loops::IR& ir, const std::vector<loops::NodeRef>& core);

}  // namespace tenon
