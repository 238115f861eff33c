// Inside of schedule: copies of images whose windows skip pixels, so that the pixels that are read together lie
// together.
#pragma once

#include <optional>

#include "loops/ir.h"

namespace tenon {

// Windows of one pixel read a part of the image only. Copies that part:
//
//     %v: f32[y, x, c] = view %a[c, 2*y, 2*x]
//
// becomes
//
//     %v_dense: f32[c, y, x] = view %a[c, 2*y, 2*x]
//     %v_window: f32[y, x, c] = view %v_dense[c, y, x]
//
// Empty if the view has guards, if windows overlap, or if they skip no pixels of a row.
std::optional<loops::IR> with_dense_image(const loops::IR& ir, loops::NodeRef view);

}  // namespace tenon
