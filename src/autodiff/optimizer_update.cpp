// The arithmetic of optimizers. The rules are those of torch.optim's single-tensor functions, operation by operation.
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "autodiff/optimizer.h"
#include "support/pattern.h"

namespace tenon {
namespace {

// ---- numbers --------------------------------------------------------------------------------------------------------

// Scalars, cast to the dtypes of tensors: one node for each scalar and dtype.
class Numbers {
 public:
  explicit Numbers(Builder& b) : b_(b) {}

  Value in(DType dtype, double number) {
    Value& known = constants_[{number, dtype}];
    return known ? known : known = b_.scalar(number, dtype);
  }
  Value in(DType dtype, Value number) {
    Value& known = casts_[{number.ref(), dtype}];
    return known ? known : known = b_.cast(number, dtype);
  }

 private:
  Builder& b_;
  std::map<std::pair<double, DType>, Value> constants_;
  std::map<std::pair<ValueRef, DType>, Value> casts_;
};

// ---- one parameter --------------------------------------------------------------------------------------------------

// The chain of one parameter, in PyTorch's operations on tensors: each computes in at least f32 and rounds its result
// to the parameter's dtype. A `scale` is a double, or an f64 scalar of the graph.
class Chain {
 public:
  Chain(Builder& b, Numbers& numbers, const TrainedParameter& parameter, Value gradient)
      : b_(b),
        numbers_(numbers),
        trained_(parameter),
        type_(b.value(parameter.parameter).type()),
        gradient_(gradient) {}

  Value parameter() { return widened(b_.value(trained_.parameter)); }
  Value gradient() { return widened(gradient_); }

  template <class Scale>
  Value scaled(Value x, Scale scale) {
    return rounded(x * number(scale));
  }
  template <class Scale>
  Value add(Value x, Value y, Scale scale) {
    return rounded(x + number(scale) * y);
  }
  Value add(Value x, double y) { return rounded(x + number(y)); }
  Value add(Value x, Value y) { return rounded(x + y); }
  template <class Scale>
  Value add_product(Value x, Value y, Value z, Scale scale) {
    return rounded(x + number(scale) * y * z);
  }
  template <class Scale>
  Value add_quotient(Value x, Value y, Value z, Scale scale) {
    return rounded(x + number(scale) * y / z);
  }
  Value add_product(Value x, Value y, Value z) { return rounded(x + y * z); }
  Value add_quotient(Value x, Value y, Value z) { return rounded(x + y / z); }
  template <class Scale>
  Value divided(Value x, Scale scale) {
    return rounded(x / number(scale));
  }
  // From x towards `end`, computed from the nearer of both.
  Value lerp(Value x, Value end, double weight) {
    if (weight < 0.5) return rounded(x + number(weight) * (end - x));
    return rounded(end - (end - x) * number(1 - weight));
  }
  Value root(Value x) { return rounded(b_.sqrt(x)); }
  Value sign(Value x) { return b_.sign(x); }
  Value larger(Value x, Value y) { return b_.maximum(x, y); }
  Value negated_if(bool negated, Value x) { return negated ? -x : x; }

  // The state of a name before the update; it begins as `initial` everywhere.
  Value state(std::string_view name, double initial = 0) {
    Tensor data = Tensor::zeros(type_.dtype, evaluate(type_.shape, {}));
    for (int64_t i = 0; initial != 0 && i < data.numel(); ++i) data.set_real(i, initial);
    const ValueRef ref = b_.graph().add_buffer(state_name(name), type_, std::move(data));
    return widened(b_.value(ref));
  }
  // Makes x the state after the update, and gives it back.
  Value keep(std::string_view name, Value x) {
    update(b_.graph().leaf_named(state_name(name))->value, x);
    return x;
  }
  void finish(Value parameter) { update(trained_.parameter, parameter); }

 private:
  template <class Scale>
  Value number(Scale scale) {
    return numbers_.in(wide(type_.dtype), scale);
  }
  Value widened(Value x) { return b_.cast(x, wide(type_.dtype)); }
  Value rounded(Value x) { return widened(b_.cast(x, type_.dtype)); }
  std::string state_name(std::string_view name) const { return fmt::format("optimizer.{}.{}", name, trained_.name); }
  void update(ValueRef target, Value x) { b_.graph().add_update(target, b_.cast(x, type_.dtype).ref()); }

  Builder& b_;
  Numbers& numbers_;
  const TrainedParameter& trained_;
  TensorType type_;
  Value gradient_;
};

// ---- rules ----------------------------------------------------------------------------------------------------------

// The scalars of this step, f64.
struct StepScalars {
  Builder& b;
  Value lr;    // after the schedule
  Value done;  // the number of updates before this one
  Value step;  // with this one
};

using ChainFn = std::function<void(Chain&)>;  // the whole update of one parameter

Value decayed_gradient(Chain& c, bool maximize, double weight_decay) {
  const Value g = c.negated_if(maximize, c.gradient());
  return weight_decay == 0 ? g : c.add(g, c.parameter(), weight_decay);
}

// The first momentum is the gradient without dampening. The buffer starts as zeros, so the first share is 1.
ChainFn chain_of(const Sgd& r, const StepScalars& s) {
  const auto f64 = [&](double x) { return s.b.scalar(x, DType::kF64); };
  Value share;
  if (r.dampening != 0) share = s.b.where(s.b.compare("eq", s.done, 0), f64(1), f64(1 - r.dampening));
  return [r, share, minus_lr = -s.lr](Chain& c) {
    Value g = decayed_gradient(c, r.maximize, r.weight_decay);
    if (r.momentum != 0) {
      const Value kept = c.scaled(c.state("momentum_buffer"), r.momentum);
      const Value momentum = c.keep("momentum_buffer", share ? c.add(kept, g, share) : c.add(kept, g));
      g = r.nesterov ? c.add(g, momentum, r.momentum) : momentum;
    }
    c.finish(c.add(c.parameter(), g, minus_lr));
  };
}

template <class AnyAdam>
ChainFn chain_of_adam(const AnyAdam& r, const StepScalars& s) {
  constexpr bool kDecoupled = std::is_same_v<AnyAdam, AdamW>;
  const auto correction = [&](double beta) { return 1 - s.b.pow(s.b.scalar(beta, DType::kF64), s.step); };
  const Value minus_step_size = -(s.lr / correction(r.betas[0]));
  const Value root_of_correction = s.b.sqrt(correction(r.betas[1]));
  const Value kept = kDecoupled && r.weight_decay != 0 ? 1 - s.lr * r.weight_decay : Value();
  return [r, minus_step_size, root_of_correction, kept](Chain& c) {
    const auto [beta1, beta2] = r.betas;
    const Value g = decayed_gradient(c, r.maximize, kDecoupled ? 0 : r.weight_decay);
    const Value p = kept ? c.scaled(c.parameter(), kept) : c.parameter();
    const Value average = c.keep("exp_avg", c.lerp(c.state("exp_avg"), g, 1 - beta1));
    const Value old_square = c.scaled(c.state("exp_avg_sq"), beta2);
    Value square = c.keep("exp_avg_sq", c.add_product(old_square, g, g, 1 - beta2));
    if (r.amsgrad) square = c.keep("max_exp_avg_sq", c.larger(c.state("max_exp_avg_sq"), square));
    const Value denominator = c.add(c.divided(c.root(square), root_of_correction), r.eps);
    c.finish(c.add_quotient(p, average, denominator, minus_step_size));
  };
}
ChainFn chain_of(const Adam& r, const StepScalars& s) { return chain_of_adam(r, s); }
ChainFn chain_of(const AdamW& r, const StepScalars& s) { return chain_of_adam(r, s); }

ChainFn chain_of(const Adagrad& r, const StepScalars& s) {
  const Value minus_lr = r.lr_decay == 0 ? -s.lr : -(s.lr / (1 + s.done * r.lr_decay));
  return [r, minus_lr](Chain& c) {
    const Value g = decayed_gradient(c, r.maximize, r.weight_decay);
    const Value sum = c.keep("sum", c.add_product(c.state("sum", r.initial_accumulator_value), g, g));
    c.finish(c.add_quotient(c.parameter(), g, c.add(c.root(sum), r.eps), minus_lr));
  };
}

ChainFn chain_of(const RmsProp& r, const StepScalars& s) {
  return [r, minus_lr = -s.lr](Chain& c) {
    const Value g = decayed_gradient(c, r.maximize, r.weight_decay);
    const Value old_square = c.scaled(c.state("square_avg"), r.alpha);
    Value square = c.keep("square_avg", c.add_product(old_square, g, g, 1 - r.alpha));
    if (r.centered) {
      const Value average = c.keep("grad_avg", c.lerp(c.state("grad_avg"), g, 1 - r.alpha));
      square = c.add_product(square, average, average, -1.0);
    }
    const Value denominator = c.add(c.root(square), r.eps);
    if (r.momentum == 0) return c.finish(c.add_quotient(c.parameter(), g, denominator, minus_lr));
    const Value kept = c.scaled(c.state("momentum_buffer"), r.momentum);
    const Value momentum = c.keep("momentum_buffer", c.add_quotient(kept, g, denominator));
    c.finish(c.add(c.parameter(), momentum, minus_lr));
  };
}

ChainFn chain_of(const Lion& r, const StepScalars& s) {
  const Value kept = r.weight_decay != 0 ? 1 - s.lr * r.weight_decay : Value();
  return [r, kept, minus_lr = -s.lr](Chain& c) {
    const auto [beta1, beta2] = r.betas;
    const Value g = c.negated_if(r.maximize, c.gradient());
    const Value p = kept ? c.scaled(c.parameter(), kept) : c.parameter();
    const Value average = c.state("exp_avg");
    const Value direction = c.sign(c.add(c.scaled(average, beta1), g, 1 - beta1));
    c.keep("exp_avg", c.add(c.scaled(average, beta2), g, 1 - beta2));
    c.finish(c.add(p, direction, minus_lr));
  };
}

double lr_of(const UpdateRule& rule) {
  return std::visit([](const auto& r) { return r.lr; }, rule);
}

// ---- groups ---------------------------------------------------------------------------------------------------------

bool matches(const ParameterGroup& group, std::string_view name) {
  return std::ranges::any_of(group.patterns, [&](const std::string& pattern) { return name_matches(pattern, name); });
}

void check_patterns(const ParameterGroup& group, std::span<const TrainedParameter> parameters) {
  for (const std::string& pattern : group.patterns) {
    const auto fits = [&](const TrainedParameter& parameter) { return name_matches(pattern, parameter.name); };
    if (std::ranges::none_of(parameters, fits)) fail("the pattern \"{}\" of a group matches no parameter", pattern);
  }
}

// The group of each parameter; 0 is the rest.
std::vector<size_t> groups_of(const Optimizer& optimizer, std::span<const TrainedParameter> parameters) {
  std::vector<size_t> groups;
  for (const TrainedParameter& parameter : parameters) {
    const auto fits = [&](const ParameterGroup& group) { return matches(group, parameter.name); };
    const auto found = std::ranges::find_if(optimizer.groups, fits);
    groups.push_back(found == optimizer.groups.end() ? 0 : 1 + static_cast<size_t>(found - optimizer.groups.begin()));
  }
  for (size_t i = 0; i < optimizer.groups.size(); ++i) {
    const ParameterGroup& group = optimizer.groups[i];
    check_patterns(group, parameters);
    if (std::ranges::count(groups, i + 1) > 0) continue;
    fail("the groups before \"{}\" match all of its parameters", fmt::join(group.patterns, "\", \""));
  }
  return groups;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

void check_parameter(const Graph& graph, const TrainedParameter& parameter) {
  check(graph.owns(parameter.parameter) && static_cast<bool>(parameter.gradient), "'{}' is not a value of the graph",
        parameter.name);
  const TensorType& type = graph.type(parameter.parameter);
  if (!is_float(type.dtype))
    fail("parameter '{}' is {}: only floating ones are trained", parameter.name, to_string(type));
  if (!is_static(type.shape)) fail("parameter '{}' is {}: its sizes must be known", parameter.name, to_string(type));
  if (parameter.gradient.type() != type) {
    fail("parameter '{}' is {}, its gradient {}", parameter.name, to_string(type),
         to_string(parameter.gradient.type()));
  }
  const Leaf* leaf = graph.leaf(parameter.parameter);
  if (leaf == nullptr || (leaf->kind != LeafKind::kBuffer && leaf->kind != LeafKind::kInput)) {
    fail("parameter '{}' must be a buffer or an input of the graph, to be updated", parameter.name);
  }
  const auto is_its = [&](const Update& update) { return update.target == parameter.parameter; };
  if (std::ranges::any_of(graph.updates(), is_its)) fail("parameter '{}' is updated already", parameter.name);
}

void check_parameters(const Graph& graph, std::span<const TrainedParameter> parameters) {
  if (graph.leaf_named("optimizer.step") != nullptr) fail("graph {} has an optimizer already", graph.name());
  std::set<std::string_view> names;
  std::set<ValueRef> leaves;
  for (const TrainedParameter& parameter : parameters) {
    check_parameter(graph, parameter);
    if (!names.insert(parameter.name).second) fail("two parameters are named '{}'", parameter.name);
    if (!leaves.insert(parameter.parameter).second) fail("parameter '{}' is given twice", parameter.name);
  }
}

// ---- the whole ------------------------------------------------------------------------------------------------------

class OptimizerBuilder {
 public:
  OptimizerBuilder(Graph& graph, const Optimizer& optimizer, std::span<const TrainedParameter> parameters)
      : b_(graph), numbers_(b_), optimizer_(optimizer), parameters_(parameters) {}

  OptimizerStep run(std::span<const size_t> groups) {
    added_.step = state("optimizer.step", Tensor::scalar(DType::kI64, int64_t{0}));
    done_ = b_.cast(added_.step, DType::kF64);
    clip();
    std::vector<ChainFn> chains;
    for (size_t group = 0; group <= optimizer_.groups.size(); ++group) {
      const bool is_used = std::ranges::count(groups, group) > 0;
      added_.learning_rates.push_back(is_used ? learning_rate(group) : Value());
      chains.push_back(is_used ? chain_of_group(group) : ChainFn());
    }
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Chain chain(b_, numbers_, parameters_[i], gradients_[i]);
      chains[groups[i]](chain);
    }
    b_.graph().add_update(added_.step.ref(), (added_.step + 1).ref());
    return added_;
  }

 private:
  Value state(std::string name, Tensor data) {
    const TensorType type = type_of(data);
    return b_.value(b_.graph().add_buffer(std::move(name), type, std::move(data)));
  }

  const UpdateRule& rule(size_t group) const {
    return group == 0 ? optimizer_.rule : optimizer_.groups[group - 1].rule;
  }

  Value learning_rate(size_t group) {
    const Value base = state(fmt::format("optimizer.lr.{}", group), Tensor::scalar(DType::kF64, lr_of(rule(group))));
    b_.graph().add_update(base.ref(), base.ref());  // An update keeps passes from folding the rate as a constant.
    return rate_at(b_, optimizer_.schedule, base, done_);
  }

  ChainFn chain_of_group(size_t group) {
    const StepScalars scalars{b_, added_.learning_rates[group], done_, done_ + 1};
    return std::visit([&](const auto& r) { return chain_of(r, scalars); }, rule(group));
  }

  // As torch.nn.utils.clip_grad_value_ and then clip_grad_norm_ do it.
  void clip() {
    for (const TrainedParameter& parameter : parameters_) gradients_.push_back(clamped(parameter.gradient));
    if (!optimizer_.clip_norm) return;
    const auto f64 = [&](double x) { return numbers_.in(DType::kF64, x); };
    added_.gradient_norm = common_norm();
    const Value factor = b_.minimum(f64(*optimizer_.clip_norm) / (added_.gradient_norm + 1e-6), f64(1));
    for (Value& g : gradients_) {
      const DType dtype = g.dtype();
      g = b_.cast(b_.cast(g, wide(dtype)) * numbers_.in(wide(dtype), factor), dtype);
    }
  }

  Value clamped(Value g) {
    if (!optimizer_.clip_value) return g;
    const auto limit = [&](double x) { return numbers_.in(g.dtype(), x); };
    return b_.op("clamp", {g, limit(-*optimizer_.clip_value), limit(*optimizer_.clip_value)});
  }

  Value common_norm() {
    Value total = numbers_.in(DType::kF64, 0.0);
    for (const Value& g : gradients_) {
      const Value squares = b_.sum(b_.unary("square", b_.cast(g, wide(g.dtype()))));
      total = total + b_.cast(squares, DType::kF64);
    }
    return b_.sqrt(total);
  }

  Builder b_;
  Numbers numbers_;
  const Optimizer& optimizer_;
  std::span<const TrainedParameter> parameters_;
  std::vector<Value> gradients_;  // clipped
  Value done_;
  OptimizerStep added_;
};

}  // namespace

OptimizerStep add_optimizer(Graph& graph, const Optimizer& optimizer, std::span<const TrainedParameter> parameters) {
  validate(optimizer);
  check_parameters(graph, parameters);
  const std::vector<size_t> groups = groups_of(optimizer, parameters);
  return OptimizerBuilder(graph, optimizer, parameters).run(groups);
}

}  // namespace tenon
