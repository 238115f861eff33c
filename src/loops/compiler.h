// Compiler: what a backend must know to turn a LoopTree into code. Where each node's elements live, by which expression
// they are reached from a point of the tree, where an accumulator starts, and how a loop falls into stretches without
// tails and guards.
//
// Expressions are over the counters of loops, which count iterations: the index of a variable is the sum, over its
// loops around a point, of counter times step. The tail is the iteration after the last whole one. Symbols of sizes
// stay.
//
// A backend walks the tree with a Scope:
//
//     void emit(TreeRef ref, const Compiler::Scope& scope) {
//       for (const Compiler::Fill& fill : compiler.fills(ref)) emit_fill(fill);     // accumulators start here
//       if (tree.kind(ref) == LoopTree::NODE) return emit_node(ref, scope);
//       for (const Compiler::Segment& part : compiler.segments(ref, scope)) {       // whole iterations, the tail, ...
//         begin_loop(compiler.counter(ref), part.begin, part.end);
//         for (TreeRef child : tree.children(ref)) emit(child, part.scope);
//         end_loop();
//       }
//     }
#pragma once

#include <map>
#include <set>
#include <unordered_map>

#include "loops/box.h"
#include "loops/loop_tree.h"

namespace tenon::loops {

// Whether folding in another order, or in a wider dtype, gives other results.
bool rounds(const OpDef& op, DType dtype);

class Compiler {
 public:
  explicit Compiler(const LoopTree& tree);  // which must outlive it

  // ---- memory ----
  // A dimension of an array in memory. Scratch is laid out as its writer's loops run, the innermost last. A split
  // variable has several: each divides what those before leave of it by its step.
  struct Dim {
    VarRef var;
    int64_t step;  // elements of the variable from one position to the next
    Expr extent;   // positions
    Expr stride;   // elements of memory from one position to the next
    TreeRef loop;  // the writer's; empty where the dimension is no loop
  };
  struct Allocation {
    int64_t mem_idx;  // in the memory list: inputs by slot, then outputs by slot, then scratch
    DType dtype;
    TreeRef lca;  // the innermost loop around the node and all its readers: scratch lives for one iteration of it
    std::vector<Dim> dims;
    bool scratch;
    Expr size() const;  // in elements
  };
  // Of every read, of every node with loops, but not of constants and indices.
  std::unordered_map<NodeRef, Allocation> allocations;
  // The running value of each scan: its array without the variable that it goes along.
  std::unordered_map<NodeRef, Allocation> carries;

  // Whether a node is a product that only feeds a sum beside it: a backend may compute both at once.
  bool is_fused(NodeRef product) const;
  Expr terms_of(NodeRef reduction) const;  // that one of its elements takes up

  // Keeps in f64 what would lose its accuracy in f32: the totals of sums that are one element, or have very many terms,
  // or nobody knows how many; and the running values of scans. They are rounded where they are read. Sums that an
  // instruction of the machine adds up stay as they are.
  void widen_totals();

  // ---- symbols ----
  std::unordered_map<VarRef, Symbol> var_to_sym;
  std::unordered_map<Symbol, VarRef> sym_to_var;
  Symbol counter(TreeRef loop) const { return counters_.at(loop.id); }
  Expr index_of(VarRef var, TreeRef at) const;  // at a point of the tree, over counters

  // ---- accesses ----
  struct Access {
    NodeRef node;             // whose elements
    TreeRef at;               // from where
    std::vector<Expr> index;  // along each of the node's variables: over the symbols of variables and lookups
    std::vector<Constraint> where;
    const Allocation* memory;  // null for a constant or an index
  };
  // How the node at `ref` writes (its own ref) or reads (an input's) elements. A view that reads one input in several
  // pieces is asked piece by piece.
  Access gen_access(NodeRef node, TreeRef ref) const;
  Access gen_access(const Piece& piece, TreeRef ref) const;
  Access gen_lookup(const Lookup& lookup, TreeRef ref) const;
  Access gen_carry(TreeRef ref) const;  // of a scan's running value

  // The position in the access's memory, in elements. Of an Index, which has none, its value.
  Expr get_scoped_expr(const Access& access) const;
  // An expression over variables as it is at a point of the tree.
  Expr over_counters(const Expr& over_vars, TreeRef at) const;
  // What must hold for the element to be there; not what is proven always to hold.
  std::vector<Constraint> get_constraints(const Access& access) const;
  // The elements of memory that one iteration of each loop around the access moves by; nothing where that varies.
  std::optional<Expr> stride(const Access& access, TreeRef loop) const;

  // ---- control flow ----
  // What is known at a point of a walk.
  struct Scope {
    std::map<VarRef, Expr> extents;   // what the innermost open loop over a variable covers
    Box box;                          // where the counters of the open loops lie
    std::vector<Constraint> proven;   // by the segments around; over counters
    std::vector<Constraint> guarded;  // those that stay guards
    int copies = 1;                   // of the code at this point
  };
  struct Segment {
    Expr begin;  // of the counter; an empty segment has end <= begin
    Expr end;
    Scope scope;
  };
  Scope root() const;
  // The stretches of a loop, in order. Between them they are the whole loop, but for iterations at its end that make
  // what nobody reads; where a stretch has no guards or no tail, its scope knows. Inside of many stretches there is
  // only one, whose iterations cover a minimum of two expressions.
  std::vector<Segment> segments(TreeRef loop, const Scope& scope) const;
  // The constraints that must be tested, over counters.
  std::vector<Constraint> get_constraints(const Access& access, const Scope& scope) const;

  // An accumulator that starts right before a loop (or a node): a block of a node's memory, or of a scan's carry.
  struct Fill {
    NodeRef node;
    const Allocation* memory = nullptr;
    std::vector<Symbol> counters = {};  // of the loops that run over the block
    std::vector<Expr> extents = {};
    Expr offset = 0;  // in elements, over those counters and those of the loops around
    // A scatter starts as its initial value, where that exists: a node, and the position in its memory (of an Index,
    // its value). Other nodes start as their op's identity.
    NodeRef source = {};
    Expr source_offset = 0;
    std::vector<Constraint> where = {};
  };
  std::vector<Fill> fills(TreeRef ref) const;
  // The block of a reduction's memory that one run of a loop adds to.
  Fill fill(NodeRef reduction, TreeRef loop) const;

  const LoopTree& tree() const { return tree_; }

 private:
  struct Guard {
    Constraint constraint;  // over counters
    TreeRef leaf;
  };

  void name_counters();
  Symbol unused_symbol(std::string name) const;  // of that name, or one close to it
  Box box_at(TreeRef at) const;
  Allocation whole_array(NodeRef ref);
  Allocation scratch(NodeRef ref);
  Allocation carry(NodeRef ref);
  std::vector<Dim> layout(NodeRef ref, TreeRef around, VarRef without) const;
  // The loop right before which a node's accumulator starts: itself for a scatter that folds nothing, else empty.
  TreeRef outermost_fold(NodeRef ref) const;
  const Allocation* memory_of(NodeRef node) const;
  std::vector<Expr> own_index(NodeRef node) const;
  Expr offset_in(const Allocation& memory, NodeRef node, const std::vector<Expr>& coordinates) const;
  std::vector<Constraint> over_counters(const Access& access) const;

  Scope inside(TreeRef ref, const Scope& scope, const Expr& begin, const Expr& end, const Expr& extent) const;
  std::optional<Expr> past_needed(TreeRef loop, const Scope& scope) const;
  std::optional<Expr> past_read(NodeRef reader, NodeRef input, TreeRef loop, const Scope& scope) const;
  std::vector<Guard> guards_below(TreeRef loop, const Scope& scope) const;
  std::optional<std::pair<Expr, Expr>> interior(TreeRef loop, const Guard& guard, const Scope& scope) const;
  std::vector<Segment> peeled(TreeRef ref, Segment whole, const Scope& around) const;
  std::vector<Segment> around_interior(TreeRef ref, const Segment& whole, const Scope& around, const Expr& begin,
                                       const Expr& end, const std::vector<Constraint>& held) const;
  bool needs_wide_total(NodeRef ref) const;
  void add_source(Fill& fill, const std::map<TreeRef, Expr>& positions, const std::map<VarRef, Expr>& elsewhere) const;

  const LoopTree& tree_;
  std::vector<Symbol> counters_;  // by tree ref
  std::set<std::string> taken_;   // names of variables, sizes, lookups and counters
  int64_t next_memory_ = 0;
};

}  // namespace tenon::loops
