#include "random_layers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "graph/builder.h"
#include "tiles/interpret.h"

namespace tenon::cli {
namespace {

int64_t draw(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// Each action is kept if the judge of actions accepts the stream with it.
class ActionMaker {
 public:
  ActionMaker(const tenon_tile_machine& machine, Random& random)
      : machine_(machine),
        random_(random),
        buffers_{std::vector<std::byte>(kActionBytes), std::vector<std::byte>(kActionBytes)} {}

  TileCode make(size_t count) {
    const std::vector<std::span<std::byte>> buffers = {buffers_[0], buffers_[1]};
    while (code_.actions.size() < count) {
      add_candidates();
      if (!interpret_tiles(code_, machine_, buffers)) {
        code_.actions.resize(kept_);
      } else {
        while (kept_ < code_.actions.size()) settle(code_.actions[kept_++]);
      }
    }
    return std::move(code_);
  }

 private:
  int64_t pick(int64_t low, int64_t high) { return draw(random_, low, high); }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  // Around the borders of banks, where two units get into each other's way.
  int64_t line() { return place(machine_.lines, machine_.line_banks, pick(-60, 40)); }
  int64_t row() { return place(machine_.accumulator_rows, machine_.accumulator_banks, pick(-40, 10)); }

  // Half of the places are in one bank.
  int64_t place(int64_t count, int64_t banks, int64_t shift) {
    const int64_t bank = count / std::max<int64_t>(banks, 1), all = std::max<int64_t>(banks - 1, 1);
    const int64_t busy = bank * (1 + favourite_ % all) + pick(1, std::max<int64_t>(bank / 4, 1));
    return std::clamp<int64_t>(chance(50) ? busy : bank * pick(1, all) + shift, 0, count - 1);
  }

  // Takes a random part of the tokens that are there, and gives random ones.
  void add_tokens(tenon_tile_action& a) {
    const size_t unit = unit_of(a);
    for (size_t other = 0; other < 3; ++other) {
      if (other == unit) continue;
      if (pending_[other][unit] > 0 && chance(70)) a.wait |= 1U << other;
      if (pending_[unit][other] < 200 && chance(50)) a.signal |= 1U << other;
    }
  }

  static size_t unit_of(const tenon_tile_action& a) {
    return a.kind == TENON_TILE_LOAD ? 0 : a.kind == TENON_TILE_MULTIPLY ? 1 : 2;
  }

  void settle(const tenon_tile_action& a) {
    const size_t unit = unit_of(a);
    for (size_t other = 0; other < 3; ++other) {
      pending_[other][unit] -= static_cast<int>(a.wait >> other & 1);
      pending_[unit][other] += static_cast<int>(a.signal >> other & 1);
    }
  }

  // Tokens that are given while others are taken.
  void add_chain() {
    const int64_t count = pick(2, 24), at = line();
    for (int64_t i = 0; i < count; ++i) {
      tenon_tile_action a = action(TENON_TILE_LOAD);
      a.run = machine_.line_bytes;
      a.line = static_cast<uint32_t>(std::min<int64_t>(at + i, machine_.lines - 1));
      a.signal = TENON_UNIT_COMPUTE;
      code_.actions.push_back(a);
    }
    for (int64_t i = 0; i < count; ++i) {
      tenon_tile_action a = multiply();
      a.inner = a.outer = a.inner_last = a.outer_last = 1;
      a.inner_first = a.outer_first = 0;
      a.wait = TENON_UNIT_LOAD;
      code_.actions.push_back(a);
    }
  }

  void add_candidates() {
    if (chance(3)) return add_chain();
    tenon_tile_action a = {};
    switch (pick(0, 6)) {
      case 0:
      case 1:
        a = load();
        break;
      case 2:
      case 3:
        a = multiply();
        break;
      case 4:
        a = epilogue();
        break;
      default:
        a = store();
    }
    // A burst: the same step several times in a row fills queues, and rows follow each other.
    const int64_t repeats = chance(8) ? pick(2, 24) : 1;
    for (int64_t i = 0; i < repeats; ++i) {
      if (i > 0) a.wait = 0;
      if (i == 0) add_tokens(a);
      code_.actions.push_back(a);
      if (a.kind == TENON_TILE_MULTIPLY) a.flags |= TENON_TILE_ACCUMULATE;
    }
  }

  static tenon_tile_action action(uint32_t kind) {
    tenon_tile_action a = {};
    a.kind = kind;
    a.inner = a.outer = 1;
    a.residual_scale = 1;
    return a;
  }

  tenon_tile_action load() {
    tenon_tile_action a = action(TENON_TILE_LOAD);
    if (chance(10)) a.flags = TENON_TILE_ZEROS;
    a.offset = pick(3000, 8000);
    a.run = static_cast<uint32_t>(pick(1, 7 * machine_.line_bytes));
    a.inner = static_cast<uint32_t>(pick(1, 6));
    a.outer = static_cast<uint32_t>(pick(1, 5));
    a.inner_stride = pick(-90, 90);
    a.outer_stride = pick(-300, 300);
    a.line = static_cast<uint32_t>(line());
    a.inner_lines = static_cast<int32_t>(pick(-9, 9));
    a.outer_lines = static_cast<int32_t>(pick(-20, 20));
    return a;
  }

  tenon_tile_action multiply() {
    tenon_tile_action a = action(TENON_TILE_MULTIPLY);
    const bool has_bytes = (machine_.operand_dtypes >> TENON_I8 & 1) != 0;
    a.dtype = has_bytes && (chance(50) || (machine_.operand_dtypes >> TENON_BF16 & 1) == 0) ? TENON_I8 : TENON_BF16;
    const int64_t row_lines = lines_of(machine_, machine_.rows, a.dtype == TENON_I8 ? 1 : 2);
    const int64_t tile_lines = lines_of(machine_, machine_.columns, a.dtype == TENON_I8 ? 1 : 2);
    a.flags = static_cast<uint32_t>((chance(60) ? TENON_TILE_ACCUMULATE : 0) | (chance(30) ? TENON_TILE_TRANSPOSE : 0));
    a.pad = a.dtype == TENON_I8 ? static_cast<int32_t>(pick(-128, 127)) : 0;
    a.line = static_cast<uint32_t>(line() / row_lines * row_lines);
    a.weights = static_cast<uint32_t>(line() / tile_lines * tile_lines);
    a.weight_lines = static_cast<int32_t>(tile_lines * pick(-2, 4));
    a.inner_lines = static_cast<int32_t>(row_lines * pick(-3, 3));
    a.outer_lines = static_cast<int32_t>(row_lines * pick(-6, 6));
    a.inner = static_cast<uint32_t>(pick(1, 9));
    a.outer = static_cast<uint32_t>(pick(1, chance(30) ? 9 : 2));
    a.inner_first = static_cast<uint32_t>(pick(0, std::min<int64_t>(2, a.inner)));
    a.inner_last = static_cast<uint32_t>(pick(a.inner_first, a.inner));
    a.outer_first = static_cast<uint32_t>(pick(0, 1));
    a.outer_last = static_cast<uint32_t>(pick(a.outer_first, a.outer));
    // Often the last row of the command before: a row is read right after it was written.
    a.accumulator = static_cast<uint32_t>(chance(40) && last_row_ >= 0 ? last_row_ : row());
    last_row_ = a.accumulator + int64_t{a.inner} * a.outer - 1;
    return a;
  }

  float number() {
    constexpr std::array<float, 8> kNumbers = {0,     1,      -1,     0.3F,
                                               1e30F, -1e30F, 1e-40F, std::numeric_limits<float>::infinity()};
    return chance(50) ? kNumbers[static_cast<size_t>(pick(0, 7))] : std::normal_distribution<float>(0, 50)(random_);
  }

  tenon_tile_action epilogue() {
    tenon_tile_action a = action(TENON_TILE_EPILOGUE);
    if (chance(80)) a.epilogues = machine_.epilogues & (TENON_TILE_BIAS | TENON_TILE_SCALE);
    a.line = static_cast<uint32_t>(line());
    a.low = number();
    a.high = number();
    a.residual_scale = number();
    a.zero_point = static_cast<int32_t>(pick(-128, 127));
    a.residual_zero_point = static_cast<int32_t>(pick(-128, 127));
    return a;
  }

  tenon_tile_action store() {
    tenon_tile_action a = action(TENON_TILE_STORE);
    constexpr std::array<uint32_t, 4> kTypes = {TENON_I8, TENON_BF16, TENON_F32, TENON_I32};
    do a.dtype = kTypes[static_cast<size_t>(pick(0, 3))];
    while ((machine_.output_dtypes >> a.dtype & 1) == 0);
    a.flags = a.dtype == TENON_I32 || chance(50) ? TENON_TILE_INTEGERS : 0;
    a.epilogues = machine_.epilogues & static_cast<uint32_t>(pick(0, 15));
    if (a.dtype == TENON_I32) a.epilogues &= TENON_TILE_BIAS;
    a.offset = pick(2000, 7000);
    a.buffer = 1;
    a.run = static_cast<uint32_t>(pick(1, machine_.columns));
    a.inner = static_cast<uint32_t>(pick(1, 9));
    a.outer = static_cast<uint32_t>(pick(1, 4));
    a.inner_stride = pick(-90, 90);
    a.outer_stride = pick(-200, 200);
    a.accumulator = static_cast<uint32_t>(row());
    const int64_t residual_lines = lines_of(machine_, machine_.columns, 2);
    a.line = static_cast<uint32_t>(line() / residual_lines * residual_lines);
    return a;
  }

  const tenon_tile_machine& machine_;
  Random& random_;
  std::array<std::vector<std::byte>, 2> buffers_;
  TileCode code_;
  size_t kept_ = 0;
  int64_t last_row_ = -1;
  int64_t favourite_ = draw(random_, 0, 63);  // bank
  std::array<std::array<int, 3>, 3> pending_ = {};
};

}  // namespace

Graph random_layer(Random& random) {
  Graph graph("layer");
  Builder b(graph);
  const auto pick = [&](int64_t low, int64_t high) { return draw(random, low, high); };
  const auto input = [&](const char* name, Shape shape) {
    return Value(graph, graph.add_input(name, {DType::kBF16, std::move(shape)}));
  };
  Value y;
  if (pick(0, 1) == 0) {
    const int64_t channels = pick(1, 80), outputs = pick(1, 80), kernel = pick(1, 3);
    const Value x = input("x", {pick(1, 2), channels, pick(3, 12), pick(3, 12)});
    y = b.op("conv", {x, input("w", {outputs, channels, kernel, kernel}), input("b", {outputs})},
             {{"stride", std::vector<int64_t>{pick(1, 2)}}, {"padding", std::vector<int64_t>{pick(0, 2)}}});
  } else {
    const int64_t channels = pick(1, 150), outputs = pick(1, 100);
    y = b.op("linear", {input("x", {pick(1, 90), channels}), input("w", {outputs, channels}), input("b", {outputs})});
  }
  if (pick(0, 1) == 1) y = y + input("r", y.shape());
  if (pick(0, 1) == 1) y = b.relu(y);
  graph.set_outputs({y.ref()});
  return graph;
}

TileCode random_actions(const tenon_tile_machine& machine, size_t count, Random& random) {
  return ActionMaker(machine, random).make(count);
}

std::vector<std::byte> random_operands(Random& random) {
  constexpr std::array<uint16_t, 10> kSpecial = {0x0000, 0x8000, 0x0001, 0x807f, 0x0080,
                                                 0x7f80, 0xff80, 0x7fc1, 0x7f7f, 0x0100};
  // Sums of products of halves are exact, and many of them lie between two integers.
  constexpr std::array<uint16_t, 5> kHalves = {0x0000, 0x3f00, 0xbf00, 0x3f80, 0xbf80};
  std::vector<std::byte> bytes(kActionBytes);
  const bool has_halves = random() % 3 == 0;
  for (size_t i = 0; i + 2 <= bytes.size(); i += 2) {
    auto word = static_cast<uint16_t>(random());
    if (has_halves) word = kHalves[word % kHalves.size()];
    if (!has_halves && random() % 2 != 0) word = static_cast<uint16_t>((word & 0x80ff) | 0x3f00);
    if (!has_halves && random() % 64 == 0) word = kSpecial[random() % kSpecial.size()];
    std::memcpy(&bytes[i], &word, sizeof word);
  }
  return bytes;
}

}  // namespace tenon::cli
