// The description of a tile machine (tenon_tile_machine, include/tenon/device.h), checked, and what follows from it.
#pragma once

#include "graph/dtype.h"
#include "support/diagnostic.h"
#include "tenon/device.h"

namespace tenon {

// Why no code can be made for the machine, or the machine as it is: members past its size are 0.
Result<tenon_tile_machine> checked_machine(const tenon_tile_machine& machine);

// Whether the machine multiplies operands of this dtype, and whether it stores it.
bool multiplies(const tenon_tile_machine& machine, DType dtype);
bool stores(const tenon_tile_machine& machine, DType dtype);

inline int64_t ceil_div(int64_t count, int64_t by) { return (count + by - 1) / by; }

// Lines that a row of `count` elements takes.
inline int64_t lines_of(const tenon_tile_machine& machine, int64_t count, int64_t element_bytes) {
  return ceil_div(count * element_bytes, machine.line_bytes);
}

}  // namespace tenon
