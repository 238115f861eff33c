// Losses, with PyTorch's three reductions, and their backward overloads.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "autodiff/loss_formulas.h"
#include "capture/aten/common.h"

namespace tenon::aten {
namespace {
using namespace losses;

Reduction reduction_of(AtenCall& c) {
  const int64_t number = c.integer("reduction");
  if (number < 0 || number > 2) fail("reduction must be 0 (none), 1 (mean) or 2 (sum), got {}", number);
  return static_cast<Reduction>(number);
}

Value reduced(AtenCall& c, Value losses) { return losses::reduced(c, losses, reduction_of(c)); }

// The gradient of each loss: of a mean, its share.
Value spread(AtenCall& c, Value grad, Value of_mean_over) {
  if (reduction_of(c) != Reduction::kMean) return grad;
  return grad / c.full(element_count(of_mean_over.shape()), {}, grad.dtype());
}

Value at_least(AtenCall& c, Value x, double low) { return c.op("clamp", {x, c.scalar(low, x.dtype()), Value()}); }

Value times_weight(AtenCall& c, Value losses) {
  return c.given("weight") ? losses * to_wide(c, c.tensor("weight")) : losses;
}

DType dtype_of(AtenCall& c, std::initializer_list<std::string_view> names) {
  std::vector<TensorType> types;
  for (std::string_view name : names) types.push_back(c.tensor(name).type());
  return float_dtype(result_dtype(types));
}

// ---- of pairs of elements -------------------------------------------------------------------------------------------

// A loss of each prediction x and its target y, computed in at least f32.
AtenFn elementwise_loss(BinaryFormula formula, std::string_view x = "self", std::string_view y = "target") {
  return binary_formula(
      [formula = std::move(formula)](AtenCall& c, Value x, Value y) { return reduced(c, formula(c, x, y)); }, x, y);
}

// The gradient of such a loss by x, given its slope.
AtenFn elementwise_backward(BinaryFormula slope) {
  return [slope = std::move(slope)](AtenCall& c) {
    const DType dtype = dtype_of(c, {"self", "target"});
    const Value x = c.cast(c.tensor(), wide_dtype(dtype));
    const Value y = c.cast(c.tensor("target"), wide_dtype(dtype));
    const Value slopes = slope(c, x, y);
    return c.cast(slopes * spread(c, to_wide(c, c.tensor("grad_output")), slopes), dtype);
  };
}

Value smooth_l1(AtenCall& c, Value x, Value y) {
  const double beta = c.real("beta");
  const Value distance = c.abs(x - y);
  if (beta == 0) return distance;
  return c.where(c.compare("lt", distance, beta), distance * distance * (0.5 / beta), distance - 0.5 * beta);
}

Value huber(AtenCall& c, Value x, Value y) {
  const double delta = c.real("delta");
  const Value distance = c.abs(x - y);
  return c.where(c.compare("le", distance, delta), distance * distance * 0.5, (distance - 0.5 * delta) * delta);
}

// The distance, cut off at both sides.
Value clipped_distance(AtenCall& c, Value x, Value y, double most) {
  return c.op("clamp", {x - y, c.scalar(-most, x.dtype()), c.scalar(most, x.dtype())});
}

Value divergence(AtenCall& c, Value x, Value y) {
  if (c.flag("log_target")) return c.exp(y) * (y - x);
  return c.where(c.compare("eq", y, 0), c.scalar(0, y.dtype()), y * c.log(y)) - y * x;
}

Value cross_entropy_of_bits(AtenCall& c, Value x, Value y) {
  constexpr double kLeastLogarithm = -100;  // as PyTorch bounds it, so that the loss stays finite
  const Value of_zeros = (y - 1) * at_least(c, c.unary("log1p", -x), kLeastLogarithm);
  return times_weight(c, of_zeros - y * at_least(c, c.log(x), kLeastLogarithm));
}

Value cross_entropy_of_bits_backward(AtenCall& c, Value x, Value y) {
  return times_weight(c, (x - y) / at_least(c, (1 - x) * x, 1e-12));
}

// In the dtype of the formula; empty where it is not given.
Value weights(AtenCall& c, std::string_view name, DType dtype) {
  return c.given(name) ? c.cast(c.tensor(name), dtype) : Value();
}

Value cross_entropy_of_logits(AtenCall& c, Value x, Value y) {
  return binary_cross_entropy(c, x, y, weights(c, "pos_weight", x.dtype()), weights(c, "weight", x.dtype()));
}

Value poisson(AtenCall& c, Value x, Value y) {
  Value loss = c.flag("log_input") ? c.exp(x) - y * x : x - y * c.log(x + c.real("eps"));
  if (!c.flag("full")) return loss;
  const Value stirling = y * c.log(y) - y + c.log(y * (2 * std::numbers::pi)) * 0.5;
  return loss + zero_unless(c, c.compare("gt", y, 1), stirling);
}

Value hinge_embedding(AtenCall& c, Value x, Value y) {
  const Value apart = at_least(c, c.real("margin") - x, 0);
  return zero_unless(c, c.compare("ne", y, 1), apart) + zero_unless(c, c.compare("ne", y, -1), x);
}

void add_elementwise(AtenTable& table) {
  table.add("aten.mse_loss.default(self, target, reduction=1)", elementwise_loss(squared_error));
  table.add("aten.l1_loss.default(self, target, reduction=1)", elementwise_loss(absolute_error));
  table.add("aten.smooth_l1_loss.default(self, target, reduction=1, beta=1.0)", elementwise_loss(smooth_l1));
  table.add("aten.huber_loss.default(self, target, reduction=1, delta=1.0)", elementwise_loss(huber));
  table.add("aten.kl_div.default(self, target, reduction=1, *, log_target=False)", elementwise_loss(divergence));
  table.add("aten.binary_cross_entropy.default(self, target, weight=None, reduction=1)",
            elementwise_loss(cross_entropy_of_bits));
  table.add("aten.binary_cross_entropy_with_logits.default(self, target, weight=None, pos_weight=None, reduction=1)",
            elementwise_loss(cross_entropy_of_logits));
  table.add("aten.soft_margin_loss.default(self, target, reduction=1)",
            elementwise_loss([](AtenCall& c, Value x, Value y) { return c.unary("log1p", c.exp(-y * x)); }));
  table.add("aten.hinge_embedding_loss.default(self, target, margin=1.0, reduction=1)",
            elementwise_loss(hinge_embedding));
  table.add("aten.poisson_nll_loss.default(input, target, log_input, full, eps, reduction)",
            elementwise_loss(poisson, "input"));
}

void add_elementwise_backward(AtenTable& table) {
  table.add("aten.mse_loss_backward.default(grad_output, self, target, reduction)",
            elementwise_backward([](AtenCall&, Value x, Value y) { return (x - y) * 2; }));
  table.add("aten.smooth_l1_loss_backward.default(grad_output, self, target, reduction, beta)",
            elementwise_backward([](AtenCall& c, Value x, Value y) {
              const double beta = c.real("beta");
              return beta == 0 ? c.sign(x - y) : clipped_distance(c, x, y, beta) / beta;
            }));
  table.add(
      "aten.huber_loss_backward.default(grad_output, self, target, reduction, delta)",
      elementwise_backward([](AtenCall& c, Value x, Value y) { return clipped_distance(c, x, y, c.real("delta")); }));
  table.add("aten.binary_cross_entropy_backward.default(grad_output, self, target, weight=None, reduction=1)",
            elementwise_backward(cross_entropy_of_bits_backward));
  table.add("aten.soft_margin_loss_backward.default(grad_output, self, target, reduction)",
            elementwise_backward([](AtenCall& c, Value x, Value y) { return -y * c.sigmoid(-y * x); }));
}

// ---- of distances ---------------------------------------------------------------------------------------------------

AtenArg margin_ranking(AtenCall& c) {
  const DType dtype = dtype_of(c, {"input1", "input2", "target"});
  const auto wide = [&](std::string_view name) { return c.cast(c.tensor(name), wide_dtype(dtype)); };
  const Value losses = at_least(c, -wide("target") * (wide("input1") - wide("input2")) + c.real("margin"), 0);
  return c.cast(reduced(c, losses), dtype);
}

AtenArg cosine_embedding(AtenCall& c) {
  const DType dtype = dtype_of(c, {"input1", "input2"});
  const Value a = c.cast(c.tensor("input1"), wide_dtype(dtype));
  const Value b = c.cast(c.tensor("input2"), wide_dtype(dtype));
  const Value target = c.tensor("target");
  const int64_t dim = target.rank() == 0 ? 0 : 1;
  constexpr double kEpsilon = 1e-12;
  const auto square = [&](Value x) { return c.sum(x * x, {dim}) + kEpsilon; };
  const Value cosine = c.sum(a * b, {dim}) / c.sqrt(square(a) * square(b));
  const Value alike = zero_unless(c, c.compare("eq", target, 1), 1 - cosine);
  const Value apart = zero_unless(c, c.compare("eq", target, -1), at_least(c, cosine - c.real("margin"), 0));
  return c.cast(reduced(c, alike + apart), dtype);
}

AtenArg triplet_margin(AtenCall& c) {
  const DType dtype = dtype_of(c, {"anchor", "positive", "negative"});
  const auto wide = [&](std::string_view name) { return c.cast(c.tensor(name), wide_dtype(dtype)); };
  const auto distance = [&](Value a, Value b) {
    return c.op("norm", {a - b + c.real("eps")}, {{"p", c.real("p")}, {"dims", std::vector<int64_t>{-1}}});
  };
  const Value anchor = wide("anchor");
  const Value positive = wide("positive");
  const Value negative = wide("negative");
  Value to_negative = distance(anchor, negative);
  if (c.flag("swap")) to_negative = c.minimum(to_negative, distance(positive, negative));
  const Value losses = at_least(c, distance(anchor, positive) - to_negative + c.real("margin"), 0);
  return c.cast(reduced(c, losses), dtype);
}

void add_distances(AtenTable& table) {
  table.add("aten.margin_ranking_loss.default(input1, input2, target, margin=0.0, reduction=1)", margin_ranking);
  table.add("aten.cosine_embedding_loss.default(input1, input2, target, margin=0.0, reduction=1)", cosine_embedding);
  table.add(
      "aten.triplet_margin_loss.default(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-06, swap=False, "
      "reduction=1)",
      triplet_margin);
}

// ---- of classes -----------------------------------------------------------------------------------------------------

Classes classes_of(AtenCall& c, Value scores) {
  return losses::classes_of(c, scores, c.tensor("target"), weights(c, "weight", scores.dtype()),
                            c.integer("ignore_index"));
}

std::pair<Value, Value> negative_likelihood(AtenCall& c) {
  return losses::negative_likelihood(c, classes_of(c, to_wide(c, c.tensor())), reduction_of(c));
}

AtenArg nll_loss(AtenCall& c) { return c.cast(negative_likelihood(c).first, c.tensor().dtype()); }

AtenArg nll_loss_forward(AtenCall& c) {
  const DType dtype = c.tensor().dtype();
  const auto [loss, weight] = negative_likelihood(c);
  return std::vector{c.cast(loss, dtype), c.cast(weight, dtype)};
}

AtenArg nll_loss_backward(AtenCall& c) {
  const Value x = c.tensor();
  const Classes k = classes_of(c, to_wide(c, x));
  Value grad = to_wide(c, c.tensor("grad_output"));
  if (reduction_of(c) == Reduction::kMean) grad = grad / to_wide(c, c.tensor("total_weight"));
  const Value of_target = c.unsqueeze(-grad * k.weight, k.dim);
  const Value is_target = c.compare("eq", c.iota_along(k.dim, x.shape()), c.unsqueeze(k.target, k.dim));
  const Value is_used = c.unsqueeze(k.is_used, k.dim);
  return c.cast(zero_unless(c, logical_and(c, is_target, is_used), of_target), x.dtype());
}

void add_likelihoods(AtenTable& table) {
  table.add("aten.nll_loss{,2d,_nd}.default(self, target, weight=None, reduction=1, ignore_index=-100)", nll_loss);
  table.add("aten.nll_loss{,2d}_forward.default(self, target, weight, reduction, ignore_index)", nll_loss_forward);
  table.add(
      "aten.nll_loss{,2d}_backward.default(grad_output, self, target, weight, reduction, ignore_index, total_weight)",
      nll_loss_backward);
}

// ---- cross entropy --------------------------------------------------------------------------------------------------

AtenArg cross_entropy_loss(AtenCall& c) {
  const Value x = to_wide(c, c.tensor());
  const Value target = c.tensor("target");
  const CrossEntropy options{.weight = weights(c, "weight", x.dtype()),
                             .reduction = reduction_of(c),
                             .ignore_index = c.integer("ignore_index"),
                             .label_smoothing = c.real("label_smoothing")};
  const Value loss = cross_entropy(c, x, is_float(target.dtype()) ? c.cast(target, x.dtype()) : target, options);
  return c.cast(loss, c.tensor().dtype());
}

void add_cross_entropy(AtenTable& table) {
  table.add(
      "aten.cross_entropy_loss.default(self, target, weight=None, reduction=1, ignore_index=-100, "
      "label_smoothing=0.0)",
      cross_entropy_loss);
}

// PyTorch computes logits and losses of a few rows at a time, which saves memory and changes no result.
AtenArg chunked_cross_entropy(AtenCall& c, int64_t reduction, double smoothing) {
  const AtenArg logits =
      c.call("aten.linear.default", {c.argument("input"), c.argument("linear_weight"), c.argument("linear_bias")});
  return c.call("aten.cross_entropy_loss.default",
                {logits, c.argument("target"), c.argument("weight"), reduction, c.argument("ignore_index"), smoothing});
}

AtenArg chunked_loss(AtenCall& c) {
  for (std::string_view name : {"compute_input_grad", "compute_linear_weight_grad", "compute_linear_bias_grad"}) {
    if (c.flag(name)) c.decline("it computes gradients ahead: {}", name);
  }
  const DType dtype = c.tensor("input").dtype();
  const auto reduction = static_cast<int64_t>(c.string("reduction") == "mean" ? Reduction::kMean : Reduction::kSum);
  const Value no_matrix = c.full(Expr(0), {0, 0}, dtype);
  return AtenArg::List{chunked_cross_entropy(c, reduction, c.real("label_smoothing")), no_matrix, no_matrix,
                       nothing(c, dtype)};
}

void add_chunked_losses(AtenTable& table) {
  constexpr std::string_view kPacket = "torch_nn._linear_cross_entropy_batch_chunked";
  constexpr std::string_view kOperands = "(input, linear_weight, target, linear_bias, weight";
  table.add(fmt::format("{}.default{}, reduction, ignore_index, label_smoothing, batch_chunk_size, acc_policy, "
                        "acc_dtype, allow_retain_graph, compute_input_grad, compute_linear_weight_grad, "
                        "compute_linear_bias_grad)",
                        kPacket, kOperands),
            chunked_loss);
  table.add(fmt::format("{}_no_reduction.default{}, ignore_index, batch_chunk_size, acc_policy, acc_dtype)", kPacket,
                        kOperands),
            [](AtenCall& c) { return chunked_cross_entropy(c, static_cast<int64_t>(Reduction::kNone), 0); });
}

// ---- margins between classes ----------------------------------------------------------------------------------------

// One sample as a batch of one.
Value as_batch(AtenCall& c, Value x, int64_t rank) {
  while (x.rank() < rank) x = c.unsqueeze(x, 0);
  return x;
}

// How far each class comes within the margin of its sample's target; 0 at the target itself.
struct Margins {
  Value x;          // [samples, classes], in at least f32
  Value is_target;  // of that shape
  Value excess;     // likewise, at least 0
  Value weight;     // [samples, 1]
};

Margins margins_of(AtenCall& c) {
  Margins m{.x = as_batch(c, to_wide(c, c.tensor()), 2)};
  const Value target = c.unsqueeze(as_batch(c, c.tensor("target"), 1), 1);
  m.is_target = c.compare("eq", c.iota_along(1, m.x.shape()), target);
  const Value own = c.op("gather", {m.x, target}, {{"dim", int64_t{1}}});
  const Value excess = at_least(c, m.x - own + c.real("margin"), 0);
  m.excess = zero_unless(c, c.logical_not(m.is_target), excess);
  m.weight = c.given("weight") ? c.op("index", {to_wide(c, c.tensor("weight")), target}) : c.scalar(1, m.x.dtype());
  m.weight = m.weight / number_of(c, m.x.size(1), m.x.dtype());
  return m;
}

AtenArg multi_margin(AtenCall& c) {
  const Margins m = margins_of(c);
  const Value powers = c.integer("p") == 1 ? m.excess : m.excess * m.excess;
  const Value losses = c.sum(powers * m.weight, {1});
  return c.cast(reduced(c, c.reshape(losses, c.tensor("target").shape())), c.tensor().dtype());
}

AtenArg multi_margin_backward(AtenCall& c) {
  const Margins m = margins_of(c);
  const Value is_near = c.compare("gt", m.excess, 0);
  const Value slope = c.integer("p") == 1 ? c.cast(is_near, m.x.dtype()) : m.excess * 2;
  const Value own = -c.sum(slope, {1}, true);
  Value grad = to_wide(c, c.tensor("grad_output"));
  if (grad.rank() == 1) grad = c.unsqueeze(grad, 1);
  if (reduction_of(c) == Reduction::kMean) grad = grad / number_of(c, m.x.size(0), grad.dtype());
  const Value gradient = c.where(m.is_target, own, slope) * m.weight * grad;
  return c.cast(c.reshape(gradient, c.tensor().shape()), c.tensor().dtype());
}

// Each sample has several targets, up to the first that is negative. Every other class should be a margin of 1 below
// each of them.
std::pair<Value, Value> multilabel_margin(AtenCall& c) {
  const Value x = as_batch(c, to_wide(c, c.tensor()), 2);
  const Value target = as_batch(c, c.tensor("target"), 2);
  const Value is_valid = c.cast(c.op("cumprod", {c.compare("ge", target, 0)}, {{"dim", int64_t{1}}}), DType::kBool);
  const Value places = c.where(is_valid, target, c.integer(0));
  const Value none = c.full(Expr(0), x.shape(), x.dtype());
  const Value is_target = c.op("scatter", {none, places, c.cast(is_valid, x.dtype())},
                               {{"dim", int64_t{1}}, {"reduce", std::string("amax")}});
  const Value own = c.unsqueeze(c.op("gather", {x, places}, {{"dim", int64_t{1}}}), 2);
  const Value excess = at_least(c, 1 - (own - c.unsqueeze(x, 1)), 0);
  const Value counts = logical_and(c, c.unsqueeze(is_valid, 2), c.unsqueeze(c.compare("eq", is_target, 0), 1));
  const Value losses = c.sum(zero_unless(c, counts, excess), {1, 2}) / number_of(c, x.size(1), x.dtype());
  const Value by_sample = c.tensor().rank() < 2 ? c.reshape(losses, {}) : losses;
  const DType dtype = c.tensor().dtype();
  return {c.cast(reduced(c, by_sample), dtype), c.cast(c.reshape(is_target, c.tensor().shape()), dtype)};
}

void add_margins(AtenTable& table) {
  table.add("aten.multi_margin_loss.default(self, target, p=1, margin=1, weight=None, reduction=1)", multi_margin);
  table.add("aten.multi_margin_loss_backward.default(grad_output, self, target, p, margin, weight=None, reduction=1)",
            multi_margin_backward);
  table.add("aten.multilabel_margin_loss.default(self, target, reduction=1)",
            [](AtenCall& c) { return multilabel_margin(c).first; });
  table.add("aten.multilabel_margin_loss_forward.default(self, target, reduction)", [](AtenCall& c) {
    const auto [loss, is_target] = multilabel_margin(c);
    return std::vector{loss, is_target};
  });
}

}  // namespace

void add_loss_entries(AtenTable& table) {
  for (const auto add : {add_elementwise, add_elementwise_backward, add_distances, add_likelihoods, add_cross_entropy,
                         add_chunked_losses, add_margins})
    add(table);
}

}  // namespace tenon::aten
