// The stage that splits a model between backends: each node goes to the first of ProgramOptions::devices that claims
// it, and the rest to the target (partition/partition.h).
#pragma once

#include "driver/module.h"

namespace tenon {

// Forms the layers of devices that are tile machines (tiles/form.h).
void form_layers_of(Module& module, const BuildTarget& target, const ProgramOptions& options);

// Sets Module::segments and Module::placement. Without devices it changes nothing.
void partition_module(Module& module, const BuildTarget& target, const ProgramOptions& options);

}  // namespace tenon
