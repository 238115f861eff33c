// Accumulators: their start, sums that loops hold in registers, and blocks of long sums.
#include <algorithm>

#include "codegen/emitter.h"
#include "support/is_in.h"

namespace tenon::codegen {

using namespace loops;
using llvm::Value;

namespace {

constexpr int64_t kLongestSum = 256;    // the most terms that a register adds up
constexpr int64_t kLongestBlock = 128;  // the same, for sums of very many terms that are not products
constexpr int64_t kLongestPlain = 512;  // the most terms that a sum in memory adds up without blocks
constexpr int64_t kLeastBlock = 8;      // the least iterations of a block in memory
constexpr int64_t kMostAtOnce = 1024;   // the most terms per iteration of a loop that holds sums in registers

}  // namespace

// ---- how they start -------------------------------------------------------------------------------------------------

const OpDef& Emitter::fold_op(NodeRef ref) const {
  const auto* reduce = ir_.node(ref).as<Reduce>();
  return reduce ? *reduce->op : *ir_.node(ref).as<Scan>()->op;
}

void Emitter::start(const Compiler::Fill& fill) {
  const Compiler::Allocation& memory = *fill.memory;
  if (!fill.source && fill.counters.size() == memory.dims.size()) {
    Expr count = 1;
    for (const Compiler::Dim& dim : memory.dims) count *= at_least_zero(dim.extent);
    return fill_run(memory, 0, count, values_.to_memory(first_value(fill), memory.dtype));
  }
  const std::function<void(size_t)> nest = [&](size_t depth) {
    if (depth == fill.counters.size()) return start_element(fill);
    f_->loop(fill.counters[depth], b_.getInt64(0), index(fill.extents[depth]), 1, [&] { nest(depth + 1); });
  };
  nest(0);
}

void Emitter::start_element(const Compiler::Fill& fill) {
  const auto put = [&] {
    Value* const value = values_.to_memory(first_value(fill), fill.memory->dtype);
    b_.CreateStore(value, address_in(*fill.memory, substituted(fill.offset)));
  };
  Value* const inside = holds(fill.where);
  inside ? f_->when(inside, put) : put();
}

Value* Emitter::first_value(const Compiler::Fill& fill) {
  if (!fill.source) return values_.literal(fill.memory->dtype, *identity_of(fold_op(fill.node), fill.memory->dtype));
  const Node& source = ir_.node(fill.source);
  if (const auto* constant = source.as<Constant>()) return values_.literal(source.dtype, constant->value);
  if (source.as<Index>()) return index(fill.source_offset);
  if (const auto known = registers_.find(fill.source); known != registers_.end()) return known->second;
  const Compiler::Allocation& from = compiler_.allocations.at(fill.source);
  Value* const loaded = load_at(from, arrays_.at(from.mem_idx), substituted(fill.source_offset), 1);
  return values_.cast(values_.from_memory(loaded, from.dtype), from.dtype, source.dtype);
}

// Calls put(position, lanes) for `count` elements: whole vectors, then single elements. A short run is emitted without
// a loop, so that it can stay in registers.
void Emitter::in_vectors(DType dtype, const Expr& count, const std::function<void(const Expr&, int64_t)>& put) {
  const int64_t wide = std::max<int64_t>(1, target_.vector_bytes / size_of(dtype));
  if (count.is_constant() && count.constant() <= kMostVectors * 8 * wide) {
    int64_t at = 0;
    for (int64_t lanes = wide; lanes >= 1; lanes /= 2) {
      for (; at + lanes <= count.constant(); at += lanes) put(at, lanes);
    }
    return;
  }
  const Symbol counter("fill");
  const Expr past = floordiv(count, wide) * wide;
  f_->loop(counter, b_.getInt64(0), index(past), wide, [&] { put(counter, wide); });
  f_->loop(counter, index(past), index(count), 1, [&] { put(counter, 1); });
}

void Emitter::fill_run(const Compiler::Allocation& memory, const Expr& offset, const Expr& count, Value* value) {
  Value* const array = arrays_.at(memory.mem_idx);
  in_vectors(memory.dtype, count, [&](const Expr& at, int64_t lanes) {
    store_at(memory, array, substituted(offset + at), values_.splat(value, lanes));
  });
}

// ---- in registers ---------------------------------------------------------------------------------------------------

// The outermost loop of a fold holds its sums, if inside of it only unrolled and vectorized loops move along the sum.
// If one iteration adds very many terms, a loop inside of it is better.
std::vector<NodeRef> Emitter::sums_to_hold(TreeRef loop) {
  std::vector<NodeRef> sums;
  if (tree_.loop(loop).annotation.mark != Mark::kNone) return sums;
  for (NodeRef ref : tree_.nodes_below(loop)) {
    if (!held_.contains(ref) && stays_in_place(ref, loop) && !has_better_loop(ref, loop)) sums.push_back(ref);
  }
  return sums;
}

bool Emitter::has_better_loop(NodeRef sum, TreeRef loop) const {
  if (!rounds(fold_op(sum), ir_.node(sum).dtype)) return false;
  if (terms_of_iteration(sum, loop).value_or(kMostTerms) <= kMostAtOnce) return false;
  const std::vector<TreeRef> path = tree_.path(tree_.find(sum));
  return std::ranges::any_of(path, [&](TreeRef inner) {
    const LoopTree::Loop& each = tree_.loop(inner);
    return tree_.depth(inner) > tree_.depth(loop) && each.annotation.mark == Mark::kNone && ir_.folds(sum, each.var);
  });
}

bool Emitter::stays_in_place(NodeRef sum, TreeRef loop) {
  const Compiler::Allocation& memory = compiler_.allocations.at(sum);
  if (!ir_.node(sum).as<Reduce>() || !memory.scratch || memory.dims.empty() || memory.dtype == DType::kBool)
    return false;
  if (!ir_.folds(sum, tree_.loop(loop).var) || has_guards_below(loop)) return false;
  std::map<VarRef, Expr> extents = scope_->extents;
  int64_t copies = copies_;
  for (TreeRef inner : tree_.path(tree_.find(sum))) {
    if (tree_.depth(inner) <= tree_.depth(loop)) continue;
    const LoopTree::Loop& each = tree_.loop(inner);
    if (each.annotation.mark == Mark::kUnroll)
      copies *= each.size.is_constant() ? std::min(each.size.constant(), kMostCopies) + 1 : kMostCopies + 1;
    if (ir_.folds(sum, each.var) && each.annotation.mark != Mark::kVectorize) continue;
    if (copies > kMostCopies || !moves_by_numbers(sum, inner, extents)) return false;
  }
  return true;
}

// The most vectors of a held sum. A vectorized loop that also folds its lanes is emitted without a loop if it has one
// iteration.
int64_t Emitter::most_held_vectors(TreeRef vector, const Expr& extent) const {
  const bool folds_lanes = std::ranges::any_of(tree_.nodes_below(vector),
                                               [&](NodeRef ref) { return ir_.folds(ref, tree_.loop(vector).var); });
  if (!extent.is_constant()) return folds_lanes ? 0 : 1;
  return folds_lanes ? machine_.fma_latency : kMostVectors;
}

// Whether each copy of the body has a constant position in the sum, and its vectors are whole vectors of the sum.
bool Emitter::moves_by_numbers(NodeRef sum, TreeRef inner, std::map<VarRef, Expr>& extents) {
  const LoopTree::Loop& loop = tree_.loop(inner);
  const Expr extent = extents.try_emplace(loop.var, ir_.var(loop.var).size).first->second;
  extents.insert_or_assign(loop.var, loop.step);
  if (!extent.is_constant() && (loop.step != 1 || !target_.has_masks)) return false;
  if (loop.annotation.mark == Mark::kUnroll) return true;
  if (loop.annotation.mark != Mark::kVectorize || ir_.folds(sum, loop.var)) return false;
  const Compiler::Allocation& memory = compiler_.allocations.at(sum);
  const int64_t lanes = target_.vector_bytes / size_of(ir_.node(sum).dtype);
  const bool is_row = memory.dims.back().loop == inner && loop.size.is_constant() && loop.size.constant() % lanes == 0;
  if (!is_row || loop.size.constant() > most_held_vectors(inner, extent) * lanes) return false;
  return lanes_for(inner, loop.size) == lanes;
}

bool Emitter::has_guards_below(TreeRef loop) {
  return std::ranges::any_of(tree_.nodes_below(loop), [&](NodeRef ref) {
    const auto* view = ir_.node(ref).as<View>();
    if (ir_.node(ref).as<Scatter>()) return true;
    if (!view) return false;
    const auto is_guarded = [&](const Piece& piece) {
      return !compiler_.get_constraints(compiler_.gen_access(piece, tree_.find(ref)), *scope_).empty();
    };
    return std::ranges::any_of(view->pieces, is_guarded);
  });
}

// Holds sums in registers during the body. Before it they are loaded and after it stored; or, with `anew`, they start
// with the identity and are added to memory.
void Emitter::holding(const std::vector<NodeRef>& sums, bool anew, const FunctionBuilder::Body& body) {
  llvm::BasicBlock* const inside = f_->block("hold");
  llvm::Instruction* const before = b_.CreateBr(inside);
  b_.SetInsertPoint(inside);
  for (NodeRef sum : sums) held_.emplace(sum, std::vector<Cell>());
  body();
  for (NodeRef sum : sums) {
    const Compiler::Allocation& memory = compiler_.allocations.at(sum);
    Value* const array = arrays_.at(memory.mem_idx);
    const DType dtype = ir_.node(sum).dtype;
    for (const Cell& cell : held_.at(sum)) {
      llvm::Type* const type = values_.memory_type(dtype, cell.lanes);
      Value* const held = b_.CreateLoad(type, cell.place);
      anew ? add_to(memory, array, cell.position, sum, held) : store_at(memory, array, cell.position, held);
      const llvm::IRBuilderBase::InsertPointGuard guard(b_);
      b_.SetInsertPoint(before);
      Value* const first = anew ? values_.literal(dtype, *identity_of(fold_op(sum), dtype), cell.lanes)
                                : load_at(memory, array, cell.position, cell.lanes);
      b_.CreateStore(first, cell.place);
    }
    held_.erase(sum);
  }
}

Value* Emitter::load_at(const Compiler::Allocation& memory, Value* array, const Expr& position, int64_t lanes) {
  const llvm::Align align(static_cast<uint64_t>(size_of(memory.dtype)));
  return b_.CreateAlignedLoad(values_.memory_type(memory.dtype, lanes), address_in(memory, position, array), align);
}

void Emitter::store_at(const Compiler::Allocation& memory, Value* array, const Expr& position, Value* value) {
  const llvm::Align align(static_cast<uint64_t>(size_of(memory.dtype)));
  b_.CreateAlignedStore(value, address_in(memory, position, array), align);
}

// Folds a value, or a vector, into the memory of a sum, in the dtype of that memory.
void Emitter::add_to(const Compiler::Allocation& memory, Value* array, const Expr& position, NodeRef sum,
                     Value* value) {
  Value* const total = load_at(memory, array, position, lanes_of(value));
  Value* const both[] = {total, values_.cast(value, ir_.node(sum).dtype, memory.dtype)};
  store_at(memory, array, position, values_.apply(fold_op(sum), memory.dtype, both));
}

Value* Emitter::held(Spot& spot) {
  const Expr at = position(spot);
  std::vector<Cell>& cells = held_.at(spot.access.node);
  for (const Cell& cell : cells) {
    if (cell.position == at && cell.lanes == lanes_) return cell.place;
  }
  const Node& node = ir_.node(spot.access.node);
  cells.push_back({at, lanes_, f_->on_stack(values_.memory_type(node.dtype, lanes_), 1, node.name + "_held")});
  return cells.back().place;
}

// ---- blocks of long sums --------------------------------------------------------------------------------------------

// The number of terms that one iteration of a loop adds to one element of the sum. Empty if unknown.
std::optional<int64_t> Emitter::terms_of_iteration(NodeRef sum, TreeRef loop) const {
  int64_t terms = tree_.loop(loop).step;
  for (TreeRef inner : tree_.path(tree_.find(sum))) {
    const LoopTree::Loop& each = tree_.loop(inner);
    if (tree_.depth(inner) <= tree_.depth(loop) || each.var == tree_.loop(loop).var) continue;
    if (!ir_.folds(sum, each.var)) continue;
    if (!each.size.is_constant()) return {};
    terms = std::min<int64_t>(terms * std::max<int64_t>(each.size.constant(), 1), kMostTerms);
  }
  return terms;
}

bool Emitter::is_plain(NodeRef sum) const {
  const Expr terms = compiler_.terms_of(sum);
  return terms.is_constant() && terms.constant() <= kLongestPlain;
}

// The iterations of `loop`, out of `count`, that are one block of the sum. 0: no blocks, because the sum is short or
// exact.
int64_t Emitter::iterations_of_block(NodeRef sum, TreeRef loop, const Expr& count) const {
  if (!rounds(fold_op(sum), ir_.node(sum).dtype)) return 0;
  const bool is_long = !is_plain(sum) && !compiler_.is_fused(ir_.node(sum).inputs[0]);
  const int64_t terms = is_long ? kLongestBlock : kLongestSum;
  const int64_t iterations = std::max<int64_t>(terms / terms_of_iteration(sum, loop).value_or(1), 1);
  return count.is_constant() && count.constant() <= iterations ? 0 : iterations;
}

Emitter::SumBlocks Emitter::sum_blocks(TreeRef loop) {
  SumBlocks blocks{.held = sums_to_hold(loop)};
  for (NodeRef ref : tree_.nodes_below(loop)) {
    const bool is_held = held_.contains(ref) || is_in(blocks.held, ref);
    if (!is_held && adds_in_parts(ref, loop)) blocks.in_memory.push_back(ref);
  }
  if (blocks.held.empty() && blocks.in_memory.empty()) return blocks;
  const std::vector<TreeRef> run = run_of(loop);
  blocks.loop = run.back();
  Expr count = 1;
  for (TreeRef each : run) count *= tree_.loop(each).size;
  const auto consider = [&](NodeRef sum) {
    const int64_t iterations = iterations_of_block(sum, blocks.loop, count);
    if (iterations > 0) blocks.size = blocks.size == 0 ? iterations : std::min(blocks.size, iterations);
  };
  std::ranges::for_each(blocks.held, consider);
  std::ranges::for_each(blocks.in_memory, consider);
  return blocks;
}

// Whether the loop adds up a long sum in blocks in memory: it is the outermost loop whose iterations add few terms.
bool Emitter::adds_in_parts(NodeRef sum, TreeRef loop) const {
  const Compiler::Allocation& memory = compiler_.allocations.at(sum);
  const auto* reduce = ir_.node(sum).as<Reduce>();
  if (!reduce || !memory.scratch || is_one_element(memory) || !rounds(*reduce->op, ir_.node(sum).dtype)) return false;
  if (is_plain(sum)) return false;
  const auto suits = [&](TreeRef each) {
    const std::optional<int64_t> at_once = terms_of_iteration(sum, each);
    return ir_.folds(sum, tree_.loop(each).var) && at_once && *at_once <= kLongestBlock / kLeastBlock;
  };
  const std::vector<TreeRef> path = tree_.path(tree_.find(sum));
  const auto adds_itself_up = [&](TreeRef each) {
    const LoopTree::Loop& inner = tree_.loop(each);
    return inner.annotation.mark == Mark::kTile ||
           (inner.annotation.mark == Mark::kVectorize && ir_.folds(sum, inner.var));
  };
  const auto outermost = std::ranges::find_if(path, suits);
  return outermost != path.end() && *outermost == loop && tree_.loop(loop).annotation.mark == Mark::kNone &&
         std::ranges::none_of(path, adds_itself_up);
}

// The body adds to a second array, which has the dtype of the sum. After it the second array is added to the memory of
// the sum.
void Emitter::adding_parts(NodeRef sum, TreeRef loop, const FunctionBuilder::Body& body) {
  Compiler::Allocation& memory = compiler_.allocations.at(sum);
  const Compiler::Allocation totals = memory;
  const Compiler::Fill block = compiler_.fill(sum, loop);
  symbolic::Substitution at_first;
  Expr count = 1;
  for (size_t i = 0; i < block.counters.size(); ++i) {
    at_first.emplace(block.counters[i], 0);
    count *= at_least_zero(block.extents[i]);
  }
  const Expr first = substitute(block.offset, at_first);
  Value* const total = arrays_.at(memory.mem_idx);
  memory.dtype = ir_.node(sum).dtype;
  Value* const part = declare(sum, memory);
  arrays_[memory.mem_idx] = part;
  fill_run(memory, first, count, values_.literal(memory.dtype, *identity_of(fold_op(sum), memory.dtype)));
  body();
  in_vectors(memory.dtype, count, [&](const Expr& at, int64_t lanes) {
    const Expr position = substituted(first + at);
    add_to(totals, total, position, sum, load_at(memory, part, position, lanes));
  });
  memory = totals;
  arrays_[memory.mem_idx] = total;
}

void Emitter::in_block(const SumBlocks& blocks, const FunctionBuilder::Body& body) {
  FunctionBuilder::Body all = body;
  if (!blocks.held.empty()) all = [this, &blocks, body] { holding(blocks.held, true, body); };
  for (NodeRef sum : blocks.in_memory) all = [this, &blocks, sum, all] { adding_parts(sum, blocks.loop, all); };
  all();
}

}  // namespace tenon::codegen
