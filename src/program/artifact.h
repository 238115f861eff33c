// Writes programs as artifacts (.tenon), which the runtime loads (runtime/artifact.h): the graph that they were
// compiled from, and for each CPU level a program with its machine code. Weights are there once, however many refer to
// them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/container.h"

namespace tenon {

// For one CPU level or several; the runtime takes the best that its machine is. Throws no Error: a program that calls
// the host, or the reference backend, is a Diagnostic that lists those tasks with their places in the model.
using Notes = std::map<std::string, std::string>;  // of a front end, to itself
Result<std::vector<std::byte>> artifact_bytes(const std::vector<const Program*>& variants, const Notes& notes = {});
// Replaces a file in one step.
Status write_artifact(const std::string& path, const std::vector<const Program*>& variants, const Notes& notes = {});

// How large the file would be: nothing is compiled, and no weights are copied.
struct ArtifactSize {
  uint64_t weights;
  uint64_t code;
  uint64_t file;  // all of it: also the graph, the plan of a run, the loops of each kernel
};
Result<ArtifactSize> artifact_size(const std::vector<const Program*>& variants, const Notes& notes = {});

// The graph of an artifact, with its data: what the compiler starts from when there is no code for this CPU. The data
// stays in the container.
Result<Graph> read_artifact_graph(const std::shared_ptr<const runtime::Container>& container);
Result<Notes> read_notes(const runtime::Container& container);

}  // namespace tenon
