// Inside of program: a program as bytes without its graph and weights, from which it is made again in another process.
#pragma once

#include <string>
#include <string_view>

#include "program/program.h"

namespace tenon {

// Of a program whose kernels are the cpu backend's, and that has its history (program/history.h).
std::string plan_of(const Program& program);

// The program that `plan` is of, for a graph that differs from that one's in the data of its leaves only: `source` as
// it was given, `ready` as it was fused. Weights are prepared anew, nothing is compiled. Throws for bytes that are no
// plan of such a graph.
Program program_of(std::string_view plan, const Graph& source, const Graph& ready, const ProgramOptions& options);

}  // namespace tenon
