// Internal to program/: a program as bytes, without its graph and weights, for the cache on disk. Another process makes
// the same program of these bytes and a graph.
#pragma once

#include <string>
#include <string_view>

#include "program/program.h"

namespace tenon {

// The program's kernels must be those of the cpu backend, and the program must have its history (program/history.h).
std::string cached_bytes_of(const Program& program);

// Makes the program of `cached` again, for a graph that differs from the cached one only in the data of its leaves.
// `source` is the graph as given, `ready` the graph after the passes. Prepares weights; compiles nothing. Throws for
// bytes that do not fit the graph.
Program program_of(std::string_view cached, const Graph& source, const Graph& ready, const ProgramOptions& options);

}  // namespace tenon
