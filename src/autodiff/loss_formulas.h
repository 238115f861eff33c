// The formulas of losses as PyTorch defines them, in nodes. The losses to train with (loss.h) and the aten registry use
// them.
//
// All floating values have one dtype, f32 or f64. A caller with f16 or bf16 widens its values and rounds the loss.
#pragma once

#include "graph/builder.h"

namespace tenon::losses {

enum class Reduction : uint8_t { kNone, kMean, kSum };  // PyTorch's numbers

Value reduced(Builder& b, Value losses, Reduction reduction);
Value zero_unless(Builder& b, Value condition, Value x);
Value number_of(Builder& b, const Expr& count, DType dtype);  // a size as data

// ---- of each prediction x and its target y --------------------------------------------------------------------------

Value squared_error(Builder& b, Value x, Value y);
Value absolute_error(Builder& b, Value x, Value y);
// x are logits. The weights are optional, and broadcast: `positive_weight` is for targets of 1, `weight` for all.
Value binary_cross_entropy(Builder& b, Value x, Value y, Value positive_weight, Value weight);

// ---- of classes -----------------------------------------------------------------------------------------------------

// The dimension of the classes: 1 of a batch [N, C, ...], 0 of one sample [C].
inline int64_t class_dim(int64_t rank) { return rank == 1 ? 0 : 1; }

// Scores by class, and a class for each place of the other dimensions.
struct Classes {
  Value scores;
  int64_t dim = 0;  // of the classes
  Value target;     // of the other dimensions, with the ignored ones at class 0
  Value is_used;    // not ignored
  Value weight;     // of each target: 0 where it is ignored
  Value by_class;   // the weights by class, or empty
};

Classes classes_of(Builder& b, Value scores, Value target, Value weight_by_class, int64_t ignore_index);

// The loss -scores[target], and the sum of weights that its mean divides by (0 without a reduction).
std::pair<Value, Value> negative_likelihood(Builder& b, const Classes& classes, Reduction reduction);

struct CrossEntropy {
  Value weight;  // by class, or empty
  Reduction reduction = Reduction::kMean;
  int64_t ignore_index = -100;
  double label_smoothing = 0;
};

// x are logits. An integer target names classes; a floating target has the shape of x and holds probabilities.
Value cross_entropy(Builder& b, Value x, Value target, const CrossEntropy& options);

}  // namespace tenon::losses
