// Elements in other places: joined, padded, repeated, rolled, put into a larger tensor. Nothing here shares memory.
#include <fmt/format.h>

#include <algorithm>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

using Adapt = Value (*)(Builder&, Value);

std::vector<Value> adapted(AtenCall& c, Adapt adapt) {
  std::vector<Value> values;
  for (Value x : c.tensors("tensors")) values.push_back(adapt(c, x));
  return values;
}

// ---- joining --------------------------------------------------------------------------------------------------------

// PyTorch skips vectors without elements, whatever the rank of the others; their dtypes count.
Value joined(AtenCall& c, const std::vector<Value>& tensors, int64_t dim) {
  std::vector<Value> parts;
  std::vector<TensorType> types;
  for (Value x : tensors) {
    types.push_back(x.type());
    if (x.shape() != Shape{0}) parts.push_back(x);
  }
  if (parts.empty()) parts = tensors;
  const DType dtype = result_dtype(types);
  return c.cast(parts.size() == 1 ? parts[0] : c.concat(parts, dim), dtype);
}

AtenArg cat(AtenCall& c) { return joined(c, c.tensors("tensors"), c.integer("dim")); }

AtenArg hstack(AtenCall& c) {
  const std::vector<Value> parts = adapted(c, at_least_1d);
  return joined(c, parts, parts[0].rank() == 1 ? 0 : 1);
}

Value as_column(Builder& c, Value x) { return x.rank() > 1 ? x : c.reshape(x, {element_count(x.shape()), 1}); }

// Each matrix in columns of its own, one below the other.
AtenArg block_diag(AtenCall& c) {
  const std::vector<Value> blocks = adapted(c, at_least_2d);
  Expr columns = 0;
  for (Value x : blocks) columns += x.size(1);
  std::vector<Value> rows;
  Expr before = 0;
  for (Value x : blocks) {
    const Expr after = columns - before - x.size(1);
    rows.push_back(c.op("pad", {x}, {{"low", Shape{0, before}}, {"high", Shape{0, after}}, {"value", Expr(0)}}));
    before += x.size(1);
  }
  return rows.size() == 1 ? rows[0] : c.concat(rows, 0);
}

std::vector<Value> grid(AtenCall& c, const std::vector<Value>& axes) {
  Shape shape;
  for (Value axis : axes) shape.push_back(element_count(axis.shape()));
  std::vector<Value> grids;
  for (size_t dim = 0; dim < axes.size(); ++dim) {
    Shape aligned(axes.size(), 1);
    aligned[dim] = shape[dim];
    grids.push_back(c.expand(c.reshape(axes[dim], aligned), shape));
  }
  return grids;
}

AtenArg meshgrid(AtenCall& c, bool is_xy) {
  std::vector<Value> axes = c.tensors("tensors");
  const bool swaps = is_xy && axes.size() > 1;
  if (swaps) std::swap(axes[0], axes[1]);
  std::vector<Value> grids = grid(c, axes);
  if (swaps) std::swap(grids[0], grids[1]);
  return grids;
}

AtenArg cartesian_prod(AtenCall& c) {
  const std::vector<Value> axes = c.tensors("tensors");
  if (axes.size() == 1) return axes[0];
  std::vector<Value> columns;
  for (Value x : grid(c, axes)) columns.push_back(flat(c, x));
  return c.op("stack", columns, {{"dim", int64_t{1}}});
}

void append_combinations(int64_t count, int64_t chosen, bool repeat, std::vector<int64_t>& row,
                         std::vector<int64_t>& rows) {
  if (std::ssize(row) == chosen) {
    rows.insert(rows.end(), row.begin(), row.end());
    return;
  }
  for (int64_t next = row.empty() ? 0 : row.back() + (repeat ? 0 : 1); next < count; ++next) {
    row.push_back(next);
    append_combinations(count, chosen, repeat, row, rows);
    row.pop_back();
  }
}

AtenArg combinations(AtenCall& c) {
  const Value x = c.tensor();
  if (!x.size(0).is_constant()) c.decline("how many combinations there are depends on {}", x.size(0));
  const int64_t chosen = c.integer("r");
  if (chosen == 0) return nothing(c, x.dtype());
  if (x.size(0).constant() > 1000 || chosen > 3) c.decline("there are too many combinations");
  std::vector<int64_t> row, rows;
  append_combinations(x.size(0).constant(), chosen, c.flag("with_replacement"), row, rows);
  const int64_t count = std::ssize(rows) / chosen;
  Tensor places = Tensor::zeros(DType::kI64, {count, chosen});
  for (int64_t i = 0; i < std::ssize(rows); ++i) places.set_integer(i, rows[static_cast<size_t>(i)]);
  return c.op("index", {x, c.constant(std::move(places))});
}

// Shorter sequences are padded to the longest.
AtenArg pad_sequence(AtenCall& c) {
  const std::vector<Value> sequences = c.tensors("sequences");
  Expr length = 0;
  for (Value x : sequences) length = max(length, x.size(0));
  const bool at_left = c.string("padding_side") == "left";
  std::vector<Value> padded;
  for (Value x : sequences) {
    Shape none(x.shape().size(), 0), amount = none;
    amount[0] = length - x.size(0);
    padded.push_back(c.op(
        "pad", {x},
        {{"low", at_left ? amount : none}, {"high", at_left ? none : amount}, {"value", c.number("padding_value")}}));
  }
  return c.op("stack", padded, {{"dim", c.flag("batch_first") ? int64_t{0} : int64_t{1}}});
}

// Each tensor in chunks along a dimension, of equal size but for zeros at the end; the rest of each chunk in one line.
AtenArg chunk_cat(AtenCall& c) {
  const int64_t chunks = c.integer("num_chunks");
  std::vector<Value> parts;
  for (Value x : c.tensors("tensors")) {
    const int64_t dim = normalize_dim(c.integer("dim"), x.rank());
    const auto at = static_cast<size_t>(dim);
    Shape none(x.shape().size(), 0), missing = none;
    missing[at] = ceildiv(x.size(dim), chunks) * chunks - x.size(dim);
    const Value padded = c.op("pad", {x}, {{"low", none}, {"high", missing}});
    Shape shape(padded.shape().begin(), padded.shape().begin() + dim);
    shape.emplace_back(chunks);
    shape.emplace_back(-1);
    parts.push_back(c.op("reshape", {padded}, {{"shape", shape}}));
  }
  return c.concat(parts, c.integer("dim") + 1);
}

void add_joining_entries(AtenTable& table) {
  table.add("aten.{cat,concat,concatenate}.default(tensors, dim=0)", cat);
  table.op("aten.{stack,_stack}.default(tensors, dim=0)", "stack");
  table.add("aten.hstack.default(tensors)", hstack);
  table.add("aten._chunk_cat.default(tensors, dim, num_chunks)", chunk_cat);
  table.add("aten.{vstack,row_stack}.default(tensors)",
            [](AtenCall& c) { return joined(c, adapted(c, at_least_2d), 0); });
  table.add("aten.dstack.default(tensors)", [](AtenCall& c) { return joined(c, adapted(c, at_least_3d), 2); });
  table.add("aten.column_stack.default(tensors)", [](AtenCall& c) { return joined(c, adapted(c, as_column), 1); });
  table.add("aten.atleast_1d.Sequence(tensors)", [](AtenCall& c) { return adapted(c, at_least_1d); });
  table.add("aten.atleast_2d.Sequence(tensors)", [](AtenCall& c) { return adapted(c, at_least_2d); });
  table.add("aten.atleast_3d.Sequence(tensors)", [](AtenCall& c) { return adapted(c, at_least_3d); });
  table.add("aten.block_diag.default(tensors)", block_diag);
  table.add("aten.meshgrid.default(tensors)", [](AtenCall& c) { return meshgrid(c, false); });
  table.add("aten.meshgrid.indexing(tensors, *, indexing)",
            [](AtenCall& c) { return meshgrid(c, c.string("indexing") == "xy"); });
  table.add("aten.cartesian_prod.default(tensors)", cartesian_prod);
  table.add("aten.combinations.default(self, r=2, with_replacement=False)", combinations);
  table.add("aten.pad_sequence.default(sequences, batch_first=False, padding_value=0.0, padding_side=\"right\")",
            pad_sequence);
  table.add("aten.broadcast_tensors.default(tensors)", [](AtenCall& c) {
    std::vector<Value> tensors = c.tensors("tensors");
    Shape shape;
    for (Value x : tensors) shape = broadcast(shape, x.shape());
    for (Value& x : tensors) x = c.expand(x, shape);
    return tensors;
  });
}

// ---- padding --------------------------------------------------------------------------------------------------------

struct Padding {
  Shape low;
  Shape high;
};

// PyTorch counts dimensions from the last, and gives both amounts of one after the other.
Padding padding_of(const AtenCall& c, std::string_view name, int64_t rank) {
  const Shape amounts = c.sizes(name);
  if (amounts.size() % 2 != 0 || std::ssize(amounts) > 2 * rank) {
    fail("{}: {} amounts of padding do not fit a tensor of rank {}", c.target(), amounts.size(), rank);
  }
  Padding padding{Shape(static_cast<size_t>(rank), 0), Shape(static_cast<size_t>(rank), 0)};
  for (size_t i = 0; i < amounts.size(); i += 2) {
    const size_t dim = static_cast<size_t>(rank) - 1 - i / 2;
    padding.low[dim] = amounts[i];
    padding.high[dim] = amounts[i + 1];
  }
  return padding;
}

NamedAttrs attrs_of(Padding padding) { return {{"low", std::move(padding.low)}, {"high", std::move(padding.high)}}; }

Value filled(AtenCall& c, Value x, const Attr& number) {
  NamedAttrs attrs = attrs_of(padding_of(c, "pad", x.rank()));
  attrs.emplace_back("value", number);
  return c.op("pad", {x}, std::move(attrs));
}

AtenArg constant_pad(AtenCall& c) {
  const Value x = c.tensor();
  if (!c.given("value")) return filled(c, x, Expr(0));
  if (!c.is_run_time_number("value")) return filled(c, x, c.number("value"));
  const Value is_inside = filled(c, c.full(Expr(1), x.shape(), DType::kBool), Expr(0));
  return c.where(is_inside, filled(c, x, Expr(0)), c.number("value", x.dtype()));
}

Value padded_by(AtenCall& c, std::string_view op, std::string_view amounts) {
  const Value x = c.tensor();
  return c.op(op, {x}, attrs_of(padding_of(c, amounts, x.rank())));
}

constexpr std::string_view kModes[] = {"reflect", "replicate", "circular"};

AtenArg pad_as(AtenCall& c, std::string_view mode) {
  if (mode == "constant") return constant_pad(c);
  if (std::ranges::find(kModes, mode) == std::end(kModes)) fail("there is no padding mode '{}'", mode);
  return padded_by(c, "pad_" + std::string(mode), "pad");
}

AtenFn pad_backward(std::string op) {
  return [op](AtenCall& c) {
    const Value x = c.tensor();
    const NamedAttrs attrs = attrs_of(padding_of(c, "padding", x.rank()));
    const auto forward = [&](Builder& b, const std::vector<Value>& in) { return b.op(op, in, attrs); };
    return gradients(c, forward, {x}, c.tensor("grad_output"))[0];
  };
}

void add_padding_entries(AtenTable& table) {
  table.add("aten.constant_pad_nd.default(self, pad, value=0)", constant_pad);
  table.add("aten.pad.default(self, pad, mode=\"constant\", value=None)",
            [](AtenCall& c) { return pad_as(c, c.string("mode")); });
  table.add("aten._pad_enum.default(self, pad, mode, value=None)", [](AtenCall& c) {
    constexpr std::string_view kNames[] = {"reflect", "replicate", "circular", "constant"};
    return pad_as(c, kNames[static_cast<size_t>(c.integer("mode"))]);
  });
  table.add("aten._pad_circular.default(self, pad)", [](AtenCall& c) { return padded_by(c, "pad_circular", "pad"); });
  for (int rank = 1; rank <= 3; ++rank) {
    for (const auto& [name, op] : {std::pair("reflection", "pad_reflect"), std::pair("replication", "pad_replicate")}) {
      const std::string packet = fmt::format("aten.{}_pad{}d", name, rank);
      const std::string used = op;
      table.add(packet + ".default(self, padding)", [used](AtenCall& c) { return padded_by(c, used, "padding"); });
      table.add(packet + "_backward.default(grad_output, self, padding)", pad_backward(used));
    }
  }
}

// ---- repeating and moving -------------------------------------------------------------------------------------------

AtenArg tile(AtenCall& c) {
  const Value x = c.tensor();
  Shape repeats = c.sizes("dims");
  while (std::ssize(repeats) < x.rank()) repeats.insert(repeats.begin(), 1);
  return c.op("repeat", {x}, {{"repeats", repeats}});
}

// A new dimension of copies behind the old one, merged into it.
AtenArg repeat_interleave(AtenCall& c) {
  const bool along = c.given("dim");
  const Value x = along ? at_least_1d(c, c.tensor()) : flat(c, c.tensor());
  const auto dim = static_cast<size_t>(along ? normalize_dim(c.integer("dim"), x.rank()) : 0);
  Shape copies = x.shape(), merged = x.shape();
  copies.insert(copies.begin() + static_cast<int64_t>(dim) + 1, c.size("repeats"));
  merged[dim] *= c.size("repeats");
  const Value repeated = c.expand(c.unsqueeze(x, static_cast<int64_t>(dim) + 1), copies);
  const Value result = c.reshape(repeated, merged);
  return along && c.tensor().rank() == 0 ? c.reshape(result, {c.size("repeats")}) : result;
}

// For each place of the result, how many entries end before it.
Value interleaved_places(AtenCall& c, Value repeats, const Expr& count) {
  const Value ends = c.op("cumsum", {c.cast(repeats, DType::kI64)}, {{"dim", int64_t{0}}});
  const Value ended = c.compare("le", c.unsqueeze(ends, 0), c.unsqueeze(c.iota(count), 1));
  return c.sum(c.cast(ended, DType::kI64), {1});
}

Expr interleaved_count(AtenCall& c) {
  if (!c.given("output_size"))
    c.decline("how many elements the result has is only known at run time: give output_size");
  return c.size("output_size");
}

AtenArg repeat_interleave_by(AtenCall& c) {
  const bool along = c.given("dim");
  const Value x = along ? c.tensor() : flat(c, c.tensor());
  const int64_t dim = along ? dim_of(c, "dim", x) : 0;
  const Value repeats = c.expand(at_least_1d(c, c.tensor("repeats")), {x.size(dim)});
  const Value places = interleaved_places(c, repeats, interleaved_count(c));
  return c.op("index_select", {x, places}, {{"dim", dim}});
}

AtenArg rot90(AtenCall& c) {
  const Value x = c.tensor();
  const std::vector<int64_t> dims = c.ints("dims");
  if (dims.size() != 2) fail("rot90 turns two dimensions, got {}", dims.size());
  const int64_t turns = ((c.integer("k") % 4) + 4) % 4;
  const auto flipped = [&](Value y, std::vector<int64_t> along) {
    return c.op("flip", {y}, {{"dims", std::move(along)}});
  };
  if (turns == 1) return c.transpose(flipped(x, {dims[1]}), dims[0], dims[1]);
  if (turns == 2) return flipped(x, dims);
  return turns == 3 ? c.transpose(flipped(x, {dims[0]}), dims[0], dims[1]) : x;
}

// Half of each dimension around, rounded down or up.
AtenFn shifted_by_half(bool up) {
  return [up](AtenCall& c) {
    const Value x = c.tensor();
    std::vector<int64_t> dims = c.given("dim") ? c.ints("dim") : dims_from(0, x.rank());
    Shape shifts;
    for (int64_t& dim : dims) {
      dim = normalize_dim(dim, x.rank());
      shifts.push_back(floordiv(x.size(dim) + (up ? 1 : 0), 2));
    }
    return dims.empty() ? x : c.op("roll", {x}, {{"shifts", shifts}, {"dims", dims}});
  };
}

AtenFn flip_along(int64_t dim) {
  return [dim](AtenCall& c) { return c.op("flip", {c.tensor()}, {{"dims", std::vector<int64_t>{dim}}}); };
}

AtenArg diag(AtenCall& c) {
  const Value x = c.tensor();
  const NamedAttrs attrs = {{"offset", c.integer("diagonal")}};
  return c.op(x.rank() == 1 ? "diag_embed" : "diagonal", {x}, attrs);
}

AtenArg channel_shuffle(AtenCall& c) {
  const Value x = c.tensor();
  const Expr groups = c.size("groups");
  Shape split = x.shape();
  split[1] = floordiv(split[1], groups);
  split.insert(split.begin() + 1, groups);
  return c.reshape(c.transpose(c.reshape(x, split), 1, 2), x.shape());
}

AtenArg resized(AtenCall& c, const Shape& shape) {
  const Value x = c.tensor();
  const Expr count = element_count(x.shape());
  return c.reshape(c.pad(c.reshape(x, {count}), {0}, {element_count(shape) - count}), shape);
}

void add_moving_entries(AtenTable& table) {
  table.op("aten.repeat.default(self, repeats)", "repeat");
  table.add("aten.tile.default(self, dims)", tile);
  table.add("aten.repeat_interleave.self_int(self, repeats, dim=None, *, output_size=None)", repeat_interleave);
  table.add("aten.repeat_interleave.self_Tensor(self, repeats, dim=None, *, output_size=None)", repeat_interleave_by);
  table.add("aten.repeat_interleave.Tensor(repeats, *, output_size=None)", [](AtenCall& c) {
    const Value repeats = c.tensor("repeats");
    return c.cast(interleaved_places(c, repeats, interleaved_count(c)), repeats.dtype());
  });
  table.op("aten.roll.default(self, shifts, dims=[])", "roll");
  table.add("aten.fft_fftshift.default(self, dim=None)", shifted_by_half(false));
  table.add("aten.fft_ifftshift.default(self, dim=None)", shifted_by_half(true));
  table.add("aten.rot90.default(self, k=1, dims=[0, 1])", rot90);
  table.op("aten.flip.default(self, dims)", "flip");
  table.add("aten.fliplr.default(self)", flip_along(1));
  table.add("aten.flipud.default(self)", flip_along(0));
  table.op("aten.{tril,triu}.default(self, diagonal=0)");
  table.op("aten.diag_embed.default(self, offset=0, dim1=-2, dim2=-1)", "diag_embed");
  table.add("aten.diag.default(self, diagonal=0)", diag);
  table.add("aten.diagflat.default(self, offset=0)",
            [](AtenCall& c) { return c.op("diag_embed", {flat(c, c.tensor())}, {{"offset", c.integer("offset")}}); });
  table.add("aten.{channel_shuffle,native_channel_shuffle}.default(self, groups)", channel_shuffle);
  table.add("aten.pixel_shuffle.default(self, upscale_factor)",
            [](AtenCall& c) { return c.op("pixel_shuffle", {c.tensor()}, {{"factor", c.integer("upscale_factor")}}); });
  table.add("aten.pixel_unshuffle.default(self, downscale_factor)", [](AtenCall& c) {
    return c.op("pixel_unshuffle", {c.tensor()}, {{"factor", c.integer("downscale_factor")}});
  });
  table.add("aten.{_unsafe_view,_reshape_copy}.default(self, size)",
            [](AtenCall& c) { return c.op("reshape", {c.tensor()}, {{"shape", c.sizes("size")}}); });
  table.add("aten.resize.default(self, size, *, memory_format=None)",
            [](AtenCall& c) { return resized(c, c.sizes("size")); });
  table.add("aten.resize_.default(self, size, *, memory_format=None)", [](AtenCall& c) {
    c.replace_self();
    return resized(c, c.sizes("size"));
  });
  table.add("aten.resize_as_.default(self, the_template, *, memory_format=None)", [](AtenCall& c) {
    c.replace_self();
    return resized(c, c.tensor("the_template").shape());
  });
}

// ---- put into a larger tensor ---------------------------------------------------------------------------------------

using AttrsFn = NamedAttrs (*)(const AtenCall&);

void add_scatter(AtenTable& table, const std::string& what, std::string_view parameters, AttrsFn attrs) {
  const std::string op = what + "_scatter";
  table.add(fmt::format("aten.{}.default(self, src, {})", op, parameters),
            [=](AtenCall& c) { return c.op(op, {c.tensor(), c.cast(c.tensor("src"), c.tensor().dtype())}, attrs(c)); });
}

void add_scatter_backward(AtenTable& table, const std::string& what, std::string_view parameters, AttrsFn attrs) {
  const std::string signature = fmt::format("aten.{}_backward.default(grad_output, input_sizes, {})", what, parameters);
  table.add(signature, [=](AtenCall& c) {
    const Value grad = c.tensor("grad_output");
    return c.op(what + "_scatter", {c.full(Expr(0), c.sizes("input_sizes"), grad.dtype()), grad}, attrs(c));
  });
}

AtenArg as_strided_scatter(AtenCall& c) {
  const Value x = c.tensor();
  const Expr count = element_count(x.shape());
  NamedAttrs attrs = {{"size", c.sizes("size")}, {"stride", c.sizes("stride")}};
  if (c.given("storage_offset")) attrs.emplace_back("offset", c.size("storage_offset"));
  const Value places = c.op("as_strided", {c.iota(count)}, std::move(attrs));
  const Value src = c.cast(c.tensor("src"), x.dtype());
  return c.reshape(c.op("index_put", {c.reshape(x, {count}), src, places}), x.shape());
}

AtenArg unfold_backward(AtenCall& c) {
  const Shape sizes = c.sizes("input_sizes");
  const int64_t dim = normalize_dim(c.integer("dim"), std::ssize(sizes));
  if (sizes.empty()) return c.reshape(c.tensor("grad_in"), {});
  return c.op("fold", {c.tensor("grad_in")},
              {{"dim", dim}, {"length", sizes[static_cast<size_t>(dim)]}, {"step", c.integer("step")}});
}

NamedAttrs window_attrs(const AtenCall& c) {
  return {{"kernel", each(c, "kernel_size", 2)},
          {"dilation", each(c, "dilation", 2)},
          {"padding", each(c, "padding", 2)},
          {"stride", each(c, "stride", 2)}};
}

void add_scatter_entries(AtenTable& table) {
  add_scatter(table, "slice", "dim=0, start=None, end=None, step=1", slice_attrs);
  add_scatter(table, "select", "dim, index", select_attrs);
  add_scatter(table, "diagonal", "offset=0, dim1=0, dim2=1", diagonal_attrs);
  table.add("aten.as_strided_scatter.default(self, src, size, stride, storage_offset=None)", as_strided_scatter);
  add_scatter_backward(table, "slice", "dim, start, end, step", slice_attrs);
  add_scatter_backward(table, "select", "dim, index", select_attrs);
  add_scatter_backward(table, "diagonal", "offset, dim1, dim2", diagonal_attrs);
  table.add("aten.unfold_backward.default(grad_in, input_sizes, dim, size, step)", unfold_backward);
  table.add("aten.im2col.default(self, kernel_size, dilation, padding, stride)",
            [](AtenCall& c) { return c.op("im2col", {c.tensor()}, window_attrs(c)); });
  table.add("aten.col2im.default(self, output_size, kernel_size, dilation, padding, stride)", [](AtenCall& c) {
    NamedAttrs attrs = window_attrs(c);
    attrs.emplace_back("output_size", c.sizes("output_size"));
    return c.op("col2im", {c.tensor()}, std::move(attrs));
  });
}

}  // namespace

void add_arrangement_entries(AtenTable& table) {
  add_joining_entries(table);
  add_padding_entries(table);
  add_moving_entries(table);
  add_scatter_entries(table);
}

}  // namespace tenon::aten
