#include "tiles/machine.h"

#include <algorithm>
#include <cstring>

#include "graph/runtime_dtype.h"

namespace tenon {
namespace {

constexpr uint32_t kMost = 1 << 20;  // rows, columns and bytes of a line
constexpr double kMostHertz = 1e12;

void check_range(const char* what, uint64_t value, uint64_t low, uint64_t high) {
  if (value < low || value > high) fail("a tile machine describes {} {}, not {} to {}", value, what, low, high);
}

tenon_tile_machine read(const tenon_tile_machine& given) {
  tenon_tile_machine machine = {};
  std::memcpy(&machine, &given, std::min(given.size, sizeof machine));
  check_range("rows of its array", machine.rows, 1, kMost);
  check_range("columns of its array", machine.columns, 1, kMost);
  check_range("bytes of a line", machine.line_bytes, 4, kMost);
  check_range("lines", machine.lines, 1, UINT32_MAX);
  check_range("banks of lines", machine.line_banks, 1, machine.lines);
  check_range("accumulator rows", machine.accumulator_rows, 2, UINT32_MAX);
  check_range("bytes of a run at most", machine.max_run, machine.line_bytes, UINT32_MAX);
  check_range("repetitions at most", machine.max_count, 1, UINT32_MAX);
  check_range("lines between repetitions at most", machine.max_line_step, 1, INT32_MAX);
  check_range("bytes between repetitions at most", static_cast<uint64_t>(machine.max_stride), machine.line_bytes,
              INT64_MAX);
  check_range("bytes of memory in a cycle", machine.dma_bytes, 1, kMost);
  if (!(machine.hertz >= 0 && machine.hertz <= kMostHertz))
    fail("a tile machine describes a clock of {} Hz, not 0 (not known) to {}", machine.hertz, kMostHertz);
  return machine;
}

bool has_bit(uint32_t bits, DType dtype) { return (bits >> code_of(dtype) & 1) != 0; }

}  // namespace

Result<tenon_tile_machine> checked_machine(const tenon_tile_machine& machine) {
  return attempt([&] { return read(machine); });
}

bool multiplies(const tenon_tile_machine& machine, DType dtype) { return has_bit(machine.operand_dtypes, dtype); }
bool stores(const tenon_tile_machine& machine, DType dtype) { return has_bit(machine.output_dtypes, dtype); }

}  // namespace tenon
