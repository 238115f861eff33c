// Losses to train with: what is computed of a model's output and a target.
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
// Whether it compares the output with a target. Without one, `add_loss` takes an empty Value.
bool takes_target(const Loss& loss);

// "cross_entropy(label_smoothing=0.1)": settings that have their default are left out, and are not needed. The names
// are output, mse, l1, cross_entropy, nll and bce_with_logits. parse_loss(to_string(loss)) == loss.
std::string to_string(const Loss& loss);
Result<Loss> parse_loss(std::string_view text);

// The type of the target that belongs to an output: i64 classes of the output's other dimensions, or the output's own
// type. Fails where the loss is not for such outputs.
TensorType target_type(const Loss& loss, const TensorType& output);

// The loss as a value, a scalar unless the reduction is none. The target has the shape that `target_type` says, and may
// have another dtype: any integers for classes, any numbers for errors. Fails when the types do not fit each other.
Value add_loss(Builder& b, const Loss& loss, Value output, Value target);

}  // namespace tenon
