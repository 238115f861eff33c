// States in files: checkpoints, in the container of artifacts (format/checkpoint.fbs), and what others read.
#pragma once

#include <string>

#include "runtime/container.h"
#include "runtime/states.h"

namespace tenon::runtime {

// Their values and notes replace the file in one step, and are on the disk when this returns: whoever is killed at any
// moment leaves the file before or the file after. Throws a StatusError.
void save_states(States& states, const std::string& path);

// The file must have these states and no others, by name and type. Throws a StatusError that says what differs, or that
// the file is damaged; then nothing has changed.
void load_states(States& states, const std::string& path);

// What is in such a file; `initial` is where its value lies. Throws a StatusError.
struct Checkpoint {
  std::vector<StateInfo> states;
  Notes notes;
};
Checkpoint read_checkpoint(const Container& file);

// As safetensors, with the notes as its metadata; replaced in one step too.
void export_states(States& states, const std::string& path);

}  // namespace tenon::runtime
