#include "check.h"

#include <algorithm>

namespace atalla {

namespace {

constexpr uint64_t kGranule = 16;    // bytes of memory that races are found by
constexpr size_t kMostTokens = 255;  // of one unit for another, at any time

size_t index(Unit unit) { return static_cast<size_t>(unit); }

template <typename... T>
std::string say(const T&... parts) {
  std::string result;
  const auto add = [&result](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      result += std::to_string(part);
    } else {
      result += part;
    }
  };
  (add(parts), ...);
  return result;
}

// The smallest and largest base + i * outer_step + j * inner_step, for i in [first, last) of both.
struct Extent {
  int64_t low, high;
};
Extent extent(int64_t base, int64_t outer_first, int64_t outer_last, int64_t outer_step, int64_t inner_first,
              int64_t inner_last, int64_t inner_step) {
  const auto [outer_low, outer_high] = std::minmax({outer_first * outer_step, (outer_last - 1) * outer_step});
  const auto [inner_low, inner_high] = std::minmax({inner_first * inner_step, (inner_last - 1) * inner_step});
  return {base + outer_low + inner_low, base + outer_high + inner_high};
}

std::string outside(const char* what, Extent found, int64_t limit) {
  if (found.low >= 0 && found.high < limit) return {};
  return say(what, " ", found.low, " to ", found.high, " are outside of 0 to ", limit - 1);
}

}  // namespace

Checker::Checker(const Machine& machine, uint64_t memory_bytes) : machine_(machine), memory_bytes_(memory_bytes) {
  const auto make = [](const char* what, Unit writer, std::initializer_list<Unit> readers, uint64_t count) {
    Places places{.name = what, .writer = writer, .written = Zeroed<uint32_t>(count)};
    for (const Unit reader : readers) places.read[index(reader)] = Zeroed<uint32_t>(count);
    return places;
  };
  scratchpad_ = make("scratchpad line", Unit::kLoad, {Unit::kCompute, Unit::kStore}, machine.scratchpad_lines);
  accumulators_ = make("accumulator row", Unit::kCompute, {Unit::kStore}, machine.accumulator_rows);
  memory_ = make("memory, in 16 bytes,", Unit::kStore, {Unit::kLoad}, (memory_bytes + kGranule - 1) / kGranule);
}

std::optional<Fault> Checker::check(std::span<const Command> commands) {
  // All earlier streams are done.
  for (Clock& clock : clocks_) clock = ordinals_;
  float_weights_.reset();
  for (auto& from : tokens_)
    for (auto& queue : from) queue.clear();
  for (size_t i = 0; i < commands.size(); ++i) {
    const std::string reason = check_command(commands[i]);
    if (!reason.empty()) return Fault{static_cast<uint32_t>(i), reason};
  }
  return std::nullopt;
}

std::string Checker::check_command(const Command& command) {
  const auto unit = unit_of(command);
  if (!unit) return say("unknown opcode ", int{command.opcode});
  unit_ = *unit;
  std::string reason = take_tokens(command, *unit);
  if (!reason.empty()) return reason;
  ++ordinals_[index(*unit)];
  clocks_[index(*unit)][index(*unit)] = ordinals_[index(*unit)];
  switch (static_cast<Opcode>(command.opcode)) {
    case Opcode::kLoad:
      reason = check_load(decode<Load>(command));
      break;
    case Opcode::kMatmul:
      reason = check_matmul(decode<Matmul>(command));
      break;
    case Opcode::kEpilogue:
      reason = check_epilogue(decode<Epilogue>(command));
      break;
    case Opcode::kStore:
      reason = check_store(decode<Store>(command));
      break;
  }
  return reason.empty() ? give_tokens(command, *unit) : reason;
}

std::string Checker::take_tokens(const Command& command, Unit unit) {
  if (command.tokens >> 6) return "the two highest bits of tokens are not 0";
  if (command.tokens & (wait(unit) | signal(unit))) return say("the ", name(unit), " unit has no tokens for itself");
  Clock& clock = clocks_[index(unit)];
  for (size_t from = 0; from < kUnits; ++from) {
    if (!(command.tokens & wait(static_cast<Unit>(from)))) continue;
    auto& queue = tokens_[from][index(unit)];
    if (queue.empty())
      return say("waits for a token of the ", name(static_cast<Unit>(from)),
                 " unit that no earlier command signals: the stream would deadlock");
    for (size_t i = 0; i < kUnits; ++i) clock[i] = std::max(clock[i], queue.front()[i]);
    queue.pop_front();
  }
  return {};
}

std::string Checker::give_tokens(const Command& command, Unit unit) {
  for (size_t to = 0; to < kUnits; ++to) {
    if (!(command.tokens & signal(static_cast<Unit>(to)))) continue;
    auto& queue = tokens_[index(unit)][to];
    if (queue.size() == kMostTokens)
      return say("signals the ", name(static_cast<Unit>(to)), " unit, which has ", kMostTokens,
                 " tokens that it did not take");
    queue.push_back(clocks_[index(unit)]);
  }
  return {};
}

std::string Checker::touch(Places& places, int64_t place, bool writes) {
  const auto at = static_cast<size_t>(place);
  const Clock& clock = clocks_[index(unit_)];
  const auto race = [&](Unit other, const char* verb) {
    return say("race: ", places.name, " ", place, " was ", verb, " by an earlier command of the ", name(other),
               " unit, and no token orders the two commands");
  };
  if (!writes) {
    if (places.written[at] > clock[index(places.writer)]) return race(places.writer, "written");
    if (unit_ != places.writer) places.read[index(unit_)][at] = ordinals_[index(unit_)];
    return {};
  }
  for (size_t reader = 0; reader < kUnits; ++reader)
    if (!places.read[reader].empty() && places.read[reader][at] > clock[reader])
      return race(static_cast<Unit>(reader), "read");
  places.written[at] = ordinals_[index(unit_)];
  return {};
}

std::string Checker::touch_memory(uint64_t address, uint64_t bytes, bool writes) {
  std::string reason;
  for (uint64_t place = address / kGranule; place <= (address + bytes - 1) / kGranule && reason.empty(); ++place)
    reason = touch(memory_, static_cast<int64_t>(place), writes);
  return reason;
}

std::string Checker::touch_rows(uint16_t first, uint32_t count, bool writes) {
  std::string reason = outside("accumulator rows", {first, first + int64_t{count} - 1}, machine_.accumulator_rows);
  for (uint32_t row = 0; row < count && reason.empty(); ++row) reason = touch(accumulators_, first + row, writes);
  return reason;
}

std::string Checker::check_load(const Load& c) {
  if (c.flags || c.reserved) return "reserved bits are not 0";
  if (c.run == 0 || c.inner == 0 || c.outer == 0)
    return say("run, inner and outer are ", c.run, ", ", c.inner, " and ", c.outer, "; none may be 0");
  const int64_t lines = (c.run + int64_t{machine_.size} - 1) / machine_.size;
  const auto base = static_cast<int64_t>(address_of(c));
  Extent bytes = extent(base, 0, c.outer, c.outer_stride, 0, c.inner, c.inner_stride);
  bytes.high += c.run - 1;
  std::string reason = outside("memory bytes", bytes, static_cast<int64_t>(memory_bytes_));
  if (!reason.empty()) return reason;
  Extent places = extent(c.line, 0, c.outer, c.outer_lines, 0, c.inner, c.inner_lines);
  places.high += lines - 1;
  reason = outside("scratchpad lines", places, machine_.scratchpad_lines);
  for (int64_t i = 0; i < c.outer && reason.empty(); ++i)
    for (int64_t j = 0; j < c.inner && reason.empty(); ++j) {
      reason = touch_memory(static_cast<uint64_t>(base + i * c.outer_stride + j * c.inner_stride), c.run, false);
      const int64_t line = c.line + i * c.outer_lines + j * c.inner_lines;
      for (int64_t k = 0; k < lines && reason.empty(); ++k) reason = touch(scratchpad_, line + k, true);
    }
  return reason;
}

std::string Checker::check_matmul(const Matmul& c) {
  if ((c.flags & ~Matmul::kAllFlags) || c.reserved) return "reserved bits are not 0";
  if (c.inner == 0 || c.outer == 0) return say("inner and outer are ", c.inner, " and ", c.outer, "; none may be 0");
  if (c.inner_last > c.inner || c.outer_last > c.outer)
    return say("the window ends at ", c.outer_last, ", ", c.inner_last, ", after the last row of ", c.outer, " x ",
               c.inner);
  const bool pairs = c.flags & Matmul::kFloat;
  const bool loads = !(c.flags & Matmul::kKeepWeights);
  if (!loads && (c.flags & Matmul::kTranspose)) return "transpose has no meaning for weights that are kept";
  if (!loads && float_weights_ != pairs) return "keeps weights of the same type, which no command of the stream loaded";
  float_weights_ = pairs;
  if (pairs && ((c.line | c.inner_lines | c.outer_lines) & 1 || (loads && (c.weights | c.weight_lines) & 1)))
    return "bf16 rows are pairs of lines: line, inner_lines, outer_lines, weights and weight_lines must be even";
  const auto read = [&](int64_t line) {
    std::string reason = touch(scratchpad_, line, false);
    return reason.empty() && pairs ? touch(scratchpad_, line + 1, false) : reason;
  };
  std::string reason;
  if (loads) {
    Extent tile = extent(c.weights, 0, machine_.size, c.weight_lines, 0, 1, 0);
    tile.high += pairs;
    reason = outside("scratchpad lines of weights", tile, machine_.scratchpad_lines);
    for (int64_t r = 0; r < machine_.size && reason.empty(); ++r) reason = read(c.weights + r * c.weight_lines);
  }
  if (reason.empty() && c.outer_first < c.outer_last && c.inner_first < c.inner_last) {
    Extent rows =
        extent(c.line, 0, c.outer_last - c.outer_first, c.outer_lines, 0, c.inner_last - c.inner_first, c.inner_lines);
    rows.high += pairs;
    reason = outside("scratchpad lines of activations", rows, machine_.scratchpad_lines);
  }
  for (int64_t i = 0; i < c.outer_last - c.outer_first && reason.empty(); ++i)
    for (int64_t j = 0; j < c.inner_last - c.inner_first && reason.empty(); ++j)
      reason = read(c.line + i * c.outer_lines + j * c.inner_lines);
  return reason.empty() ? touch_rows(c.accumulator, uint32_t{c.inner} * c.outer, true) : reason;
}

std::string Checker::check_epilogue(const Epilogue& c) {
  if ((c.flags & ~Epilogue::kAllFlags) || c.reserved || c.reserved_words != decltype(c.reserved_words){})
    return "reserved bits are not 0";
  if (c.low != c.low || c.high != c.high || c.residual_scale != c.residual_scale)
    return "low, high and residual_scale must be numbers, not NaN";
  if (!(c.flags & Epilogue::kVectors)) return {};
  std::string reason = outside("scratchpad lines", {c.line, c.line + 7}, machine_.scratchpad_lines);
  for (int64_t k = 0; k < 8 && reason.empty(); ++k) reason = touch(scratchpad_, c.line + k, false);
  return reason;
}

std::string Checker::touch_residual(const Store& c, uint32_t rows) {
  const uint32_t pair = c.flags & Store::kResidualBf16 ? 2 : 1;
  if (pair == 2 && c.residual & 1) return "a bf16 residual is a pair of lines: residual must be even";
  std::string reason = outside("scratchpad lines of the residual", {c.residual, c.residual + int64_t{rows} * pair - 1},
                               machine_.scratchpad_lines);
  for (uint32_t k = 0; k < rows * pair && reason.empty(); ++k) reason = touch(scratchpad_, c.residual + k, false);
  return reason;
}

std::string Checker::check_store(const Store& c) {
  if (c.reserved || c.reserved_word) return "reserved bits are not 0";
  if (c.inner == 0 || c.outer == 0) return say("inner and outer are ", c.inner, " and ", c.outer, "; none may be 0");
  if (c.columns == 0 || c.columns > machine_.size)
    return say("columns is ", c.columns, "; it must be from 1 to ", machine_.size);
  if (c.type() == Output::kI32 && c.flags & ~(Store::kTypeMask | Store::kBias))
    return "i32 output takes int32 accumulators and a bias, nothing else";
  if (c.flags & Store::kResidualBf16 && !(c.flags & Store::kResidual)) return "bf16 residual without residual";
  const uint32_t rows = uint32_t{c.inner} * c.outer;
  const uint32_t row_bytes = c.columns * bytes_of(c.type());
  const auto base = static_cast<int64_t>(address_of(c));
  Extent bytes = extent(base, 0, c.outer, c.outer_stride, 0, c.inner, c.inner_stride);
  bytes.high += row_bytes - 1;
  std::string reason = outside("memory bytes", bytes, static_cast<int64_t>(memory_bytes_));
  if (reason.empty()) reason = touch_rows(c.accumulator, rows, false);
  if (reason.empty() && c.flags & Store::kResidual) reason = touch_residual(c, rows);
  for (int64_t i = 0; i < c.outer && reason.empty(); ++i)
    for (int64_t j = 0; j < c.inner && reason.empty(); ++j)
      reason = touch_memory(static_cast<uint64_t>(base + i * c.outer_stride + j * c.inner_stride), row_bytes, true);
  return reason;
}

}  // namespace atalla
