#include "tiles/origin.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph/value_names.h"

namespace tenon {
namespace {

using Action = tenon_tile_action;

struct Repetition {
  int64_t outer, inner;
};

class OriginFinder {
 public:
  OriginFinder(const Graph& segment, const TileCode& code, const tenon_tile_machine& machine)
      : segment_(segment), code_(code), machine_(machine) {
    for (uint32_t id = 0; id < segment.value_count(); ++id) {
      if (code.scratch_offsets[id] < 0) buffers_.push_back(id);
    }
  }

  std::optional<TileOrigin> find(size_t action, int64_t address) const {
    const Action& a = code_.actions[action];
    if (a.kind == TENON_TILE_LOAD) return of_load(a, address);
    if (a.kind == TENON_TILE_MULTIPLY) return of_multiply(action, address);
    if (a.kind == TENON_TILE_STORE) return of_store(a, address);
    return std::nullopt;
  }

 private:
  // The repetition whose places base + outer * outer_step + inner * inner_step, and `size` from there, hold the place.
  static std::optional<Repetition> repetition(const Action& a, int64_t base, int64_t outer_step, int64_t inner_step,
                                              int64_t size, int64_t place) {
    for (int64_t i = 0; i < a.outer; ++i) {
      for (int64_t j = 0; j < a.inner; ++j) {
        const int64_t first = base + i * outer_step + j * inner_step;
        if (place >= first && place < first + size) return Repetition{i, j};
      }
    }
    return std::nullopt;
  }

  std::optional<TileOrigin> of_load(const Action& a, int64_t address) const {
    const int64_t line = address / machine_.line_bytes;
    const auto at = loaded_by(a, line);
    if (!at) return std::nullopt;
    return TileOrigin{at->outer, at->inner, address % machine_.line_bytes, source_of(a, *at, line)};
  }

  std::optional<Repetition> loaded_by(const Action& a, int64_t line) const {
    return repetition(a, a.line, a.outer_lines, a.inner_lines, ceil_div(a.run, machine_.line_bytes), line);
  }

  std::optional<TileElement> source_of(const Action& a, Repetition at, int64_t line) const {
    if ((a.flags & TENON_TILE_ZEROS) != 0) return std::nullopt;
    const int64_t first = a.line + at.outer * a.outer_lines + at.inner * a.inner_lines;
    return element_at(
        a, a.offset + at.outer * a.outer_stride + at.inner * a.inner_stride + (line - first) * machine_.line_bytes);
  }

  // What the last load before an action brought to a line.
  std::optional<TileElement> loaded_before(size_t action, int64_t line) const {
    for (size_t i = action; i-- > 0;) {
      const Action& a = code_.actions[i];
      if (a.kind != TENON_TILE_LOAD) continue;
      if (const auto at = loaded_by(a, line)) return source_of(a, *at, line);
    }
    return std::nullopt;
  }

  std::optional<TileOrigin> of_multiply(size_t action, int64_t address) const {
    const Action& a = code_.actions[action];
    const int64_t row = address / (4 * machine_.columns) - a.accumulator;
    if (row < 0 || row >= int64_t{a.outer} * a.inner) return std::nullopt;
    TileOrigin origin{row / a.inner, row % a.inner, address / 4 % machine_.columns};
    const int64_t i = origin.outer - a.outer_first, j = origin.inner - a.inner_first;
    if (i >= 0 && origin.outer < a.outer_last && j >= 0 && origin.inner < a.inner_last)
      origin.reads = loaded_before(action, a.line + i * a.outer_lines + j * a.inner_lines);
    origin.weights = loaded_before(action, a.weights);
    origin.becomes = stored_after(action, a.accumulator + row, origin.element);
    return origin;
  }

  std::optional<TileElement> stored_after(size_t action, int64_t row, int64_t column) const {
    for (size_t i = action; i < code_.actions.size(); ++i) {
      const Action& a = code_.actions[i];
      const int64_t at = row - a.accumulator;
      if (a.kind != TENON_TILE_STORE || at < 0 || at >= int64_t{a.outer} * a.inner) continue;
      if (column >= a.run) return std::nullopt;
      return element_at(a, a.offset + at / a.inner * a.outer_stride + at % a.inner * a.inner_stride +
                               column * size_of(static_cast<DType>(a.dtype)));
    }
    return std::nullopt;
  }

  std::optional<TileOrigin> of_store(const Action& a, int64_t address) const {
    const int64_t size = size_of(static_cast<DType>(a.dtype));
    const auto at = repetition(a, a.offset, a.outer_stride, a.inner_stride, a.run * size, address);
    if (!at) return std::nullopt;
    const int64_t first = a.offset + at->outer * a.outer_stride + at->inner * a.inner_stride;
    TileOrigin origin{at->outer, at->inner, (address - first) / size};
    origin.becomes = element_at(a, address);
    return origin;
  }

  // ---- tensors ----

  std::optional<TileElement> element_at(const Action& a, int64_t offset) const {
    if (a.buffer != TENON_SCRATCH)
      return a.buffer < buffers_.size() ? element_of(buffers_[a.buffer], offset) : std::nullopt;
    if (a.node >= segment_.nodes().size()) return std::nullopt;
    const Node& node = segment_.nodes()[a.node];  // Values that are not there together may share scratch memory.
    for (const auto& values : {node.operands, node.results}) {
      for (ValueRef value : values) {
        if (!value || code_.scratch_offsets[value.id] < 0) continue;
        if (auto element = element_of(value.id, offset - code_.scratch_offsets[value.id])) return element;
      }
    }
    return std::nullopt;
  }

  std::optional<TileElement> element_of(uint32_t value, int64_t offset) const {
    const TensorType& type = segment_.type({value});
    int64_t position = offset / size_of(type.dtype);
    TileElement element{value, std::vector<int64_t>(type.shape.size())};
    if (offset < 0) return std::nullopt;
    for (size_t dim = type.shape.size(); dim-- > 0;) {
      const int64_t size = type.shape[dim].constant();
      if (size == 0) return std::nullopt;
      element.index[dim] = position % size;
      position /= size;
    }
    return position == 0 ? std::optional(std::move(element)) : std::nullopt;
  }

  const Graph& segment_;
  const TileCode& code_;
  const tenon_tile_machine& machine_;
  std::vector<uint32_t> buffers_;  // values by buffer
};

}  // namespace

std::string to_string(const Graph& segment, const TileElement& element) {
  return fmt::format("{}[{}]", value_names(segment)[element.value], fmt::join(element.index, ", "));
}

std::optional<TileOrigin> origin_of(const Graph& segment, const TileCode& code, const tenon_tile_machine& machine,
                                    size_t action, int64_t address) {
  if (action >= code.actions.size() || code.scratch_offsets.size() != segment.value_count()) return std::nullopt;
  return OriginFinder(segment, code, machine).find(action, address);
}

}  // namespace tenon
