// Sums of products: matmul, linear, and other contractions.
//
// A block of the result, `rows` x `columns`, stays in registers while the folded loops run. Lanes are columns. The loop
// over blocks of rows is inside of a panel of columns, so that the panel of the second operand stays in the cache:
//
//     for n by 64 parallel                      a panel
//       %b_packed[k, n] = ...                   what it reads, in the order in which it is read
//       for m by 6                              a block
//         for k                                 c[m, n] += a[m, k] * b[k, n]
//           for m unroll, n by 16 unroll, n vectorize
//         for m unroll, ...                     bias, activation, ..., write
//
// With very few rows there is nothing to reuse. Then the result is computed by dot products, with vectors along the
// folded variable.
//
// Some machines have an instruction that casts narrow operands, multiplies them and adds up a few steps of k. Then the
// innermost loops are that instruction. Packed operands stay narrow, in the layout that the instruction reads:
//
//       %b_packed[k, n] = ...                   for k by 2, n by 16 unroll, n tile "interleave", k
//           for m unroll, n by 16 unroll, n tile "dpbf16", k
//
// Without such an instruction, a narrow second operand is packed as it is, too: weights take half of the memory, in the
// file and on the way to the registers. Each step widens the vectors that it loads. The first operand is widened before
// the blocks, because a step broadcasts single numbers of it.
#include <algorithm>

#include "loops/schedule.h"
#include "schedule/contraction.h"
#include "schedule/default_schedule.h"

namespace tenon {

using namespace loops;

namespace {

// Up to so many nodes after the sum, each row of a block has its own copy of their code.
constexpr size_t kMostCopied = 6;
// What it is worth that threads work, if they share rows and not columns.
constexpr double kSharedRows = 0.9;
// Parts of a product for each thread, and blocks of such a part: more threads than a few meet cores that are slower.
constexpr int64_t kTurns = 4, kFewBlocks = 3;

class ContractionScheduler {
 public:
  ContractionScheduler(IR ir, Contraction c, const Machine& machine)
      : ir_(std::move(ir)), c_(std::move(c)), machine_(machine) {
    if (!c_.rows.empty()) row_ = c_.rows.back();
    column_ = c_.columns.back();
    lanes_ = machine.lanes(ir_.node(c_.sum).dtype);
    take_intrinsic();
    if (!intrinsic_) take_narrow_b();
    Machine filled = machine;
    if (machine.product_registers > 0) filled.vector_registers = machine.product_registers;
    tile_ = pick_tile(lanes_, filled, [&](const RegisterTile& tile) {
      return cost_of(tile, about(row_size()), about(ir_.var(column_).size), lanes_, filled) / busy_share(tile);
    });
    if (machine.block_rows > 0) tile_ = {machine.block_rows, machine.block_vectors * lanes_};
    if (is_grid()) tile_ = {at_most_two(row_), at_most_two(column_)};
  }

  LoopTree run() {
    if (is_dot_product()) {
      schedule_dots();
    } else {
      schedule_tiles();
    }
    for (const std::string& name : replaced_) ir_ = ir_.without(*ir_.node_named(name));
    return LoopTree(std::move(ir_));
  }

 private:
  // ---- instructions that cast and multiply ----

  bool is_grid() const { return intrinsic_ && intrinsic_->m > 1; }

  // Two instructions, or one if the size is small or unknown: then no code for a remainder is needed.
  int64_t at_most_two(VarRef var) const {
    const Expr& size = ir_.var(var).size;
    return size.is_constant() && size.constant() > intrinsic_->m ? 2 * intrinsic_->m : intrinsic_->m;
  }

  // If only the product reads the casts of its operands, an instruction may do the casts: the operands become their
  // inputs.
  void take_intrinsic() {
    const auto is_own_cast = [&](NodeRef ref) {
      return ir_.node(ref).computes("cast") && ir_.consumers(ref).size() == 1;
    };
    if (!is_own_cast(c_.a) || !is_own_cast(c_.b)) return;
    const NodeRef a = ir_.node(c_.a).inputs[0], b = ir_.node(c_.b).inputs[0];
    intrinsic_ = find_intrinsic(ir_.node(a).dtype, ir_.node(b).dtype);
    if (!intrinsic_) return;
    before_product_ = {c_.a, c_.b};
    c_.a = a;
    c_.b = b;
    c_.makes_a.clear();
    c_.makes_b.clear();
    collect_makers(ir_, c_.a, before_product_[0], c_.makes_a);
    collect_makers(ir_, c_.b, before_product_[1], c_.makes_b);
  }

  // Moves the cast of narrow floats into the loops of the product.
  void take_narrow_b() {
    const Node& cast = ir_.node(c_.b);
    if (!cast.computes("cast") || ir_.consumers(c_.b).size() != 1) return;
    if (cast.dtype != DType::kF32 || !is_narrow_float(ir_.node(cast.inputs[0]).dtype)) return;
    before_product_ = {c_.b};
    c_.b = cast.inputs[0];
    c_.makes_b.clear();
    collect_makers(ir_, c_.b, before_product_[0], c_.makes_b);
  }

  const TileIntrinsic* find_intrinsic(DType a, DType b) const {
    for (const TileIntrinsic& each : machine_.tiles) {
      const bool is_signed_as_unsigned = a == DType::kI8 && each.a == DType::kU8 && each.m == 1;
      const bool multiplies = (each.a == a || is_signed_as_unsigned) && each.b == b && each.c == ir_.node(c_.sum).dtype;
      if (multiplies && (each.m == 1 || fits_grid(each))) return &each;
    }
    return nullptr;
  }

  // Whether k is a multiple of the instruction's, and rows and columns fill at least half of it.
  bool fits_grid(const TileIntrinsic& each) const {
    const Expr& depth = ir_.var(c_.folded.back()).size;
    return row_ && depth.is_constant() && depth.constant() % each.k == 0 && 2 * about(row_size()) > each.m &&
           2 * about(ir_.var(column_).size) > each.n && lanes_ == each.n;
  }

  int64_t group() const { return is_grid() ? intrinsic_->k / intrinsic_->m : intrinsic_->k; }

  Expr row_size() const { return row_ ? ir_.var(row_).size : Expr(1); }
  bool reads_contiguously(NodeRef ref, VarRef var) const {
    return ir_.node(ref).as<Read>() && contiguous_of(ir_, ir_.node(ref).vars) == var;
  }

  // ---- threads ----

  // The share of time that threads work. Threads that share rows each read all of the second operand.
  double busy_share(const RegisterTile& tile) const {
    const auto share = [&](int64_t iterations) { return machine_.busy_share(iterations); };
    double best = machine_.threads > 2 ? kSharedRows * share(divided_up(about(row_size()), tile.rows)) : 1;
    best = std::max(best, share(divided_up(about(ir_.var(column_).size), tile.columns)));
    for (const Vars& vars : {c_.batch, all_but_last(c_.columns)}) {
      for (VarRef var : vars) best = std::max(best, share(about(ir_.var(var).size)));
    }
    return best;
  }

  // The loops around a block. Threads that share rows take as many blocks of them at a time as there are for each:
  // then a thread reads the second operand once. Threads that share panels take parts of their rows, so that those
  // that are done can help others.
  LoopSpecs around_blocks() const {
    LoopSpecs loops = with_threads(ir_, outer(), machine_);
    if (machine_.threads <= 2 || !row_) return loops;
    const int64_t blocks = divided_up(about(row_size()), tile_.rows);
    const LoopSpec block{.var = row_, .step = tile_.rows};
    if (loops[0].var == row_) {
      loops[0].step = divided_up(blocks, machine_.threads) * tile_.rows;
      if (loops[0].step > block.step) loops.push_back(block);
    } else if (loops[0].var == column_) {
      const int64_t panels = divided_up(about(ir_.var(column_).size), tile_.columns);
      const int64_t parts = parts_of_rows(divided_up(kTurns * machine_.threads, panels));
      if (parts > 1) {
        const LoopSpec part{.var = row_, .step = row_size().constant() / parts, .annotation = {Mark::kParallel}};
        loops.insert(loops.begin() + 1, part);
      }
    }
    return loops;
  }

  // The least number of equal parts of the rows that is not less than this, of a few blocks each. 1: there is none.
  int64_t parts_of_rows(int64_t least) const {
    if (!row_size().is_constant() || least < 2) return 1;
    const int64_t rows = row_size().constant();
    for (int64_t parts = least; rows / parts >= kFewBlocks * tile_.rows; ++parts) {
      if (rows % parts == 0 && (!is_grid() || rows / parts % tile_.rows == 0)) return parts;
    }
    return 1;
  }

  // ---- loops ----

  static void append(LoopSpecs& loops, const Vars& vars) { loops = joined(std::move(loops), loops_over(vars)); }

  Vars all_but_last(Vars vars) const {
    if (!vars.empty()) vars.pop_back();
    return vars;
  }

  // The loops around a block: batches, panels of columns, blocks of rows.
  LoopSpecs outer() const {
    LoopSpecs panels, blocks, loops;
    append(panels, all_but_last(c_.columns));
    panels.push_back({.var = column_, .step = tile_.columns});
    append(blocks, all_but_last(c_.rows));
    if (row_) blocks.push_back({.var = row_, .step = tile_.rows});
    append(loops, c_.batch);
    loops.insert(loops.end(), panels.begin(), panels.end());
    loops.insert(loops.end(), blocks.begin(), blocks.end());
    return loops;
  }

  LoopSpecs block_of(const LoopSpecs& outer, const Node& node) const {
    LoopSpecs loops;
    const auto has_outer = [&](VarRef var, int64_t step) {
      return std::ranges::any_of(outer, [&](const LoopSpec& l) { return l.var == var && l.step == step; });
    };
    for (VarRef var : node.vars) {
      if (!has_outer(var, 1) && var != row_ && var != column_) loops.push_back({.var = var});
    }
    if (is_grid() && tile_.rows > intrinsic_->m) loops.push_back({.var = row_, .step = intrinsic_->m});
    if (row_ && !has_outer(row_, 1))
      loops.push_back({.var = row_, .annotation = {is_grid() ? Mark::kNone : Mark::kUnroll}});
    if (tile_.columns > lanes_) loops.push_back({.var = column_, .step = lanes_, .annotation = {Mark::kUnroll}});
    loops.push_back({.var = column_, .annotation = {Mark::kVectorize}});
    return loops;
  }

  // The loops over folded variables outside of a tile. Multiply-adds take two steps of the last variable per iteration.
  LoopSpecs steps() const {
    LoopSpecs loops;
    append(loops, c_.folded);
    const Expr& size = ir_.var(c_.folded.back()).size;
    const bool by_two = !intrinsic_ && size.is_constant() && size.constant() % 2 == 0 && size.constant() >= 4;
    loops.back().step = intrinsic_ ? intrinsic_->k : by_two ? 2 : 1;
    if (by_two) loops.push_back({.var = c_.folded.back(), .annotation = {Mark::kUnroll}});
    return loops;
  }

  // The loops of the products inside of a block.
  LoopSpecs products(const LoopSpecs& around) const {
    if (is_grid()) return joined(steps(), grid());
    LoopSpecs loops = joined(steps(), block_of(around, Node{}));
    if (!intrinsic_) return loops;
    loops.back().annotation = {Mark::kTile, intrinsic_->name};
    loops.push_back({.var = c_.folded.back()});
    return loops;
  }

  LoopSpecs grid() const {
    LoopSpecs loops;
    const auto add = [&](VarRef var, int64_t step, Annotation annotation) {
      loops.push_back({.var = var, .step = step, .annotation = std::move(annotation)});
    };
    if (tile_.rows > intrinsic_->m) add(row_, intrinsic_->m, {Mark::kUnroll});
    if (tile_.columns > lanes_) add(column_, lanes_, {Mark::kUnroll});
    add(row_, 1, {Mark::kTile, intrinsic_->name});
    add(c_.folded.back(), group(), {});
    add(column_, 1, {});
    add(c_.folded.back(), 1, {});
    return loops;
  }

  // ---- register tiles ----

  void schedule_tiles() {
    const LoopSpecs around = around_blocks();
    if (intrinsic_ && intrinsic_->a != ir_.node(c_.a).dtype) make_a_unsigned();
    if (wants_packing()) pack_b();
    if (!c_.makes_b.empty()) make_b(around);
    if (is_grid()) pad_a();
    if (wants_packed_rows()) pack_a();
    if (!c_.makes_a.empty()) make_a(around);
    set_product_loops(joined(around, products(around)));
    if (intrinsic_ && !is_grid() && is_much(c_.epilogue)) copy_sums(around);
    for (NodeRef ref : c_.epilogue) ir_.set_loops(ref, joined(around, rows_of(around, ir_.node(ref))));
    in_order();
  }

  void set_product_loops(const LoopSpecs& loops) {
    for (NodeRef ref : before_product_) ir_.set_loops(ref, loops);
    ir_.set_loops(c_.product, loops);
    ir_.set_loops(c_.sum, loops);
  }

  // Copies the sums from registers to memory. Code that reads registers must be unrolled over rows; code that reads the
  // copy need not.
  void copy_sums(const LoopSpecs& around) {
    const std::vector<NodeRef> readers = ir_.consumers(c_.sum);
    const NodeRef copy = add_named_copy(ir_, c_.sum, "_block");
    for (NodeRef reader : readers) ir_.set_input(reader, c_.sum, copy);
    ir_.set_loops(copy, joined(around, block_of(around, ir_.node(copy))));
    after_sum_ = copy;
  }

  // Whether the epilogue is too long to unroll over rows. Rounding to a narrow dtype takes several instructions.
  bool is_much(const std::vector<NodeRef>& nodes) const {
    const auto rounds = [&](NodeRef ref) { return is_narrow_float(ir_.node(ref).dtype); };
    return nodes.size() > kMostCopied || (intrinsic_ && std::ranges::any_of(nodes, rounds));
  }

  // The loops of the epilogue. A long one is not unrolled over rows.
  LoopSpecs rows_of(const LoopSpecs& around, const Node& node) const {
    LoopSpecs loops = block_of(around, node);
    for (LoopSpec& loop : loops) {
      if (loop.var == row_ && is_much(c_.epilogue)) loop.annotation = {};
    }
    return loops;
  }

  bool wants_packing() const {
    if (!c_.makes_b.empty()) return intrinsic_;
    const int64_t uses = about(ir_, c_.rows);
    if (!reads_contiguously(c_.b, column_)) return true;
    if (intrinsic_) return is_grid() || uses > tile_.rows;
    const int64_t bytes = about(ir_, c_.folded) * about(ir_.var(column_).size) * size_of(ir_.node(c_.b).dtype);
    return uses >= machine_.pack_rows && bytes > machine_.l1_bytes;
  }

  // The instruction takes one unsigned operand. a * b = (a + 128) * b - 128 * b, and the last term is equal for all
  // rows.
  void make_a_unsigned() {
    const auto compute = [&](std::string_view op, std::vector<NodeRef> inputs, Vars vars,
                             std::optional<DType> dtype = {}) {
      return ir_.add_compute(op_named(op), std::move(inputs), std::move(vars), dtype);
    };
    const Vars a_vars = ir_.node(c_.a).vars, b_vars = ir_.node(c_.b).vars, kept = ir_.node(c_.sum).vars;
    const NodeRef lowest = ir_.add_constant(DType::kI8, int64_t{-128}),
                  offset = ir_.add_constant(DType::kI32, int64_t{128});
    const NodeRef flipped = compute("bitwise_xor", {c_.a, lowest}, a_vars);
    c_.a = compute("bitcast", {flipped}, a_vars, DType::kU8);
    const NodeRef wide = compute("cast", {c_.a}, a_vars, DType::kI32);
    ir_.set_input(c_.product, before_product_[0], wide);
    replaced_ = {ir_.node(before_product_[0]).name};
    before_product_[0] = wide;
    c_.makes_a.insert({flipped, c_.a});

    Vars columns = b_vars;
    std::erase_if(columns, [&](VarRef var) { return is_in(c_.folded, var); });
    const NodeRef wide_b = compute("cast", {c_.b}, b_vars, DType::kI32);
    const NodeRef sum = ir_.add_reduce(op_named("add"), wide_b, columns);
    const NodeRef too_much = compute("mul", {sum, offset}, columns);
    const std::vector<NodeRef> readers = ir_.consumers(c_.sum);
    const NodeRef result = compute("sub", {c_.sum, too_much}, kept);
    for (NodeRef reader : readers) ir_.set_input(reader, c_.sum, result);
    c_.makes_b.insert({wide_b, sum, too_much});
    c_.epilogue.insert(c_.epilogue.begin(), result);
  }

  // A tile reads whole blocks of rows. Copies `a` if it ends with a part of a block.
  void pad_a() {
    const Expr size = row_size();
    if (!c_.makes_a.empty() || (size.is_constant() && size.constant() % intrinsic_->m == 0)) return;
    copy_a("_padded", before_product_[0]);
  }

  // If `a` is contiguous along rows, each step of the sum reads another cache line and uses a part of it, again for
  // every panel. Gradients of weights are such products.
  bool wants_packed_rows() const {
    if (intrinsic_ || tile_.rows == 1 || !c_.makes_a.empty() || !reads_contiguously(c_.a, row_)) return false;
    const int64_t panels = divided_up(about(ir_.var(column_).size), tile_.columns);
    const int64_t bytes = about(ir_, ir_.node(c_.a).vars) * size_of(ir_.node(c_.a).dtype);
    return panels > 1 && about(ir_, c_.folded) >= machine_.pack_steps && bytes <= machine_.l3_bytes / 4;
  }

  void pack_a() {
    copy_a("_packed", c_.product);
    has_packed_rows_ = true;
  }

  void copy_a(std::string_view suffix, NodeRef reader) {
    const NodeRef copy = add_named_copy(ir_, c_.a, suffix);
    ir_.set_input(reader, c_.a, copy);
    c_.a = copy;
    c_.makes_a = {copy};
  }

  void pack_b() {
    const NodeRef packed = add_named_copy(ir_, c_.b, "_packed");
    ir_.set_input(before_product_.empty() ? c_.product : before_product_.back(), c_.b, packed);
    c_.b = packed;
    c_.makes_b.insert(packed);
  }

  // Packs one panel, in the order in which a block reads it.
  void make_b(const LoopSpecs& around) {
    const VarRef across = read_across();
    for (NodeRef ref : c_.makes_b) {
      LoopSpecs loops = outside_of_rows(around);
      for (VarRef var : ir_.node(c_.b).vars) {
        if (is_in(c_.folded, var) && var != across) loops.push_back({.var = var});
      }
      sort_folded(loops);
      if (across) {
        append_transposed(loops, across);
      } else {
        append_columns(loops, ref);
      }
      ir_.set_loops(ref, loops_it_has(ir_, ref, std::move(loops)));
    }
  }

  void append_columns(LoopSpecs& loops, NodeRef ref) const {
    const LoopSpec last_step = loops.back();
    const bool is_packed = intrinsic_ && ref == c_.b;
    if (intrinsic_) loops.back().step = intrinsic_->k;
    if (intrinsic_ && !is_packed) loops.push_back(last_step);
    if (tile_.columns > lanes_) loops.push_back({.var = column_, .step = lanes_, .annotation = {Mark::kUnroll}});
    loops.push_back({.var = column_, .annotation = {Mark::kVectorize}});
    if (!is_packed) return;
    if (is_grid()) loops.insert(loops.end() - 1, {.var = last_step.var, .step = group()});
    loops.back().annotation = {Mark::kTile, "interleave"};
    loops.push_back(last_step);
  }

  // Reads squares of lanes x lanes along the folded variable, and transposes them in registers.
  void append_transposed(LoopSpecs& loops, VarRef across) const {
    if (tile_.columns > lanes_) loops.push_back({.var = column_, .step = lanes_});
    loops.push_back({.var = across, .step = lanes_});
    loops.push_back({.var = across, .annotation = {Mark::kUnroll}});
    loops.push_back({.var = column_, .annotation = {Mark::kVectorize}});
  }

  // The folded variable along which all inputs of the panel are contiguous. Empty if there is none.
  VarRef read_across() const {
    if (intrinsic_) return {};
    VarRef across;
    for (NodeRef maker : c_.makes_b) {
      for (NodeRef input : ir_.node(maker).inputs) {
        if (!ir_.node(input).as<Read>() || !ir_.node(input).has(column_)) continue;
        const VarRef along = contiguous_of(ir_, ir_.node(input).vars);
        if (!is_in(c_.folded, along) || (across && along != across)) return {};
        across = along;
      }
    }
    const bool is_long = across && ir_.var(across).size.is_constant() && ir_.var(across).size.constant() >= lanes_;
    return is_long ? across : VarRef();
  }

  void sort_folded(LoopSpecs& loops) const {
    const auto position = [&](const LoopSpec& loop) {
      const auto found = std::ranges::find(c_.folded, loop.var);
      return found == c_.folded.end() ? -1 : found - c_.folded.begin();
    };
    std::ranges::stable_sort(loops, {}, position);
  }

  LoopSpecs outside_of_rows(LoopSpecs loops) const {
    const auto is_row = [&](const LoopSpec& loop) { return is_in(c_.rows, loop.var); };
    // A loop over rows outside of the panels repeats the packing: each thread packs for itself.
    while (!loops.empty() && is_row(loops.back())) loops.pop_back();
    return loops;
  }

  // Computes or packs all of `a` before the blocks, row by row or in blocks of rows, in the order in which it is read.
  void make_a(const LoopSpecs& around) {
    for (NodeRef ref : c_.makes_a) {
      LoopSpecs loops;
      for (const LoopSpec& loop : around) {
        if (!is_in(c_.batch, loop.var)) break;
        loops.push_back(loop);
      }
      for (VarRef var : c_.batch) {
        if (std::ranges::none_of(loops, [&](const LoopSpec& l) { return l.var == var; })) loops.push_back({.var = var});
      }
      const size_t shared = loops.size();
      append(loops, c_.rows);
      if (is_grid()) loops.back().step = intrinsic_->m;
      if (has_packed_rows_) loops.back().step = tile_.rows;
      append(loops, c_.folded);
      if (has_packed_rows_) append(loops, {row_});
      if (is_grid()) {
        loops.back().step = intrinsic_->k;
        append(loops, {row_, c_.folded.back()});
      }
      if (shared == 0 && !loops.empty()) loops.front().annotation.mark = Mark::kParallel;
      loops.back().annotation.mark = Mark::kVectorize;
      ir_.set_loops(ref, loops_it_has(ir_, ref, std::move(loops)));
    }
  }

  // ---- dot products ----

  // Whether there are few rows, and both operands are contiguous along the last folded variable.
  bool is_dot_product() const {
    const VarRef last = c_.folded.back();
    return about(ir_, c_.rows) <= machine_.most_dot_rows && c_.makes_b.empty() && reads_contiguously(c_.b, last) &&
           contiguous_of(ir_, ir_.node(c_.a).vars) == last;
  }

  void schedule_dots() {
    LoopSpecs around;
    append(around, c_.batch);
    append(around, all_but_last(c_.columns));
    around.push_back({.var = column_, .step = machine_.read_streams});
    around = with_threads(ir_, std::move(around), machine_);
    if (!c_.makes_a.empty()) make_a(around);
    gains_by_streams() ? fold_by_lane(around) : fold_one_by_one(around);
    for (NodeRef ref : c_.epilogue) {
      LoopSpecs after = around;
      append(after, c_.rows);
      for (VarRef var : ir_.node(ref).vars) {
        if (!ir_.node(c_.sum).has(var)) after.push_back({.var = var});
      }
      after.push_back({.var = column_, .annotation = {Mark::kVectorize}});
      ir_.set_loops(ref, std::move(after));
    }
    in_order();
  }

  // Memory is read faster in several streams at once. Within the caches one stream is as fast, and has fewer sums to
  // fold. But with a sum in each lane the instruction that multiplies several steps can be used.
  bool gains_by_streams() const {
    const Expr& depth = ir_.var(c_.folded.back()).size;
    const int64_t bytes = about(ir_, ir_.node(c_.b).vars) * size_of(ir_.node(c_.b).dtype);
    return (bytes > machine_.l3_bytes / 2 || steps_of_lane() > 1) && depth.is_constant() &&
           depth.constant() % (lanes_ * steps_of_lane()) == 0;
  }

  int64_t steps_of_lane() const {
    return intrinsic_ && intrinsic_->m == 1 && intrinsic_->a == ir_.node(c_.a).dtype ? intrinsic_->k : 1;
  }

  void fold_one_by_one(const LoopSpecs& around) {
    LoopSpecs loops = around;
    loops.push_back({.var = column_});
    append(loops, c_.rows);
    append(loops, c_.folded);
    loops.back().annotation.mark = Mark::kVectorize;
    set_product_loops(loops);
  }

  // What the last folded variable is cut into: blocks of lanes of steps.
  struct LaneCut {
    VarRef block;
    VarRef lane;
    Vars vars;      // block, lane and, if there is more than one step, step
    Expr position;  // of the last folded variable, over these
  };

  LaneCut cut_last_folded() {
    const int64_t steps = steps_of_lane();
    const Expr blocks = ir_.var(c_.folded.back()).size.constant() / (lanes_ * steps);
    LaneCut cut{.block = ir_.add_var(unused_var_name(ir_, "b"), blocks),
                .lane = ir_.add_var(unused_var_name(ir_, "v"), lanes_)};
    cut.vars = {cut.block, cut.lane};
    cut.position = lanes_ * steps * Expr(ir_.var(cut.block).symbol()) + steps * Expr(ir_.var(cut.lane).symbol());
    if (steps == 1) return cut;
    cut.vars.push_back(ir_.add_var(unused_var_name(ir_, "s"), steps));
    cut.position += Expr(ir_.var(cut.vars.back()).symbol());
    return cut;
  }

  // Reads an operand over the variables of the cut, and casts it if it is narrow. Adds the nodes to `reads`.
  NodeRef read_cut(NodeRef operand, const LaneCut& cut, std::vector<NodeRef>& reads) {
    const DType narrow = ir_.node(operand).dtype, wide = ir_.node(c_.sum).dtype;
    View view{{{operand, {}, {}}}, zero_of(narrow), {}};
    Vars vars;
    for (VarRef var : ir_.node(operand).vars) {
      const bool is_cut = var == c_.folded.back();
      view.pieces[0].index.push_back(is_cut ? cut.position : Expr(ir_.var(var).symbol()));
      if (!is_cut) vars.push_back(var);
    }
    vars.insert(vars.end(), cut.vars.begin(), cut.vars.end());
    reads.push_back(ir_.add_view(std::move(view), vars));
    if (narrow != wide) reads.push_back(ir_.add_compute(op_named("cast"), {reads.back()}, vars, wide));
    return reads.back();
  }

  // Cuts the last folded variable into blocks, lanes and steps. Blocks and steps are folded first, into one sum per
  // lane and column. Then lanes are folded.
  void fold_by_lane(const LoopSpecs& around) {
    const LaneCut cut = cut_last_folded();
    std::vector<NodeRef> reads;
    const NodeRef a = read_cut(c_.a, cut, reads), b = read_cut(c_.b, cut, reads);
    Vars kept = ir_.node(c_.sum).vars, all = kept;
    for (const Vars& vars : {all_but_last(c_.folded), cut.vars}) all.insert(all.end(), vars.begin(), vars.end());
    kept.push_back(cut.lane);
    const NodeRef product = ir_.add_compute(op_named("mul"), {a, b}, all);
    const NodeRef partial = ir_.add_reduce(op_named("add"), product, kept);
    const NodeRef sum = ir_.add_reduce(op_named("add"), partial, ir_.node(c_.sum).vars);
    for (NodeRef reader : ir_.consumers(c_.sum)) ir_.set_input(reader, c_.sum, sum);
    replaced_ = {ir_.node(c_.sum).name, ir_.node(c_.product).name};
    for (NodeRef cast : before_product_) replaced_.push_back(ir_.node(cast).name);
    before_product_ = std::move(reads);
    c_.product = product;
    after_product_ = {partial};
    c_.sum = sum;
    set_lane_loops(around, cut);
  }

  void set_lane_loops(const LoopSpecs& around, const LaneCut& cut) {
    LoopSpecs lanes;
    for (VarRef row : c_.rows) lanes.push_back({.var = row, .annotation = {Mark::kUnroll}});
    lanes.push_back({.var = column_, .annotation = {Mark::kUnroll}});
    lanes.push_back({.var = cut.lane, .annotation = {Mark::kVectorize}});
    ir_.set_loops(c_.sum, joined(around, lanes));
    if (cut.vars.size() > 2) {
      lanes.back().annotation = {Mark::kTile, intrinsic_->name};
      lanes.push_back({.var = cut.vars.back()});
    }
    LoopSpecs loops = joined(around, loops_over(all_but_last(c_.folded)));
    loops.push_back({.var = cut.block});
    loops = joined(std::move(loops), lanes);
    for (NodeRef ref : before_product_) ir_.set_loops(ref, loops);
    for (NodeRef ref : {c_.product, after_product_[0]}) ir_.set_loops(ref, loops);
  }

  // Orders nodes so that nodes with common loops are next to each other.
  void in_order() {
    std::vector<NodeRef> core;
    const auto add = [&](const std::vector<NodeRef>& refs) { core.insert(core.end(), refs.begin(), refs.end()); };
    std::ranges::copy_if(ir_.order(), std::back_inserter(core), [&](NodeRef ref) { return c_.makes_b.contains(ref); });
    add(before_product_);
    core.push_back(c_.product);
    add(after_product_);
    core.push_back(c_.sum);
    if (after_sum_) core.push_back(after_sum_);
    add(c_.epilogue);
    order_around(ir_, core);
  }

  IR ir_;
  Contraction c_;
  const Machine& machine_;
  VarRef row_;
  VarRef column_;
  int64_t lanes_ = 1;
  RegisterTile tile_{};
  const TileIntrinsic* intrinsic_ = nullptr;  // the instruction that casts and multiplies; null: multiply-adds
  bool has_packed_rows_ = false;              // `a` is a copy in blocks of rows
  std::vector<NodeRef> before_product_ = {};  // run in the loops of the product: casts (of `b` last) or views
  std::vector<NodeRef> after_product_ = {};   // sums of the lanes
  NodeRef after_sum_ = {};                    // a copy of the sums in memory, which the epilogue reads
  std::vector<std::string> replaced_ = {};    // names of nodes that nothing reads any more
};

}  // namespace

std::optional<LoopTree> schedule_contraction(const IR& kernel, const Machine& machine) {
  IR ir = initial_schedule(kernel);
  std::optional<Contraction> contraction = find_contraction(ir);
  if (!contraction) return {};
  return ContractionScheduler(std::move(ir), *std::move(contraction), machine).run();
}

}  // namespace tenon
