#include "tiles/blocks.h"

#include <algorithm>

namespace tenon {
namespace {

constexpr int64_t kTurns = 2;  // buffers that are used in turn

// 1 .. count, without sizes that make as many pieces as a smaller one.
std::vector<int64_t> piece_sizes(int64_t count) {
  std::vector<int64_t> sizes;
  for (int64_t pieces = count; pieces >= 1;) {
    const int64_t size = ceil_div(count, pieces);
    if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
    if (pieces == 1) break;
    // The next number of pieces that needs a larger size.
    pieces = std::min(pieces - 1, ceil_div(count, size + 1));
  }
  return sizes;
}

class Chooser {
 public:
  Chooser(const TileLayer& layer, const tenon_tile_machine& machine)
      : layer_(layer),
        machine_(machine),
        channel_tiles_(ceil_div(layer.channels, machine.rows)),
        output_tiles_(ceil_div(layer.outputs, machine.columns)),
        bank_(machine.lines / std::max<int64_t>(machine.line_banks, 8)) {}

  std::optional<TileBlocks> best() {
    if (!are_strides_possible()) return std::nullopt;
    const std::vector<int64_t> sets = piece_sizes(output_tiles_), chunks = piece_sizes(channel_tiles_);
    for (int64_t rows : piece_sizes(layer_.out_height())) {
      if (rows * layer_.out_width() * kTurns > machine_.accumulator_rows || rows > machine_.max_count) break;
      for (int64_t set : sets) {
        if (rows * layer_.out_width() * set * kTurns > machine_.accumulator_rows) break;
        consider(rows, set, channel_tiles_, true);
        for (int64_t chunk : chunks) consider(rows, set, chunk, false);
      }
    }
    return best_;
  }

 private:
  // Between rows of images in memory, and pixels in the scratchpad.
  bool are_strides_possible() const {
    const int64_t bytes = std::max<int64_t>(layer_.channels, layer_.outputs) * 4;
    return std::max(layer_.width, layer_.out_width()) <= machine_.max_count &&
           std::max(layer_.width, layer_.out_width()) <= machine_.max_stride / bytes &&
           layer_.channels <= int64_t{machine_.max_run} * 16;
  }

  void consider(int64_t rows, int64_t set, int64_t chunk, bool whole) {
    TileBlocks b{.rows = rows, .set_tiles = set, .chunk_tiles = chunk, .whole_image = whole};
    const int64_t blocks = ceil_div(layer_.out_height(), rows), chunks = ceil_div(channel_tiles_, chunk);
    if (whole && blocks == 1) return;  // the same without
    const int64_t reach = layer_.dilation[0] * (layer_.kernel[0] - 1);
    const int64_t tall = whole ? layer_.height : std::min(layer_.height, (rows - 1) * layer_.stride[0] + reach + 1);
    const int64_t pixel = pixel_lines(layer_, machine_) * chunk;
    b.x_lines = tall * layer_.width * pixel;
    const bool is_one = layer_.batch == 1 && chunks == 1 && (whole || blocks == 1);
    b.x_buffers = is_one ? 1 : kTurns;
    b.accumulators = rows * layer_.out_width() * set;
    b.vector_lines = (layer_.has_vectors ? set * vector_tile_lines(machine_) : 0) +
                     (layer_.has_residual ? b.accumulators * residual_lines(layer_, machine_) : 0);
    const int64_t tile = weight_tile_lines(layer_, machine_);
    b.weight_lines = std::max(bank_, tile);
    b.group_steps = std::min(b.weight_lines / tile, set * chunk * layer_.taps());
    const int64_t steps_of_tile = chunk * layer_.taps();
    if (b.group_steps >= steps_of_tile) b.group_steps -= b.group_steps % steps_of_tile;
    const int64_t lines = b.x_lines * b.x_buffers + kTurns * (b.weight_lines + b.vector_lines);
    if (lines > machine_.lines - kSlack || !do_steps_fit(b, tall, pixel)) return;
    b.cycles = cycles(b, tall, blocks, chunks);
    if (!best_ || b.cycles < best_->cycles) best_ = b;
  }

  bool do_steps_fit(const TileBlocks& b, int64_t tall, int64_t pixel) const {
    const int64_t step = std::max(layer_.stride[0], layer_.dilation[0]) * layer_.width * pixel;
    return step <= machine_.max_line_step && tall <= machine_.max_count && b.accumulators <= machine_.max_count &&
           b.chunk_tiles * machine_.rows * size_of(layer_.operand) <= machine_.max_run &&
           weight_tile_lines(layer_, machine_) * b.group_steps <= machine_.max_line_step * int64_t{2};
  }

  double cycles(const TileBlocks& b, int64_t tall, int64_t blocks, int64_t chunks) const {
    const auto images = static_cast<double>(layer_.batch);
    const auto block_rows = static_cast<double>(b.rows * layer_.out_width());
    const auto steps = static_cast<double>(output_tiles_ * channel_tiles_ * layer_.taps());
    const auto n_blocks = static_cast<double>(blocks);
    const double compute = images * n_blocks * steps * std::max(block_rows, static_cast<double>(machine_.rows + 2));
    const auto sets = static_cast<double>(ceil_div(output_tiles_, b.set_tiles));
    const double x_block = static_cast<double>(tall * layer_.width * pixel_lines(layer_, machine_) * channel_tiles_);
    const double x_loads = b.whole_image ? 1 : n_blocks * (chunks > 1 ? sets : 1);
    const double weights = n_blocks * steps * static_cast<double>(weight_tile_lines(layer_, machine_));
    const double vectors = n_blocks * sets * static_cast<double>(b.vector_lines);
    const double beats = static_cast<double>(ceil_div(machine_.line_bytes, machine_.dma_bytes));
    const double loads = images * (x_block * x_loads + weights + vectors) * beats;
    const double start = static_cast<double>(b.x_lines + b.group_steps * weight_tile_lines(layer_, machine_)) * beats;
    // A set's results leave after its last multiplication, while the next set is computed.
    const double last = static_cast<double>(b.accumulators) * 2;
    const double groups = images * n_blocks * sets * static_cast<double>(chunks);
    return std::max(compute, loads) + start + last + groups * 8;
  }

  static constexpr int64_t kSlack = 6 * 64;  // that the planner's alignment may cost

  const TileLayer& layer_;
  const tenon_tile_machine& machine_;
  int64_t channel_tiles_, output_tiles_;
  int64_t bank_;
  std::optional<TileBlocks> best_;
};

}  // namespace

int64_t pixel_lines(const TileLayer& layer, const tenon_tile_machine& machine) {
  return lines_of(machine, machine.rows, size_of(layer.operand));
}

int64_t weight_tile_lines(const TileLayer& layer, const tenon_tile_machine& machine) {
  const int64_t bytes = size_of(layer.operand);
  return layer.transposed ? machine.columns * lines_of(machine, machine.rows, bytes)
                          : machine.rows * lines_of(machine, machine.columns, bytes);
}

int64_t residual_lines(const TileLayer& layer, const tenon_tile_machine& machine) {
  return lines_of(machine, machine.columns, size_of(layer.operand));
}

int64_t vector_tile_lines(const tenon_tile_machine& machine) { return 2 * lines_of(machine, machine.columns, 4); }

RowRange input_rows(const TileLayer& layer, int64_t first, int64_t last) {
  const int64_t low = first * layer.stride[0] - layer.padding[0];
  const int64_t high = (last - 1) * layer.stride[0] - layer.padding[0] + layer.dilation[0] * (layer.kernel[0] - 1) + 1;
  const RowRange range{std::clamp<int64_t>(low, 0, layer.height), std::clamp<int64_t>(high, 0, layer.height)};
  return range;
}

std::optional<TileBlocks> choose_blocks(const TileLayer& layer, const tenon_tile_machine& machine) {
  return Chooser(layer, machine).best();
}

}  // namespace tenon
