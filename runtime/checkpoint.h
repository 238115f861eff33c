// Saves states in files: checkpoints (format/checkpoint.fbs, in the container of artifacts), and safetensors.
#pragma once

#include <string>

#include "runtime/container.h"
#include "runtime/states.h"

namespace tenon::runtime {

// Replaces the file atomically with these states and notes, and returns when they are on the disk. A process that is
// killed leaves either the old file or the new one. Throws a StatusError.
void save_states(States& states, const std::string& path);

// The file must have exactly these states, by name and type. Otherwise, or if the file is damaged, throws a StatusError
// that says what differs, and changes no state.
void load_states(States& states, const std::string& path);

// The states in a checkpoint. `initial` points to the value of each. Throws a StatusError.
struct Checkpoint {
  std::vector<StateInfo> states;
  Notes notes;
};
Checkpoint read_checkpoint(const Container& file);

// Writes a safetensors file, with the notes as metadata. Replaces the file atomically.
void export_states(States& states, const std::string& path);

}  // namespace tenon::runtime
