#include "tiles/emit.h"

#include <algorithm>
#include <limits>

#include "graph/runtime_dtype.h"
#include "tiles/blocks.h"

namespace tenon {
namespace {

using Action = tenon_tile_action;

// Multiplications whose weights are loaded together, with all that is loaded before and stored after them.
struct TileGroup {
  std::vector<Action> loads, multiplies, stores;
  size_t set = 0;           // which set of accumulators
  bool begins_set = false;  // its first group
  size_t vector_loads = 0;  // The last loads that are for the store unit.
};

// Output positions [first, last) of a block that read the image, and the input position of the first.
struct TileWindow {
  int64_t first = 0, last = 0, position = 0;
};

class LayerEmitter {
 public:
  LayerEmitter(const TileLayer& layer, const tenon_tile_machine& machine, const LayerPlaces& places, uint32_t node)
      : layer_(layer),
        machine_(machine),
        places_(places),
        node_(node),
        blocks_(choose_blocks(layer, machine).value()),
        bytes_(size_of(layer.operand)),
        out_bytes_(size_of(layer.output)),
        channel_tiles_(ceil_div(layer.channels, machine.rows)),
        output_tiles_(ceil_div(layer.outputs, machine.columns)),
        pixel_lines_(pixel_lines(layer, machine)),
        tile_lines_(weight_tile_lines(layer, machine)) {
    place_buffers();
  }

  void emit(bool is_first, bool is_last, std::vector<Action>& actions) {
    for (group_ = 0; group_ < layer_.groups; ++group_) {
      for (int64_t image = 0; image < layer_.batch; ++image) emit_image(image);
    }
    add_tokens(is_first, is_last);
    append(actions);
  }

 private:
  struct Block {
    int64_t image = 0, first = 0, last = 0;
    RowRange input = {};
  };

  void emit_image(int64_t image) {
    for (int64_t row = 0; row < layer_.out_height(); row += blocks_.rows) {
      block_ = {.image = image, .first = row, .last = std::min(row + blocks_.rows, layer_.out_height())};
      block_.input = blocks_.whole_image ? RowRange{0, layer_.height} : input_rows(layer_, row, block_.last);
      for (int64_t tile = 0; tile < output_tiles_; tile += blocks_.set_tiles) emit_set(tile);
    }
  }

  bool has_vectors() const { return layer_.has_vectors || layer_.has_residual; }

  // ---- the scratchpad ----

  // A bank serves one unit in a cycle, activations first. So weights lie in banks of their own at the end, and the two
  // buffers of activations in different banks where there is room.
  void place_buffers() {
    const auto even = [](int64_t lines) { return lines - lines % 2; };
    int64_t top = machine_.lines;
    for (int64_t& buffer : weight_buffers_) buffer = top = even(top - blocks_.weight_lines);
    for (int64_t& buffer : vector_buffers_) buffer = top = even(top - blocks_.vector_lines);
    const int64_t second = x_bank_end();
    const bool has_banks = second + blocks_.x_lines <= top;
    x_buffers_ = {0, blocks_.x_buffers == 1 ? 0 : has_banks ? second : blocks_.x_lines + blocks_.x_lines % 2};
    check(x_buffers_[1] + blocks_.x_lines <= top, "the buffers of a layer do not fit {} lines", machine_.lines);
  }

  // Where the bank ends that the first buffer of activations ends in.
  int64_t x_bank_end() const {
    const int64_t bank = machine_.lines / machine_.line_banks;
    return ceil_div(blocks_.x_lines, bank) * bank;
  }

  // ---- actions ----

  Action action(uint32_t kind) const {
    Action a = {};
    a.kind = kind;
    a.node = node_;
    a.inner = a.outer = 1;
    return a;
  }

  Action load(TilePlace place, int64_t offset, int64_t run, int64_t line) const {
    Action a = action(TENON_TILE_LOAD);
    a.buffer = place.buffer;
    a.offset = place.offset + offset;
    a.run = static_cast<uint32_t>(run);
    a.line = static_cast<uint32_t>(line);
    return a;
  }

  static void repeat_inner(Action& a, int64_t count, int64_t stride, int64_t lines) {
    a.inner = static_cast<uint32_t>(count);
    a.inner_stride = stride;
    a.inner_lines = static_cast<int32_t>(lines);
  }
  static void repeat_outer(Action& a, int64_t count, int64_t stride, int64_t lines) {
    a.outer = static_cast<uint32_t>(count);
    a.outer_stride = stride;
    a.outer_lines = static_cast<int32_t>(lines);
  }

  Action zeros(int64_t lines, int64_t line) const {
    Action a = load({}, 0, lines * machine_.line_bytes, line);
    a.flags = TENON_TILE_ZEROS;
    return a;
  }

  // Activations of channel tiles [first, last) of the block, pixel by pixel.
  void load_x(int64_t first, int64_t last, TileGroup& group) {
    const int64_t rows = block_.input.last - block_.input.first;
    if (rows <= 0) return;  // padding only
    const int64_t begin = first * machine_.rows, end = std::min(last * machine_.rows, layer_.channels);
    const int64_t pixel = layer_.stored_channels * bytes_, run = (end - begin) * bytes_;
    const int64_t lines = (last - first) * pixel_lines_, used = ceil_div(run, machine_.line_bytes);
    const int64_t row = (block_.image * layer_.stored[0] + block_.input.first * layer_.skip[0]) * layer_.stored[1];
    const bool is_dense = run == pixel && layer_.skip[1] == 1 && run == lines * machine_.line_bytes &&
                          layer_.width * run <= machine_.max_run;
    const int64_t channel = group_ * layer_.channels + begin;
    Action a = load(places_.x, row * pixel + channel * bytes_, is_dense ? layer_.width * run : run, x_line_);
    if (!is_dense) repeat_inner(a, layer_.width, pixel * layer_.skip[1], lines);
    repeat_outer(a, rows, layer_.stored[1] * layer_.skip[0] * pixel, layer_.width * lines);
    group.loads.push_back(a);
    if (used == lines) return;
    a = zeros(lines - used, x_line_ + used);
    repeat_inner(a, layer_.width, 0, lines);
    repeat_outer(a, rows, 0, layer_.width * lines);
    group.loads.push_back(a);
  }

  // Weights of steps [first, last) of an output tile, and of the next ones: packed tiles follow each other.
  void load_packed(int64_t tile, int64_t first, int64_t last, int64_t line, TileGroup& group) const {
    const int64_t bytes = machine_.rows * machine_.columns * bytes_;
    const int64_t row_bytes = machine_.columns * bytes_, row_lines = tile_lines_ / machine_.rows;
    const int64_t at = (tile_of_all(tile) * channel_tiles_ * layer_.taps() + first) * bytes;
    const bool is_dense = row_bytes == row_lines * machine_.line_bytes && bytes <= machine_.max_run;
    Action a = load(places_.weights, at, is_dense ? bytes : row_bytes, line);
    if (!is_dense) repeat_inner(a, machine_.rows, row_bytes, row_lines);
    repeat_outer(a, last - first, bytes, tile_lines_);
    group.loads.push_back(a);
  }

  // The same of a matrix [channels, outputs] for each image.
  void load_matrix(int64_t tile, int64_t first, int64_t last, int64_t line, TileGroup& group) const {
    const int64_t column = tile * machine_.columns, row_lines = tile_lines_ / machine_.rows;
    const int64_t row = first * machine_.rows, rows = std::min(last * machine_.rows, layer_.channels) - row;
    const int64_t pitch = layer_.outputs * bytes_;
    const int64_t at = (block_.image * layer_.channels + row) * pitch + column * bytes_;
    Action a = load(places_.weights, at, columns(tile) * bytes_, line);
    repeat_inner(a, rows, pitch, row_lines);
    group.loads.push_back(a);
    const int64_t missing = (last - first) * machine_.rows - rows;
    if (missing == 0) return;
    a = zeros(row_lines, line + rows * row_lines);
    repeat_inner(a, missing, 0, row_lines);
    group.loads.push_back(a);
  }

  // The same of a matrix [outputs, channels]: a line of a tile holds channels of one output.
  void load_transposed(int64_t tile, int64_t first, int64_t last, int64_t line, TileGroup& group) const {
    const int64_t pitch = layer_.channels * bytes_, row_lines = tile_lines_ / machine_.columns;
    const int64_t at = (block_.image * layer_.outputs + tile * machine_.columns) * pitch;
    for (int64_t step = first; step < last;) {
      const int64_t begin = step * machine_.rows;
      const int64_t end = std::min(begin + machine_.rows, layer_.channels), run = (end - begin) * bytes_;
      const int64_t count = end - begin < machine_.rows ? 1 : std::min(last, layer_.channels / machine_.rows) - step;
      Action a = load(places_.weights, at + begin * bytes_, run, line + (step - first) * tile_lines_);
      repeat_inner(a, columns(tile), pitch, row_lines);
      repeat_outer(a, count, machine_.rows * bytes_, tile_lines_);
      group.loads.push_back(a);
      const int64_t used = ceil_div(run, machine_.line_bytes);
      if (used < row_lines) {
        a = zeros(row_lines - used, line + (step - first) * tile_lines_ + used);
        repeat_inner(a, columns(tile), 0, row_lines);
        group.loads.push_back(a);
      }
      step += count;
    }
  }

  void load_weights(int64_t tile, int64_t first, int64_t last, int64_t line, TileGroup& group) const {
    if (layer_.packed) return load_packed(tile, first, last, line, group);
    layer_.transposed ? load_transposed(tile, first, last, line, group) : load_matrix(tile, first, last, line, group);
  }

  int64_t tile_of_all(int64_t tile) const { return group_ * output_tiles_ + tile; }
  int64_t output_of_all(int64_t tile) const { return group_ * layer_.outputs + tile * machine_.columns; }
  int64_t columns(int64_t tile) const {
    return std::min<int64_t>(machine_.columns, layer_.outputs - tile * machine_.columns);
  }
  int64_t block_rows() const { return (block_.last - block_.first) * layer_.out_width(); }
  int64_t vector_line(int64_t tile_of_set) const {
    return vector_buffers_[set_ % 2] + tile_of_set * vector_tile_lines(machine_);
  }
  int64_t residual_line(int64_t tile_of_set) const {
    const int64_t vectors = layer_.has_vectors ? blocks_.set_tiles * vector_tile_lines(machine_) : 0;
    const int64_t even = vectors + vectors % 2;
    return vector_buffers_[set_ % 2] + even + tile_of_set * block_rows() * residual_lines(layer_, machine_);
  }
  int64_t result_row() const { return (block_.image * layer_.out_height() + block_.first) * layer_.out_width(); }

  // Biases, scales and residuals of a set of output tiles.
  void load_vectors(int64_t first, int64_t last, TileGroup& group) const {
    const size_t before = group.loads.size();
    if (layer_.has_vectors) {
      const int64_t run = machine_.columns * 4, half = vector_tile_lines(machine_) / 2;
      Action a = load(places_.vectors, tile_of_all(first) * 2 * run, run, vector_line(0));
      repeat_inner(a, 2 * (last - first), run, half);
      group.loads.push_back(a);
    }
    for (int64_t tile = first; layer_.has_residual && tile < last; ++tile) {
      const int64_t pitch = layer_.all_outputs() * bytes_;
      Action a = load(places_.residual, result_row() * pitch + output_of_all(tile) * bytes_, columns(tile) * bytes_,
                      residual_line(tile - first));
      repeat_inner(a, block_rows(), pitch, residual_lines(layer_, machine_));
      group.loads.push_back(a);
    }
    group.vector_loads = group.loads.size() - before;
  }

  TileWindow window(size_t dim, int64_t first, int64_t last, int64_t tap, int64_t size) const {
    const int64_t shift = tap * layer_.dilation[dim] - layer_.padding[dim], stride = layer_.stride[dim];
    const int64_t begin = std::max(first, shift >= 0 ? 0 : ceil_div(-shift, stride));
    const int64_t end = std::min(last, size - 1 - shift < 0 ? 0 : (size - 1 - shift) / stride + 1);
    if (begin >= end) return {};
    return {begin - first, end - first, begin * stride + shift};
  }

  // One step: a channel tile of the chunk and a tap of the window.
  Action multiply(int64_t chunk_first, int64_t chunk_tiles, int64_t step, int64_t tile_of_set, int64_t weights) const {
    const int64_t tile = step / layer_.taps(), tap = step % layer_.taps();
    const TileWindow y = window(0, block_.first, block_.last, tap / layer_.kernel[1], layer_.height);
    const TileWindow x = window(1, 0, layer_.out_width(), tap % layer_.kernel[1], layer_.width);
    const int64_t lines = chunk_tiles * pixel_lines_;
    Action a = action(TENON_TILE_MULTIPLY);
    a.flags = (chunk_first + step > 0 ? TENON_TILE_ACCUMULATE : 0) | (layer_.transposed ? TENON_TILE_TRANSPOSE : 0);
    a.dtype = static_cast<uint32_t>(code_of(layer_.operand));
    a.pad = static_cast<int32_t>(layer_.pad);
    repeat_inner(a, layer_.out_width(), 0, layer_.stride[1] * lines);
    repeat_outer(a, block_.last - block_.first, 0, layer_.stride[0] * layer_.width * lines);
    a.line = static_cast<uint32_t>(x_line_ + tile * pixel_lines_);
    if (y.last > 0 && x.last > 0) {
      a.line += static_cast<uint32_t>(((y.position - block_.input.first) * layer_.width + x.position) * lines);
      a.outer_first = static_cast<uint32_t>(y.first), a.outer_last = static_cast<uint32_t>(y.last);
      a.inner_first = static_cast<uint32_t>(x.first), a.inner_last = static_cast<uint32_t>(x.last);
    }
    a.accumulator = accumulator(tile_of_set);
    a.weights = static_cast<uint32_t>(weights);
    a.weight_lines = static_cast<int32_t>(tile_lines_ / (layer_.transposed ? machine_.columns : machine_.rows));
    return a;
  }

  uint32_t accumulator(int64_t tile_of_set) const {
    return static_cast<uint32_t>(set_ % 2 * (machine_.accumulator_rows / 2) + tile_of_set * block_rows());
  }

  void store(int64_t tile, int64_t tile_of_set, TileGroup& group) const {
    const bool clamps = layer_.low || layer_.high;
    constexpr float kEnd = std::numeric_limits<float>::infinity();
    const uint32_t vectors = layer_.has_vectors ? TENON_TILE_BIAS | TENON_TILE_SCALE : 0;
    const uint32_t steps = vectors | (layer_.has_residual ? TENON_TILE_RESIDUAL : 0) | (clamps ? TENON_TILE_CLAMP : 0);
    if (steps != 0 || layer_.zero_point != 0) {
      Action a = action(TENON_TILE_EPILOGUE);
      a.zero_point = static_cast<int32_t>(layer_.zero_point);
      a.epilogues = vectors;
      a.line = static_cast<uint32_t>(layer_.has_vectors ? vector_line(tile_of_set) : 0);
      a.low = layer_.low.value_or(-kEnd);
      a.high = layer_.high.value_or(kEnd);
      a.residual_scale = static_cast<float>(layer_.residual_scale);
      a.residual_zero_point = static_cast<int32_t>(layer_.residual_zero_point);
      group.stores.push_back(a);
    }
    Action a = action(TENON_TILE_STORE);
    const int64_t pitch = layer_.all_outputs() * out_bytes_;
    a.buffer = places_.result.buffer;
    a.offset = places_.result.offset + result_row() * pitch + output_of_all(tile) * out_bytes_;
    a.run = static_cast<uint32_t>(columns(tile));
    a.dtype = static_cast<uint32_t>(code_of(layer_.output));
    a.epilogues = steps;
    a.flags = layer_.is_integer() ? TENON_TILE_INTEGERS : 0;
    a.line = static_cast<uint32_t>(layer_.has_residual ? residual_line(tile_of_set) : 0);
    repeat_inner(a, layer_.out_width(), pitch, 0);
    repeat_outer(a, block_.last - block_.first, pitch * layer_.out_width(), 0);
    a.accumulator = accumulator(tile_of_set);
    group.stores.push_back(a);
  }

  // ---- groups ----

  // Turns to the buffer that has the chunk; loads it if neither has.
  void bring_x(int64_t first, int64_t last, TileGroup& group) {
    const std::array<int64_t, 4> key = {group_, block_.image, blocks_.whole_image ? 0 : block_.first, first};
    if (key == x_key_) return;
    x_key_ = key;
    x_line_ = x_buffers_[x_turn_++ % 2];
    load_x(first, last, group);
  }

  void emit_set(int64_t tile) {
    const int64_t last_tile = std::min(tile + blocks_.set_tiles, output_tiles_);
    const size_t first_group = groups_.size();
    for (int64_t chunk = 0; chunk < channel_tiles_; chunk += blocks_.chunk_tiles)
      emit_chunk(tile, last_tile, chunk, std::min(chunk + blocks_.chunk_tiles, channel_tiles_), first_group);
    for (int64_t t = tile; t < last_tile; ++t) store(t, t - tile, groups_.back());
    ++set_;
  }

  void emit_chunk(int64_t tile, int64_t last_tile, int64_t chunk, int64_t last_chunk, size_t first_group) {
    const int64_t steps = (last_chunk - chunk) * layer_.taps(), all = steps * (last_tile - tile);
    for (int64_t at = 0; at < all; at += blocks_.group_steps) {
      TileGroup group{.set = set_, .begins_set = groups_.size() == first_group};
      bring_x(chunk, last_chunk, group);
      const int64_t end = std::min(at + blocks_.group_steps, all);
      const int64_t buffer = weight_buffers_[groups_.size() % 2];
      const bool is_run = layer_.packed && last_chunk - chunk == channel_tiles_;  // of tiles that follow each other
      if (is_run) load_packed(tile, at, end, buffer, group);
      for (int64_t next = at; next < end;) {
        const int64_t t = next / steps, first = next % steps, last = std::min(steps, first + end - next);
        const int64_t line = buffer + (next - at) * tile_lines_;
        const int64_t begin = chunk * layer_.taps();
        if (!is_run) load_weights(tile + t, begin + first, begin + last, line, group);
        for (int64_t step = first; step < last; ++step)
          group.multiplies.push_back(multiply(chunk, last_chunk - chunk, step, t, line + (step - first) * tile_lines_));
        next += last - first;
      }
      if (group.begins_set && has_vectors()) load_vectors(tile, last_tile, group);
      groups_.push_back(std::move(group));
    }
  }

  // ---- tokens ----

  void add_tokens(bool is_first, bool is_last) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      TileGroup& group = groups_[g];
      group.multiplies.front().wait |= TENON_UNIT_LOAD;
      group.loads[group.loads.size() - 1 - group.vector_loads].signal |= TENON_UNIT_COMPUTE;
      if (g >= 2) group.loads.front().wait |= TENON_UNIT_COMPUTE;
      if (g + 2 < groups_.size()) group.multiplies.back().signal |= TENON_UNIT_LOAD;
      if (group.begins_set && group.set >= 2) group.multiplies.front().wait |= TENON_UNIT_STORE;
      if (group.vector_loads > 0) {
        if (group.set >= 2) group.loads[group.loads.size() - group.vector_loads].wait |= TENON_UNIT_STORE;
        group.loads.back().signal |= TENON_UNIT_STORE;
      }
      if (!group.stores.empty()) add_store_tokens(group);
    }
    if (!is_first) groups_.front().loads.front().wait |= TENON_UNIT_COMPUTE | TENON_UNIT_STORE;
    if (is_last) return;
    groups_.back().multiplies.back().signal |= TENON_UNIT_LOAD;
    groups_.back().stores.back().signal |= TENON_UNIT_LOAD;
  }

  void add_store_tokens(TileGroup& group) const {
    group.multiplies.back().signal |= TENON_UNIT_STORE;
    group.stores.front().wait |= TENON_UNIT_COMPUTE | (has_vectors() ? TENON_UNIT_LOAD : 0);
    if (group.set + 2 >= set_) return;
    group.stores.back().signal |= TENON_UNIT_COMPUTE | (has_vectors() ? TENON_UNIT_LOAD : 0);
  }

  // The loads of a group come before the multiplications of the group before it.
  void append(std::vector<Action>& actions) const {
    const auto add = [&](const std::vector<Action>& more) { actions.insert(actions.end(), more.begin(), more.end()); };
    add(groups_.front().loads);
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (g + 1 < groups_.size()) add(groups_[g + 1].loads);
      add(groups_[g].multiplies);
      add(groups_[g].stores);
    }
  }

  const TileLayer& layer_;
  const tenon_tile_machine& machine_;
  const LayerPlaces& places_;
  uint32_t node_;
  TileBlocks blocks_;
  int64_t bytes_, out_bytes_, channel_tiles_, output_tiles_, pixel_lines_, tile_lines_;
  std::array<int64_t, 2> weight_buffers_ = {}, vector_buffers_ = {}, x_buffers_ = {};
  int64_t group_ = 0;
  Block block_;
  std::array<int64_t, 4> x_key_ = {-1, -1, -1, -1};
  int64_t x_line_ = 0;
  size_t x_turn_ = 0;
  size_t set_ = 0;
  std::vector<TileGroup> groups_;
};

}  // namespace

void emit_layer(const TileLayer& layer, const tenon_tile_machine& machine, const LayerPlaces& places, uint32_t node,
                bool is_first, bool is_last, std::vector<tenon_tile_action>& actions) {
  LayerEmitter(layer, machine, places, node).emit(is_first, is_last, actions);
}

}  // namespace tenon
