// Inside of schedule: padding of windows as a copy with a border, so that what reads it needs no guards.
#pragma once

#include <optional>

#include "loops/ir.h"

namespace tenon {

// The kernel with the view's guards in a copy of what it reads:
//
//     %v: f32[y, x, i, j] = view %a[y + i - 1, x + j - 1] where y + i - 1 in 56 and x + j - 1 in 56
//
// becomes, with p = 58 and q = 58,
//
//     %v_border: f32[p, q] = view %a[p - 1, q - 1] where p - 1 in 56 and q - 1 in 56
//     %v_window: f32[y, x, i, j] = view %v_border[y + i, x + j]
//
// Nothing where the view has no guards, or some that are not along one dimension of what it reads each.
std::optional<loops::IR> with_border(const loops::IR& ir, loops::NodeRef view);

}  // namespace tenon
