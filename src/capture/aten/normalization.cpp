// Batch, layer, group, instance and RMS norm, and norms of weights.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

// [C] aligned with dimension 1 of x.
Value by_channel(Builder& b, Value statistic, Value x) {
  Shape shape(x.shape().size(), 1);
  shape[x.rank() > 1 ? 1 : 0] = statistic.size(0);
  return b.reshape(statistic, shape);
}

std::vector<int64_t> all_but_channels(Value x) {
  std::vector<int64_t> dims = dims_from(2, x.rank());
  dims.insert(dims.begin(), 0);
  return dims;
}

// The dtype that PyTorch gives statistics: that of the parameters where there are any.
DType statistics_dtype(const AtenCall& c) {
  const Value weight = c.tensor_or_none("weight");
  return weight ? weight.dtype() : c.tensor("input").dtype();
}

// The result and its statistics.
std::vector<Value> with_statistics(AtenCall& c, std::vector<Value> results) {
  for (size_t i = 1; i < results.size(); ++i) results[i] = c.cast(results[i], statistics_dtype(c));
  return results;
}

// Through the mean and the variance, each element takes part in all results.
Value standardize_backward(Builder& b, Value grad, Value out, Value rstd, const std::vector<int64_t>& dims) {
  return rstd * (grad - b.mean(grad, dims, true) - out * b.mean(grad * out, dims, true));
}

// ---- batch norm -----------------------------------------------------------------------------------------------------

struct BatchNorm {
  Value out, mean, rstd;
  Value running_mean, running_var;  // their new values; empty where there are none
};

Value moved(AtenCall& c, Value running, Value batch, double momentum) {
  const Value wide_running = c.cast(running, batch.dtype());
  return c.cast(wide_running * (1 - momentum) + batch * momentum, running.dtype());
}

BatchNorm batch_norm_training(AtenCall& c, double momentum, Value running_mean, Value running_var) {
  const std::vector<Value> results =
      c.results("batch_norm", {c.tensor("input"), c.tensor_or_none("weight"), c.tensor_or_none("bias")},
                {{"eps", c.real("eps")}});
  const std::vector<Value> kept = with_statistics(c, {results[0], results[1], results[2]});
  BatchNorm norm{kept[0], kept[1], kept[2], {}, {}};
  if (running_mean) norm.running_mean = moved(c, running_mean, results[1], momentum);
  if (running_var) norm.running_var = moved(c, running_var, results[3], momentum);
  return norm;
}

BatchNorm batch_norm_inference(AtenCall& c, Value running_mean, Value running_var) {
  const Value x = c.tensor("input");
  const Value out =
      c.op("batch_norm_inference", {x, c.tensor_or_none("weight"), c.tensor_or_none("bias"), running_mean, running_var},
           {{"eps", c.real("eps")}});
  const Value none = nothing(c, statistics_dtype(c));
  return {out, none, none, running_mean, running_var};
}

BatchNorm batch_norm(AtenCall& c, bool training) {
  const Value mean = c.tensor_or_none("running_mean"), var = c.tensor_or_none("running_var");
  return training || !mean ? batch_norm_training(c, c.real("momentum"), mean, var) : batch_norm_inference(c, mean, var);
}

// The running statistics are left in the arguments.
void write_running(AtenCall& c, const BatchNorm& norm, bool training) {
  if (!training || !norm.running_mean) return;
  c.write("running_mean", norm.running_mean);
  c.write("running_var", norm.running_var);
}

// The buffer that a kernel keeps for its backward: empty here.
Value reserve(AtenCall& c) { return nothing(c, DType::kU8); }

using TrainingFn = bool (*)(const AtenCall&);
using ResultsFn = AtenArg (*)(AtenCall&, const BatchNorm&);

AtenFn batch_norm_giving(TrainingFn training, bool writes, ResultsFn results) {
  return [=](AtenCall& c) {
    const BatchNorm norm = batch_norm(c, training(c));
    if (writes) write_running(c, norm, training(c));
    return results(c, norm);
  };
}

AtenArg with_saved(AtenCall&, const BatchNorm& n) { return std::vector<Value>{n.out, n.mean, n.rstd}; }
AtenArg with_reserve(AtenCall& c, const BatchNorm& n) { return std::vector<Value>{n.out, n.mean, n.rstd, reserve(c)}; }

void add_batch_norm_entries(AtenTable& table) {
  const auto add = [&](std::string_view name, std::string_view rest, const AtenFn& build) {
    table.add(fmt::format("aten.{}.default(input, weight, bias, running_mean, running_var, {})", name, rest), build);
  };
  const TrainingFn as_said = [](const AtenCall& c) { return c.flag("training"); };
  const TrainingFn always = [](const AtenCall&) { return true; }, never = [](const AtenCall&) { return false; };
  add("batch_norm", "training, momentum, eps, cudnn_enabled",
      batch_norm_giving(as_said, true, [](AtenCall&, const BatchNorm& n) -> AtenArg { return n.out; }));
  add("{native_batch_norm,_native_batch_norm_legit}", "training, momentum, eps",
      batch_norm_giving(as_said, true, with_saved));
  add("_native_batch_norm_legit_functional", "training, momentum, eps",
      batch_norm_giving(as_said, false, [](AtenCall&, const BatchNorm& n) -> AtenArg {
        return std::vector<Value>{n.out, n.mean, n.rstd, n.running_mean, n.running_var};
      }));
  add("_native_batch_norm_legit_no_training", "momentum, eps", batch_norm_giving(never, false, with_saved));
  add("_batch_norm_with_update", "momentum, eps", batch_norm_giving(always, true, with_reserve));
  add("_batch_norm_with_update_functional", "momentum, eps",
      batch_norm_giving(always, false, [](AtenCall& c, const BatchNorm& n) -> AtenArg {
        return std::vector<Value>{n.out, n.mean, n.rstd, reserve(c), n.running_mean, n.running_var};
      }));
  add("_batch_norm_no_update", "momentum, eps", batch_norm_giving(never, false, with_reserve));
  table.add("aten._native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps)",
            [](AtenCall& c) { return with_saved(c, batch_norm_training(c, 0, {}, {})); });
}

// ---- its gradient ---------------------------------------------------------------------------------------------------

AtenArg batch_norm_backward(AtenCall& c, bool training, std::string_view saved_rstd) {
  const Value x = to_wide(c, c.tensor("input")), grad = to_wide(c, c.tensor("grad_out"));
  const Value mean = c.tensor(training ? "save_mean" : "running_mean");
  const Value rstd = training ? c.tensor(saved_rstd) : c.rsqrt(to_wide(c, c.tensor("running_var")) + c.real("eps"));
  const Value spread = by_channel(c, rstd, x);
  const Value out = (x - by_channel(c, mean, x)) * spread;
  const Value weight = c.tensor_or_none("weight");
  const Value dout = weight ? grad * by_channel(c, weight, x) : grad;
  const std::vector<int64_t> dims = all_but_channels(x);
  const Value dx = training ? standardize_backward(c, dout, out, spread, dims) : dout * spread;
  const DType parameters = weight ? weight.dtype() : x.dtype();
  return masked(c,
                {c.cast(dx, c.tensor("input").dtype()), c.cast(c.sum(grad * out, dims), parameters),
                 c.cast(c.sum(grad, dims), parameters)},
                "output_mask");
}

void add_batch_norm_backward_entries(AtenTable& table) {
  table.add(
      "aten.native_batch_norm_backward.default(grad_out, input, weight, running_mean, running_var, save_mean, "
      "save_invstd, train, eps, output_mask)",
      [](AtenCall& c) { return batch_norm_backward(c, c.flag("train"), "save_invstd"); });
  table.add(
      "aten.batch_norm_backward.default(grad_out, input, weight, running_mean, running_var, save_mean, save_var, "
      "update, eps, output_mask, reserve)",
      [](AtenCall& c) { return batch_norm_backward(c, c.flag("update"), "save_var"); });
}

// ---- layer and RMS norm ---------------------------------------------------------------------------------------------

int64_t normalized_rank(const AtenCall& c, Value x) {
  const Shape normalized = c.sizes("normalized_shape");
  const int64_t rank = std::ssize(normalized);
  if (rank == 0 || rank > x.rank())
    fail("{}: {} does not fit {}", c.target(), to_string(normalized), to_string(x.type()));
  return rank;
}

std::vector<Value> layer_norm(AtenCall& c) {
  const Value x = c.tensor("input");
  return c.results("layer_norm", {x, c.tensor_or_none("weight"), c.tensor_or_none("bias")},
                   {{"normalized_rank", normalized_rank(c, x)}, {"eps", c.real("eps")}});
}

// Sums over all rows: the gradients by the weight and the bias.
Value over_rows(Builder& b, Value x, int64_t rank) {
  const std::vector<int64_t> rows = dims_from(0, x.rank() - rank);
  return rows.empty() ? x : b.sum(x, rows);
}

AtenArg layer_norm_backward(AtenCall& c) {
  const Value x = to_wide(c, c.tensor("input")), grad = to_wide(c, c.tensor("grad_out")), rstd = c.tensor("rstd");
  const Value weight = c.tensor_or_none("weight");
  const int64_t rank = normalized_rank(c, x);
  const Value out = (x - c.tensor("mean")) * rstd;
  const Value dx =
      standardize_backward(c, weight ? grad * weight : grad, out, rstd, dims_from(x.rank() - rank, x.rank()));
  const DType parameters = weight ? weight.dtype() : c.tensor("input").dtype();
  return masked(c,
                {c.cast(dx, c.tensor("input").dtype()), c.cast(over_rows(c, grad * out, rank), parameters),
                 c.cast(over_rows(c, grad, rank), parameters)},
                "output_mask");
}

double smallest_step(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::numeric_limits<double>::epsilon();
    case DType::kF16:
      return std::ldexp(1, -10);
    case DType::kBF16:
      return std::ldexp(1, -7);
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

std::vector<Value> rms_norm(AtenCall& c, DType eps_dtype) {
  const Value x = c.tensor("input");
  const double eps = c.given("eps") ? c.real("eps") : smallest_step(eps_dtype);
  return c.results("rms_norm", {x, c.tensor_or_none("weight")},
                   {{"normalized_rank", normalized_rank(c, x)}, {"eps", eps}});
}

AtenArg rms_norm_backward(AtenCall& c) {
  const Value x = to_wide(c, c.tensor("input")), grad = to_wide(c, c.tensor("grad_out")), rstd = c.tensor("rstd");
  const Value weight = c.tensor_or_none("weight");
  const int64_t rank = normalized_rank(c, x);
  const Value out = x * rstd, dout = weight ? grad * weight : grad;
  const Value dx = rstd * (dout - out * c.mean(dout * out, dims_from(x.rank() - rank, x.rank()), true));
  const DType parameters = weight ? weight.dtype() : c.tensor("input").dtype();
  return masked(c, {c.cast(dx, c.tensor("input").dtype()), c.cast(over_rows(c, grad * out, rank), parameters)},
                "output_mask");
}

void add_layer_norm_entries(AtenTable& table) {
  table.add("aten.layer_norm.default(input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True)",
            [](AtenCall& c) { return layer_norm(c)[0]; });
  table.add("aten.native_layer_norm.default(input, normalized_shape, weight, bias, eps)",
            [](AtenCall& c) { return with_statistics(c, layer_norm(c)); });
  table.add(
      "aten.native_layer_norm_backward.default(grad_out, input, normalized_shape, mean, rstd, weight, bias, "
      "output_mask)",
      layer_norm_backward);
  table.add("aten.rms_norm.default(input, normalized_shape, weight=None, eps=None)",
            [](AtenCall& c) { return rms_norm(c, c.tensor("input").dtype())[0]; });
  table.add("aten._fused_rms_norm.default(input, normalized_shape, weight, eps)",
            [](AtenCall& c) { return rms_norm(c, c.tensor("input").dtype()); });
  table.add("aten._fused_rms_norm_backward.default(grad_out, input, normalized_shape, rstd, weight, output_mask)",
            rms_norm_backward);
}

// ---- group and instance norm ----------------------------------------------------------------------------------------

std::vector<Value> group_norm(AtenCall& c, int64_t groups) {
  return c.results("group_norm", {c.tensor("input"), c.tensor_or_none("weight"), c.tensor_or_none("bias")},
                   {{"groups", groups}, {"eps", c.real("eps")}});
}

// In groups: [N, groups, channels of a group, the rest].
AtenArg group_norm_backward(AtenCall& c) {
  const Value input = c.tensor("input"), x = to_wide(c, input), weight = c.tensor_or_none("weight");
  const int64_t groups = c.integer("group");
  const Expr n = c.size("N"), channels = c.size("C"), each_group = floordiv(channels, groups);
  const Shape grouped = {n, groups, each_group, c.size("HxW")}, statistic = {n, groups, 1, 1};
  const Value grad = c.reshape(to_wide(c, c.tensor("grad_out")), grouped);
  const Value mean = c.reshape(c.tensor("mean"), statistic), rstd = c.reshape(c.tensor("rstd"), statistic);
  const Value out = (c.reshape(x, grouped) - mean) * rstd;
  const Value dout = weight ? grad * c.reshape(weight, {groups, each_group, 1}) : grad;
  const Value dx = c.reshape(standardize_backward(c, dout, out, rstd, {2, 3}), input.shape());
  const DType parameters = weight ? weight.dtype() : input.dtype();
  const auto summed = [&](Value y) { return c.cast(c.reshape(c.sum(y, {0, 3}), {channels}), parameters); };
  return masked(c, {c.cast(dx, input.dtype()), summed(grad * out), summed(grad)}, "output_mask");
}

// Of each instance and channel; running statistics move to their average over instances.
void write_instance_statistics(AtenCall& c) {
  const Value x = to_wide(c, c.tensor("input"));
  const std::vector<Value> statistics = c.results("var_mean", {x}, {{"dims", dims_from(2, x.rank())}});
  const double momentum = c.real("momentum");
  c.write("running_mean", moved(c, c.tensor("running_mean"), c.mean(statistics[1], {0}), momentum));
  c.write("running_var", moved(c, c.tensor("running_var"), c.mean(statistics[0], {0}), momentum));
}

AtenArg instance_norm(AtenCall& c) {
  const bool has_running = c.given("running_mean");
  if (!c.flag("use_input_stats")) {
    return batch_norm_inference(c, c.tensor("running_mean"), c.tensor("running_var")).out;
  }
  if (has_running) write_instance_statistics(c);
  return c.op("instance_norm", {c.tensor("input"), c.tensor_or_none("weight"), c.tensor_or_none("bias")},
              {{"eps", c.real("eps")}});
}

void add_group_norm_entries(AtenTable& table) {
  table.add("aten.group_norm.default(input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=True)",
            [](AtenCall& c) { return group_norm(c, c.integer("num_groups"))[0]; });
  table.add("aten.native_group_norm.default(input, weight, bias, N, C, HxW, group, eps)",
            [](AtenCall& c) { return with_statistics(c, group_norm(c, c.integer("group"))); });
  table.add(
      "aten.native_group_norm_backward.default(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)",
      group_norm_backward);
  table.add(
      "aten.instance_norm.default(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, "
      "cudnn_enabled)",
      instance_norm);
}

// ---- norms of weights -----------------------------------------------------------------------------------------------

// Over all dimensions but one, which stays; -1 is none.
Value norm_except(Builder& b, Value v, double p, int64_t dim) {
  if (dim == -1) return b.op("norm", {v}, {{"p", p}});
  std::vector<int64_t> dims = dims_from(0, v.rank());
  std::erase(dims, normalize_dim(dim, v.rank()));
  return b.op("norm", {v}, {{"p", p}, {"dims", dims}, {"keepdim", true}});
}

Value weight_norm(Builder& b, Value v, Value g, int64_t dim) { return v * (g / norm_except(b, v, 2, dim)); }

AtenArg weight_norm_backward(AtenCall& c) {
  const int64_t dim = c.integer("dim");
  const auto forward = [dim](Builder& b, const std::vector<Value>& in) { return weight_norm(b, in[0], in[1], dim); };
  return gradients(c, forward, {c.tensor("saved_v"), c.tensor("saved_g")}, c.tensor("grad_w"));
}

void add_weight_entries(AtenTable& table) {
  table.add("aten._weight_norm.default(v, g, dim=0)",
            [](AtenCall& c) { return weight_norm(c, c.tensor("v"), c.tensor("g"), c.integer("dim")); });
  table.add("aten._weight_norm_interface.default(v, g, dim=0)", [](AtenCall& c) {
    const Value v = c.tensor("v"), g = c.tensor("g");
    return std::vector<Value>{weight_norm(c, v, g, c.integer("dim")), norm_except(c, v, 2, c.integer("dim"))};
  });
  table.add("aten._weight_norm_{interface,differentiable}_backward.default(grad_w, saved_v, saved_g, saved_norms, dim)",
            weight_norm_backward);
  table.add("aten.norm_except_dim.default(v, pow=2, dim=0)",
            [](AtenCall& c) { return norm_except(c, c.tensor("v"), c.real("pow"), c.integer("dim")); });
}

}  // namespace

void add_normalization_entries(AtenTable& table) {
  for (const auto add : {add_batch_norm_entries, add_batch_norm_backward_entries, add_layer_norm_entries,
                         add_group_norm_entries, add_weight_entries})
    add(table);
}

}  // namespace tenon::aten
