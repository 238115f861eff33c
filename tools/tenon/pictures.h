// Drawings of a program as SVG, for a page that has its colours (report.cpp).
#pragma once

#include <string>
#include <string_view>

#include "runtime/loaded_program.h"

namespace tenon::cli {

std::string escaped(std::string_view text);  // for HTML: names come from files, and must not be markup

// Tasks as boxes below those that they depend on; each links to #task-N.
std::string graph_picture(const runtime::TaskGraph& graph);

// The arena over time: each temporary from the task that writes it to the last that reads it, where it lies.
std::string memory_picture(const runtime::TaskGraph& graph, const runtime::Frame& frame);

}  // namespace tenon::cli
