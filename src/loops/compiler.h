// Compiler: the analyses that a backend needs to turn a LoopTree into code. They say where each node's elements live,
// at which position of memory a point of the tree reads them, where an accumulator starts, and how a loop is cut into
// stretches so that most iterations need no guard and no tail.
//
// Expressions are over loop counters and symbols of sizes. A counter counts iterations. The index of a variable is the
// sum of counter * step over its loops around a point of the tree. The tail is the iteration after the last whole one.
//
// A backend walks the tree with a Scope:
//
//     void emit(TreeRef ref, const Compiler::Scope& scope) {
//       for (const Compiler::Fill& fill : compiler.fills(ref)) emit_fill(fill);     // accumulators start here
//       if (tree.kind(ref) == LoopTree::NODE) return emit_node(ref, scope);
//       for (const Compiler::Stretch& part : compiler.stretches(ref, scope)) {       // whole iterations, the tail, ...
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

// Whether folding in another order or in a wider dtype may give another result.
bool rounds(const OpDef& op, DType dtype);

class Compiler {
 public:
  explicit Compiler(const LoopTree& tree);  // the tree must outlive the Compiler

  // ---- memory ----
  // A dimension of an array in memory. Scratch memory has the layout of its writer's loops, the innermost loop last. A
  // split variable has several dimensions: each divides the remainder of the one before by its step.
  struct Dim {
    VarRef var;
    int64_t step;  // elements of the variable from one position to the next
    Expr extent;   // positions
    Expr stride;   // elements of memory from one position to the next
    TreeRef loop;  // of the writer; empty if the dimension has no loop
  };
  struct Allocation {
    int64_t mem_idx;  // position in the list of memory: inputs by slot, outputs by slot, scratch
    DType dtype;
    TreeRef lca;  // the innermost loop around the node and its readers: scratch lives for one iteration of it
    std::vector<Dim> dims;
    bool scratch;
    Expr size() const;  // in elements
  };
  // Every node but constants and indices.
  std::unordered_map<NodeRef, Allocation> allocations;
  // The running value of each scan: the array of the scan without the scanned variable.
  std::unordered_map<NodeRef, Allocation> carries;

  // Whether the node is a product whose only reader is a sum in the same loop. A backend may emit a multiply-add.
  bool is_fused(NodeRef product) const;
  Expr terms_of(NodeRef reduction) const;  // how many terms one element of it adds up

  // Makes totals f64 that would be inaccurate in f32: sums of very many or an unknown number of terms, sums of one
  // element, and running values of scans. Readers round them. Sums that a tile instruction adds up stay f32.
  void widen_totals();

  // ---- symbols ----
  std::unordered_map<VarRef, Symbol> var_to_sym;
  std::unordered_map<Symbol, VarRef> sym_to_var;
  Symbol counter(TreeRef loop) const { return counters_.at(loop.id); }
  Expr index_of(VarRef var, TreeRef at) const;  // over the counters of the loops around `at`

  // ---- accesses ----
  struct Access {
    NodeRef node;             // the node whose element is read or written
    TreeRef at;               // the leaf that reads or writes it
    std::vector<Expr> index;  // along each variable of `node`, over the symbols of variables and lookups
    std::vector<Constraint> where;
    const Allocation* memory;  // null for a constant or an index
  };
  // How the leaf `ref` writes its own element (`node` is its node) or reads an element of an input (`node` is the
  // input). For views, ask for each piece.
  Access gen_access(NodeRef node, TreeRef ref) const;
  Access gen_access(const Piece& piece, TreeRef ref) const;
  Access gen_lookup(const Lookup& lookup, TreeRef ref) const;
  Access gen_carry(TreeRef ref) const;  // the running value of a scan

  // The position in the memory of the access, in elements. For an Index, which has no memory: its value.
  Expr get_scoped_expr(const Access& access) const;
  // An expression over variables, rewritten to the counters of the loops around `at`.
  Expr over_counters(const Expr& over_vars, TreeRef at) const;
  // The conditions under which the element exists. Conditions that are proven to hold are left out.
  std::vector<Constraint> get_constraints(const Access& access) const;
  // Elements of memory from one iteration of `loop` to the next. Empty if that varies.
  std::optional<Expr> stride(const Access& access, TreeRef loop) const;

  // ---- control flow ----
  // Facts at a point of a walk, inside of the open loops.
  struct Scope {
    std::map<VarRef, Expr> extents;   // elements that an iteration of the innermost open loop over a variable covers
    Box box;                          // bounds of the counters of the open loops
    std::vector<Constraint> proven;   // hold in the stretches around; over counters
    std::vector<Constraint> guarded;  // remain guards
    int copies = 1;                   // how often the code of this point is emitted
  };
  struct Stretch {
    Expr begin;  // first value of the counter. The stretch is empty if end <= begin.
    Expr end;
    Scope scope;
  };
  Scope root() const;
  // The stretches of a loop, in order. Together they are all iterations whose results are read. The scope of a stretch
  // says which guards and tails it does not have. Deeply nested loops get one stretch with a min() bound, to keep code
  // size down.
  std::vector<Stretch> stretches(TreeRef loop, const Scope& scope) const;
  // The conditions that code must test, over counters.
  std::vector<Constraint> get_constraints(const Access& access, const Scope& scope) const;

  // The start of an accumulator, right before a loop or node: a block of the memory of a fold, or of a scan's carry.
  struct Fill {
    NodeRef node;
    const Allocation* memory = nullptr;
    std::vector<Symbol> counters = {};  // counters of the loops over the block
    std::vector<Expr> extents = {};
    Expr offset = 0;  // in elements, over these counters and those of the loops around
    // A scatter starts with its initial value: `source` is the node, `source_offset` the position in its memory (the
    // value, for an Index). Other nodes start with the identity of their op, and `source` is empty.
    NodeRef source = {};
    Expr source_offset = 0;
    std::vector<Constraint> where = {};
  };
  std::vector<Fill> fills(TreeRef ref) const;
  // The block of the reduction's memory that one run of `loop` adds to.
  Fill fill(NodeRef reduction, TreeRef loop) const;

  const LoopTree& tree() const { return tree_; }

 private:
  struct Guard {
    Constraint constraint;  // over counters
    TreeRef leaf;
  };

  void name_counters();
  Symbol unused_symbol(std::string name) const;  // named `name`, or similarly if that is taken
  void add_lookups(Box& box, TreeRef leaf) const;
  Box box_at(TreeRef at) const;
  Allocation whole_array(NodeRef ref);
  Allocation scratch(NodeRef ref);
  Allocation carry(NodeRef ref);
  std::vector<Dim> layout(NodeRef ref, TreeRef around, VarRef without) const;
  // The loop right before which the accumulator of a node starts. A scatter that folds nothing: its leaf. Else empty.
  TreeRef outermost_fold(NodeRef ref) const;
  const Allocation* memory_of(NodeRef node) const;
  Expr offset_in(const Allocation& memory, NodeRef node, const std::vector<Expr>& coordinates) const;
  std::vector<Constraint> over_counters(const Access& access) const;

  Scope inside(TreeRef ref, const Scope& scope, const Expr& begin, const Expr& end, const Expr& extent) const;
  std::optional<Expr> past_needed(TreeRef loop, const Scope& scope) const;
  std::optional<Expr> past_read(NodeRef reader, NodeRef input, TreeRef loop, const Scope& scope) const;
  std::vector<Guard> guards_below(TreeRef loop, const Scope& scope) const;
  std::optional<std::pair<Expr, Expr>> interior(TreeRef loop, const Guard& guard, const Scope& scope) const;
  std::vector<Stretch> peeled(TreeRef ref, Stretch whole, const Scope& around) const;
  std::vector<Stretch> around_interior(TreeRef ref, const Stretch& whole, const Scope& around, const Expr& begin,
                                       const Expr& end, const std::vector<Constraint>& held) const;
  bool needs_wide_total(NodeRef ref) const;
  void add_source(Fill& fill, const std::map<TreeRef, Expr>& positions, const std::map<VarRef, Expr>& elsewhere) const;

  const LoopTree& tree_;
  std::vector<Symbol> counters_;  // by tree ref
  std::set<std::string> taken_;   // names of variables, sizes, lookups and counters
  int64_t next_memory_ = 0;
};

}  // namespace tenon::loops
