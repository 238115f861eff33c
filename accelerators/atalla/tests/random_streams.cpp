#include "random_streams.h"

#include <limits>
#include <random>

#include "check.h"

namespace atalla {

namespace {

// Each command is kept if the checker accepts the stream with it.
class StreamMaker {
 public:
  explicit StreamMaker(uint32_t seed) : random_(seed) {}

  std::vector<Command> make(size_t count) {
    while (stream_.size() < count) {
      stream_.push_back(candidate());
      if (Checker(machine_, kStreamMemory).check(stream_)) {
        stream_.pop_back();
      } else {
        settle();
      }
    }
    return stream_;
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  uint16_t line() { return static_cast<uint16_t>(2048 * pick(1, 7) + pick(-60, 40)); }
  uint16_t row() { return static_cast<uint16_t>(512 * pick(1, 3) + pick(-40, 10)); }

  // Takes a random part of the tokens that are there, and gives random ones.
  uint8_t tokens(Unit unit) {
    uint8_t result = 0;
    for (int other = 0; other < kUnits; ++other) {
      const auto from = static_cast<Unit>(other);
      if (from == unit) continue;
      if (pending_[static_cast<size_t>(other)][static_cast<size_t>(unit)] > 0 && chance(70)) result |= wait(from);
      if (chance(50)) result |= signal(from);
    }
    return result;
  }

  void settle() {
    const Command& command = stream_.back();
    const auto unit = static_cast<size_t>(*unit_of(command));
    for (size_t other = 0; other < kUnits; ++other) {
      pending_[other][unit] -= (command.tokens & wait(static_cast<Unit>(other))) != 0;
      pending_[unit][other] += (command.tokens & signal(static_cast<Unit>(other))) != 0;
    }
  }

  Command candidate() {
    switch (pick(0, 6)) {
      case 0:
      case 1:
        return load();
      case 2:
      case 3:
        return matmul();
      case 4:
        return epilogue();
      default:
        return store();
    }
  }

  Command load() {
    Load c;
    c.tokens = tokens(Unit::kLoad);
    c.pad = static_cast<uint8_t>(pick(0, 255));
    set_address(c, static_cast<uint64_t>(pick(3000, 6000)));
    c.run = static_cast<uint16_t>(pick(1, 100));
    c.inner = static_cast<uint16_t>(pick(1, 6));
    c.outer = static_cast<uint16_t>(pick(1, 5));
    c.inner_stride = pick(-90, 90);
    c.outer_stride = pick(-300, 300);
    c.line = line();
    c.inner_lines = static_cast<int16_t>(pick(-9, 9));
    c.outer_lines = static_cast<int16_t>(pick(-20, 20));
    return encode(c);
  }

  Command matmul() {
    Matmul c;
    c.tokens = tokens(Unit::kCompute);
    c.flags = static_cast<uint8_t>(pick(0, Matmul::kAllFlags));
    const bool pairs = c.flags & Matmul::kFloat;
    const auto even = [pairs](int value) { return pairs ? value & ~1 : value; };
    c.pad = static_cast<uint8_t>(pick(0, 255));
    c.line = static_cast<uint16_t>(even(line()));
    c.weights = static_cast<uint16_t>(even(line()));
    c.weight_lines = static_cast<int16_t>(even(pick(-4, 4)));
    c.inner_lines = static_cast<int16_t>(even(pick(-6, 6)));
    c.outer_lines = static_cast<int16_t>(even(pick(-12, 12)));
    c.inner = static_cast<uint16_t>(pick(1, 9));
    c.outer = static_cast<uint16_t>(pick(1, chance(30) ? 9 : 2));
    c.inner_first = static_cast<uint16_t>(pick(0, 2));
    c.inner_last = static_cast<uint16_t>(pick(0, c.inner));
    c.outer_first = static_cast<uint16_t>(pick(0, 1));
    c.outer_last = static_cast<uint16_t>(pick(0, c.outer));
    c.accumulator = row();
    return encode(c);
  }

  float number() {
    static constexpr float kNumbers[] = {0, 1, -1, 0.3F, 1e30F, -1e30F, 1e-40F, std::numeric_limits<float>::infinity()};
    return chance(50) ? kNumbers[pick(0, 7)] : std::normal_distribution<float>(0, 50)(random_);
  }

  Command epilogue() {
    Epilogue c;
    c.tokens = tokens(Unit::kStore);
    c.flags = chance(80) ? Epilogue::kVectors : 0;
    c.zero_point = static_cast<int8_t>(pick(-128, 127));
    c.line = line();
    c.residual_zero_point = static_cast<int8_t>(pick(-128, 127));
    c.low = number();
    c.high = number();
    c.residual_scale = number();
    return encode(c);
  }

  Command store() {
    Store c;
    c.tokens = tokens(Unit::kStore);
    c.flags = static_cast<uint8_t>(pick(0, 255));
    if (c.type() == Output::kI32) c.flags &= Store::kTypeMask | Store::kBias;
    if (!(c.flags & Store::kResidual)) c.flags &= static_cast<uint8_t>(~Store::kResidualBf16);
    set_address(c, static_cast<uint64_t>(pick(2000, 7000)));
    c.inner_stride = pick(-90, 90);
    c.outer_stride = pick(-200, 200);
    c.columns = static_cast<uint16_t>(pick(1, 16));
    c.inner = static_cast<uint16_t>(pick(1, 9));
    c.outer = static_cast<uint16_t>(pick(1, 4));
    c.accumulator = row();
    c.residual = line() & (c.flags & Store::kResidualBf16 ? 0xfffe : 0xffff);
    return encode(c);
  }

  Machine machine_;
  std::mt19937 random_;
  std::vector<Command> stream_;
  std::array<std::array<int, kUnits>, kUnits> pending_{};
};

}  // namespace

std::vector<Command> random_stream(uint32_t seed, size_t count) { return StreamMaker(seed).make(count); }

void fill_random(std::span<uint8_t> memory, uint32_t seed) {
  static constexpr uint16_t kSpecial[] = {0x0000, 0x8000, 0x0001, 0x807f, 0x0080,
                                          0x7f80, 0xff80, 0x7fc1, 0x7f7f, 0x0100};
  std::mt19937 random(seed);
  for (size_t i = 0; i + 2 <= memory.size(); i += 2) {
    uint16_t word = static_cast<uint16_t>(random());
    if (random() % 2) word = static_cast<uint16_t>((word & 0x80ff) | 0x3f00);
    if (random() % 64 == 0) word = kSpecial[random() % std::size(kSpecial)];
    std::memcpy(&memory[i], &word, 2);
  }
}

}  // namespace atalla
