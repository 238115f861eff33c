// Inside of schedule: sums of products of windows of bytes, for instructions that add up groups of products.
#pragma once

#include <optional>

#include "loops/ir.h"
#include "machine/machine.h"

namespace tenon {

// The only sum of a kernel, of products of a window of bytes and of weights. Only the product reads the casts that
// widen them.
struct ByteWindows {
  loops::NodeRef sum;
  loops::NodeRef product;
  loops::NodeRef image_cast;   // of a view, the windows
  loops::NodeRef weight_cast;  // of fewer variables: a channel has its own weights
};
std::optional<ByteWindows> find_byte_windows(const loops::IR& ir);

// The windows of one channel have too few taps in a row for an instruction. Adds taps whose weights are 0, until the
// row is made of whole groups:
//
//     %v: u8[c, y, x, i, j] = view %a[c, y + i, x + j - 1] where x + j - 1 in 56          j in 3
//     %p: i32[c, y, x, i, j] = mul(cast(%v), cast(%w))
//
// becomes, with t in 4,
//
//     %v: u8[c, y, x, i, t] = view %a[c, y + i, x + t - 1] where x + t - 1 in 56
//     %w_taps: i8[c, i, t] = view %w[c, i, t] where t in 3 else 0
//     %p: i32[c, y, x, i, t] = mul(cast(%v), cast(%w_taps))
struct TapGroups {
  loops::IR ir;
  loops::VarRef tap;         // t
  const TileIntrinsic* dot;  // the instruction
};
// Empty if the kernel has no such sum, or the machine no instruction for it. `pixel` is the variable along which
// results are contiguous.
std::optional<TapGroups> with_tap_groups(const loops::IR& ir, const Machine& machine);

}  // namespace tenon
