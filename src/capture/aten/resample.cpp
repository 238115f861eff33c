// Resizing images, and reading them at places of a grid.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

// ---- resizing -------------------------------------------------------------------------------------------------------

struct Resize {
  Shape output_size;
  std::vector<double> scales;  // empty where they follow from the sizes
  bool align_corners = false;
};

// A symbolic size has only integral multiples.
Expr scaled_size(const AtenCall& c, const Expr& size, double scale) {
  if (scale == std::floor(scale)) return size * static_cast<int64_t>(scale);
  if (!size.is_constant()) c.decline("the size {} times {}", size, scale);
  return static_cast<int64_t>(std::floor(static_cast<double>(size.constant()) * scale));
}

Resize resize_by_sizes(const AtenCall& c, bool has_corners, int64_t rank) {
  static const std::vector<std::vector<std::string>> kScales = {
      {"scales"}, {"scales_h", "scales_w"}, {"scales_d", "scales_h", "scales_w"}};
  Resize resize{c.sizes("output_size"), {}, has_corners && c.flag("align_corners")};
  for (const std::string& name : kScales[static_cast<size_t>(rank) - 1]) {
    if (c.given(name)) resize.scales.push_back(c.real(name));
  }
  if (std::ssize(resize.scales) != rank) resize.scales.clear();
  return resize;
}

Resize resize_by_factors(const AtenCall& c, bool has_corners) {
  Resize resize{c.sizes("output_size"), c.reals("scale_factors"), has_corners && c.flag("align_corners")};
  if (c.given("output_size")) {
    resize.scales.clear();
    return resize;
  }
  const Shape& shape = c.tensor("input").shape();
  for (size_t i = 0; i < resize.scales.size(); ++i) {
    resize.output_size.push_back(scaled_size(c, shape.at(i + 2), resize.scales[i]));
  }
  return resize;
}

using ResizeFn = std::function<Value(Builder&, Value, const Resize&)>;

ResizeFn resize_op(std::string op, bool has_corners) {
  return [=](Builder& b, Value x, const Resize& resize) {
    NamedAttrs attrs = {{"output_size", resize.output_size}};
    if (has_corners) attrs.emplace_back("align_corners", resize.align_corners);
    if (!resize.scales.empty()) attrs.emplace_back("scales", resize.scales);
    return b.op(op, {x}, std::move(attrs));
  };
}

// The element whose center is nearest: floor((i + 0.5) * step), in f32 as PyTorch computes it.
Value nearest_places(Builder& b, const Expr& size, const Expr& result, std::optional<double> scale) {
  const Value step = scale ? b.scalar(1 / *scale, DType::kF32)
                           : b.op("div", {b.full(size, {}, DType::kF32), b.full(result, {}, DType::kF32)});
  const Value place = b.op("floor", {(b.cast(b.iota(result), DType::kF32) + 0.5) * step});
  return b.minimum(b.cast(place, DType::kI64), b.full(size - 1, {}, DType::kI64));
}

Value nearest_exact(Builder& b, Value x, const Resize& resize) {
  const int64_t rank = std::ssize(resize.output_size);
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t dim = x.rank() - rank + i;
    const auto at = static_cast<size_t>(i);
    const auto scale = resize.scales.empty() ? std::nullopt : std::optional(resize.scales[at]);
    const Value places = nearest_places(b, x.size(dim), resize.output_size[at], scale);
    x = b.op("index_select", {x, places}, {{"dim", dim}});
  }
  return x;
}

// ---- with a filter that grows as the image shrinks ------------------------------------------------------------------

// PyTorch computes the weights in the dtype of the image, in at least f32: where a window ends must be the same.
template <class Real>
using Weight = Real (*)(Real distance);

struct Filter {
  int64_t width;  // how far it reaches
  Weight<float> weight;
  Weight<double> exact_weight;  // of images of f64
};

template <class Real>
Real triangle(Real x) {
  return std::max(1 - std::abs(x), Real(0));
}

template <class Real>
Real cubic(Real distance) {
  constexpr Real kA = -0.5;
  const Real x = std::abs(distance);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

// How many elements of the image one of the result stands for.
template <class Real>
Real step_of(int64_t size, int64_t result, const Resize& resize, size_t dim) {
  if (resize.align_corners) return result > 1 ? static_cast<Real>(size - 1) / static_cast<Real>(result - 1) : 0;
  if (!resize.scales.empty()) return static_cast<Real>(1 / resize.scales[dim]);
  return static_cast<Real>(size) / static_cast<Real>(result);
}

// [result, size]: what each element of the image adds to each of the result.
template <class Real>
Tensor filter_matrix(int64_t width, Weight<Real> filter, int64_t size, int64_t result, Real step, DType dtype) {
  constexpr Real kHalf = 0.5;
  Tensor matrix = Tensor::zeros(dtype, {result, size});
  const Real stretch = std::max(step, Real(1)), reach = static_cast<Real>(width) * stretch;
  for (int64_t row = 0; row < result; ++row) {
    const Real center = step * (static_cast<Real>(row) + kHalf);
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - reach + kHalf), 0);
    const int64_t end = std::min(static_cast<int64_t>(center + reach + kHalf), size);
    Real total = 0;
    const auto weight = [&](int64_t at) { return filter((static_cast<Real>(at) - center + kHalf) / stretch); };
    for (int64_t at = first; at < end; ++at) total += weight(at);
    for (int64_t at = first; at < end; ++at) {
      matrix.set_real(row * size + at, static_cast<double>(weight(at) / total));
    }
  }
  return matrix;
}

Tensor filter_matrix(const Filter& filter, int64_t size, int64_t result, const Resize& resize, size_t dim,
                     DType dtype) {
  if (dtype == DType::kF64) {
    const auto step = step_of<double>(size, result, resize, dim);
    return filter_matrix(filter.width, filter.exact_weight, size, result, step, dtype);
  }
  const auto step = step_of<float>(size, result, resize, dim);
  return filter_matrix(filter.width, filter.weight, size, result, step, dtype);
}

// The matrix is a constant of the graph, and a small file may ask for any size.
void check_filter(int64_t size, int64_t result) {
  constexpr double kMostElements = 1 << 26;
  if (static_cast<double>(size) * static_cast<double>(result) <= kMostElements) return;
  throw Declined(
      {fmt::format("the weights of a filter from {} to {} elements take too much memory", size, result), {}});
}

ResizeFn filtered(Filter filter) {
  return [filter](Builder& b, Value x, const Resize& resize) {
    constexpr std::string_view kSpecs[] = {"nchw,oh->ncow", "nchw,ow->ncho"};
    if (!is_float(x.dtype())) throw Declined({"PyTorch resizes integers in fixed point here", {}});
    const DType dtype = wide(x.dtype());
    Value out = b.cast(x, dtype);
    for (size_t dim : {1, 0}) {
      const Expr &size = x.shape()[dim + 2], &result = resize.output_size[dim];
      if (!size.is_constant() || !result.is_constant()) throw Declined({"the weights of a filter need the sizes", {}});
      check_filter(size.constant(), result.constant());
      const Tensor matrix = filter_matrix(filter, size.constant(), result.constant(), resize, dim, dtype);
      out = b.contract(out, b.constant(matrix), std::string(kSpecs[dim]));
    }
    return b.cast(out, x.dtype());
  };
}

struct Upsample {
  std::string name;
  int64_t rank;
  bool has_corners;
  ResizeFn run;
};

// The gradient by an input of which only the size is given: the value does not matter, for all this is linear.
AtenArg resize_backward(AtenCall& c, const Upsample& upsample) {
  const Value grad = c.tensor("grad_output");
  const Resize resize = resize_by_sizes(c, upsample.has_corners, upsample.rank);
  const auto forward = [&](Builder& b, const std::vector<Value>& in) { return upsample.run(b, in[0], resize); };
  return gradients(c, forward, {c.full(Expr(0), c.sizes("input_size"), grad.dtype())}, grad)[0];
}

void add_upsample(AtenTable& table, const Upsample& upsample) {
  constexpr std::string_view kScales[] = {"scales=None", "scales_h=None, scales_w=None",
                                          "scales_d=None, scales_h=None, scales_w=None"};
  const std::string_view scales = kScales[static_cast<size_t>(upsample.rank) - 1];
  const std::string_view corners = upsample.has_corners ? "align_corners, " : "";
  const std::string packet = "aten." + upsample.name;
  table.add(fmt::format("{}.default(self, output_size, {}{})", packet, corners, scales), [upsample](AtenCall& c) {
    return upsample.run(c, c.tensor(), resize_by_sizes(c, upsample.has_corners, upsample.rank));
  });
  table.add(fmt::format("{}.vec(input, output_size, {}scale_factors)", packet, corners), [upsample](AtenCall& c) {
    return upsample.run(c, c.tensor("input"), resize_by_factors(c, upsample.has_corners));
  });
  table.add(fmt::format("{}_backward.default(grad_output, output_size, input_size, {}{})", packet, corners, scales),
            [upsample](AtenCall& c) { return resize_backward(c, upsample); });
}

// ---- grids ----------------------------------------------------------------------------------------------------------

NamedAttrs grid_attrs(const AtenCall& c) {
  constexpr std::string_view kModes[] = {"bilinear", "nearest", "bicubic"};
  constexpr std::string_view kPaddings[] = {"zeros", "border", "reflection"};
  return {{"mode", std::string(kModes[static_cast<size_t>(c.integer("interpolation_mode"))])},
          {"padding", std::string(kPaddings[static_cast<size_t>(c.integer("padding_mode"))])},
          {"align_corners", c.flag("align_corners")}};
}

AtenArg grid_sample(AtenCall& c) { return c.op("grid_sample", {c.tensor("input"), c.tensor("grid")}, grid_attrs(c)); }

AtenArg grid_sample_backward(AtenCall& c) {
  const auto forward = [&](Builder& b, const std::vector<Value>& in) { return b.op("grid_sample", in, grid_attrs(c)); };
  return masked(c, gradients(c, forward, {c.tensor("input"), c.tensor("grid")}, c.tensor("grad_output")),
                "output_mask");
}

// Coordinates from -1 to 1: of the centers of the outer elements, or of their edges.
Value axis(Builder& b, const Expr& size, bool align_corners, DType dtype) {
  if (size.is_constant(1)) return b.full(Expr(0), {1}, dtype);
  const Value place = b.cast(b.iota(size), DType::kF64);
  const Value spans = b.full(align_corners ? size - 1 : size, {}, DType::kF64);
  return b.cast((place * 2.0 + (align_corners ? 0.0 : 1.0)) / spans - 1.0, dtype);
}

// theta [N, rank, rank + 1] times each point of the grid (x, y, [z,] 1).
Value affine_grid(Builder& b, Value theta, const Shape& size, bool align_corners) {
  const int64_t rank = std::ssize(size) - 2;
  const Shape spatial(size.begin() + 2, size.end());
  std::vector<Value> coordinates;
  for (int64_t dim = rank; dim-- > 0;) {
    Shape aligned(spatial.size(), 1);
    aligned[static_cast<size_t>(dim)] = spatial[static_cast<size_t>(dim)];
    const Value line = axis(b, spatial[static_cast<size_t>(dim)], align_corners, theta.dtype());
    coordinates.push_back(b.expand(b.reshape(line, aligned), spatial));
  }
  coordinates.push_back(b.full(Expr(1), spatial, theta.dtype()));
  const Value points = b.reshape(b.op("stack", coordinates, {{"dim", rank}}), {element_count(spatial), rank + 1});
  Shape shape = {size[0]};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  shape.emplace_back(rank);
  return b.reshape(b.contract(points, theta, "pk,nik->npi"), shape);
}

AtenArg affine_grid_backward(AtenCall& c) {
  const Value grad = c.tensor("grad");
  const Shape size = c.sizes("size");
  const int64_t rank = std::ssize(size) - 2;
  const auto forward = [&](Builder& b, const std::vector<Value>& in) {
    return affine_grid(b, in[0], size, c.flag("align_corners"));
  };
  return gradients(c, forward, {c.full(Expr(0), {size.at(0), rank, rank + 1}, grad.dtype())}, grad)[0];
}

}  // namespace

void add_resample_entries(AtenTable& table) {
  const ResizeFn nearest = resize_op("upsample_nearest", false), linear = resize_op("upsample_linear", true);
  for (int64_t rank = 1; rank <= 3; ++rank) {
    add_upsample(table, {fmt::format("upsample_nearest{}d", rank), rank, false, nearest});
    add_upsample(table, {fmt::format("_upsample_nearest_exact{}d", rank), rank, false, nearest_exact});
  }
  add_upsample(table, {"upsample_linear1d", 1, true, linear});
  add_upsample(table, {"upsample_bilinear2d", 2, true, linear});
  add_upsample(table, {"upsample_trilinear3d", 3, true, linear});
  add_upsample(table, {"upsample_bicubic2d", 2, true, resize_op("upsample_bicubic", true)});
  add_upsample(table, {"_upsample_bilinear2d_aa", 2, true, filtered({1, triangle, triangle})});
  add_upsample(table, {"_upsample_bicubic2d_aa", 2, true, filtered({2, cubic, cubic})});

  constexpr std::string_view kGrid = "(input, grid, interpolation_mode, padding_mode, align_corners)";
  table.add(fmt::format("aten.{{grid_sampler,grid_sampler_2d,grid_sampler_3d,_grid_sampler_2d_cpu_fallback}}.default{}",
                        kGrid),
            grid_sample);
  table.add(
      "aten.grid_sampler_2d_backward.default(grad_output, input, grid, interpolation_mode, padding_mode, "
      "align_corners, output_mask)",
      grid_sample_backward);
  table.add("aten.affine_grid_generator.default(theta, size, align_corners)",
            [](AtenCall& c) { return affine_grid(c, c.tensor("theta"), c.sizes("size"), c.flag("align_corners")); });
  table.add("aten.affine_grid_generator_backward.default(grad, size, align_corners)", affine_grid_backward);
}

}  // namespace tenon::aten
