// The checkpoints of a training in a folder: DIR/step-00000120.states.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint.h"

namespace tenon::cli {

inline constexpr std::string_view kStepNote = "train.step";  // of a checkpoint: how many steps there were

struct CheckpointFile {
  int64_t step;
  std::string path;
};

std::vector<CheckpointFile> checkpoints_in(const std::string& folder);  // by step; none where there is no folder
std::string checkpoint_path(const std::string& folder, int64_t step);

bool is_checkpoint(const std::string& path);  // whatever its name is; false for what cannot be read

// What is in such a file. Throws an Error.
runtime::Checkpoint open_checkpoint(const std::string& path, const runtime::Container& container);
std::string states_text(const runtime::Checkpoint& checkpoint);  // a line for each state and each note
std::string states_json(const runtime::Checkpoint& checkpoint);
std::string notes_json(const runtime::Checkpoint& checkpoint);

// Of a folder its newest; a file is itself. Throws an Error where there is none.
std::string newest_checkpoint(const std::string& path);

// Makes the folder, and removes what a process that was killed left half written. Throws an Error.
void prepare_folder(const std::string& folder);
void keep_newest(const std::string& folder, int64_t count);

}  // namespace tenon::cli
