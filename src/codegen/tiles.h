// The tiles that a target has: loops whose annotation is the name of an instruction.
//
//     for m unroll
//       for n by 16 unroll
//         for n tile "dpbf16"                16 of them, or what is left of the variable
//           for k                            2
//             %x[m, k] = cast(%a)
//             %y[k, n] = cast(%b)
//             %p[m, n, k] = mul(%x, %y)
//             %c[m, n] = reduce add(%p)
//
// is c[1, 16] += a[1, 2] * b[2, 16]: products of narrow numbers, added up in wide ones. It becomes the instruction
// where these hold, else the plain loops that it says:
//   - %c is contiguous along n.
//   - %b is contiguous along k and then n (packed), or along n (then its rows are interleaved on the way).
//   - %a is the same for all n, and best contiguous along k; or like %b.
// Operands may be read through a view of one piece. Where a tail leaves fewer n or k, lanes are masked.
//
//   dpbf16      bf16 * bf16 to f32. The instruction takes subnormal numbers for 0, and rounds once for each of the two
//               products, to nearest even whatever the mode.
//   dpbusd      u8 * i8 (or i8 * u8) to i32, 4 of k. Exact: nothing saturates.
//   interleave  a copy that packs: its result is contiguous along k and then n, 4 bytes of k.
//
// Tiles of 16 rows are four loops:
//
//     for m tile "amx-bf16"                16
//       for k by 2                         16
//         for n                            16
//           for k                          2
//
//   amx-bf16    bf16 * bf16 to f32, 32 of k. Takes subnormal numbers for 0.
//   amx-int8    i8 or u8 * i8 or u8 to i32, 64 of k, in groups of 4.
//
// They want %c and %b packed as the loops run, in scratch (so that a tail of n or m has whole rows and columns there),
// k of whole tiles, and %c of no more than four tiles, in loops that are unrolled.
#pragma once

#include <vector>

#include "codegen/target.h"
#include "schedule/machine.h"

namespace tenon::codegen {

// Those that multiply, the best first.
std::vector<TileIntrinsic> tiles_of(const Target& target);
bool has_tile(const Target& target, std::string_view name);

}  // namespace tenon::codegen
