// Tensors from nothing, and copies of a whole tensor. Layout, device, strides and memory format say nothing about a
// Value: it is as if contiguous.
#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "capture/aten/common.h"
#include "support/checked.h"

namespace tenon::aten {
namespace {

// Of the given size and dtype, or of those of self.
AtenFn filled_with(int64_t number) {
  return [number](AtenCall& c) {
    const Shape shape = c.takes("size") ? c.sizes("size") : c.tensor().shape();
    return c.full(Expr(number), shape, c.dtype().value_or(c.takes("self") ? c.tensor().dtype() : DType::kF32));
  };
}

void add_fills(AtenTable& table) {
  constexpr auto kFormat = ", memory_format=None";
  // What an uninitialized tensor holds is open: zeros do.
  table.add(with_options("aten.empty.memory_format(size", "", kFormat), filled_with(0));
  table.add(with_options("aten.empty_strided.default(size, stride"), filled_with(0));
  table.add(with_options("aten.empty_permuted.default(size, physical_layout"), filled_with(0));
  table.add(with_options("aten.zeros.default(size"), filled_with(0));
  table.add(with_options("aten.ones.default(size"), filled_with(1));
  table.add(with_options("aten.{empty_like,zeros_like}.default(self", "", kFormat), filled_with(0));
  table.add(with_options("aten.ones_like.default(self", "", kFormat), filled_with(1));
  table.add(with_options("aten.new_empty_strided.default(self, size, stride"), filled_with(0));
  table.add(with_options("aten.{new_empty,new_zeros}.default(self, size"), filled_with(0));
  table.add(with_options("aten.new_ones.default(self, size"), filled_with(1));
  table.add("aten.zero.default(self)", [](AtenCall& c) { return c.full_like(c.tensor(), 0); });

  table.add(with_options("aten.full.default(size, fill_value"), [](AtenCall& c) {
    const DType dtype = c.dtype().value_or(dtype_of_number(c.argument("fill_value")));
    return filled(c, "fill_value", c.sizes("size"), dtype);
  });
  table.add(with_options("aten.full_like.default(self, fill_value", "", kFormat), [](AtenCall& c) {
    return filled(c, "fill_value", c.tensor().shape(), c.dtype().value_or(c.tensor().dtype()));
  });
  table.add(with_options("aten.new_full.default(self, size, fill_value"), [](AtenCall& c) {
    return filled(c, "fill_value", c.sizes("size"), c.dtype().value_or(c.tensor().dtype()));
  });
  table.add("aten.fill.{Scalar,Tensor}(self, value)",
            [](AtenCall& c) { return filled(c, "value", c.tensor().shape(), c.tensor().dtype()); });
  table.add(with_options("aten.scalar_tensor.default(s"),
            [](AtenCall& c) { return filled(c, "s", {}, c.dtype().value_or(DType::kF32)); });
}

// ---- sequences ------------------------------------------------------------------------------------------------------

DType dtype_of_range(AtenCall& c) {
  const auto is_real = [](const AtenArg& argument) { return argument.get<double>() != nullptr; };
  return c.dtype().value_or(std::ranges::any_of(c.arguments(), is_real) ? DType::kF32 : DType::kI64);
}

// Between ends of which one is only known at run time. Each half counts from its own end, as PyTorch's does.
Value linspace_between(AtenCall& c, Value start, Value end, const Expr& steps) {
  const Value place = c.iota(steps, DType::kF64);
  const Value last = c.full(symbolic::max(steps - 1, 1), {}, DType::kF64);
  const Value step = (end - start) / last;
  const Value is_first_half = c.compare("lt", place * 2, c.full(steps, {}, DType::kF64));
  return c.where(is_first_half, start + step * place, end - step * (last - place));
}

Value linspace(AtenCall& c, DType dtype) {
  const Expr steps = c.size("steps");
  const auto is_known = [&](std::string_view name) { return !c.is_tensor(name) && !c.is_run_time_number(name); };
  if (is_known("start") && is_known("end")) {
    return c.op("linspace", {},
                {{"start", c.real("start")}, {"end", c.real("end")}, {"steps", steps}, {"dtype", dtype}});
  }
  return linspace_between(c, c.number("start", DType::kF64), c.number("end", DType::kF64), steps);
}

void add_ranges(AtenTable& table) {
  const AtenFn arange = [](AtenCall& c) {
    NamedAttrs attrs;
    for (const char* name : {"start", "end", "step"}) {
      if (c.takes(name)) attrs.emplace_back(name, c.number(name));
    }
    attrs.emplace_back("dtype", dtype_of_range(c));
    return c.op("arange", {}, std::move(attrs));
  };
  table.add(with_options("aten.arange.default(end"), arange);
  table.add(with_options("aten.arange.start(start, end"), arange);
  table.add(with_options("aten.arange.start_step(start, end, step=1"), arange);
  constexpr std::string_view kOverloads = "{default,Tensor_Tensor,Tensor_Scalar,Scalar_Tensor}(start, end, steps";
  table.add(with_options(fmt::format("aten.linspace.{}", kOverloads)), [](AtenCall& c) {
    const DType dtype = c.dtype().value_or(DType::kF32);
    return c.cast(linspace(c, dtype), dtype);
  });
  table.add(with_options(fmt::format("aten.logspace.{}, base=10.0", kOverloads)), [](AtenCall& c) {
    const Value powers = c.pow(c.scalar(c.real("base"), DType::kF64), linspace(c, DType::kF64));
    return c.cast(powers, c.dtype().value_or(DType::kF32));
  });
}

// ---- matrices -------------------------------------------------------------------------------------------------------

AtenArg eye(AtenCall& c, const Expr& rows, const Expr& columns) {
  return c.op("eye", {}, {{"rows", rows}, {"columns", columns}, {"dtype", c.dtype().value_or(DType::kF32)}});
}

// How many places of a matrix have column - row <= offset.
int64_t count_below(int64_t rows, int64_t columns, int64_t offset) {
  const int64_t first = std::clamp<int64_t>(checked_sub(0, offset), 0, rows);      // the first row that has one
  const int64_t full = std::clamp(checked_sub(columns - 1, offset), first, rows);  // the first that has all columns
  const int64_t in_first = checked_add(first, offset) + 1, in_last = checked_add(full, offset);  // of those between
  const int64_t between = checked_mul(full - first, checked_add(in_first, in_last)) / 2;
  return checked_add(between, checked_mul(rows - full, columns));
}

struct Triangle {
  int64_t rows, columns, offset;
  bool lower;

  bool contains(int64_t row, int64_t column) const { return lower ? column - row <= offset : column - row >= offset; }
  int64_t count() const {
    if (lower) return count_below(rows, columns, offset);
    return checked_mul(rows, columns) - count_below(rows, columns, checked_sub(offset, 1));
  }
};

Tensor indices_of(const Triangle& triangle, int64_t count, DType dtype) {
  Tensor indices = Tensor::zeros(dtype, {2, count});
  int64_t next = 0;
  for (int64_t row = 0; row < triangle.rows && next < count; ++row) {
    for (int64_t column = 0; column < triangle.columns; ++column) {
      if (!triangle.contains(row, column)) continue;
      indices.set_integer(next, row);
      indices.set_integer(count + next++, column);
    }
  }
  return indices;
}

// Found in each run: a program does not hold them.
Value found_indices(AtenCall& c, const Triangle& triangle, int64_t count, DType dtype) {
  const Value distance = c.iota(triangle.columns) - c.unsqueeze(c.iota(triangle.rows), 1);
  const Value is_inside = c.compare(triangle.lower ? "le" : "ge", distance, c.integer(triangle.offset));
  const Value places = c.op("nonzero", {is_inside}, {{"count", Expr(count)}});
  return c.cast(c.permute(places, {1, 0}), dtype);
}

// The indices of a triangle, rows above columns, in row-major order.
AtenFn triangle_indices(bool lower) {
  return [lower](AtenCall& c) -> AtenArg {
    constexpr int64_t kMostHeld = 1 << 20;  // places of the matrix
    const Triangle triangle{c.integer("row"), c.integer("col"), c.integer("offset"), lower};
    if (triangle.rows < 0 || triangle.columns < 0)
      c.decline("a matrix of {} rows and {} columns", triangle.rows, triangle.columns);
    const int64_t count = triangle.count();
    const DType dtype = c.dtype().value_or(DType::kI64);
    if (checked_mul(triangle.rows, triangle.columns) > kMostHeld) return found_indices(c, triangle, count, dtype);
    return c.constant(indices_of(triangle, count, dtype));
  };
}

void add_matrices(AtenTable& table) {
  table.add(with_options("aten.eye.default(n"), [](AtenCall& c) { return eye(c, c.size("n"), c.size("n")); });
  table.add(with_options("aten.eye.m(n, m"), [](AtenCall& c) { return eye(c, c.size("n"), c.size("m")); });
  constexpr auto kOptions = "(row, col, offset=0, *, dtype=4, layout=None, device=None, pin_memory=None)";
  table.add(fmt::format("aten.tril_indices.default{}", kOptions), triangle_indices(true));
  table.add(fmt::format("aten.triu_indices.default{}", kOptions), triangle_indices(false));
}

// ---- windows of signal processing -----------------------------------------------------------------------------------

// `shape` is the window as a function of x, which goes from 0 to 1: at the last element, or one behind it where the
// window is periodic.
using WindowShape = std::function<Value(AtenCall&, Value)>;

AtenArg window(AtenCall& c, bool periodic, const WindowShape& shape) {
  const int64_t length = c.integer("window_length");
  const DType dtype = c.dtype().value_or(DType::kF32);
  if (length <= 1) return c.full(Expr(1), {length}, dtype);
  const Value x = c.iota(length, DType::kF64) / static_cast<double>(periodic ? length : length - 1);
  return c.cast(shape(c, x), dtype);
}

void add_window(AtenTable& table, std::string_view name, const WindowShape& shape) {
  const std::string start = fmt::format("aten.{}_window", name);
  table.add(with_options(start + ".default(window_length"), [shape](AtenCall& c) { return window(c, true, shape); });
  table.add(with_options(start + ".periodic(window_length, periodic"),
            [shape](AtenCall& c) { return window(c, c.flag("periodic"), shape); });
}

Value cosine(AtenCall& c, Value x, double turns) { return c.cos(x * (2 * std::numbers::pi * turns)); }

WindowShape raised_cosine(double alpha, double beta) {
  return [=](AtenCall& c, Value x) { return alpha - cosine(c, x, 1) * beta; };
}

void add_windows(AtenTable& table) {
  constexpr double kAlpha = 0.54;
  constexpr double kBeta = 0.46;
  add_window(table, "hann", raised_cosine(0.5, 0.5));
  add_window(table, "hamming", raised_cosine(kAlpha, kBeta));
  table.add(with_options("aten.hamming_window.periodic_alpha(window_length, periodic, alpha"),
            [](AtenCall& c) { return window(c, c.flag("periodic"), raised_cosine(c.real("alpha"), kBeta)); });
  table.add(with_options("aten.hamming_window.periodic_alpha_beta(window_length, periodic, alpha, beta"),
            [](AtenCall& c) { return window(c, c.flag("periodic"), raised_cosine(c.real("alpha"), c.real("beta"))); });
  add_window(table, "blackman",
             [](AtenCall& c, Value x) { return 0.42 - cosine(c, x, 1) * 0.5 + cosine(c, x, 2) * 0.08; });
  add_window(table, "bartlett", [](AtenCall& c, Value x) { return 1 - c.abs(x * 2 - 1); });
}

// ---- the same elements ----------------------------------------------------------------------------------------------

// PyTorch copies only where the dtype changes, or where it is told to.
AtenArg converted(AtenCall& c, DType dtype, bool copy) {
  if (!copy && c.tensor().dtype() == dtype) return itself(c);
  return c.cast(c.tensor(), dtype);
}

void add_conversions(AtenTable& table) {
  const AtenFn to = [](AtenCall& c) {
    return converted(c, c.dtype().value_or(c.tensor().dtype()), !c.takes("copy") || c.flag("copy"));
  };
  table.add("aten.to.dtype(self, dtype, non_blocking=False, copy=False, memory_format=None)", to);
  table.add("aten.to.device(self, device, dtype, non_blocking=False, copy=False, memory_format=None)", to);
  table.add(with_options("aten.to.dtype_layout(self", "", ", non_blocking=False, copy=False, memory_format=None"), to);
  table.add(with_options("aten._to_copy.default(self", "", ", non_blocking=False, memory_format=None"), to);
  table.add("aten.to.other(self, other, non_blocking=False, copy=False, memory_format=None)",
            [](AtenCall& c) { return converted(c, c.tensor("other").dtype(), c.flag("copy")); });
  table.add("aten.type_as.default(self, other)",
            [](AtenCall& c) { return converted(c, c.tensor("other").dtype(), false); });
  // torch.compile writes this one, where a model has numbers that change from call to call (dynamic=True).
  table.add("prims.convert_element_type.default(a, dtype)",
            [](AtenCall& c) { return c.cast(c.tensor("a"), c.dtype().value()); });
}

void add_copies(AtenTable& table) {
  const auto same = [](AtenCall& c) { return c.tensor(); };
  table.add("aten.clone.default(self, *, memory_format=None)", same);
  table.add("aten.lift_fresh_copy.default(self)", same);
  const auto write_all = [](AtenCall&, Value value) { return value; };
  table.view("aten.{detach,lift,lift_fresh}.default(self)", same, write_all);
  table.add("aten.copy.default(self, src, non_blocking=False)",
            [](AtenCall& c) { return c.expand(c.cast(c.tensor("src"), c.tensor().dtype()), c.tensor().shape()); });
}

}  // namespace

void add_factory_entries(AtenTable& table) {
  for (const auto add : {add_fills, add_ranges, add_matrices, add_windows, add_conversions, add_copies}) add(table);
}

}  // namespace tenon::aten
