// loops::IR: the annotated dataflow graph of one kernel, over named index variables.
//
// A variable is an index with a size. A node makes a virtual array over an ordered list of variables; its value at one
// index is a function of its inputs at that same index:
//
//     tenon loops 1
//     kernel matmul {
//       var m = 16
//       var k = 16
//       var n = N
//       %a: f32[m, k] = read 0
//       %b: f32[k, n] = read 1
//       %p: f32[m, n, k] = mul(%a, %b) for m, n, k by 10, k
//       %c: f32[m, n] = reduce add(%p) for m, n, k by 10, k
//       %out: f32[m, n] = write 0 (%c) for m, n
//     }
//
// What it means:
//   - A node's iteration variables are those of its array and of its inputs. A reduction folds the variables that its
//     array lacks; a scan folds one variable as well, but keeps every partial result.
//   - Only a view reads its input elsewhere than at its own index. It covers slices, strides, dilation, reversal,
//     flattened and split dimensions, padding, concatenation, im2col and gathers; transposition needs none, as arrays
//     are indexed by name.
//   - Arithmetic happens in the dtype of the inputs, which is one for all of them; f16 and bf16 are only moved and
//     cast.
//   - `for` lists a node's loops from the outside in. `k by 10, k` is a split: an outer loop whose iterations cover 10
//     elements each, and a last one for the tail. A loop over a variable that the node does not have repeats it.
//     Where that may be no times, the nodes that read it must have such a loop as well.
//   - Reads, constants and indices are not loops: they are values wherever they are used.
//   - Nodes run in `order()`, and share loops as LoopTree says. Loops change the order of a kernel's work, never its
//     result (but for the rounding of a floating reduction, which may be folded in any order).
//
// Refs stay valid as an IR grows, and in copies of it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/op.h"
#include "support/ref.h"
#include "symbolic/expr.h"

namespace tenon {
class Cursor;  // support/cursor.h
}

namespace tenon::loops {

using symbolic::Expr;
using symbolic::Symbol;

using VarRef = Ref<struct VarTag>;
using NodeRef = Ref<struct NodeTag>;

// An index variable. In expressions it is the symbol of its name.
struct Var {
  std::string name;
  Expr size;
  Symbol symbol() const { return Symbol(name); }
};

// ---- loops ----------------------------------------------------------------------------------------------------------

enum class Mark : uint8_t {
  kNone,
  kParallel,   // iterations run on several threads
  kVectorize,  // iterations are the lanes of vectors; an innermost loop
  kUnroll,     // the body is repeated
  kTile,       // the loop and those below it are one instruction of the machine, by name
  kBlock,      // iterations run on blocks of threads of a GPU
  kThread,     // iterations run on the threads of a block, or of all blocks where no loop around is marked `block`.
               // Reductions of the loop's variable are folded across threads.
};

struct Annotation {
  Mark mark = Mark::kNone;
  std::string tile = {};  // of kTile: the name of the instruction
  bool operator==(const Annotation&) const = default;
};
std::string to_string(const Annotation& annotation);  // "parallel", "tile \"amx\"", "" for none

// One loop of a node.
struct LoopSpec {
  VarRef var;
  int64_t step = 1;  // the elements of the variable that one iteration covers; 1 for its innermost loop
  Annotation annotation = {};
  bool fresh = false;  // starts a loop of its own, also where it could share that of the node before
  bool operator==(const LoopSpec&) const = default;
};

// ---- nodes ----------------------------------------------------------------------------------------------------------

using Scalar = std::variant<double, int64_t>;  // of a floating and of an integral dtype
Scalar scalar_of(DType dtype, int64_t value);
inline Scalar zero_of(DType dtype) { return scalar_of(dtype, 0); }

// Holds where 0 <= expr < bound.
struct Constraint {
  Expr expr;
  Expr bound;
  bool operator==(const Constraint&) const = default;
};

// Where a view reads one of its inputs: an expression for each of the input's variables, over the view's own variables
// and its lookups. It applies where the constraints hold.
struct Piece {
  NodeRef input;
  std::vector<Expr> index;
  std::vector<Constraint> where;
  bool operator==(const Piece&) const = default;
};

// A symbol that stands for an element of an integer array. Outside of [0, bound) it is a run-time error.
struct Lookup {
  Symbol symbol;
  NodeRef indices;
  Expr bound;
  bool operator==(const Lookup&) const = default;
};

struct Read {
  int64_t slot;  // among the kernel's inputs, which are row-major
  bool operator==(const Read&) const = default;
};
struct Constant {
  Scalar value;
  bool operator==(const Constant&) const;  // by bits
};
struct Index {  // an i64 computed from the variables
  Expr value;
  bool operator==(const Index&) const = default;
};
struct Compute {  // an elementwise op of the table, or bitcast
  const OpDef* op;
  bool operator==(const Compute&) const = default;
};
struct Reduce {  // by an associative op of two operands: add, mul, maximum, minimum, bitwise_and, bitwise_or, logaddexp
  const OpDef* op;
  bool operator==(const Reduce&) const = default;
};
struct Scan {  // the same along one variable, in its order: element i is the fold of elements 0 to i
  const OpDef* op;
  VarRef along;
  bool operator==(const Scan&) const = default;
};
struct View {  // the first piece whose constraints hold, else `fill`. A copy is a view of one piece at its own index.
  std::vector<Piece> pieces;
  Scalar fill;
  std::vector<Lookup> lookups;
  bool operator==(const View&) const;
  const Piece* only_piece() const;  // null for a view of several pieces or with lookups
};
// Input 0 with elements replaced: for every iteration in order where the constraints hold, the element at `index` is
// combined with input 1's value by `op`, or overwritten by it where there is none.
struct Scatter {
  const OpDef* op;  // null: overwrite
  std::vector<Expr> index;
  std::vector<Constraint> where;
  std::vector<Lookup> lookups;
  bool operator==(const Scatter&) const = default;
};
struct Write {
  int64_t slot;  // among the kernel's outputs, which are row-major
  bool operator==(const Write&) const = default;
};
using Action = std::variant<Read, Constant, Index, Compute, Reduce, Scan, View, Scatter, Write>;

struct Node {
  std::string name;  // unique
  DType dtype;
  std::vector<VarRef> vars;  // of the array that it makes
  Action action;
  std::vector<NodeRef> inputs;  // every node that the action reads
  std::vector<LoopSpec> loops;  // from the outside in

  bool operator==(const Node&) const = default;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&action);
  }
  bool is_leaf() const { return as<Read>() || as<Constant>() || as<Index>(); }  // has no loops
  bool has(VarRef var) const;                                                   // among `vars`
  bool computes(std::string_view op) const;                                     // is a Compute of that op
  bool sums() const;                                                            // is a Reduce by add
  std::span<const Lookup> lookups() const;                                      // of a view or scatter
};

// ---- the kernel -----------------------------------------------------------------------------------------------------

class IR {
 public:
  explicit IR(std::string name = "kernel") : name_(std::move(name)) {}

  // ---- building. Each throws an Error for a user's mistake and leaves the IR as it was. A node's loops are its
  // variables in order, then those that it folds; an empty name becomes a number. ----
  VarRef add_var(std::string name, Expr size);
  void declare_symbol(Symbol symbol, symbolic::Interval range);                    // of sizes; others are at least 0
  NodeRef add_read(DType dtype, std::vector<VarRef> vars, std::string name = {});  // of the next input
  NodeRef add_constant(DType dtype, Scalar value, std::string name = {});
  NodeRef add_index(Expr value, std::vector<VarRef> vars, std::string name = {});
  // `dtype` is for cast and bitcast, whose result says nothing about it.
  NodeRef add_compute(const OpDef& op, std::vector<NodeRef> inputs, std::vector<VarRef> vars,
                      std::optional<DType> dtype = {}, std::string name = {});
  NodeRef add_reduce(const OpDef& op, NodeRef input, std::vector<VarRef> vars, std::string name = {});
  NodeRef add_scan(const OpDef& op, NodeRef input, VarRef along, std::vector<VarRef> vars, std::string name = {});
  NodeRef add_view(View view, std::vector<VarRef> vars, std::string name = {});
  NodeRef add_copy(NodeRef input, std::vector<VarRef> vars, std::string name = {});
  NodeRef add_scatter(Scatter scatter, NodeRef initial, NodeRef values, std::vector<VarRef> vars,
                      std::string name = {});
  NodeRef add_write(NodeRef input, std::vector<VarRef> vars, std::string name = {});  // to the next output

  // A node of another kernel, once what it names is of this one (see for_each_ref and the like). It gets its default
  // loops, and the next slot if it has any.
  NodeRef add_node(Node node);

  void set_name(NodeRef node, std::string name);  // which no other node has

  // ---- scheduling. Each throws an Error and leaves the IR as it was. ----
  void set_loops(NodeRef node, std::vector<LoopSpec> loops);
  void set_order(std::vector<NodeRef> order);
  void set_input(NodeRef node, NodeRef from, NodeRef to);  // of the same dtype and the same variables
  IR without(NodeRef node) const;                          // which nobody reads; the refs of the nodes after it move

  // ---- reading ----
  const std::string& name() const { return name_; }
  const std::vector<Var>& vars() const { return vars_; }
  const Var& var(VarRef ref) const { return vars_[ref.id]; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(NodeRef ref) const { return nodes_[ref.id]; }
  const std::vector<NodeRef>& order() const { return order_; }  // of the nodes with loops, topological
  const symbolic::Ranges& symbols() const { return symbols_; }
  const std::vector<NodeRef>& reads() const { return reads_; }    // by slot
  const std::vector<NodeRef>& writes() const { return writes_; }  // by slot
  std::optional<VarRef> var_named(std::string_view name) const;
  std::optional<NodeRef> node_named(std::string_view name) const;
  std::vector<NodeRef> consumers(NodeRef ref) const;  // in order()
  std::vector<NodeRef> node_refs() const;

  // The variables that a node iterates over: its array's, then those that it folds.
  std::vector<VarRef> iteration_vars(NodeRef ref) const;
  // Those that it folds: in the body of a loop over one of them, the node's value is not complete.
  std::vector<VarRef> folded_vars(NodeRef ref) const;
  bool folds(NodeRef ref, VarRef var) const;  // whether it is one of those
  // Whether `node` reads `input` at its own index of that variable, and at no other (false for scatter's initial value
  // under a variable that it does not keep).
  bool reads_in_step(NodeRef node, NodeRef input, VarRef var) const;

  // The symbols in the sizes of variables, sorted: what a caller must say to run the kernel.
  std::vector<Symbol> size_symbols() const;
  // What is known of the symbols of sizes.
  symbolic::Ranges ranges() const;
  TensorType type(NodeRef ref) const;                    // of a node's whole array
  std::vector<Expr> own_index(NodeRef ref) const;        // the symbols of the node's variables
  std::string unused_node_name(std::string name) const;  // `name`, or a similar name that no node has

  bool operator==(const IR& other) const;  // everything but the kernel's name and the numbers of nodes

 private:
  NodeRef add(Node node);
  void check_node(const Node& node) const;
  void check_loops(const Node& node, std::span<const LoopSpec> loops) const;
  std::vector<LoopSpec> default_loops(const Node& node) const;
  std::vector<VarRef> folded_vars(const Node& node) const;
  std::vector<VarRef> iteration_vars(const Node& node) const;

  std::string name_;
  std::vector<Var> vars_;
  std::vector<Node> nodes_;
  std::map<std::string, NodeRef, std::less<>> nodes_by_name_;
  std::vector<NodeRef> order_;
  std::vector<NodeRef> reads_;
  std::vector<NodeRef> writes_;
  symbolic::Ranges symbols_;
};

// Every place where a node names other nodes and variables, and every expression in it: to move it to another kernel.
void for_each_ref(Node& node, const std::function<void(NodeRef&)>& visit);
void for_each_var(Node& node, const std::function<void(VarRef&)>& visit);
void for_each_lookup(Node& node, const std::function<void(Lookup&)>& visit);
void for_each_expr(Node& node, const std::function<void(Expr&)>& visit);

// The value that folding nothing gives: 0 for add, the smallest value for maximum, ... Nothing for other ops.
std::optional<Scalar> identity_of(const OpDef& op, DType dtype);

// The text form (above): a statement is a line, `#` starts a comment, loops that are left out are the default ones.
//
//     symbol N in [1, 64]
//     var m = 16
//     %x: f32[m, k] = read 0
//     %c: f32[] = constant 0.5
//     %i: i64[k] = index 2*k + 1
//     %p: f32[m, k] = mul(%x, %c) for m by 8 parallel, m, new k unroll         # `new` is LoopSpec::fresh
//     %q: i32[m, k] = cast(%p) for m, k tile "amx"
//     %s: f32[m] = reduce add(%p) for m, k vectorize
//     %t: f32[m, k] = scan add(%p) along k for m, k
//     %v: f32[o, k] = view %x[o + k - 1, k] where o + k - 1 in 16 and o in 9 | %x[r, k] else 1.0 with r = %idx in 16
//     %w: f32[m, k] = scatter add(%x, %v) at [r, k] where o in 3 with r = %idx in 16 for o, k     # `set` overwrites
//     %out: f32[m] = write 0 (%s) for m
//     order %p, %s, %out, ...                                                  # where it is not that of the lines
//
// parse(to_string(ir)) == ir. Lines go as the nodes were added, but a node comes before those that read it.
std::string to_string(const IR& ir);
std::string to_string(const IR& ir, NodeRef node);  // one line, without its loops
Result<IR> parse(std::string_view text, std::string file = "");
std::vector<LoopSpec> parse_loops(Cursor& cursor, const IR& ir);  // what follows `for`; throws an Error
Annotation parse_annotation(Cursor& cursor);                      // none where no mark follows; throws an Error

// True if it is proven that `expr` is within [0, bound) for every index of the variables and every lookup.
bool provably_within(const Expr& expr, const Expr& bound, const IR& ir, std::span<const Lookup> lookups = {});

// Whether the view reads one input, whose variables are `vars`, at its own index.
bool reads_own_index(const IR& ir, const View& view, std::span<const VarRef> vars);

}  // namespace tenon::loops
