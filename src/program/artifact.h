// Writes programs as artifacts (.tenon), which the runtime loads (runtime/artifact.h): the graph that they were
// compiled from, and for each CPU level a program with its machine code. Weights are there once, however many refer to
// them.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace tenon {

// For one CPU level or several; the runtime takes the best that its machine is. Throws no Error: a program that calls
// the host, or the reference backend, is a Diagnostic that lists those tasks with their places in the model.
Result<std::vector<std::byte>> artifact_bytes(const std::vector<const Program*>& variants);
// Replaces a file in one step.
Status write_artifact(const std::string& path, const std::vector<const Program*>& variants);

// The graph of an artifact, with its data: what the compiler starts from when there is no code for this CPU. The data
// stays in `owner`.
Result<Graph> read_artifact_graph(std::span<const std::byte> graph_section, std::span<const std::byte> weights,
                                  const std::shared_ptr<void>& owner);

}  // namespace tenon
