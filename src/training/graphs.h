// The graphs of a training: a step of it, and the parts that a step is made of.
//
// States stay from step to step. They are buffers that all these graphs share, by name and by memory: the parameters
// and buffers of the model, the states of the optimizer ("optimizer.step"), the gradients of steps in parts
// ("gradient.fc.weight") and the key of random numbers ("random.key").
#pragma once

#include <map>
#include <string>
#include <vector>

#include "autodiff/loss.h"
#include "autodiff/optimizer.h"
#include "graph/graph.h"
#include "program/program.h"
#include "training/part.h"

namespace tenon {

// A model in both of its modes. Parameters and buffers that have the same name are the same.
struct TrainingModel {
  Graph training;
  Graph inference;
  size_t outputs = 1;  // The first outputs are the model's. Others are checks.
  std::string key_input =
      {};  // The input with the key of random numbers, if there is one. The same name in both graphs.
  std::map<std::string, std::string> names = {};  // By leaf: the name of its state, if it differs.
  // Run the external calls of each graph. The gradient of call N of `training` is call -1 - N.
  FallbackFn training_fallback = {};
  FallbackFn inference_fallback = {};
};

enum class Precision : uint8_t {
  kAsModel,
  kBf16,  // products (matmul, convolution, attention) in bf16; parameters, sums and everything else stay f32
};

struct TrainingOptions {
  Loss loss;
  Optimizer optimizer;
  std::vector<std::string> frozen = {};  // patterns of names of parameters that are not trained: "encoder.*"
  Precision precision = Precision::kAsModel;
  int64_t accumulate = 1;  // Parts of a step. Gradients are means over the parts.
  int64_t seed = 0;        // of dropout
};

using States = std::map<std::string, Tensor>;

struct TrainingGraphs {
  Graph joint;                           // inputs, target -> outputs, loss; also computes `gradients`
  std::vector<ValueRef> gradients = {};  // of `joint`, by `trained`

  Graph step;      // inputs, target -> loss; updates everything
  Graph forward;   // inputs, target -> outputs, loss, values for backward; updates the model's buffers
  Graph backward;  // values of forward -> nothing; adds to the gradients
  Graph part;      // inputs, target -> loss; forward and backward of one part of a step
  Graph update;    // updates parameters by the gradients
  Graph evaluate;  // inputs, target -> outputs, loss; in the mode of inference
  Graph predict;   // inputs -> outputs; likewise

  States states;
  std::vector<std::string> trained;         // parameters that have a gradient
  std::map<std::string, std::string> tied;  // names of the model's leaves that are states under another name
};

// Throws an Error for a loss that does not fit the model, a loss that depends on no trained parameter, and a pattern
// that matches no name.
TrainingGraphs training_graphs(const TrainingModel& model, const TrainingOptions& options);

// Makes `forward` and `backward` anew: backward computes more of forward again, if forward keeps less for it.
void cut_in_two(TrainingGraphs& graphs, const TrainingOptions& options, Keep keep);

inline std::string gradient_name(const std::string& parameter) { return "gradient." + parameter; }

}  // namespace tenon
