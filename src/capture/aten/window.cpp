// Convolution and pooling. Resampling has a file of its own.
#include <fmt/format.h>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

// "[1, 1]": the default of an argument of type int[count].
std::string repeated(int number, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

// ---- convolution ----------------------------------------------------------------------------------------------------

struct Geometry {
  std::vector<int64_t> stride = {1}, padding = {0}, dilation = {1};
  bool transposed = false;
  Shape output_padding = {0};
  int64_t groups = 1;
};

NamedAttrs attrs_of(const Geometry& g) {
  return {{"stride", g.stride}, {"padding", g.padding},       {"dilation", g.dilation},
          {"groups", g.groups}, {"transposed", g.transposed}, {"output_padding", g.output_padding}};
}

// What the overload takes of it; the rest has the usual values.
Geometry geometry_of(const AtenCall& c) {
  Geometry geometry{.stride = c.ints("stride")};
  if (c.argument("padding").get<std::string>() == nullptr) geometry.padding = c.ints("padding");
  if (c.takes("dilation")) geometry.dilation = c.ints("dilation");
  if (c.takes("transposed")) geometry.transposed = c.flag("transposed");
  if (c.takes("output_padding")) geometry.output_padding = c.sizes("output_padding");
  if (c.takes("groups")) geometry.groups = c.integer("groups");
  return geometry;
}

// PyTorch takes one image without a batch, too.
Value convolved(Builder& b, Value x, Value weight, Value bias, const Geometry& geometry) {
  const bool is_batch = x.rank() == weight.rank();
  const Value out = b.op("conv", {is_batch ? x : b.unsqueeze(x, 0), weight, bias}, attrs_of(geometry));
  return is_batch ? out : b.squeeze(out, 0);
}

Value convolved(AtenCall& c, const Geometry& geometry) {
  const Value x = c.tensor(c.takes("input") ? "input" : "self");
  return convolved(c, x, c.tensor("weight"), c.tensor_or_none("bias"), geometry);
}

AtenArg conv(AtenCall& c) { return convolved(c, geometry_of(c)); }

AtenArg conv_transpose(AtenCall& c) {
  Geometry geometry = geometry_of(c);
  geometry.transposed = true;
  return convolved(c, geometry);
}

struct Same {
  std::vector<int64_t> before, after;
};

// As much as the result is shorter by, the odd one at the end.
Same same_padding(const AtenCall& c, Value weight, const std::vector<int64_t>& dilation) {
  Same same;
  for (int64_t dim = 2; dim < weight.rank(); ++dim) {
    const Expr& size = weight.size(dim);
    if (!size.is_constant()) c.decline("the size of the window is the symbolic {}", size);
    const int64_t total = dilation[dilation.size() == 1 ? 0 : static_cast<size_t>(dim) - 2] * (size.constant() - 1);
    same.before.push_back(total / 2);
    same.after.push_back(total - total / 2);
  }
  return same;
}

Value padded_at_end(AtenCall& c, Value x, const Same& same) {
  Shape low(x.shape().size(), 0), high = low;
  const size_t first = x.shape().size() - same.before.size();
  for (size_t i = 0; i < same.before.size(); ++i) high[first + i] = same.after[i] - same.before[i];
  return c.op("pad", {x}, {{"low", low}, {"high", high}});
}

AtenArg conv_with_mode(AtenCall& c) {
  const Value weight = c.tensor("weight");
  Value x = c.tensor("input");
  Geometry geometry = geometry_of(c);
  const std::string mode = c.string("padding");
  if (mode != "same" && mode != "valid") fail("padding must be a number, \"same\" or \"valid\", got \"{}\"", mode);
  if (mode == "same") {
    const Same same = same_padding(c, weight, geometry.dilation);
    if (same.before != same.after) x = padded_at_end(c, x, same);
    geometry.padding = same.before;
  }
  return convolved(c, x, weight, c.tensor_or_none("bias"), geometry);
}

AtenArg convolution_backward(AtenCall& c) {
  const Value grad = c.tensor("grad_output");
  const Geometry geometry = geometry_of(c);
  const auto forward = [&](Builder& b, const std::vector<Value>& in) {
    return convolved(b, in[0], in[1], {}, geometry);
  };
  std::vector<Value> results = gradients(c, forward, {c.tensor("input"), c.tensor("weight")}, grad);
  std::vector<int64_t> dims = dims_from(2, grad.rank());
  dims.push_back(0);
  results.push_back(c.sum(grad, dims));
  return masked(c, results, "output_mask");
}

// [time, batch, channels], and a weight [window, in, out].
AtenArg conv_tbc(AtenCall& c) {
  const Value x = c.permute(c.tensor(), {1, 2, 0}), weight = c.permute(c.tensor("weight"), {2, 1, 0});
  const Geometry geometry{.padding = {c.integer("pad")}};
  return c.permute(convolved(c, x, weight, c.tensor("bias"), geometry), {2, 0, 1});
}

// The kernels that PyTorch chooses between for one convolution.
void add_kernels(AtenTable& table) {
  for (int64_t rank = 2; rank <= 3; ++rank) {
    const std::string ones = repeated(1, rank), zeros = repeated(0, rank);
    table.add(fmt::format("aten.{}.default(self, weight, kernel_size, bias=None, stride={}, padding={})",
                          rank == 2 ? "thnn_conv2d" : "slow_conv3d", ones, zeros),
              conv);
    table.add(fmt::format("aten.{}.default(self, weight, kernel_size, bias, stride, padding)",
                          rank == 2 ? "_slow_conv2d_forward" : "slow_conv3d_forward"),
              conv);
    table.add(fmt::format("aten.slow_conv_dilated{}d.default(self, weight, kernel_size, bias=None, stride={}, "
                          "padding={}, dilation={})",
                          rank, ones, zeros, ones),
              conv);
    table.add(fmt::format("aten.slow_conv_transpose{}d.default(self, weight, kernel_size, bias=None, stride={}, "
                          "padding={}, output_padding={}, dilation={})",
                          rank, ones, zeros, zeros, ones),
              conv_transpose);
  }
  table.add("aten.mkldnn_convolution.default(self, weight, bias, padding, stride, dilation, groups)", conv);
}

void add_convolution_entries(AtenTable& table) {
  constexpr std::string_view kFull =
      "(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups";
  table.add(fmt::format("aten.convolution.default{})", kFull), conv);
  table.add(fmt::format("aten._convolution.default{}, benchmark, deterministic, cudnn_enabled, allow_tf32)", kFull),
            conv);
  table.add(fmt::format("aten._convolution.deprecated{}, benchmark, deterministic, cudnn_enabled)", kFull), conv);
  table.add("aten._convolution_mode.default(input, weight, bias, stride, padding, dilation, groups)", conv_with_mode);
  table.add(
      "aten.convolution_backward.default(grad_output, input, weight, bias_sizes, stride, padding, dilation, "
      "transposed, output_padding, groups, output_mask)",
      convolution_backward);
  for (int64_t rank = 1; rank <= 3; ++rank) {
    const std::string ones = repeated(1, rank), zeros = repeated(0, rank);
    constexpr std::string_view kConv =
        "aten.conv{}d.{}(input, weight, bias=None, stride={}, padding={}, dilation={}, groups=1)";
    table.add(fmt::format(kConv, rank, "default", ones, zeros, ones), conv);
    table.add(fmt::format(kConv, rank, "padding", ones, "\"valid\"", ones), conv_with_mode);
    table.add(fmt::format("aten.conv_transpose{}d.{}(input, weight, bias=None, stride={}, padding={}, "
                          "output_padding={}, groups=1, dilation={})",
                          rank, rank == 1 ? "default" : "input", ones, zeros, zeros, ones),
              conv_transpose);
  }
  table.add("aten.conv_tbc.default(self, weight, bias, pad=0)", conv_tbc);
  add_kernels(table);
}

// ---- pooling --------------------------------------------------------------------------------------------------------

NamedAttrs max_pool_attrs(const AtenCall& c, int64_t rank) {
  return {{"kernel", each(c, "kernel_size", rank)},
          {"stride", each(c, "stride", rank)},
          {"padding", each(c, "padding", rank)},
          {"dilation", each(c, "dilation", rank)},
          {"ceil_mode", c.flag("ceil_mode")}};
}

NamedAttrs avg_pool_attrs(const AtenCall& c, int64_t rank) {
  NamedAttrs attrs = {{"kernel", each(c, "kernel_size", rank)},
                      {"stride", each(c, "stride", rank)},
                      {"padding", each(c, "padding", rank)},
                      {"ceil_mode", c.flag("ceil_mode")},
                      {"count_include_pad", c.flag("count_include_pad")}};
  if (rank > 1 && c.given("divisor_override")) attrs.emplace_back("divisor_override", c.integer("divisor_override"));
  return attrs;
}

Shape last_sizes(Value x, int64_t rank) { return {x.shape().end() - rank, x.shape().end()}; }

// The spatial dimensions as one.
Value flat_places(AtenCall& c, Value x, int64_t rank) {
  return rank == 1 ? x : c.op("flatten", {x}, {{"start", -rank}});
}

// Each element at its flat place in the spatial dimensions of a larger tensor of zeros.
Value spread(AtenCall& c, Value x, Value indices, const Shape& shape, int64_t rank, std::string reduce) {
  const Value zeros = flat_places(c, c.full(Expr(0), shape, x.dtype()), rank);
  const Value out = c.op("scatter", {zeros, flat_places(c, indices, rank), flat_places(c, x, rank)},
                         {{"dim", int64_t{-1}}, {"reduce", std::move(reduce)}});
  return c.reshape(out, shape);
}

AtenFn spread_backward(int64_t rank) {
  return [rank](AtenCall& c) {
    return spread(c, c.tensor("grad_output"), c.tensor("indices"), c.tensor().shape(), rank, "add");
  };
}

AtenFn unpool(int64_t rank) {
  return [rank](AtenCall& c) {
    Shape shape = c.tensor().shape();
    const Shape sizes = c.sizes("output_size");
    std::ranges::copy(sizes, shape.end() - rank);
    return spread(c, c.tensor(), c.tensor("indices"), shape, rank, "set");
  };
}

AtenFn pool_backward(std::function<Value(Builder&, const AtenCall&, Value)> forward) {
  return [forward](AtenCall& c) {
    const auto of_input = [&](Builder& b, const std::vector<Value>& in) { return forward(b, c, in[0]); };
    return gradients(c, of_input, {c.tensor()}, c.tensor("grad_output"))[0];
  };
}

void add_max_pool_entries(AtenTable& table, int64_t rank) {
  const std::string parameters = fmt::format("(self, kernel_size, stride=[], padding={}, dilation={}, ceil_mode=False)",
                                             repeated(0, rank), repeated(1, rank));
  table.add(fmt::format("aten.max_pool{}d.default{}", rank, parameters),
            [rank](AtenCall& c) { return c.results("max_pool", {c.tensor()}, max_pool_attrs(c, rank))[0]; });
  table.add(fmt::format("aten.max_pool{}d_with_indices.default{}", rank, parameters),
            [rank](AtenCall& c) { return c.results("max_pool", {c.tensor()}, max_pool_attrs(c, rank)); });
  table.add(fmt::format("aten.adaptive_max_pool{}d.default(self, output_size)", rank), [](AtenCall& c) {
    return c.results("adaptive_max_pool", {c.tensor()}, {{"output_size", c.sizes("output_size")}});
  });
  if (rank == 1) return;
  table.add(fmt::format("aten.max_pool{}d_with_indices_backward.default(grad_output, self, kernel_size, stride, "
                        "padding, dilation, ceil_mode, indices)",
                        rank),
            spread_backward(rank));
  table.add(fmt::format("aten.adaptive_max_pool{}d_backward.default(grad_output, self, indices)", rank),
            spread_backward(rank));
}

void add_avg_pool_entries(AtenTable& table, int64_t rank) {
  table.add(fmt::format("aten.avg_pool{}d.default(self, kernel_size, stride=[], padding={}, ceil_mode=False, "
                        "count_include_pad=True{})",
                        rank, repeated(0, rank), rank == 1 ? "" : ", divisor_override=None"),
            [rank](AtenCall& c) { return c.op("avg_pool", {c.tensor()}, avg_pool_attrs(c, rank)); });
  const AtenFn adaptive = [](AtenCall& c) {
    return c.op("adaptive_avg_pool", {c.tensor()}, {{"output_size", c.sizes("output_size")}});
  };
  table.add(fmt::format("aten.adaptive_avg_pool{}d.default(self, output_size)", rank), adaptive);
  if (rank == 1) return;
  table.add(fmt::format("aten._adaptive_avg_pool{}d.default(self, output_size)", rank), adaptive);
  table.add(fmt::format("aten.avg_pool{}d_backward.default(grad_output, self, kernel_size, stride, padding, ceil_mode, "
                        "count_include_pad, divisor_override)",
                        rank),
            pool_backward([rank](Builder& b, const AtenCall& c, Value x) {
              return b.op("avg_pool", {x}, avg_pool_attrs(c, rank));
            }));
  table.add(fmt::format("aten._adaptive_avg_pool{}d_backward.default(grad_output, self)", rank),
            pool_backward([rank](Builder& b, const AtenCall& c, Value x) {
              return b.op("adaptive_avg_pool", {x}, {{"output_size", last_sizes(c.tensor("grad_output"), rank)}});
            }));
}

// ---- pooling at random places ---------------------------------------------------------------------------------------

// [..., result, kernel]: the places of each window along one dimension. A random number for each image says where the
// windows start; the last one ends at the end.
Value random_windows(AtenCall& c, Value random, int64_t size, int64_t result, int64_t kernel) {
  const Value order = c.iota(result);
  Value start = c.integer(size - kernel);
  if (result > 1) {
    const DType dtype = random.dtype();
    const Value step = c.scalar(static_cast<double>(size - kernel), dtype) / static_cast<double>(result - 1);
    const Value first = c.unsqueeze(random, -1);
    const auto whole = [&](Value x) { return c.cast(c.unary("trunc", x), DType::kI64); };
    const Value even = whole((c.cast(order, dtype) + first) * step) - whole(first * step);
    start = c.where(c.compare("eq", order, static_cast<double>(result - 1)), start, even);
  }
  Shape shape = random.shape();
  shape.emplace_back(result);
  return c.unsqueeze(c.expand(start, shape), -1) + c.iota(kernel);
}

// [batch, channels, windows, elements]: the flat places of all windows.
Value random_places(AtenCall& c, const Shape& sizes, const std::vector<int64_t>& results,
                    const std::vector<int64_t>& kernel) {
  const Value random = c.tensor("random_samples");
  const auto rank = std::ssize(sizes);
  Value flat = c.integer(0);
  for (int64_t dim = 0; dim < rank; ++dim) {
    const auto at = static_cast<size_t>(dim);
    if (!sizes[at].is_constant()) c.decline("the windows depend on the size {}", sizes[at]);
    const int64_t number = rank == 2 ? 1 - dim : dim;  // PyTorch's order: of images the width first
    const Value own = c.op("select", {random}, {{"dim", int64_t{-1}}, {"index", Expr(number)}});
    const Value places = random_windows(c, own, sizes[at].constant(), results[at], kernel[at]);
    Shape aligned = {places.size(0), places.size(1)};
    aligned.resize(static_cast<size_t>(2 + 2 * rank), 1);
    aligned[2 + at] = results[at];
    aligned[2 + at + static_cast<size_t>(rank)] = kernel[at];
    flat = flat * c.full(sizes[at], {}, DType::kI64) + c.reshape(places, aligned);
  }
  int64_t windows = 1, elements = 1;
  for (size_t dim = 0; dim < sizes.size(); ++dim) windows *= results[dim], elements *= kernel[dim];
  return c.reshape(flat, {flat.size(0), flat.size(1), windows, elements});
}

AtenFn fractional_max_pool(int64_t rank) {
  return [rank](AtenCall& c) {
    const Value given = c.tensor();
    const Value x = given.rank() == rank + 1 ? c.unsqueeze(given, 0) : given;
    const std::vector<int64_t> kernel = each(c, "kernel_size", rank), results = each(c, "output_size", rank);
    const Value places = random_places(c, last_sizes(x, rank), results, kernel);
    const Value lines = flat_places(c, places, 2);
    const Value elements =
        c.reshape(c.op("gather", {flat_places(c, x, rank), lines}, {{"dim", int64_t{-1}}}), places.shape());
    const Value best = c.op("argmax", {elements}, {{"dim", int64_t{-1}}, {"keepdim", true}});
    Shape shape = given.shape();
    for (int64_t dim = 0; dim < rank; ++dim) {
      shape[shape.size() - static_cast<size_t>(rank - dim)] = results[static_cast<size_t>(dim)];
    }
    const auto chosen = [&](Value all) {
      return c.reshape(c.op("gather", {all, best}, {{"dim", int64_t{-1}}}), shape);
    };
    return std::vector{chosen(elements), chosen(places)};
  };
}

}  // namespace

void add_window_entries(AtenTable& table) {
  add_convolution_entries(table);
  for (int64_t rank = 1; rank <= 3; ++rank) {
    add_max_pool_entries(table, rank);
    add_avg_pool_entries(table, rank);
  }
  table.add("aten.max_unpool2d.default(self, indices, output_size)", unpool(2));
  table.add("aten.max_unpool3d.default(self, indices, output_size, stride, padding)", unpool(3));
  for (int64_t rank = 2; rank <= 3; ++rank) {
    table.add(fmt::format("aten.fractional_max_pool{}d.default(self, kernel_size, output_size, random_samples)", rank),
              fractional_max_pool(rank));
  }
  add_resample_entries(table);
}

}  // namespace tenon::aten
