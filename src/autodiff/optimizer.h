// Optimizers: how gradients change parameters, as PyTorch's torch.optim has it, and Lion.
//
//     Optimizer optimizer = parse_optimizer("adamw(lr=0.001, group(\"*.bias\", weight_decay=0))").value();
//     add_optimizer(graph, optimizer, parameters);
//
// Numbers that depend on the step and the learning rate (bias corrections, the schedule) are f64 scalars of the graph,
// computed once. The rest of an update is one chain of elementwise nodes for each parameter, in the order of PyTorch's
// arithmetic, so that results agree to the last bits.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "autodiff/learning_rate.h"
#include "graph/builder.h"

namespace tenon {

// ---- rules, with the settings and defaults of torch.optim -----------------------------------------------------------

using Betas = settings::Pair;

struct Sgd {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
  bool operator==(const Sgd&) const = default;
};

struct Adam {
  double lr = 1e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
  bool operator==(const Adam&) const = default;
};

// Adam that decays the weights directly instead of adding the decay to the gradients.
struct AdamW {
  double lr = 1e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;
  bool operator==(const AdamW&) const = default;
};

struct Adagrad {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
  bool operator==(const Adagrad&) const = default;
};

struct RmsProp {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;
  bool operator==(const RmsProp&) const = default;
};

// The sign of an average of gradients (Chen et al., 2023), with decoupled weight decay. PyTorch has none.
struct Lion {
  double lr = 1e-4;
  Betas betas = {0.9, 0.99};
  double weight_decay = 0;
  bool maximize = false;
  bool operator==(const Lion&) const = default;
};

using UpdateRule = std::variant<Sgd, Adam, AdamW, Adagrad, RmsProp, Lion>;

// ---- the optimizer --------------------------------------------------------------------------------------------------

// The parameters whose names match one of the patterns (* is any text, ? any character), with their own settings.
struct ParameterGroup {
  std::vector<std::string> patterns;
  UpdateRule rule;  // complete; of the optimizer's kind
  bool operator==(const ParameterGroup&) const = default;
};

struct Optimizer {
  UpdateRule rule = Sgd();
  std::vector<ParameterGroup> groups = {};  // the first that matches counts; the rest follows `rule`
  std::optional<double> clip_value = {};    // each gradient element is clamped to [-clip_value, clip_value]; then
  std::optional<double> clip_norm = {};     // all gradients are scaled so that their common norm is at most this
  RateSchedule schedule = {};               // of all groups
  bool operator==(const Optimizer&) const = default;
};

// "adamw(lr=0.001, betas=(0.9, 0.95), clip_norm=1, schedule=warmup(100) + cosine(1000), group("*.bias", "norm.*",
// weight_decay=0))". The names are sgd, adam, adamw, adagrad, rmsprop and lion. lr is always printed, other settings if
// they differ from the defaults, settings of a group if they differ from the optimizer. parse_optimizer(to_string(o))
// == o.
std::string to_string(const Optimizer& optimizer);
Result<Optimizer> parse_optimizer(std::string_view text);

// Fails as PyTorch does: for a negative rate, a beta of 1, Nesterov without momentum.
void validate(const Optimizer& optimizer);

// ---- in a graph -----------------------------------------------------------------------------------------------------

struct TrainedParameter {
  std::string name;    // for groups and states
  ValueRef parameter;  // a buffer or an input of the graph
  Value gradient;      // of the parameter's type
};

// Values that a caller may return. Group 0 has the parameters that no pattern matches; group i + 1 is the optimizer's
// group i.
struct OptimizerStep {
  Value step;                         // i64[]: the number of updates before this one
  std::vector<Value> learning_rates;  // f64[]: by group, after the schedule; empty for a group 0 without parameters
  Value gradient_norm;                // f64[]: before clipping by it; empty without clip_norm
};

// Adds the states that the optimizer keeps, and the updates of parameters and states. The states are buffers with data:
//   "optimizer.step"                 i64[], the number of updates done
//   "optimizer.lr.<group>"           f64[], the base rate of a group. A caller may write it between steps.
//   "optimizer.<state>.<parameter>"  of the parameter's type, under PyTorch's name for it (exp_avg, momentum_buffer)
// Fails, and leaves the graph unchanged, if the optimizer or a parameter is not valid, a pattern matches no name, or a
// group gets no parameter.
OptimizerStep add_optimizer(Graph& graph, const Optimizer& optimizer, std::span<const TrainedParameter> parameters);

}  // namespace tenon
