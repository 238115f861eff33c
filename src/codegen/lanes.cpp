// Vectorized loops.
#include <algorithm>
#include <bit>
#include <ranges>

#include "codegen/emitter.h"
#include "loops/limits.h"

namespace tenon::codegen {

using namespace loops;
using llvm::Value;

namespace {

constexpr size_t kMostMoves = 3;  // a loop of so few nodes only moves elements that it looks up
constexpr int64_t kInARow = 4;    // iterations that such a loop, as scalar code, is unrolled by

std::optional<int64_t> number_of(const symbolic::Expr& expr) {
  return expr.is_constant() ? std::optional(expr.constant()) : std::nullopt;
}

}  // namespace

// ---- which loops can be lanes ---------------------------------------------------------------------------------------

// Whether a node can compute several iterations of the loop at once: none depends on the one before.
bool Emitter::has_vector_form(TreeRef leaf, TreeRef loop) {
  const Node& node = ir_.node(tree_.node(leaf));
  const Symbol counter = compiler_.counter(loop);
  if (node.as<Scan>()) {
    const Result<Expr> stride = differentiate(spot(leaf, {Which::kCarry}).position, counter);
    return stride.ok() && stride->is_constant(1);
  }
  Spot& self = spot(leaf, {Which::kSelf});
  const Result<Expr> stride = differentiate(self.position, counter);
  if (!stride.ok()) return false;
  const std::span<const Lookup> lookups = node.lookups();
  const bool looks_up_lanes = std::ranges::any_of(std::views::iota(size_t{0}, lookups.size()), [&](size_t i) {
    const Spot& lookup = spot(leaf, {Which::kLookup, i});
    const bool is_local = lookup.access.memory && lookup.access.memory->scratch && lookup.access.memory->lca == loop;
    return is_local || depends_on(lookup.position, counter);
  });
  const bool is_only_moved = tree_.children(loop).size() <= kMostMoves;
  if (!node.as<Scatter>()) return !looks_up_lanes || target_.has_gathers || !is_only_moved;
  const auto depends = [&](const Constraint& constraint) { return depends_on(constraint.expr, counter); };
  return !looks_up_lanes && stride->is_constant() && !stride->is_constant(0) &&
         std::ranges::none_of(compiler_.get_constraints(self.access), depends);
}

int64_t Emitter::lanes_for(TreeRef loop, const Expr& count) {
  int64_t widest = 1;
  for (TreeRef leaf : tree_.children(loop)) {
    if (!has_vector_form(leaf, loop)) return 1;
    const Node& node = ir_.node(tree_.node(leaf));
    widest = std::max(widest, size_of(node.dtype));
    for (NodeRef input : node.inputs) widest = std::max(widest, size_of(ir_.node(input).dtype));
  }
  const int64_t lanes = std::max<int64_t>(1, target_.vector_bytes / widest);
  if (!count.is_constant()) return lanes;
  const auto number = static_cast<uint64_t>(count.constant());
  return std::min<int64_t>(lanes,
                           static_cast<int64_t>(target_.has_masks ? std::bit_ceil(number) : std::bit_floor(number)));
}

// ---- loops of vectors -----------------------------------------------------------------------------------------------

void Emitter::vectors(TreeRef ref, const Expr& begin, const Expr& end) {
  const Expr from = substituted(begin), to = substituted(end);
  const int64_t lanes = lanes_for(ref, to - from);
  if (lanes == 1) {
    const symbolic::Interval count = bounds(to - from, scope_->box.ranges());
    if (count.is_single() && count.high <= kMostVectors) return unrolled(ref, begin, end, count.high);
    return one_by_one(ref, begin, end);
  }
  std::vector<NodeRef> folded = tree_.nodes_below(ref);
  std::erase_if(folded, [&](NodeRef node) { return !ir_.folds(node, tree_.loop(ref).var); });
  vector_ = ref;
  lanes_ = lanes;
  begins_at_whole_vector_ = scope_->box.simplify(mod(from, lanes)).is_constant(0);
  folded.empty() ? vector_stretch(ref, from, to) : folding(ref, from, to, folded);
  vector_ = {};
  lanes_ = 1;
}

// Scalar code for a vectorized loop. Short bodies are unrolled.
void Emitter::one_by_one(TreeRef ref, const Expr& begin, const Expr& end) {
  const Symbol counter = compiler_.counter(ref);
  const auto lanes = [&] { body(ref, tree_.children(ref)); };
  const bool is_short = tree_.children(ref).size() <= kMostMoves;
  const Expr past = is_short ? begin + max(floordiv(end - begin, kInARow), 0) * kInARow : begin;
  if (is_short) {
    f_->loop(counter, index(begin), index(past), kInARow, [&] {
      for (int64_t i = 0; i < kInARow; ++i) at_literal(counter, {i, true}, lanes);
    });
  }
  serial(ref, index(past), index(end));
}

void Emitter::vector_stretch(TreeRef ref, const Expr& begin, const Expr& end) {
  const Symbol counter = compiler_.counter(ref);
  const auto lanes = [&] { body(ref, tree_.children(ref)); };
  const std::optional<int64_t> count = number_of(end - begin);
  const int64_t most = bounds(end - begin, scope_->box.ranges()).high;
  if (count && *count <= kMostVectors * lanes_) {
    const int64_t whole = *count / lanes_ * lanes_;
    const auto all = [&] {
      for (int64_t at = 0; at < whole; at += lanes_) {
        const Literal literal{begin.is_constant() ? begin.constant() + at : at, !begin.is_constant()};
        at_literal(counter, literal, lanes);
      }
    };
    begin.is_constant() ? all() : f_->with(counter, index(begin), all);
    if (whole < *count) rest(ref, begin + whole, end);
    return;
  }
  if (most < lanes_ || (most == lanes_ && target_.has_masks)) return rest(ref, begin, end);
  const Expr past = scope_->box.simplify(begin + max(floordiv(end - begin, lanes_), 0) * lanes_);
  f_->loop(counter, index(begin), index(past), lanes_, lanes);
  if (past != end) rest(ref, past, end);
}

// A mask of the first `count` elements of a vector, 1 <= count <= width.
Value* Emitter::first_of(Value* count, int64_t width) {
  Value* const missing = b_.CreateSub(b_.getInt64(64), count);
  Value* const bits = b_.CreateLShr(b_.getInt64(~uint64_t{0}), missing);
  const auto lanes = static_cast<unsigned>(width);
  return b_.CreateBitCast(b_.CreateTrunc(bits, b_.getIntNTy(lanes)), llvm::FixedVectorType::get(b_.getInt1Ty(), lanes));
}

// The remaining iterations, fewer than lanes.
void Emitter::rest(TreeRef ref, const Expr& begin, const Expr& end) {
  const Symbol counter = compiler_.counter(ref);
  if (!target_.has_masks) {
    const TreeRef loop = std::exchange(vector_, TreeRef());
    const int64_t lanes = std::exchange(lanes_, 1);
    const symbolic::Interval count = bounds(end - begin, scope_->box.ranges());
    count.is_single() && count.high <= kMostVectors ? unrolled(ref, begin, end, count.high)
                                                    : serial(ref, index(begin), index(end));
    vector_ = loop;
    lanes_ = lanes;
    return;
  }
  const auto lanes = [&] { body(ref, tree_.children(ref)); };
  const auto masked = [&] {
    tail_ = first_lanes(index(end - begin));
    tail_count_ = number_of(end - begin).value_or(0);
    if (begin.is_constant()) {
      at_literal(counter, {begin.constant(), false}, lanes);
    } else {
      f_->with(counter, index(begin), lanes);
    }
    tail_ = nullptr;
    tail_count_ = 0;
  };
  const bool is_needed = bounds(end - begin, scope_->box.ranges()).low > 0;
  is_needed ? masked() : f_->when(b_.CreateICmpSLT(index(begin), index(end)), masked);
}

// ---- folds of lanes -------------------------------------------------------------------------------------------------

Value* Emitter::lane_sum(NodeRef ref, int64_t position) {
  Value*& sum = lane_sums_[{ref, position}];
  if (!sum) sum = f_->on_stack(values_.type(ir_.node(ref).dtype, lanes_), 1, ir_.node(ref).name + "_lanes");
  return sum;
}

// A vectorized loop that folds. The lanes are folded after each block of terms.
void Emitter::folding(TreeRef ref, const Expr& begin, const Expr& end, const std::vector<NodeRef>& folded) {
  lane_sums_.clear();
  const std::optional<int64_t> count = number_of(end - begin);
  const int64_t sums = count ? std::clamp<int64_t>(*count / lanes_, 1, machine_.fma_latency) : machine_.fma_latency;
  const int64_t block = kLongestChain * sums * lanes_;
  const bool is_exact =
      std::ranges::none_of(folded, [&](NodeRef node) { return rounds(fold_op(node), ir_.node(node).dtype); });
  const Symbol from("block"), to("block_end");
  if (is_exact || (count && *count <= block)) return fold_block(ref, begin, end, sums, folded);
  f_->loop(from, index(begin), index(end), block, [&] {
    Value* const past = b_.CreateAdd(index(from), b_.getInt64(static_cast<uint64_t>(block)));
    Value* const last = index(end);
    f_->with(to, b_.CreateSelect(b_.CreateICmpSLT(past, last), past, last),
             [&] { fold_block(ref, from, to, sums, folded); });
  });
}

void Emitter::fold_block(TreeRef ref, const Expr& begin, const Expr& end, int64_t sums,
                         const std::vector<NodeRef>& folded) {
  const Symbol counter = compiler_.counter(ref);
  const auto lanes = [&] { body(ref, tree_.children(ref)); };
  for (NodeRef node : folded) {
    const DType dtype = ir_.node(node).dtype;
    for (int64_t i = 0; i < sums; ++i) {
      b_.CreateStore(values_.literal(dtype, *identity_of(fold_op(node), dtype), lanes_), lane_sum(node, i));
    }
  }
  const auto past_all = [&](int64_t step) { return begin + max(floordiv(end - begin, step), 0) * step; };
  const Expr many = past_all(sums * lanes_), whole = past_all(lanes_);
  const auto once = [&](int64_t first, bool is_offset) {
    for (sum_ = 0; sum_ < sums; ++sum_) at_literal(counter, {first + sum_ * lanes_, is_offset}, lanes);
    sum_ = 0;
  };
  // A single iteration reads at constant positions, so that its inputs can stay in registers.
  const bool is_once = begin.is_constant() && many.is_constant() && many.constant() - begin.constant() == sums * lanes_;
  if (is_once) {
    once(begin.constant(), false);
  } else if (many != begin) {
    f_->loop(counter, index(begin), index(many), sums * lanes_, [&] { once(0, true); });
  }
  if (sums > 1 && many != whole) f_->loop(counter, index(many), index(whole), lanes_, lanes);
  const bool rest_is_masked = target_.has_masks;
  if (whole != end && rest_is_masked) rest(ref, whole, end);
  for (NodeRef node : folded) fold_lanes(node, sums);
  if (whole != end && !rest_is_masked) rest(ref, whole, end);
}

void Emitter::fold_lanes(NodeRef ref, int64_t sums) {
  const OpDef& op = fold_op(ref);
  const DType dtype = ir_.node(ref).dtype;
  const DType wide = compiler_.allocations.at(ref).dtype;
  llvm::Type* const type = values_.type(dtype, lanes_);
  std::vector<Value*> all;
  for (int64_t i = 0; i < sums; ++i) all.push_back(b_.CreateLoad(type, lane_sum(ref, i)));
  for (size_t step = 1; step < all.size(); step *= 2) {
    for (size_t i = 0; i + step < all.size(); i += 2 * step) {
      Value* const both[] = {all[i], all[i + step]};
      all[i] = values_.apply(op, dtype, both);
    }
  }
  Value* const folded = values_.fold_lanes(op, wide, values_.cast(all[0], dtype, wide));
  const int64_t lanes = std::exchange(lanes_, 1);
  const TreeRef loop = std::exchange(vector_, TreeRef());
  const TreeRef leaf = tree_.find(ref);
  Value* const both[] = {read(leaf, {Which::kSelf}), folded};
  write(leaf, values_.apply(op, wide, both));
  lanes_ = lanes;
  vector_ = loop;
}

}  // namespace tenon::codegen
