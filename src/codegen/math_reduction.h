// Inside of codegen's math: angles without the multiples of pi / 2 in them.
#pragma once

#include "codegen/math_builder.h"

namespace tenon::codegen::math {

// x = quadrant * pi/2 + rest + low, where |rest| is at most a little above pi/4.
struct Angle {
  Real rest;
  Real low;
  Bits quadrant;  // its lowest two bits count
};

// Of any x >= 0. Where one lane holds a large number, all go through a slower way, under a branch: the builder must be
// at the end of a block, and is at the end of another one after.
Angle reduce_angle(Real x);

}  // namespace tenon::codegen::math
