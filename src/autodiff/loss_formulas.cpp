#include "autodiff/loss_formulas.h"

namespace tenon::losses {
namespace {

// The weights by class, along the dimension of the classes.
Value along_classes(Builder& b, Value weight, int64_t dim, int64_t rank) {
  Shape shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(dim)] = weight.size(0);
  return b.reshape(weight, shape);
}

// The score of each target's class. A class that does not exist is an index out of range, and so an error of the run.
Value picked(Builder& b, const Classes& k) {
  const Value places = b.unsqueeze(k.target, k.dim);
  return b.squeeze(b.op("gather", {k.scores, places}, {{"dim", k.dim}}), k.dim);
}

Value cross_entropy_of_probabilities(Builder& b, Value x, Value target, const CrossEntropy& options) {
  const int64_t dim = class_dim(x.rank());
  const double smoothing = options.label_smoothing;
  const Value classes = number_of(b, x.size(dim), x.dtype());
  if (smoothing > 0) target = target * (1 - smoothing) + smoothing / classes;
  Value products = b.op("log_softmax", {x}, {{"dim", dim}}) * target;
  if (options.weight) products = products * along_classes(b, options.weight, dim, x.rank());
  if (options.reduction == Reduction::kNone) return -b.sum(products, {dim});
  const Value total = -b.sum(products);
  if (options.reduction == Reduction::kSum) return total;
  return total / (number_of(b, element_count(x.shape()), x.dtype()) / classes);
}

// What label smoothing adds: the loss of all classes alike.
Value smooth_loss(Builder& b, const Classes& k, Reduction reduction) {
  Value scores = k.scores;
  if (k.by_class) scores = scores * along_classes(b, k.by_class, k.dim, scores.rank());
  const Value losses = zero_unless(b, k.is_used, -b.sum(scores, {k.dim}));
  if (reduction == Reduction::kNone) return losses;
  const Value total = b.sum(losses);
  return reduction == Reduction::kMean ? total / b.sum(k.weight) : total;
}

}  // namespace

Value reduced(Builder& b, Value losses, Reduction reduction) {
  if (reduction == Reduction::kNone) return losses;
  return reduction == Reduction::kMean ? b.mean(losses) : b.sum(losses);
}

Value zero_unless(Builder& b, Value condition, Value x) { return b.where(condition, x, b.scalar(0, x.dtype())); }

Value number_of(Builder& b, const Expr& count, DType dtype) { return b.full(count, {}, dtype); }

Value squared_error(Builder& b, Value x, Value y) { return b.unary("square", x - y); }

Value absolute_error(Builder& b, Value x, Value y) { return b.abs(x - y); }

Value binary_cross_entropy(Builder& b, Value x, Value y, Value positive_weight, Value weight) {
  Value logarithm = b.unary("log_sigmoid", x);
  if (positive_weight) logarithm = ((positive_weight - 1) * y + 1) * logarithm;
  const Value losses = (1 - y) * x - logarithm;
  return weight ? losses * weight : losses;
}

Classes classes_of(Builder& b, Value scores, Value target, Value weight_by_class, int64_t ignore_index) {
  Classes k;
  k.scores = scores;
  k.dim = class_dim(scores.rank());
  target = b.cast(target, DType::kI64);
  k.is_used = b.compare("ne", target, b.integer(ignore_index));
  k.target = b.where(k.is_used, target, b.integer(0));
  k.by_class = weight_by_class;
  const Value weight = k.by_class ? b.op("index", {k.by_class, k.target}) : b.scalar(1, scores.dtype());
  k.weight = zero_unless(b, k.is_used, weight);
  return k;
}

std::pair<Value, Value> negative_likelihood(Builder& b, const Classes& k, Reduction reduction) {
  const Value losses = zero_unless(b, k.is_used, -picked(b, k) * k.weight);
  const bool is_batch = k.scores.rank() > 1;
  if (reduction == Reduction::kNone && is_batch) return {losses, b.scalar(0, losses.dtype())};
  const Value total = b.sum(losses);
  const Value weight = b.sum(k.weight);
  return {reduction == Reduction::kMean ? total / weight : total, weight};
}

Value cross_entropy(Builder& b, Value x, Value target, const CrossEntropy& options) {
  if (is_float(target.dtype())) return cross_entropy_of_probabilities(b, x, target, options);
  const int64_t dim = class_dim(x.rank());
  const Value scores = b.op("log_softmax", {x}, {{"dim", dim}});
  const Classes k = classes_of(b, scores, target, options.weight, options.ignore_index);
  const Value loss = negative_likelihood(b, k, options.reduction).first;
  const double smoothing = options.label_smoothing;
  if (smoothing == 0) return loss;
  const Value classes = number_of(b, x.size(dim), x.dtype());
  return loss * (1 - smoothing) + smooth_loss(b, k, options.reduction) * (smoothing / classes);
}

}  // namespace tenon::losses
