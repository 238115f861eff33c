// Attention.
#include <cmath>
#include <numbers>

#include "loops/lower.h"
#include "ops/common.h"

namespace tenon::ops {
namespace {

constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kMask = 3;

void check_operands(InferContext& c) {
  const DType dtype = c.type(kQuery).dtype;
  for (size_t i : {kQuery, kKey, kValue}) {
    if (c.type(i).rank() < 2) {
      fail("query, key and value must be [..., length, features], got {}", to_string(c.type(i)));
    }
    if (c.type(i).dtype != dtype) {
      fail("query, key and value must have one dtype, got {} and {}", to_string(c.type(kQuery)), to_string(c.type(i)));
    }
  }
  if (!c.has(kMask)) return;
  if (c.flag("causal")) fail("a mask and causal cannot both be given");
  if (c.type(kMask).dtype != dtype && c.type(kMask).dtype != DType::kBool) {
    fail("the mask must be bool or {}, got {}", name_of(dtype), to_string(c.type(kMask)));
  }
}

// How many query heads share one head of keys and values.
Expr group_size(const OpView& c, const Facts& facts) {
  const TensorType& query = c.type(kQuery);
  const TensorType& key = c.type(kKey);
  const TensorType& value = c.type(kValue);
  if (std::min({query.rank(), key.rank(), value.rank()}) < 3)
    fail("with enable_gqa, operands must have a dimension of heads");
  const Expr& heads = query.size(query.rank() - 3);
  const Expr& shared = key.size(key.rank() - 3);
  const Expr size = floordiv(heads, shared);
  if (!facts.equal(size * shared, heads)) fail("{} query heads do not divide among {} key heads", heads, shared);
  if (!facts.equal(shared, value.size(value.rank() - 3))) {
    fail("keys {} and values {} must have as many heads", to_string(key), to_string(value));
  }
  return size;
}

// The leading dimensions of an operand, as those of the result: one head of keys or values stands for its group.
Shape batch_of(const OpView& c, size_t operand) {
  const Shape& shape = c.type(operand).shape;
  Shape batch(shape.begin(), shape.end() - 2);
  const Shape& query = c.type(kQuery).shape;
  if (c.flag("enable_gqa")) batch.back() = query[query.size() - 3];
  return batch;
}

Types attention_type(InferContext& c) {
  check_operands(c);
  const TensorType& query = c.type(kQuery);
  const TensorType& key = c.type(kKey);
  const TensorType& value = c.type(kValue);
  const auto from_end = [](const TensorType& type, int64_t i) -> const Expr& { return type.size(type.rank() - i); };
  if (!c.facts().equal(from_end(query, 1), from_end(key, 1))) {
    fail("query {} and key {} differ in features", to_string(query), to_string(key));
  }
  if (!c.facts().equal(from_end(key, 2), from_end(value, 2))) {
    fail("key {} and value {} differ in length", to_string(key), to_string(value));
  }
  if (c.flag("enable_gqa")) group_size(c, c.facts());
  Shape scores = broadcast(batch_of(c, kQuery), batch_of(c, kKey));
  Shape shape = broadcast(scores, batch_of(c, kValue));
  for (const Expr& size : {from_end(query, 2), from_end(key, 2)}) scores.push_back(size);
  if (c.has(kMask)) check_broadcasts_to(c.type(kMask).shape, scores);
  for (const Expr& size : {from_end(query, 2), from_end(value, 1)}) shape.push_back(size);
  return {{query.dtype, std::move(shape)}};
}

// [..., heads, rows, columns] -> [..., heads / group, group, rows, columns], and back.
Value split_heads(Builder& b, Value x, const Expr& group) {
  Shape shape = x.shape();
  Expr& heads = shape[shape.size() - 3];
  heads = floordiv(heads, group);
  shape.insert(shape.end() - 2, group);
  return b.reshape(x, shape);
}

Value merge_heads(Builder& b, Value x) {
  Shape shape = x.shape();
  shape[shape.size() - 4] *= shape[shape.size() - 3];
  shape.erase(shape.end() - 3);
  return b.reshape(x, shape);
}

// A product of matrices, where the right side may have one head for each group of the left side's.
Value multiply(ExpandContext& e, Value left, Value right) {
  if (!e.flag("enable_gqa")) return e.matmul(left, right);
  return merge_heads(e, e.matmul(split_heads(e, left, group_size(e, e.facts())), e.unsqueeze(right, -3)));
}

Value scale_of(ExpandContext& e, DType dtype) {
  if (e.given("scale")) return e.scalar(e.real("scale"), dtype);
  return e.rsqrt(e.full(e.in(kQuery).shape().back(), {}, dtype));
}

Value masked(ExpandContext& e, Value scores) {
  const Value nothing = e.scalar(-kInfinity, scores.dtype());
  if (e.has(kMask) && e.in(kMask).dtype() != DType::kBool) return scores + e.in_wide(kMask);
  if (e.has(kMask)) return e.where(e.in(kMask), scores, nothing);
  if (!e.flag("causal")) return scores;
  const Value row = e.unsqueeze(e.iota(scores.size(scores.rank() - 2)), 1);
  const Value column = e.iota(scores.size(scores.rank() - 1));
  return e.where(e.compare("ge", row, column), scores, nothing);
}

// A row that is masked everywhere attends to nothing: its weights, and with them their gradients, are zero, not NaN.
Value weights_of(ExpandContext& e, Value scores) {
  const Value best =
      e.op("amax", {scores}, {{"dims", std::vector<int64_t>{-1}}, {"keepdim", true}, {"allow_empty", true}});
  const Value is_masked = e.compare("eq", best, -kInfinity);
  const Value zero = e.scalar(0, scores.dtype());
  const Value weights = e.op("softmax", {e.where(is_masked, zero, scores)}, {{"dim", int64_t{-1}}});
  return e.where(is_masked, zero, weights);
}

// ---- loops ----------------------------------------------------------------------------------------------------------

constexpr int64_t kLanes = 16;      // keys side by side: whole vectors on every machine
constexpr int64_t kMostKeys = 512;  // of a block; sums of more lose digits
constexpr int64_t kFewKeys = 128;   // of a block, where many keys may not count

// Softmax online: a block of keys has weights of its own, relative to the best score of the block. Blocks are weighed
// against each other at the end. So no array has both all queries and all keys, and blocks are independent.
//
// Arrays have the dimensions [batch..., query, block, group, lane], then features. A key is a lane of a group of a
// block. Keys beyond the last have a score of -inf.
class AttentionLoops {
 public:
  explicit AttentionLoops(LoopContext& l) : l_(l), dtype_(wide(l.type(kQuery).dtype)), keys_(from_end(kKey, 2)) {
    const LoopDims& query = l.in(kQuery).dims;
    query_ = query[query.size() - 2] ? query[query.size() - 2] : l.var(from_end(kQuery, 2));
    taken_ = {query_};
    features_ = own_dim({{query.back()}, {l.in(kKey).dims.back()}});
    values_ = own_dim({{l.in(kValue).dims.back()}});
    std::vector<LoopDims> leading;
    for (size_t operand = 0; operand < l.operand_count(); ++operand) {
      if (l.has(operand)) leading.push_back(leading_dims(operand));
    }
    batch_ = l.common_dims(leading, taken_);
    cut_keys();
  }

  void run() {
    const LoopValue scores = masked(products(scaled(l_.wide(query())), l_.wide(keys(kKey, features_)), {-1}));
    const LoopValue best = over_keys("maximum", scores);
    const LoopValue weights = relative(scores, best);
    const LoopValue total = over_keys("add", weights);
    const LoopValue mixed = products(with_features(weights), l_.wide(keys(kValue, values_)), {-3, -2});
    const LoopValue result = block_ ? joined(attended(best, -kInfinity), attended(total, 0), attended(mixed, 0))
                                    : normalized(best, total, mixed);
    l_.out(l_.cast(result, l_.result().dtype));
  }

 private:
  const Expr& from_end(size_t operand, int64_t i) const {
    const TensorType& type = l_.type(operand);
    return type.size(type.rank() - i);
  }

  // ---- dimensions ----

  loops::VarRef own_dim(const std::vector<LoopDims>& dims) {
    const loops::VarRef var = l_.common_dims(dims, taken_)[0];
    if (var) taken_.push_back(var);
    return var;
  }

  LoopDims leading_dims(size_t operand) const {
    const LoopDims& dims = l_.in(operand).dims;
    LoopDims leading(dims.begin(), dims.end() - std::min<int64_t>(2, std::ssize(dims)));
    if (is_shared(operand)) leading.back() = {};
    return leading;
  }

  bool is_shared(size_t operand) const { return l_.flag("enable_gqa") && (operand == kKey || operand == kValue); }

  void cut_keys() {
    Expr blocks = 1;
    int64_t groups = 1, lanes = kLanes;
    if (!keys_.is_constant()) {
      blocks = ceildiv(keys_, kFewKeys);
      groups = kFewKeys / kLanes;
    } else if (keys_.constant() <= kLanes) {
      lanes = keys_.constant();
    } else {
      blocks = ceildiv(keys_, l_.flag("causal") ? kFewKeys : kMostKeys);
      groups = ceildiv(ceildiv(keys_, blocks), kLanes).constant();
    }
    block_ = l_.var(blocks);
    group_ = l_.var(groups);
    lane_ = l_.var(lanes);
    first_key_ = l_.at(block_) * (groups * lanes);
    key_ = first_key_ + l_.at(group_) * lanes + l_.at(lane_);
    is_filled_up_ = blocks * groups * lanes != keys_;
  }

  LoopDims dims(const LoopDims& last) const {
    LoopDims all = batch_;
    all.insert(all.end(), last.begin(), last.end());
    return all;
  }

  // ---- operands ----

  // Where an operand has the element at the indices of the batch.
  std::vector<Expr> batch_index(size_t operand, int64_t trailing) const {
    const Shape& shape = l_.type(operand).shape;
    const auto rank = std::ssize(shape) - trailing;
    std::vector<Expr> index;
    for (int64_t i = 0; i < rank; ++i) {
      const Expr at = l_.at(batch_[batch_.size() - static_cast<size_t>(rank - i)]);
      index.push_back(shape[static_cast<size_t>(i)].is_constant(1) ? Expr(0) : at);
    }
    if (is_shared(operand)) index.back() = floordiv(index.back(), group_size(l_, l_.facts()));
    return index;
  }

  LoopValue query() {
    std::vector<Expr> index = batch_index(kQuery, 2);
    index.push_back(l_.at(query_));
    index.push_back(l_.at(features_));
    return l_.view(dims({query_, {}, {}, {}, features_}), {l_.in(kQuery), l_.type(kQuery).shape, index});
  }

  LoopValue keys(size_t operand, loops::VarRef last) {
    std::vector<Expr> index = batch_index(operand, 2);
    index.push_back(key_);
    index.push_back(l_.at(last));
    return l_.view(dims({{}, block_, group_, lane_, last}), {l_.in(operand), l_.type(operand).shape, index});
  }

  LoopValue mask() {
    const Shape& shape = l_.type(kMask).shape;
    const int64_t trailing = std::min<int64_t>(2, std::ssize(shape));
    std::vector<Expr> index = batch_index(kMask, trailing);
    const Expr own[] = {l_.at(query_), key_};
    for (int64_t i = trailing; i > 0; --i) {
      index.push_back(shape[shape.size() - static_cast<size_t>(i)].is_constant(1) ? Expr(0) : own[2 - i]);
    }
    return l_.view(dims({query_, block_, group_, lane_}), {l_.in(kMask), shape, index});
  }

  // Powers of two are the cheapest: scores are such that 2^score is meant, but where a mask is added to them. A mask
  // may be as low as numbers go, and more than that would be -inf.
  bool is_base_two() const { return !l_.has(kMask) || l_.type(kMask).dtype == DType::kBool; }

  LoopValue scaled(const LoopValue& x) {
    const double unit = is_base_two() ? std::numbers::log2e : 1;
    if (l_.given("scale")) return l_.compute("mul", {x, l_.constant(dtype_, l_.real("scale") * unit)});
    const LoopValue scale = l_.compute("rsqrt", {l_.cast(l_.number(from_end(kQuery, 1)), dtype_)});
    const LoopValue scaled = is_base_two() ? l_.compute("mul", {scale, l_.constant(dtype_, unit)}) : scale;
    return l_.compute("mul", {x, scaled});
  }

  // ---- scores and weights ----

  Shape shape_of(const LoopValue& x) const {
    Shape shape;
    for (loops::VarRef var : x.dims) shape.push_back(l_.size(var));
    return shape;
  }

  LoopValue fold(std::string_view op, const LoopValue& x, const std::vector<int64_t>& folded) {
    return l_.fold(op, x, shape_of(x), normalize_dims(folded, std::ssize(x.dims)), true);
  }

  LoopValue products(const LoopValue& x, const LoopValue& y, const std::vector<int64_t>& folded) {
    LoopValue sum = fold("add", l_.compute("mul", {x, y}), folded);
    if (folded.back() == -1) sum.dims.pop_back();
    return sum;
  }

  // The lanes last: until then each goes its own way.
  LoopValue over_keys(std::string_view op, const LoopValue& x) { return fold(op, fold(op, x, {-2}), {-1}); }

  static LoopValue with_features(LoopValue x) {
    x.dims.emplace_back();
    return x;
  }

  LoopValue masked(LoopValue scores) {
    const LoopValue nothing = l_.constant(dtype_, -kInfinity);
    if (l_.has(kMask)) {
      const bool is_choice = l_.type(kMask).dtype == DType::kBool;
      scores =
          is_choice ? l_.compute("where", {mask(), scores, nothing}) : l_.compute("add", {scores, l_.wide(mask())});
    }
    LoopPiece there = l_.whole(scores, shape_of(scores));
    if (is_filled_up_) there.where.push_back({key_, keys_});
    if (l_.flag("causal")) there.where.push_back(is_not_after_query(key_));
    if (there.where.empty()) return scores;
    return l_.view({dims({query_, block_, group_, lane_}), {there}, -kInfinity});
  }

  loops::Constraint is_not_after_query(const Expr& key) const { return {l_.at(query_) - key, from_end(kQuery, 2)}; }

  // What a block gives, or `nothing` where all its keys come after the query: nobody asks for such a block.
  LoopValue attended(const LoopValue& x, double nothing) {
    if (!l_.flag("causal")) return x;
    LoopPiece there = l_.whole(x, shape_of(x));
    there.where.push_back(is_not_after_query(first_key_));
    LoopDims all = x.dims;
    all[batch_.size()] = query_;
    return l_.view({all, {there}, nothing});
  }

  LoopValue is_masked(const LoopValue& best) { return l_.compute("eq", {best, l_.constant(dtype_, -kInfinity)}); }

  // The distance of a score from the best one is -inf, not NaN, where all are -inf.
  LoopValue or_zero(const LoopValue& best) {
    return l_.compute("where", {is_masked(best), l_.constant(dtype_, 0.0), best});
  }

  // The weight of a score, where that of the best one is 1.
  LoopValue relative(const LoopValue& score, const LoopValue& best) {
    LoopValue distance = l_.compute("sub", {score, or_zero(best)});
    if (!is_base_two()) distance = l_.compute("mul", {distance, l_.constant(dtype_, std::numbers::log2e)});
    return l_.compute("exp2", {distance});
  }

  // ---- results ----

  LoopValue joined(const LoopValue& best, const LoopValue& total, const LoopValue& mixed) {
    const LoopValue top = fold("maximum", best, {-3});
    const LoopValue share = relative(best, top);
    const LoopValue all = fold("add", l_.compute("mul", {share, total}), {-3});
    return normalized(top, all, fold("add", l_.compute("mul", {with_features(share), mixed}), {-4}));
  }

  // A row that is masked everywhere gives zeros.
  LoopValue normalized(const LoopValue& best, const LoopValue& total, const LoopValue& mixed) {
    const LoopValue mean = l_.compute("div", {mixed, with_features(total)});
    const LoopValue zero = l_.constant(dtype_, 0.0);
    LoopValue result = l_.compute("where", {with_features(is_masked(best)), zero, mean});
    result.dims.erase(result.dims.end() - 4, result.dims.end() - 1);
    return result;
  }

  LoopContext& l_;
  DType dtype_;
  Expr keys_;
  LoopDims taken_;
  LoopDims batch_;
  loops::VarRef query_, features_, values_, block_, group_, lane_;
  Expr first_key_ = 0;  // of a block
  Expr key_ = 0;
  bool is_filled_up_ = false;
};

// Each element of the query meets every key twice: in its score, and in the weighted sum of values.
double attention_flops(const OpView& view, const TensorType&) {
  const TensorType& keys = view.type(kKey);
  return 4 * known_count(view.type(kQuery)) * static_cast<double>(keys.size(keys.rank() - 2).constant());
}

const OpDef kAttention{
    .name = "scaled_dot_product_attention",
    .family = "attention",
    .doc =
        "softmax(query @ key^T * scale + mask) @ value. The operands are [..., length, features], and leading "
        "dimensions broadcast. A mask is added; a bool one says where to attend. A row that is masked everywhere gives "
        "zeros.",
    .operands =
        std::vector<OperandDef>{
            {"query", kFloats}, {"key", kFloats}, {"value", kFloats}, {"mask", kFloats | kBools, Arity::kOptional}},
    .attrs = {{"causal", AttrKind::kBool, "row i attends to the columns up to i", Attr(false)},
              {"scale", AttrKind::kReal, "factor of the scores; 1 / sqrt(features) when none", Attr(None{})},
              {"enable_gqa", AttrKind::kBool, "several query heads (dimension -3) share one head of keys and values",
               Attr(false)}},
    .infer = attention_type,
    .semantics = composite([](ExpandContext& e) {
      const Value query = e.in_wide(kQuery);
      const Value scores = multiply(e, query, e.transpose(e.in_wide(kKey), -1, -2)) * scale_of(e, query.dtype());
      return e.cast(multiply(e, weights_of(e, masked(e, scores)), e.in_wide(kValue)), e.in(kQuery).dtype());
    }),
    .gradient = ByExpansion{},
    .loops = [](LoopContext& l) { AttentionLoops(l).run(); },
    .role = Role::kAttention,
    .flops = attention_flops,
    .peer = torch_is(
        "F.scaled_dot_product_attention(query, key, value, mask, 0.0, causal, scale=scale, enable_gqa=enable_gqa)"),
    .samples =
        Samples{"T[2, 3], T[4, 3], T[4, 5], none", "T[1, 2, 3, 4], T[1, 2, 5, 4], T[1, 2, 5, 4], none; causal=true",
                "T[2, 5, 2], T[2, 3, 2], T[2, 3, 2], none; causal=true, scale=0.25",
                "T[1, 2, 2, 3], T[1, 2, 4, 3], T[1, 2, 4, 2], bool[2, 4]",
                "T[2, 2, 3], T[2, 4, 3], T[2, 4, 2], bool[2, 2, 4]",
                "T[2, 2, 3], T[2, 4, 3], T[2, 4, 2], T[2, 4]; scale=1.5",
                "T[1, 2, 2, 3], T[1, 2, 4, 3], T[1, 2, 4, 2], T[1, 1, 2, 4]",
                "T[1, 4, 2, 3], T[1, 2, 3, 3], T[1, 2, 3, 2], none; enable_gqa=true",
                "T[1, 4, 2, 2], T[1, 1, 3, 2], T[1, 1, 3, 2], bool[1, 4, 2, 3]; enable_gqa=true",
                "T[1, 1, 1, 1], T[1, 1, 1, 1], T[1, 1, 1, 1], none", "T[0, 2, 3], T[0, 4, 3], T[0, 4, 2], none"},
    // PyTorch has several kernels for it, which differ in how masked infinities and NaN spread.
    .special_values = false,
};

}  // namespace

OpRefs attention_ops() { return {&kAttention}; }

}  // namespace tenon::ops
