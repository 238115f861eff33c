#include "autodiff/loss.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "autodiff/settings.h"
#include "support/text.h"

namespace tenon {
namespace {

using settings::Field;

constexpr std::array<std::string_view, 6> kNames = {"output", "mse", "l1", "cross_entropy", "nll", "bce_with_logits"};
constexpr std::array<std::string_view, 3> kReductions = {"none", "mean", "sum"};

// ---- text -----------------------------------------------------------------------------------------------------------

std::vector<Field> fields_of(Loss& loss) {
  const Field reduction = {"reduction", settings::choice(loss.reduction, kReductions)};
  const Field weight = {"weight", &loss.weight};
  const Field ignore_index = {"ignore_index", &loss.ignore_index};
  switch (loss.kind) {
    case LossKind::kOutput:
      return {};
    case LossKind::kMse:
    case LossKind::kL1:
      return {reduction};
    case LossKind::kCrossEntropy:
      return {reduction,
              ignore_index,
              {"label_smoothing", &loss.label_smoothing, settings::kFraction},
              {"probabilities", &loss.probabilities},
              weight};
    case LossKind::kNll:
      return {reduction, ignore_index, weight};
    case LossKind::kBce:
      return {reduction, weight, {"pos_weight", &loss.pos_weight}};
  }
  return {};
}

Loss of_kind(LossKind kind) {
  Loss loss;
  loss.kind = kind;
  return loss;
}

LossKind kind_named(const settings::SettingCall& call) {
  const auto found = std::ranges::find(kNames, call.name);
  if (found != kNames.end()) return static_cast<LossKind>(found - kNames.begin());
  fail_at(call.where, "there is no loss '{}': use one of {}{}", call.name, fmt::join(kNames, ", "),
          did_you_mean(call.name, kNames));
}

// ---- types ----------------------------------------------------------------------------------------------------------

bool takes_classes(const Loss& loss) {
  return loss.kind == LossKind::kNll || (loss.kind == LossKind::kCrossEntropy && !loss.probabilities);
}

bool has_classes(const Loss& loss) { return loss.kind == LossKind::kNll || loss.kind == LossKind::kCrossEntropy; }

void check_output(const Loss& loss, const TensorType& output) {
  if (!is_float(output.dtype)) fail("{} takes floating-point outputs, got {}", name_of(loss.kind), to_string(output));
  if (has_classes(loss) && output.rank() == 0) {
    fail("{} takes outputs [C] or [N, C, ...] with a dimension of classes, got {}", name_of(loss.kind),
         to_string(output));
  }
  if (loss.kind == LossKind::kOutput && !element_count(output.shape).is_constant(1)) {
    fail("the output is {}, not one number: reduce it in the model, or name a loss", to_string(output));
  }
}

bool dtype_fits(const Loss& loss, DType target) {
  if (takes_classes(loss)) return is_integral(target) && target != DType::kBool;
  return !loss.probabilities || is_float(target);
}

void check_target(const Loss& loss, const TensorType& output, const TensorType& target, const Facts& facts) {
  const TensorType expected = target_type(loss, output);
  if (dtype_fits(loss, target.dtype) && facts.equal(target.shape, expected.shape)) return;
  const bool is_distribution = loss.kind == LossKind::kCrossEntropy && facts.equal(target.shape, output.shape);
  fail("{} of {} takes a target {}, got {}{}", name_of(loss.kind), to_string(output), to_string(expected),
       to_string(target), is_distribution ? "; for probabilities of classes set probabilities=true" : "");
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

// Weights along a dimension of `size`, as data; empty for none. One number counts for all.
Value weights(Builder& b, const std::vector<double>& numbers, std::string_view name, const Expr& size, DType dtype) {
  if (numbers.empty()) return {};
  const auto count = static_cast<int64_t>(numbers.size());
  if (count != 1 && !size.is_constant(count)) {
    fail("{} has {} numbers for a dimension of size {}", name, count, to_string(size));
  }
  Tensor data = Tensor::zeros(dtype, {count});
  for (int64_t i = 0; i < count; ++i) data.set_real(i, numbers[static_cast<size_t>(i)]);
  return b.expand(b.constant(std::move(data)), {size});
}

Value binary_cross_entropy(Builder& b, const Loss& loss, Value x, Value y) {
  const Expr size = x.rank() == 0 ? Expr(1) : x.size(x.rank() - 1);
  const auto along_last = [&](const std::vector<double>& numbers, std::string_view name) {
    const Value weight = weights(b, numbers, name, size, x.dtype());
    return weight && x.rank() == 0 ? b.squeeze(weight, 0) : weight;
  };
  const Value of_ones = along_last(loss.pos_weight, "pos_weight");
  return reduced(b, losses::binary_cross_entropy(b, x, y, of_ones, along_last(loss.weight, "weight")), loss.reduction);
}

Value loss_of(Builder& b, const Loss& loss, Value x, Value y) {
  const auto by_class = [&] {
    return weights(b, loss.weight, "weight", x.size(losses::class_dim(x.rank())), x.dtype());
  };
  switch (loss.kind) {
    case LossKind::kOutput:
      return b.reshape(x, {});
    case LossKind::kMse:
      return reduced(b, losses::squared_error(b, x, y), loss.reduction);
    case LossKind::kL1:
      return reduced(b, losses::absolute_error(b, x, y), loss.reduction);
    case LossKind::kCrossEntropy:
      return losses::cross_entropy(b, x, y, {by_class(), loss.reduction, loss.ignore_index, loss.label_smoothing});
    case LossKind::kNll:
      return negative_likelihood(b, losses::classes_of(b, x, y, by_class(), loss.ignore_index), loss.reduction).first;
    case LossKind::kBce:
      return binary_cross_entropy(b, loss, x, y);
  }
  return {};
}

}  // namespace

std::string_view name_of(LossKind kind) { return kNames[static_cast<size_t>(kind)]; }

bool takes_target(const Loss& loss) { return loss.kind != LossKind::kOutput; }

std::string to_string(const Loss& loss) {
  Loss printed = loss;
  Loss usual = of_kind(loss.kind);
  const std::vector<std::string> arguments = settings::differing(fields_of(printed), fields_of(usual));
  if (arguments.empty()) return std::string(name_of(loss.kind));
  return settings::to_text(name_of(loss.kind), arguments);
}

Result<Loss> parse_loss(std::string_view text) {
  return attempt([&] {
    const settings::SettingCall call = settings::parse_call(text, "a loss");
    Loss loss = of_kind(kind_named(call));
    settings::read(fields_of(loss), call);
    if (loss.probabilities && loss.ignore_index != Loss().ignore_index) {
      fail_at(call.where, "ignore_index is of targets that are classes, not probabilities");
    }
    return loss;
  });
}

TensorType target_type(const Loss& loss, const TensorType& output) {
  check_output(loss, output);
  if (!takes_target(loss)) fail("the loss 'output' takes no target");
  if (!takes_classes(loss)) return output;
  Shape shape = output.shape;
  shape.erase(shape.begin() + losses::class_dim(output.rank()));
  return {DType::kI64, std::move(shape)};
}

Value add_loss(Builder& b, const Loss& loss, Value output, Value target) {
  Loss checked = loss;
  settings::check_bounds(fields_of(checked));
  check_output(loss, output.type());
  if (takes_target(loss) != static_cast<bool>(target)) {
    fail("the loss '{}' takes {}", name_of(loss.kind), takes_target(loss) ? "a target" : "no target");
  }
  if (target) check_target(loss, output.type(), target.type(), Facts(b.graph().symbols()));
  const DType compute = wide(output.dtype());
  const Value y = target && !takes_classes(loss) ? b.cast(target, compute) : target;
  return b.cast(loss_of(b, loss, b.cast(output, compute), y), output.dtype());
}

}  // namespace tenon
