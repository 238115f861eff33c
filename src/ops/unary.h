// The parts of the unary family that have files of their own.
#pragma once

#include "ops/families.h"

namespace tenon::ops {

OpFamily trigonometric_ops();  // trigonometry.cpp
OpFamily special_ops();        // special.cpp

}  // namespace tenon::ops
