// Checks of a module between stages.
#pragma once

#include "driver/pipeline.h"

namespace tenon {

// Checks what the stage set. An invalid module is a bug of the stage: an InternalError that names it.
void verify_stage(const Module& module, const Stage& stage);

}  // namespace tenon
