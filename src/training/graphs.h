// The graphs of a training: a step of it, and the parts that a step is made of.
//
// What stays from step to step are states: buffers that all these graphs share, by name and by memory. They are the
// parameters and buffers of the model, what the optimizer keeps ("optimizer.step"), the gradients of steps that are
// taken apart ("gradient.fc.weight") and the key that random numbers come from ("random.key").
#pragma once

#include <map>
#include <string>
#include <vector>

#include "autodiff/loss.h"
#include "autodiff/optimizer.h"
#include "graph/graph.h"

namespace tenon {

// A model in both of its modes. Parameters and buffers that have the same name are the same.
struct TrainingModel {
  Graph training;
  Graph inference;
  size_t outputs = 1;          // how many of the graphs' outputs are the model's; others are checks
  std::string key_input = {};  // of random numbers, where there are any; it has the same name in both
  std::map<std::string, std::string> names = {};  // of states, for leaves that are called otherwise in the graphs
};

enum class Precision : uint8_t {
  kAsModel,
  kBf16,  // products (matmul, convolution, attention) in bf16; parameters, sums and everything else stay f32
};

struct TrainingOptions {
  Loss loss;
  Optimizer optimizer;
  std::vector<std::string> frozen = {};  // patterns of the names of parameters that stay as they are: "encoder.*"
  Precision precision = Precision::kAsModel;
  int64_t accumulate = 1;  // a step in so many parts: gradients are means over them
  int64_t seed = 0;        // of dropout
};

using States = std::map<std::string, Tensor>;

struct TrainingGraphs {
  Graph step;      // inputs, target -> loss; updates everything
  Graph forward;   // inputs, target -> outputs, loss, and what backward needs; updates the model's buffers
  Graph backward;  // what forward kept -> nothing; adds to the gradients
  Graph part;      // forward and backward in one, of a step in parts: inputs, target -> loss
  Graph update;    // updates parameters by the gradients
  Graph evaluate;  // inputs, target -> outputs, loss; in the mode of inference
  Graph predict;   // inputs -> outputs; likewise

  States states;
  std::vector<std::string> trained;         // parameters that have a gradient
  std::map<std::string, std::string> tied;  // names of the model's leaves that are states under another name
};

// Throws an Error: for a loss that does not fit the model, a parameter that no gradient can reach, a pattern that
// matches nothing.
TrainingGraphs training_graphs(const TrainingModel& model, const TrainingOptions& options);

inline std::string gradient_name(const std::string& parameter) { return "gradient." + parameter; }

}  // namespace tenon
