// Attention.
#include <cmath>
#include <limits>

#include "graph/ops/common.h"

namespace tenon {
namespace {

using namespace ops;

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

const OpDef kAttention{
    .name = "scaled_dot_product_attention",
    .family = "attention",
    .doc =
        "softmax(query @ key^T * scale + mask) @ value. The operands are [..., length, features], and leading "
        "dimensions broadcast. A mask is added; a bool one says where to attend. A row that is masked everywhere "
        "gives zeros.",
    .operands =
        std::vector<OperandDef>{
            {"query", kFloats}, {"key", kFloats}, {"value", kFloats}, {"mask", kFloats | kBools, Arity::kOptional}},
    .attrs = {{"causal", AttrKind::kBool, "row i attends to the columns up to i", Attr(false)},
              {"scale", AttrKind::kReal, "factor of the scores; 1 / sqrt(features) when none", Attr(None{})},
              {"enable_gqa", AttrKind::kBool, "several query heads (dimension -3) share one head of keys and values",
               Attr(false)}},
    .infer = attention_type,
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const Value query = e.in_wide(kQuery);
      const Value scores = multiply(e, query, e.transpose(e.in_wide(kKey), -1, -2)) * scale_of(e, query.dtype());
      return {e.cast(multiply(e, weights_of(e, masked(e, scores)), e.in_wide(kValue)), e.in(kQuery).dtype())};
    }),
    .gradient = ByExpansion{},
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

OpFamily attention_ops() {
  static const OpDef* const ops[] = {&kAttention};
  return ops;
}

}  // namespace tenon
