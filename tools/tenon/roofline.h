// Layers of tile machines beside what the machine can do at best, as a part of a page (report.cpp).
#pragma once

#include <string>
#include <vector>

#include "layer_costs.h"

namespace tenon::cli {

// A picture for each device, with multiplications per cycle over multiplications per byte, and a table of the layers.
// Empty without layers.
std::string roofline_section(const std::vector<LayerCost>& layers);

}  // namespace tenon::cli
