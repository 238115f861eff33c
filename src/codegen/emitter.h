// Inside of codegen: the walk over a LoopTree that emits LLVM IR. emit.cpp has functions and loops, nodes.cpp nodes and
// their memory, sums.cpp accumulators, lanes.cpp vectorized loops, tiles.cpp and grids.cpp loops that are instructions,
// transpose.cpp blocks that are transposed in registers.
//
//   - Unrolled loop: the body is emitted once per iteration, with the counter as a number. Then small scratch arrays
//     are indexed by numbers only, and LLVM keeps them in registers. That makes register tiles.
//   - Vectorized loop: one iteration of the code covers `lanes_` iterations of the loop. A value that is equal in all
//     lanes stays a scalar. The remaining iterations are one masked vector if the target has masks, else scalar code.
//   - Sums in registers: a loop that adds to sums in memory loads them before and stores them after.
//   - Vectorized fold: it has several vectors of sums, one sum per lane, and folds the lanes at the end.
//   - Long sums: many floats are added up in blocks of a few hundred terms, in lanes, in registers or in an array.
//     Compiler::widen_totals says whether the totals of blocks are f64.
//   - Parallel loop: the body is a function of its own. A table passes all values to it. Two of them, one directly
//     inside of the other, are one loop over the pairs of their iterations.
//   - Nested loops over contiguous memory are one loop: the outer counters stay 0, and the innermost runs over all
//     elements.
#pragma once

#include <llvm/IR/Module.h>

#include <set>

#include "codegen/function.h"
#include "codegen/tiles.h"
#include "codegen/values.h"
#include "loops/compiler.h"

namespace tenon::codegen {

class Emitter {
 public:
  Emitter(llvm::Module& module, const loops::LoopTree& tree, const Target& target);

  llvm::Function* kernel(const std::string& name);

 private:
  using NodeRef = loops::NodeRef;
  using TreeRef = loops::TreeRef;
  using Expr = symbolic::Expr;
  using Symbol = symbolic::Symbol;
  using Compiler = loops::Compiler;
  using Value = llvm::Value;

  // One of the elements that a node reads or writes.
  struct Which {
    enum Role : uint8_t { kSelf, kInput, kPiece, kLookup, kCarry } role;
    size_t position = 0;
    auto operator<=>(const Which&) const = default;
  };
  // The analysis of that element. It is computed once and used by every copy of the code.
  struct Spot {
    Compiler::Access access;
    Expr position;  // over loop counters
    // The literals that `base` was computed with, and whether each is an offset.
    std::vector<std::pair<Symbol, bool>> known = {};
    bool is_affine = false;            // the position is affine in the literals
    Expr base = {};                    // the position if all literals are 0
    std::vector<int64_t> slopes = {};  // of the position, by each literal
    TreeRef lanes_of = {};             // the vectorized loop that `stride` belongs to
    std::optional<Expr> stride = {};   // from lane to lane; empty if it varies
    int64_t guards_of = -1;            // the scope that `guards` belong to
    std::vector<loops::Constraint> guards = {};
  };
  // The counter of an unrolled loop: a number, or the loop's begin plus a number.
  struct Literal {
    int64_t number;
    bool is_offset;
  };

  // An element that exists in every iteration of the loops around it.
  struct Element {
    TreeRef leaf;
    Which which;
  };
  // A loop over columns with a loop over steps of k inside: see tiles.h.
  struct DotTile {
    enum Layout : uint8_t {
      kGroup,    // equal for all columns, contiguous along the steps
      kSteps,    // equal for all columns
      kRows,     // along the columns contiguous, or a few elements apart
      kPacked,   // contiguous along the steps, then along the columns
      kSliding,  // contiguous along the steps; the next column begins a few elements later, so that columns overlap
    };
    TreeRef columns;
    TreeRef steps;
    Compiler::Scope scope;  // inside of both loops
    Expr first = {};        // the first column
    Expr count = {};        // number of columns
    Expr depth = {};        // number of steps
    symbolic::Interval counts = {};
    symbolic::Interval depths = {};
  };
  using Instruction = std::function<void(int64_t depth)>;
  struct TileProduct {
    TreeRef sum;
    Element a = {};
    Element b = {};
  };
  // Loops over rows, groups of steps, columns and steps: see tiles.h.
  struct Grid {
    TreeRef rows;
    TreeRef groups;
    TreeRef columns;
    TreeRef steps;
    TileProduct product;
    TileIntrinsic tile = {};
  };

  static constexpr int64_t kMostCopies = 256;              // the most copies of the body of an unrolled loop
  static constexpr int64_t kMostVectors = 8;               // the most vectors that are emitted without a loop
  static constexpr int64_t kMostTerms = int64_t{1} << 40;  // numbers of terms are limited to this

  // ---- the function (emit.cpp) ----
  void bind_parameters(llvm::Function* function);
  bool multiplies_narrow_floats() const;
  void whole_tree();
  Value* are_aligned(const std::vector<NodeRef>& writes);
  void fence_streams();
  Value* failed(int64_t kind, NodeRef node, Value* value, Value* bound);
  llvm::Function* failed_function();

  // ---- loops (emit.cpp) ----
  void body(TreeRef ref, const std::vector<TreeRef>& children);
  void loop(TreeRef ref);
  void plain_loop(TreeRef ref);
  std::vector<TreeRef> run_of(TreeRef ref);
  bool runs_on(TreeRef outer, TreeRef inner);
  bool keeps_pace(const Expr& expr, TreeRef outer, TreeRef inner) const;
  void run(const std::vector<TreeRef>& loops);
  void stretch(TreeRef ref, const Expr& begin, const Expr& end);
  void serial(TreeRef ref, Value* begin, Value* end);
  void unrolled(TreeRef ref, const Expr& begin, const Expr& end, int64_t most);
  using StretchBody = std::function<void(Value* begin, Value* end)>;
  void parallel(TreeRef ref, const Expr& begin, const Expr& end);
  std::optional<Compiler::Stretch> parallel_inside(TreeRef ref) const;
  void parallel_pairs(TreeRef ref, const Expr& begin, const Expr& end, const Compiler::Stretch& inside);
  void parallel_vectors(TreeRef ref, const Expr& count);
  void on_threads(TreeRef ref, const Expr& begin, const Expr& end, const Expr& work, const StretchBody& body);
  Expr work_below(TreeRef ref) const;
  int64_t work_of(TreeRef leaf) const;
  void outline(FunctionBuilder& outside, llvm::Function* function,
               const std::vector<std::pair<Symbol, Value*>>& symbols, llvm::StructType* table, const StretchBody& body);
  void in_scope(const Compiler::Scope& scope, const std::function<void()>& body);
  void at_literal(Symbol counter, Literal literal, const std::function<void()>& body);
  Expr substituted(const Expr& expr) const;  // replaces counters by their literals
  Value* index(const Expr& expr) { return f_->indices.value(substituted(expr)); }

  // ---- memory (nodes.cpp) ----
  static bool is_one_element(const Compiler::Allocation& memory);
  bool has_wide_total(NodeRef sum) const;  // the memory of the sum is wider than its dtype
  bool is_register(NodeRef ref) const;     // the value of the node needs no memory
  void declare_in(TreeRef loop);
  Value* declare(NodeRef ref, const Compiler::Allocation& memory);
  // The address of an element; in `array`, or in the memory's own array.
  Value* address_in(const Compiler::Allocation& memory, const Expr& position, Value* array = nullptr);

  // ---- elements (nodes.cpp) ----
  std::vector<Which> elements_of(TreeRef leaf) const;
  Spot& spot(TreeRef at, Which which);
  Compiler::Access access(TreeRef at, Which which) const;
  Expr position(Spot& spot);
  std::optional<Expr> lane_stride(Spot& spot);
  Value* read(TreeRef at, Which which);
  bool is_plain_sum(TreeRef pass) const;
  void prefetch(Value* address);
  std::optional<Expr> ahead_of(const Spot& spot, TreeRef at) const;
  Value* load(const Spot& spot, Value* address, const std::optional<Expr>& stride, Value* addresses);
  Value* strided(llvm::Type* type, Value* address, int64_t step, int64_t used, llvm::Align align);
  Value* spread(Value* mask, int64_t step, int64_t begin);
  void write(TreeRef at, Value* value);
  void store(const Spot& spot, Value* address, const Expr& stride, Value* value);
  bool goes_past_caches(NodeRef ref) const;
  bool is_streamed(const Spot& spot) const;
  Value* irregular(const Expr& position);  // one position per lane
  Value* mask_for(const Spot& spot, bool is_contiguous) const;
  bool fills_whole_vectors(const Spot& spot) const;
  bool is_at_whole_vectors(const Spot& spot) const;
  Value* all_lanes(Value* value) { return values_.splat(value, lanes_); }
  Value* steps();  // 0, 1, 2, ...
  Value* first_of(Value* count, int64_t width);
  Value* first_lanes(Value* count) { return first_of(count, lanes_); }  // a mask of `count` lanes

  // ---- nodes (nodes.cpp) ----
  void node(TreeRef ref);
  void look_up(const loops::Lookup& lookup, TreeRef ref, size_t position);
  void leave_where(Value* bad, int64_t kind, NodeRef node, Value* value, const Expr& bound);
  std::vector<Value*> inputs_of(TreeRef ref);
  void emit(const loops::Compute& compute, TreeRef ref);
  void emit(const loops::View& view, TreeRef ref);
  void emit(const loops::Reduce& reduce, TreeRef ref);
  void emit(const loops::Scan& scan, TreeRef ref);
  void emit(const loops::Scatter& scatter, TreeRef ref);
  void emit(const loops::Write& write, TreeRef ref);
  template <class Action>
  void emit(const Action& action, TreeRef ref);
  Value* pieces(const loops::View& view, TreeRef ref, size_t first);
  bool is_always_there(const Spot& spot) const;
  Value* either(Value* condition, const std::function<Value*()>& yes, const std::function<Value*()>& no);
  const std::vector<loops::Constraint>& guards(Spot& spot);
  bool differs_by_lane(const Expr& expr) const;
  Expr at_least_zero(const Expr& bound) const;
  // Null: always true. A vector if it differs by lane.
  Value* holds(const std::vector<loops::Constraint>& constraints);
  Value* holds(const loops::Constraint& constraint);

  // ---- blocks (transpose.cpp) ----
  // The vectors that the copies of an unrolled body read, one per copy.
  struct TransposedBlock {
    Symbol counter;
    std::vector<Value*> columns;
  };
  struct BlockLanes {
    TreeRef loop;
    int64_t count;
    int64_t used;  // how many of the lanes exist
  };
  std::optional<BlockLanes> lanes_of_block(TreeRef outer, int64_t count);
  bool is_read_across(Spot& element, TreeRef outer, TreeRef inner);
  void transpose_reads(TreeRef outer, const Expr& begin, int64_t count);
  TransposedBlock transposed_rows(Spot& element, TreeRef outer, const BlockLanes& inner, const Expr& begin,
                                  int64_t count);
  std::vector<Value*> rows_of(Spot& element, TreeRef outer, const BlockLanes& inner, const Expr& begin, int64_t width);
  std::vector<Value*> transposed(std::vector<Value*> rows);
  Value* shuffled(Value* x, Value* y, llvm::ArrayRef<int> picks);
  Value* transposed_read(TreeRef at, Which which) const;

  // ---- accumulators (sums.cpp) ----
  const OpDef& fold_op(NodeRef ref) const;
  void start(const Compiler::Fill& fill);
  void start_element(const Compiler::Fill& fill);
  Value* first_value(const Compiler::Fill& fill);
  void in_vectors(DType dtype, const Expr& count, const std::function<void(const Expr&, int64_t)>& put);
  void fill_run(const Compiler::Allocation& memory, const Expr& offset, const Expr& count, Value* value);
  Value* load_at(const Compiler::Allocation& memory, Value* array, const Expr& position, int64_t lanes);
  void store_at(const Compiler::Allocation& memory, Value* array, const Expr& position, Value* value);
  void add_to(const Compiler::Allocation& memory, Value* array, const Expr& position, NodeRef sum, Value* value);
  // The sums that a loop can hold in registers: all iterations add to the same elements.
  std::vector<NodeRef> sums_to_hold(TreeRef loop);
  bool has_better_loop(NodeRef sum, TreeRef loop) const;
  bool stays_in_place(NodeRef sum, TreeRef loop);
  bool moves_by_numbers(NodeRef sum, TreeRef inner, std::map<loops::VarRef, Expr>& extents);
  int64_t most_held_vectors(TreeRef vector, const Expr& extent) const;
  bool has_guards_below(TreeRef loop);
  void holding(const std::vector<NodeRef>& sums, bool anew, const FunctionBuilder::Body& body);
  Value* held(Spot& spot);  // the register of a held sum
  // How a loop adds up long sums block by block.
  struct SumBlocks {
    std::vector<NodeRef> held;            // sums that are in registers during a block
    std::vector<NodeRef> in_memory = {};  // sums that are in a separate array during a block
    TreeRef loop = {};
    int64_t size = 0;  // iterations of the loop in a block; 0: no blocks
  };
  SumBlocks sum_blocks(TreeRef loop);
  std::optional<int64_t> terms_of_iteration(NodeRef sum, TreeRef loop) const;
  bool is_plain(NodeRef sum) const;  // the sum has too few terms for blocks in memory
  int64_t iterations_of_block(NodeRef sum, TreeRef loop, const Expr& count) const;
  bool adds_in_parts(NodeRef sum, TreeRef loop) const;
  void adding_parts(NodeRef sum, TreeRef loop, const FunctionBuilder::Body& body);
  void in_block(const SumBlocks& blocks, const FunctionBuilder::Body& body);

  // ---- lanes (lanes.cpp) ----
  bool has_vector_form(TreeRef leaf, TreeRef loop);
  int64_t lanes_for(TreeRef loop, const Expr& count);
  void vectors(TreeRef ref, const Expr& begin, const Expr& end);
  void one_by_one(TreeRef ref, const Expr& begin, const Expr& end);
  void vector_stretch(TreeRef ref, const Expr& begin, const Expr& end);
  void rest(TreeRef ref, const Expr& begin, const Expr& end);
  void folding(TreeRef ref, const Expr& begin, const Expr& end, const std::vector<NodeRef>& folded);
  void fold_block(TreeRef ref, const Expr& begin, const Expr& end, int64_t sums, const std::vector<NodeRef>& folded);
  void fold_lanes(NodeRef ref, int64_t sums);
  Value* lane_sum(NodeRef ref, int64_t position);

  // ---- tiles (tiles.cpp) ----
  bool tile(TreeRef ref, const Expr& begin, const Expr& end);
  std::optional<DotTile> tile_of(TreeRef ref, const Expr& begin, const Expr& end);
  // The function that emits the instruction. Empty if the loops do not fit it.
  Instruction multiply(const DotTile& tile);
  Instruction interleave(const DotTile& tile);
  bool have_steps_alike(Spot& element, const DotTile& tile);
  Value* gathered_groups(const Element& from, const DotTile& tile, int64_t by_column);
  Instruction interleave_guarded(const Element& to, const Element& from, const DotTile& tile, const loops::View& view,
                                 int64_t steps);
  void by_count(const DotTile& tile, const Instruction& instruction);
  void by_depth(const DotTile& tile, const Instruction& instruction);
  std::optional<TileProduct> product_below(TreeRef inner);
  std::optional<Element> source_of(TreeRef leaf, TreeRef inner, std::set<NodeRef>& seen);
  std::optional<Expr> slope(const Element& element, TreeRef loop);
  bool has_whole_groups(const Element& element, int64_t steps);
  std::optional<DotTile::Layout> layout_of(const Element& element, const DotTile& tile, int64_t steps);
  Value* groups(const Element& element, const DotTile& tile, DotTile::Layout layout, int64_t depth, int64_t steps);
  Value* packed_groups(Value* address, llvm::Align align, int64_t depth, int64_t steps);
  Value* sliding_groups(const Element& element, const DotTile& tile, int64_t depth, int64_t steps);
  std::optional<Expr> next_block(const Element& element, TreeRef columns);
  void fetch_next_block(const Element& element, const DotTile& tile);
  Value* interleaved(std::vector<Value*> rows, int64_t steps);
  Value* dot(const TileIntrinsic& tile, Value* sum, Value* a, Value* b);
  Value* x86_dot(const TileIntrinsic& tile, Value* sum, Value* a, Value* b);
  Value* arm_dot(const TileIntrinsic& tile, Value* sum, Value* a, Value* b);
  Value* sve_call(llvm::Intrinsic::ID dot, Value* sum, Value* a, Value* b);
  Value* group_address(const Element& element, const DotTile& tile, int64_t step);
  void store_groups(const Element& to, const DotTile& tile, Value* groups);
  void copy_groups(const Element& to, const Element& from, const DotTile& tile);

  // ---- tiles of rows and columns (grids.cpp) ----
  const Grid* grid_of(TreeRef ref);
  const Grid* grid_that_sums(NodeRef ref);
  std::optional<Grid> grid_loops(TreeRef ref);
  bool moves_by(const Element& element, const std::vector<std::pair<TreeRef, Expr>>& strides);
  bool is_grid_of_sums(const Grid& grid);
  bool goes_on(const Element& element);
  bool has_whole_rows(const Grid& grid);
  bool has_whole_columns(const Grid& grid);
  static void for_each_tile(const Compiler::Fill& fill, const std::function<void(const Expr&)>& visit);
  static int64_t number_of_tile(const Expr& position);
  bool may_lose_tiles() const;
  void configure_tiles();
  void start_grid(const Compiler::Fill& fill);
  void finish_grid(const Compiler::Fill& fill);
  void fetch_next_tile(const Element& element, TreeRef rows);
  uint8_t load_tile(const Element& element, TreeRef rows, Value* stride);
  void multiply(const Grid& grid);

  llvm::Module& module_;
  const loops::LoopTree& tree_;
  const loops::IR& ir_;
  const Target& target_;
  const Machine machine_;
  llvm::IRBuilder<> b_;
  Values values_;
  Compiler compiler_;

  // The state of the walk.
  FunctionBuilder* f_ = nullptr;
  std::map<int64_t, Value*> arrays_;               // by mem_idx
  std::unordered_map<NodeRef, Value*> registers_;  // nodes whose value needs no memory
  TreeRef outlined_;                               // the parallel loop whose body the function is; empty: the kernel
  const Compiler::Scope* scope_ = nullptr;
  int64_t scope_number_ = 0;
  int64_t scopes_ = 0;
  std::map<Symbol, Literal> literals_;
  int64_t copies_ = 1;       // how often the code at this point is emitted
  int64_t stack_bytes_ = 0;  // bytes of the arrays on the stack so far
  TreeRef vector_;           // the vectorized loop around this point
  int64_t lanes_ = 1;
  bool is_last_part_ = true;             // this is the last stretch of the innermost loop
  bool begins_at_whole_vector_ = false;  // the counter is a multiple of the lanes in each first lane
  Value* tail_ = nullptr;                // mask of the lanes that exist; null: all
  int64_t tail_count_ = 0;               // how many lanes exist; 0: unknown
  Value* guard_ = nullptr;               // mask of the lanes that may be accessed; null: all
  int64_t sum_ = 0;                      // number of the vector of lane sums
  struct Cell {
    Expr position;  // in the memory of the sum
    int64_t lanes;
    Value* place;
  };
  std::map<TreeRef, SumBlocks> sum_blocks_;    // of the open loops
  std::map<NodeRef, std::vector<Cell>> held_;  // the sums in registers
  bool streams_are_aligned_ = false;           // outputs that bypass the caches are aligned to vectors
  std::map<std::pair<NodeRef, int64_t>, Value*> lane_sums_;
  std::map<std::pair<TreeRef, Which>, Spot> spots_;
  std::map<TreeRef, std::optional<Grid>> grids_;  // by the loop over rows
  std::map<int64_t, uint8_t> accumulators_;       // tile registers, by number_of_tile
  struct LoadedTile {
    std::pair<int64_t, Expr> source;  // mem_idx and position
    uint8_t number;
  };
  std::vector<LoadedTile> loaded_tiles_;
  llvm::BasicBlock* tiles_in_ = nullptr;  // the block in which they were loaded
  uint8_t next_operand_ = 0;              // the register that is loaded next
  std::map<std::pair<TreeRef, Which>, TransposedBlock> blocks_;
  std::map<Symbol, int64_t> copy_of_;  // by the counter of an unrolled loop: the number of this copy of the body
};

}  // namespace tenon::codegen
