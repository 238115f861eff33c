// What PyTorch notes about the origin of a node, as texts.
#pragma once

#include <string>
#include <string_view>

#include "support/diagnostic.h"

namespace tenon::pt2 {

// The line of the model that a Python stack trace, innermost frame last, leads to: see ExportedNode::location. Unknown
// for a trace that has no frame outside PyTorch.
Location model_location(std::string_view stack_trace);

struct ModuleName {
  std::string path;  // "encoder.layer.0"; empty for the model itself
  std::string type;  // "torch.nn.modules.linear.Linear"
};

// The last of "key,path,type;key,path,type".
ModuleName innermost_module(std::string_view nn_module_stack);

}  // namespace tenon::pt2
