// Scaled dot product attention: PyTorch's function and the kernels that it chooses between.
#include <cmath>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

struct Attention {
  Value query, key, value;
  Value mask;  // may be empty
  NamedAttrs attrs;
  bool enable_gqa = false;  // several query heads share one head of keys and values
};

Value mask_for(AtenCall& c, std::string_view name, DType dtype) {
  const Value mask = c.tensor_or_none(name);
  return mask && mask.dtype() != DType::kBool ? c.cast(mask, dtype) : mask;
}

// A kernel has no flag for it, and sees it from the shapes.
bool shares_heads(Value query, Value key) {
  if (query.rank() < 3 || query.rank() != key.rank()) return false;
  const Expr& queries = query.shape()[query.shape().size() - 3];
  const Expr& keys = key.shape()[key.shape().size() - 3];
  return queries.is_constant() && keys.is_constant() && queries != keys && keys != Expr(1);
}

// `mask` names the argument; it is empty for a kernel that takes none.
Attention attention_of(AtenCall& c, std::string_view mask, std::optional<bool> enable_gqa = {}) {
  Attention attention{c.tensor("query"), c.tensor("key"), c.tensor("value"), {}, {}};
  if (!mask.empty()) attention.mask = mask_for(c, mask, attention.query.dtype());
  attention.enable_gqa = enable_gqa.value_or(shares_heads(attention.query, attention.key));
  attention.attrs = {{"causal", c.flag("is_causal")}, {"enable_gqa", attention.enable_gqa}};
  if (c.given("scale")) attention.attrs.emplace_back("scale", c.real("scale"));
  return attention;
}

Value output_of(Builder& b, const Attention& attention, const std::vector<Value>& in) {
  return b.op("scaled_dot_product_attention", in, attention.attrs);
}

std::vector<Value> operands_of(const Attention& a) { return {a.query, a.key, a.value, a.mask}; }

// ---- step by step, for what the op does not give --------------------------------------------------------------------

double scale_of(const AtenCall& c, Value query) {
  if (c.given("scale")) return c.real("scale");
  const Expr& features = query.shape().back();
  if (!features.is_constant()) c.decline("the number of features is the symbolic {}", features);
  return 1 / std::sqrt(static_cast<double>(features.constant()));
}

// As many heads of keys and values as of queries.
Value repeated_heads(AtenCall& c, Value x, Value query) {
  const size_t heads = x.shape().size() - 3;
  Shape copies = x.shape(), merged = x.shape();
  merged[heads] = query.shape()[heads];
  copies.insert(copies.begin() + static_cast<int64_t>(heads) + 1, floordiv(merged[heads], x.shape()[heads]));
  return c.reshape(c.expand(c.unsqueeze(x, static_cast<int64_t>(heads) + 1), copies), merged);
}

Value causal_mask(AtenCall& c, const Expr& rows, const Expr& columns) {
  return c.op("tril", {c.full(Expr(1), {rows, columns}, DType::kBool)});
}

// query @ key^T * scale + mask. What is masked out is -inf.
Value scores_of(AtenCall& c, const Attention& a) {
  const double scale = scale_of(c, a.query);
  const Value key = a.enable_gqa ? repeated_heads(c, a.key, a.query) : a.key;
  const Value scores = c.matmul(to_wide(c, a.query) * scale, c.transpose(to_wide(c, key), -2, -1));
  const Value mask =
      c.flag("is_causal") ? causal_mask(c, a.query.size(a.query.rank() - 2), a.key.size(a.key.rank() - 2)) : a.mask;
  if (!mask) return scores;
  if (mask.dtype() != DType::kBool) return c.op("add", {scores, c.cast(mask, scores.dtype())});
  return c.where(mask, scores, c.scalar(-INFINITY, scores.dtype()));
}

// A row that is masked everywhere has no weights.
Value weights_of(AtenCall& c, Value scores) {
  const Value weights = c.op("softmax", {scores}, {{"dim", int64_t{-1}}});
  const Value attends =
      c.op("any", {c.compare("ne", scores, -INFINITY)}, {{"dims", std::vector<int64_t>{-1}}, {"keepdim", true}});
  return c.where(attends, weights, c.scalar(0, weights.dtype()));
}

std::pair<Value, Value> step_by_step(AtenCall& c, const Attention& a) {
  const Value value = a.enable_gqa ? repeated_heads(c, a.value, a.query) : a.value;
  const Value weights = weights_of(c, scores_of(c, a));
  Value used = weights;
  if (const double p = c.real("dropout_p"); p > 0) {
    used = c.results("dropout", {weights, c.key(element_count(weights.shape()))}, {{"p", p}})[0];
  }
  const DType dtype = a.query.dtype();
  return {c.cast(c.matmul(used, to_wide(c, value)), dtype), c.cast(weights, dtype)};
}

// ---- entries --------------------------------------------------------------------------------------------------------

AtenArg attention(AtenCall& c) {
  const Attention a = attention_of(c, "attn_mask", c.flag("enable_gqa"));
  if (c.real("dropout_p") > 0) return step_by_step(c, a).first;
  return output_of(c, a, operands_of(a));
}

AtenArg attention_with_weights(AtenCall& c) {
  if (c.given("dropout_mask")) c.decline("the mask of dropout is given");
  Attention a = attention_of(c, "attn_mask", c.flag("enable_gqa"));
  if (a.mask) a.mask = c.cast(a.mask, a.query.dtype());  // here, unlike above, a bool is a number to add
  const auto [out, weights] = step_by_step(c, a);
  return std::vector<Value>{out, weights};
}

void check_no_dropout(const AtenCall& c) {
  if (c.real("dropout_p") > 0) c.decline("the random numbers of a fused kernel are its own");
}

Value log_sum_of(AtenCall& c, const Attention& a) {
  return c.op("logsumexp", {scores_of(c, a)}, {{"dims", std::vector<int64_t>{-1}}});
}

AtenArg on_cpu(AtenCall& c) {
  check_no_dropout(c);
  const Attention a = attention_of(c, "attn_mask");
  return std::vector<Value>{output_of(c, a, operands_of(a)), log_sum_of(c, a)};
}

// Without dropout the seed and the offset of random numbers say nothing.
Value no_seed(AtenCall& c) { return c.full(Expr(0), {}, DType::kI64); }

AtenArg efficient(AtenCall& c) {
  check_no_dropout(c);
  const Attention a = attention_of(c, "attn_bias");
  Shape none(a.query.shape().begin(), a.query.shape().end() - 1);
  none.back() = 0;
  const Value sums = c.flag("compute_log_sumexp") ? log_sum_of(c, a) : c.full(Expr(0), none, DType::kF32);
  return std::vector<Value>{output_of(c, a, operands_of(a)), sums, no_seed(c), no_seed(c)};
}

// The kernel for batches of one length: the lengths before each sequence are absent.
AtenArg flash(AtenCall& c) {
  check_no_dropout(c);
  const Attention a = attention_of(c, "");
  const Value seed = c.full(Expr(0), {2}, DType::kI64);
  return AtenArg::List{output_of(c, a, operands_of(a)),
                       log_sum_of(c, a),
                       None{},
                       None{},
                       a.query.size(a.query.rank() - 2),
                       a.key.size(a.key.rank() - 2),
                       seed,
                       no_seed(c),
                       nothing(c, a.query.dtype())};
}

std::vector<Value> attention_gradients(AtenCall& c, const Attention& a) {
  check_no_dropout(c);
  std::vector<Value> operands = {a.query, a.key, a.value};
  if (a.mask && a.mask.dtype() != DType::kBool) operands.push_back(a.mask);
  if (a.mask && a.mask.dtype() == DType::kBool) c.decline("the mask of a fused kernel is a bias");
  const auto forward = [&a](Builder& b, std::vector<Value> in) {
    if (in.size() == 3) in.emplace_back();
    return output_of(b, a, in);
  };
  return gradients(c, forward, operands, c.arguments()[0].get<AtenTensor>()->value);
}

AtenArg first_three(const std::vector<Value>& all) { return std::vector<Value>(all.begin(), all.begin() + 3); }

AtenArg efficient_backward(AtenCall& c) {
  std::vector<Value> by_operand = attention_gradients(c, attention_of(c, "attn_bias"));
  by_operand.resize(4);
  return masked(c, by_operand, "grad_input_mask");
}

}  // namespace

void add_attention_entries(AtenTable& table) {
  table.add(
      "aten.scaled_dot_product_attention.default(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, "
      "scale=None, enable_gqa=False)",
      attention);
  table.add(
      "aten._scaled_dot_product_attention_math.default(query, key, value, attn_mask=None, dropout_p=0.0, "
      "is_causal=False, dropout_mask=None, *, scale=None, enable_gqa=False)",
      attention_with_weights);
  table.add(
      "aten._scaled_dot_product_flash_attention_for_cpu.default(query, key, value, dropout_p=0.0, is_causal=False, *, "
      "attn_mask=None, scale=None)",
      on_cpu);
  table.add(
      "aten._scaled_dot_product_flash_attention_for_cpu_backward.default(grad_out, query, key, value, out, logsumexp, "
      "dropout_p, is_causal, *, attn_mask=None, scale=None)",
      [](AtenCall& c) { return first_three(attention_gradients(c, attention_of(c, "attn_mask"))); });
  table.add(
      "aten._scaled_dot_product_efficient_attention.default(query, key, value, attn_bias, compute_log_sumexp, "
      "dropout_p=0.0, is_causal=False, *, scale=None)",
      efficient);
  table.add(
      "aten._scaled_dot_product_efficient_attention_backward.default(grad_out_, query, key, value, attn_bias, out, "
      "logsumexp, philox_seed, philox_offset, dropout_p, grad_input_mask, is_causal=False, *, scale=None)",
      efficient_backward);
  table.add(
      "aten._scaled_dot_product_flash_attention.default(query, key, value, dropout_p=0.0, is_causal=False, "
      "return_debug_mask=False, *, scale=None)",
      flash);
  table.add(
      "aten._scaled_dot_product_flash_attention_backward.default(grad_out, query, key, value, out, logsumexp, "
      "cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, philox_seed, philox_offset, *, scale=None)",
      [](AtenCall& c) { return first_three(attention_gradients(c, attention_of(c, ""))); });
}

}  // namespace tenon::aten
