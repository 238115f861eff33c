// Who runs each node of a model, as the command line shows it.
#pragma once

#include <string>

#include "partition/placement.h"

namespace tenon::cli {

std::string table_of(const Placement& placement);        // a line for each node
std::string placement_json(const Placement* placement);  // an array of nodes; null: empty

}  // namespace tenon::cli
