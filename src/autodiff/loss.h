// Losses to train with: functions of a model's output and a target.
//
//     Loss loss = parse_loss("cross_entropy(label_smoothing=0.1)").value();
//     Value target = b.value(graph.add_input("target", target_type(loss, output.type())));
//     Value value = add_loss(b, loss, output, target);
//
// Kinds, settings, defaults and values are PyTorch's (torch.nn.functional). f16 and bf16 are computed in f32 and
// rounded once, at the end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "autodiff/loss_formulas.h"

namespace tenon {

using losses::Reduction;

enum class LossKind : uint8_t {
  kOutput,        // the model's own output, one number, is the loss
  kMse,           // the squared error
  kL1,            // the absolute error
  kCrossEntropy,  // of logits [N, C, ...] or [C]; targets are classes, or probabilities of each class
  kNll,           // of logarithms of probabilities; targets are classes
  kBce,           // binary cross entropy of logits
};

struct Loss {
  LossKind kind = LossKind::kMse;
  Reduction reduction = Reduction::kMean;
  int64_t ignore_index = -100;     // a class that counts for nothing: cross entropy and NLL
  double label_smoothing = 0;      // cross entropy
  bool probabilities = false;      // cross entropy: targets are probabilities
  std::vector<double> weight;      // by class; of BCE along the last dimension. Empty: 1
  std::vector<double> pos_weight;  // BCE: of targets of 1, along the last dimension. Empty: 1

  bool operator==(const Loss&) const = default;
};

std::string_view name_of(LossKind kind);  // "cross_entropy"
// Whether the loss compares the output with a target. If not, `add_loss` takes an empty Value.
bool takes_target(const Loss& loss);

// "cross_entropy(label_smoothing=0.1)". Settings with their default value are not printed, and are optional. The names
// are output, mse, l1, cross_entropy, nll and bce_with_logits. parse_loss(to_string(loss)) == loss.
std::string to_string(const Loss& loss);
Result<Loss> parse_loss(std::string_view text);

// The type of the target for an output: i64 classes over the output's other dimensions, or the output's own type. Fails
// for an output that the loss does not take.
TensorType target_type(const Loss& loss, const TensorType& output);

// The loss as a value, a scalar unless the reduction is none. The target has the shape of `target_type`, and any
// integer dtype for classes, any dtype for errors. Fails if the types do not fit each other.
Value add_loss(Builder& b, const Loss& loss, Value output, Value target);

}  // namespace tenon
