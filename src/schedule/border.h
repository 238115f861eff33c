// Inside of schedule: copies a padded image with its border, so that windows are read without guards.
#pragma once

#include <optional>

#include "loops/ir.h"

namespace tenon {

// Moves the guards of a view into a copy of its input:
//
//     %v: f32[y, x, i, j] = view %a[y + i - 1, x + j - 1] where y + i - 1 in 56 and x + j - 1 in 56
//
// becomes, with p = 58 and q = 58,
//
//     %v_border: f32[p, q] = view %a[p - 1, q - 1] where p - 1 in 56 and q - 1 in 56
//     %v_window: f32[y, x, i, j] = view %v_border[y + i, x + j]
//
// Empty if the view has no guards, or if a guard is not a bound of one dimension of the input.
std::optional<loops::IR> with_border(const loops::IR& ir, loops::NodeRef view);

}  // namespace tenon
