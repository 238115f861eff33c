// Inside of schedule: widens a narrow image once, before windows are read from it.
#pragma once

#include <optional>

#include "loops/ir.h"

namespace tenon {

// Moves a cast from the elements of a fold's windows to the image, which has fewer elements:
//
//     %v: bf16[y, x, i] = view %a[y + i - 1, x] where y + i - 1 in 56
//     %w: f32[y, x, i] = cast(%v)
//
// becomes, with p = 58,
//
//     %v_border: bf16[p, x] = view %a[p - 1, x] where p - 1 in 56
//     %v_wide: f32[p, x] = cast(%v_border)
//     %w_window: f32[y, x, i] = view %v_wide[y + i, x]
//
// Empty if the only fold of the kernel reads no such windows.
std::optional<loops::IR> with_wide_image(const loops::IR& ir);

// The opposite, for products of bytes: windows of a widened image become widened windows of the image, as instructions
// for narrow products read them. Empty if the product of the kernel's sum reads no window of widened integers.
std::optional<loops::IR> with_narrow_windows(const loops::IR& ir);

// For instructions that multiply unsigned bytes by signed ones: windows of signed bytes become windows of unsigned ones,
// a * b = (a + 128) * b - 128 * b. The last term is the same for all windows:
//
//     %u: u8[c, y, x] = bitcast(bitwise_xor(%a, -128))
//     %v: u8[y, x, c, i, j] = view %u[c, y + i - 1, x + j - 1] where ... else 128
//     %result: i32[m, y, x] = sub(%sum, mul(reduce add(cast(%w)), 128))
//
// Empty if the product of the kernel's sum reads no window of i8 and weights of i8.
std::optional<loops::IR> with_unsigned_windows(const loops::IR& ir);

}  // namespace tenon
