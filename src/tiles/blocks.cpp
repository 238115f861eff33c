#include "tiles/blocks.h"

#include <algorithm>
#include <numeric>

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
    const int64_t bytes = std::max<int64_t>(layer_.stored_channels, layer_.all_outputs()) * 4;
    const int64_t row = std::max(layer_.stored[1] * layer_.skip[0], layer_.out_width());
    return std::max(layer_.width, layer_.out_width()) <= machine_.max_count && row <= machine_.max_stride / bytes &&
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
    const bool is_one = layer_.batch * layer_.groups == 1 && chunks == 1 && (whole || blocks == 1);
    b.x_buffers = is_one ? 1 : kTurns;
    b.accumulators = rows * layer_.out_width() * set;
    const int64_t vectors = layer_.has_vectors ? set * vector_tile_lines(machine_) : 0;
    b.vector_lines =
        vectors + vectors % 2 + (layer_.has_residual ? b.accumulators * residual_lines(layer_, machine_) : 0);
    const int64_t tile = weight_tile_lines(layer_, machine_);
    b.weight_lines = std::max(bank_, tile);
    b.group_steps = group_steps(b.weight_lines / tile, set, chunk * layer_.taps());
    const int64_t lines = b.x_lines * b.x_buffers + kTurns * (b.weight_lines + b.vector_lines);
    if (lines > machine_.lines - kSlack || !do_steps_fit(b, tall, pixel)) return;
    b.cycles = cycles(b, tall, blocks, chunks);
    if (!best_ || b.cycles < best_->cycles) best_ = b;
  }

  // At most `room`: whole tiles if one fits, and all groups of a set alike. A long one would wait for its buffer while
  // a short one is computed.
  static int64_t group_steps(int64_t room, int64_t set_tiles, int64_t steps_of_tile) {
    const int64_t unit = room >= steps_of_tile ? steps_of_tile : 1, units = set_tiles * steps_of_tile / unit;
    const int64_t groups = ceil_div(units, room / unit);
    return ceil_div(units, groups) * unit;
  }

  bool do_steps_fit(const TileBlocks& b, int64_t tall, int64_t pixel) const {
    const int64_t step = std::max(layer_.stride[0], layer_.dilation[0]) * layer_.width * pixel;
    return step <= machine_.max_line_step && tall <= machine_.max_count && b.accumulators <= machine_.max_count &&
           b.chunk_tiles * machine_.rows * size_of(layer_.operand) <= machine_.max_run &&
           weight_tile_lines(layer_, machine_) * b.group_steps <= machine_.max_line_step * int64_t{2};
  }

  // ---- time ----

  // Groups of multiplications of a block by what is loaded for them beside their weights.
  struct Groups {
    double all, with_x, with_vectors;
  };
  Groups groups_of(const TileBlocks& b, int64_t chunks) const {
    const double sets = static_cast<double>(ceil_div(output_tiles_, b.set_tiles));
    const double of_chunk = static_cast<double>(ceil_div(b.set_tiles * b.chunk_tiles * layer_.taps(), b.group_steps));
    const double turns = sets * static_cast<double>(chunks);
    return {.all = turns * of_chunk, .with_x = b.whole_image ? 0 : chunks > 1 ? turns : 1, .with_vectors = sets};
  }

  // The units run side by side: a group is computed while the next one is loaded. Before the first group there are
  // loads alone, after the last one stores.
  double cycles(const TileBlocks& b, int64_t tall, int64_t blocks, int64_t chunks) const {
    const double block_rows =
        static_cast<double>(layer_.out_height() * layer_.out_width()) / static_cast<double>(blocks);
    const auto steps = static_cast<double>(output_tiles_ * channel_tiles_ * layer_.taps());
    const Groups groups = groups_of(b, chunks);
    const double compute = steps / groups.all * std::max(block_rows, static_cast<double>(machine_.rows + 2));
    const double weights = steps / groups.all * tile_beats() + weight_loads(b);
    const double x = static_cast<double>(tall * layer_.width) * pixel_beats(b.chunk_tiles);
    const double vectors = vector_beats(block_rows) / groups.with_vectors;
    const double both = std::min(groups.with_x, groups.with_vectors);
    const double neither = groups.all - groups.with_x - groups.with_vectors + both;
    // A group is loaded to where the one two before it was.
    const double handover = machine_.dma_latency + kHandover;
    const auto period = [&](double loads) { return std::max({compute, loads, (compute + loads + handover) / 2}); };
    const double computed = both * period(weights + x + vectors) + (groups.with_x - both) * period(weights + x) +
                            (groups.with_vectors - both) * period(weights + vectors) + neither * period(weights);
    const double row = row_beats(size_of(layer_.output));
    const double stored = (block_rows * row + kHandover) * static_cast<double>(output_tiles_);
    const auto turns = static_cast<double>(layer_.batch * layer_.groups * blocks);
    return turns * std::max(computed, stored) + x + weights + handover + static_cast<double>(b.accumulators) * row +
           machine_.rows;
  }

  // Commands for the weights of a group. Tiles of all channels follow each other in memory.
  double weight_loads(const TileBlocks& b) const {
    if (layer_.packed && b.chunk_tiles == channel_tiles_) return 1;
    return static_cast<double>(ceil_div(b.group_steps, b.chunk_tiles * layer_.taps()));
  }

  // Biases, scales and residuals of all outputs of a block.
  double vector_beats(double block_rows) const {
    const auto tiles = static_cast<double>(output_tiles_);
    const double vectors = static_cast<double>(vector_tile_lines(machine_)) * line_beats();
    const double residuals = block_rows * row_beats(size_of(layer_.operand));
    return tiles * ((layer_.has_vectors ? vectors : 0) + (layer_.has_residual ? residuals : 0));
  }

  // Mean beats of memory that runs of `bytes` touch, which begin `distance` bytes apart. `step` lies between the places
  // of a beat where they begin.
  double beats(int64_t bytes, int64_t distance) const {
    const int64_t step = std::gcd<int64_t>(distance, machine_.dma_bytes);
    const int64_t touched = (ceil_div(bytes, step) - 1) * step + machine_.dma_bytes;
    return static_cast<double>(touched) / static_cast<double>(machine_.dma_bytes);
  }
  // Of a pixel's channels in a chunk, line by line, and of the zeros that fill its lines.
  double pixel_beats(int64_t tiles) const {
    const int64_t bytes = std::min(tiles * machine_.rows, layer_.channels) * size_of(layer_.operand);
    const int64_t distance = layer_.stored_channels * layer_.skip[1] * size_of(layer_.operand);
    const int64_t lines = bytes / machine_.line_bytes, rest = bytes % machine_.line_bytes;
    const int64_t zeros = tiles * pixel_lines(layer_, machine_) - lines - (rest > 0 ? 1 : 0);
    return static_cast<double>(lines) * beats(machine_.line_bytes, distance) + (rest > 0 ? beats(rest, distance) : 0) +
           static_cast<double>(zeros) * line_beats();
  }
  double tile_beats() const { return static_cast<double>(weight_tile_lines(layer_, machine_)) * line_beats(); }
  double line_beats() const { return beats(machine_.line_bytes, machine_.line_bytes); }
  // Of a row of results or residuals.
  double row_beats(int64_t element_bytes) const {
    const int64_t bytes = std::min<int64_t>(machine_.columns, layer_.outputs) * element_bytes;
    return beats(bytes, layer_.all_outputs() * element_bytes);
  }

  static constexpr double kHandover = 16;  // Cycles until a unit goes on that waits for another one.
  static constexpr int64_t kSlack = 6;     // that even lines may cost

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
