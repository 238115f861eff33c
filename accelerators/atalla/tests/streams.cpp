#include "streams.h"

#include <algorithm>
#include <stdexcept>

namespace atalla {

namespace {

struct Group {
  std::vector<Load> loads;
  std::vector<Matmul> matmuls;
  std::vector<Command> stores;
};

// Output rows that are computed together, and the input rows that they need.
struct Block {
  uint32_t first, last, input_first, input_last;
  uint32_t line;  // of the input
  bool is_loaded;
};

class Emitter {
 public:
  Emitter(const Machine& machine, const Layer& layer) : machine_(machine), layer_(layer) {
    lines_per_tile_ = layer.element_bytes();
    pixel_lines_ = rounded(layer.channels, machine.size) / machine.size * lines_per_tile_;
    eighth_ = machine.scratchpad_lines / 8;
    steps_ = layer.kernel * layer.kernel * (pixel_lines_ / lines_per_tile_);
    chunk_ = std::min(steps_, (eighth_ - 16) / (machine.size * lines_per_tile_));
  }

  std::vector<Command> emit() {
    for (const Block& block : blocks())
      for (uint32_t tile = 0; tile < rounded(layer_.outputs, machine_.size) / machine_.size; ++tile)
        emit_tile(block, tile);
    return ordered();
  }

 private:
  std::vector<Block> blocks() const {
    const uint32_t half_rows = machine_.accumulator_rows / 2;
    const uint32_t row_lines = layer_.width * pixel_lines_;
    const bool resident = layer_.height * row_lines <= 5 * eighth_;
    const uint32_t limit = (resident ? 5 * eighth_ : 5 * eighth_ / 2 & ~1U);
    uint32_t rows = std::min(half_rows / layer_.out_width(), layer_.out_height());
    if (layer_.store_flags & Store::kResidual)
      rows = std::min(rows, eighth_ / 2 / lines_per_tile_ / layer_.out_width());
    while (!resident && rows > 1 && ((rows - 1) * layer_.stride + layer_.kernel) * row_lines > limit) --rows;
    const uint32_t most =
        resident ? layer_.height : std::min(layer_.height, (rows - 1) * layer_.stride + layer_.kernel);
    if (rows == 0 || most * row_lines > limit) throw std::runtime_error("the layer's rows do not fit");
    std::vector<Block> result;
    for (uint32_t first = 0; first < layer_.out_height(); first += rows) {
      const uint32_t last = std::min(first + rows, layer_.out_height());
      Block block{first, last, 0, layer_.height, 0, first == 0};
      if (!resident) {
        const int64_t top = int64_t{first} * layer_.stride - layer_.padding;
        block.input_first = static_cast<uint32_t>(std::max<int64_t>(0, top));
        block.input_last = std::min(layer_.height, (last - 1) * layer_.stride - layer_.padding + layer_.kernel);
        block.line = result.size() % 2 * limit;
        block.is_loaded = true;
      }
      result.push_back(block);
    }
    return result;
  }

  void load_input(const Block& block, Group& group) const {
    const uint32_t pixel_bytes = layer_.channels * layer_.element_bytes();
    const bool whole_rows = pixel_bytes == pixel_lines_ * machine_.size && layer_.width * pixel_bytes < 65536;
    if (rounded(pixel_bytes, machine_.size) != pixel_lines_ * machine_.size)
      throw std::runtime_error("the last bf16 tile of a pixel has no second line");
    Load load;
    set_address(load, layer_.input + uint64_t{block.input_first} * layer_.width * pixel_bytes);
    load.line = static_cast<uint16_t>(block.line);
    load.pad = layer_.pad;
    load.outer = static_cast<uint16_t>(block.input_last - block.input_first);
    load.outer_stride = static_cast<int32_t>(layer_.width * pixel_bytes);
    load.outer_lines = static_cast<int16_t>(layer_.width * pixel_lines_);
    load.run = static_cast<uint16_t>(whole_rows ? layer_.width * pixel_bytes : pixel_bytes);
    load.inner = static_cast<uint16_t>(whole_rows ? 1 : layer_.width);
    load.inner_stride = static_cast<int32_t>(pixel_bytes);
    load.inner_lines = static_cast<int16_t>(pixel_lines_);
    group.loads.push_back(load);
  }

  uint32_t half() const { return tiles_ % 2; }
  uint32_t vectors_line() const { return (6 + half()) * eighth_ + eighth_ - 16; }
  uint32_t residual_line() const { return 5 * eighth_ + half() * (eighth_ / 2); }
  uint32_t columns(uint32_t tile) const { return std::min(machine_.size, layer_.outputs - tile * machine_.size); }

  void load_epilogue(const Block& block, uint32_t tile, Group& group) const {
    const size_t before = group.loads.size();
    if (layer_.store_flags & Store::kResidual) {
      Load load;
      const uint32_t pixel_bytes = layer_.outputs * layer_.element_bytes();
      set_address(load, layer_.residual + uint64_t{block.first} * layer_.out_width() * pixel_bytes +
                            uint64_t{tile} * machine_.size * layer_.element_bytes());
      load.line = static_cast<uint16_t>(residual_line());
      load.run = static_cast<uint16_t>(columns(tile) * layer_.element_bytes());
      load.inner = static_cast<uint16_t>((block.last - block.first) * layer_.out_width());
      load.inner_stride = static_cast<int32_t>(pixel_bytes);
      load.inner_lines = static_cast<int16_t>(lines_per_tile_);
      group.loads.push_back(load);
    }
    Load load;
    set_address(load, layer_.vectors + uint64_t{tile} * 8 * machine_.size);
    load.line = static_cast<uint16_t>(vectors_line());
    load.run = static_cast<uint16_t>(8 * machine_.size);
    group.loads.push_back(load);
    if (tiles_ >= 2) group.loads[before].tokens |= wait(Unit::kStore);
    group.loads.back().tokens |= signal(Unit::kStore);
  }

  void load_weights(uint32_t tile, uint32_t first, uint32_t count, Group& group) const {
    const uint32_t tile_bytes = machine_.size * machine_.size * layer_.element_bytes();
    Load load;
    set_address(load, layer_.weights + (uint64_t{tile} * steps_ + first) * tile_bytes);
    load.line = static_cast<uint16_t>((6 + groups_.size() % 2) * eighth_);
    load.run = static_cast<uint16_t>(tile_bytes);
    load.inner = static_cast<uint16_t>(count);
    load.inner_stride = static_cast<int32_t>(tile_bytes);
    load.inner_lines = static_cast<int16_t>(machine_.size * lines_per_tile_);
    group.loads.push_back(load);
  }

  // The window of output positions first to last - 1 whose input position (times stride, plus tap, minus padding) is
  // within the image, and the input position of its first.
  struct Window {
    uint32_t first, last, position;
  };
  Window window(uint32_t first, uint32_t last, uint32_t tap, uint32_t image) const {
    Window result{last - first, 0, 0};
    for (uint32_t i = 0; i < last - first; ++i) {
      const int64_t position = int64_t{first + i} * layer_.stride + tap - layer_.padding;
      if (position < 0 || position >= image) continue;
      if (result.last == 0) result = {i, 0, static_cast<uint32_t>(position)};
      result.last = i + 1;
    }
    return result;
  }

  Matmul matmul(const Block& block, uint32_t step, uint32_t chunk_step) const {
    const uint32_t k_tiles = pixel_lines_ / lines_per_tile_;
    const uint32_t tap = step / k_tiles;
    const Window y = window(block.first, block.last, tap / layer_.kernel, layer_.height);
    const Window x = window(0, layer_.out_width(), tap % layer_.kernel, layer_.width);
    Matmul m;
    m.flags = static_cast<uint8_t>((step != 0 ? Matmul::kAccumulate : 0) | (layer_.is_float ? Matmul::kFloat : 0));
    m.pad = layer_.pad;
    m.line = static_cast<uint16_t>(block.line +
                                   ((y.position - block.input_first) * layer_.width + x.position) * pixel_lines_ +
                                   step % k_tiles * lines_per_tile_);
    m.inner_lines = static_cast<int16_t>(layer_.stride * pixel_lines_);
    m.outer_lines = static_cast<int16_t>(layer_.stride * layer_.width * pixel_lines_);
    m.inner = static_cast<uint16_t>(layer_.out_width());
    m.outer = static_cast<uint16_t>(block.last - block.first);
    m.inner_first = static_cast<uint16_t>(x.first);
    m.inner_last = static_cast<uint16_t>(x.last);
    m.outer_first = static_cast<uint16_t>(y.first);
    m.outer_last = static_cast<uint16_t>(y.last);
    m.accumulator = static_cast<uint16_t>(half() * (machine_.accumulator_rows / 2));
    m.weights =
        static_cast<uint16_t>((6 + groups_.size() % 2) * eighth_ + chunk_step * machine_.size * lines_per_tile_);
    m.weight_lines = static_cast<int16_t>(lines_per_tile_);
    return m;
  }

  void store(const Block& block, uint32_t tile, Group& group) const {
    Epilogue epilogue = layer_.epilogue;
    epilogue.flags = Epilogue::kVectors;
    epilogue.line = static_cast<uint16_t>(vectors_line());
    epilogue.tokens = wait(Unit::kLoad);
    group.stores.push_back(encode(epilogue));
    Store s;
    const uint32_t pixel_bytes = layer_.outputs * bytes_of(layer_.output);
    s.flags = static_cast<uint8_t>(layer_.store_flags | static_cast<uint8_t>(layer_.output) |
                                   (layer_.is_float ? Store::kFloat : 0));
    if (layer_.is_float && layer_.store_flags & Store::kResidual) s.flags |= Store::kResidualBf16;
    s.tokens = static_cast<uint8_t>(wait(Unit::kCompute) | signal(Unit::kCompute) | signal(Unit::kLoad));
    set_address(s, layer_.result + uint64_t{block.first} * layer_.out_width() * pixel_bytes +
                       uint64_t{tile} * machine_.size * bytes_of(layer_.output));
    s.inner_stride = static_cast<int32_t>(pixel_bytes);
    s.outer_stride = static_cast<int32_t>(pixel_bytes * layer_.out_width());
    s.columns = static_cast<uint16_t>(columns(tile));
    s.inner = static_cast<uint16_t>(layer_.out_width());
    s.outer = static_cast<uint16_t>(block.last - block.first);
    s.accumulator = static_cast<uint16_t>(half() * (machine_.accumulator_rows / 2));
    s.residual = static_cast<uint16_t>(residual_line());
    group.stores.push_back(encode(s));
  }

  void emit_tile(const Block& block, uint32_t tile) {
    for (uint32_t step = 0; step < steps_; step += chunk_) {
      const uint32_t count = std::min(chunk_, steps_ - step);
      Group group;
      if (step == 0 && tile == 0 && block.is_loaded) load_input(block, group);
      if (step == 0) load_epilogue(block, tile, group);
      load_weights(tile, step, count, group);
      if (groups_.size() >= 2) group.loads.front().tokens |= wait(Unit::kCompute);
      group.loads.back().tokens |= signal(Unit::kCompute);
      for (uint32_t k = 0; k < count; ++k) group.matmuls.push_back(matmul(block, step + k, k));
      group.matmuls.front().tokens |= wait(Unit::kLoad);
      if (step == 0 && tiles_ >= 2) group.matmuls.front().tokens |= wait(Unit::kStore);
      group.matmuls.back().tokens |= signal(Unit::kLoad);
      if (step + count == steps_) {
        group.matmuls.back().tokens |= signal(Unit::kStore);
        store(block, tile, group);
      }
      groups_.push_back(std::move(group));
    }
    ++tiles_;
  }

  std::vector<Command> ordered() const {
    std::vector<Command> result;
    const auto add_loads = [&](size_t g) {
      if (g < groups_.size())
        for (const Load& load : groups_[g].loads) result.push_back(encode(load));
    };
    add_loads(0);
    for (size_t g = 0; g < groups_.size(); ++g) {
      add_loads(g + 1);
      for (const Matmul& m : groups_[g].matmuls) result.push_back(encode(m));
      result.insert(result.end(), groups_[g].stores.begin(), groups_[g].stores.end());
    }
    return result;
  }

  const Machine& machine_;
  const Layer& layer_;
  uint32_t lines_per_tile_, pixel_lines_, eighth_, steps_, chunk_;
  uint32_t tiles_ = 0;  // output tiles so far
  std::vector<Group> groups_;
};

}  // namespace

uint32_t rounded(uint32_t count, uint32_t size) { return (count + size - 1) / size * size; }

uint64_t weight_bytes(const Machine& machine, const Layer& layer) {
  return uint64_t{rounded(layer.outputs, machine.size)} * rounded(layer.channels, machine.size) * layer.kernel *
         layer.kernel * layer.element_bytes();
}

std::vector<Command> emit(const Machine& machine, const Layer& layer) { return Emitter(machine, layer).emit(); }

}  // namespace atalla
