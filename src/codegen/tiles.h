// Tiles: loops that are one instruction of the target, named by their annotation.
//
//     for m unroll
//       for n by 16 unroll
//         for n tile "dpbf16"                16, or the remaining ones
//           for k                            2
//             %x[m, k] = cast(%a)
//             %y[k, n] = cast(%b)
//             %p[m, n, k] = mul(%x, %y)
//             %c[m, n] = reduce add(%p)
//
// is c[1, 16] += a[1, 2] * b[2, 16]: products of narrow numbers, added up in wide ones. The loops become the
// instruction if all of these hold, and plain loops otherwise:
//   - %c is contiguous along n.
//   - %b is contiguous along k, then n (packed), or its elements are at most a few apart along n (its rows are
//     interleaved after loading).
//   - %a is equal for all n, preferably contiguous along k; or it is like %b.
// Operands may be read through a view of one piece. A tail of n or k masks lanes.
//
//   dpbf16      bf16 * bf16 to f32, 2 of k. The instruction treats subnormal numbers as 0. It rounds the two products
//               by a rule of its own, whatever the rounding mode: to nearest even on x86, to odd on AArch64.
//               On x86 a kernel with it, or with amx-bf16, also rounds to bf16 by an instruction of that kind.
//   dpbusd      u8 * i8 (or i8 * u8) to i32, 4 of k. Exact: nothing saturates.
//   dpbssd      i8 * i8 to i32, 4 of k. AArch64 only.
//   dpbuud      u8 * u8 to i32, 4 of k. AArch64 only.
//   interleave  a packing copy. Its result is contiguous along k, then n, with 4 bytes of k.
//
// Tiles of 16 rows are four loops:
//
//     for m tile "amx-bf16"                16
//       for k by 2                         16
//         for n                            16
//           for k                          2
//
//   amx-bf16    bf16 * bf16 to f32, 32 of k. Treats subnormal numbers as 0.
//   amx-int8    i8 or u8 * i8 or u8 to i32, 64 of k, in groups of 4.
//
// (or a variable of 16 groups, and another of the steps of a group). They require: %c in scratch memory, in the order of the loops (so that a tail of n or m has whole rows and columns);
// k a multiple of the tile's; at most four tiles of %c, in unrolled loops. %b is contiguous along k, then n; the groups
// of k may lie anywhere, at equal distances, and the array must go on for the columns that a tail of n lacks.
#pragma once

#include <vector>

#include "codegen/target.h"
#include "machine/machine.h"

namespace tenon::codegen {

// The instructions that multiply, the best first.
std::vector<TileIntrinsic> tiles_of(const Target& target);
bool has_tile(const Target& target, std::string_view name);

}  // namespace tenon::codegen
