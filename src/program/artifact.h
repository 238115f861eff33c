// Writes programs as artifacts (.tenon), which the runtime loads (runtime/artifact.h): the graph that they were
// compiled from, and for each CPU level a program with its machine code. Weights are there once, however many refer to
// them.
//
// A file may have several programs, its entries: the step of a training and the evaluation. Leaves that programs keep
// in memory (those that a graph updates, or all with `freeze` off) are states: entries share those of one name, which
// must have one type and start with the same values.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "capture/call_form.h"
#include "program/program.h"

namespace tenon {

namespace runtime {
class Container;
struct TaskGraph;
}  // namespace runtime

// For one CPU level or several; the runtime takes the best that its machine is. Variants with devices come in order of
// preference: the runtime takes the first whose devices it has. At least one variant has no devices. Throws no Error: a
// program with external calls that the notes do not describe, or that needs the reference backend, is a Diagnostic that
// lists those tasks with their places in the model.
using Notes = std::map<std::string, std::string>;  // of a front end, to itself
Result<std::vector<std::byte>> artifact_bytes(const std::vector<const Program*>& variants, const Notes& notes = {});
// Replaces a file in one step.
Status write_artifact(const std::string& path, const std::vector<const Program*>& variants, const Notes& notes = {});

struct ProgramEntry {
  std::string name;                      // an identifier of at most 15 characters, no other's
  std::vector<const Program*> variants;  // without devices: for the same CPU levels as those of the other entries
  Notes notes = {};
};
Result<std::vector<std::byte>> artifact_bytes(std::span<const ProgramEntry> entries);
Status write_artifact(const std::string& path, std::span<const ProgramEntry> entries);

// How large the file would be: nothing is compiled, and no weights are copied.
struct ArtifactSize {
  uint64_t weights;
  uint64_t code;
  uint64_t file;  // all of it: also the graph, the plan of a run, the loops of each kernel
};
Result<ArtifactSize> artifact_size(const std::vector<const Program*>& variants, const Notes& notes = {});

// The graph of an artifact, with its data: what the compiler starts from when there is no code for this CPU. The data
// stays in the container. Of the first entry, where none is named.
Result<Graph> read_artifact_graph(const std::shared_ptr<const runtime::Container>& container,
                                  std::string_view entry = {});
Result<Notes> read_notes(const runtime::Container& container, std::string_view entry = {});

// Notes that Tenon itself writes: which input random numbers come from, and kCallNote of capture/call_form.h. For a
// program with external calls, "external.3" is the CallForm of call 3: how the host's function is called.
inline const std::string kKeyNote = "key_input";

// How an entry is called, as its notes say, checked against its program.
struct EntryCall {
  std::optional<size_t> key = {};  // the input i64[2] that random numbers come from
  std::optional<CallForm> form = {};
};
Result<EntryCall> read_entry_call(const runtime::Container& container, std::string_view entry,
                                  const runtime::TaskGraph& graph);

// What an entry was compiled from.
struct EntrySource {
  Graph graph;
  std::set<std::string, std::less<>> states = {};
  std::vector<Assertion> assertions = {};
};
Result<EntrySource> read_entry_source(const std::shared_ptr<const runtime::Container>& container,
                                      const std::string& entry);

}  // namespace tenon
