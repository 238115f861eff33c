// The checkpoints of a training in a folder: DIR/step-00000120.states.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::cli {

struct CheckpointFile {
  int64_t step;
  std::string path;
};

std::vector<CheckpointFile> checkpoints_in(const std::string& folder);  // by step; none where there is no folder
std::string checkpoint_path(const std::string& folder, int64_t step);

// Of a folder its newest; a file is itself. Throws an Error where there is none.
std::string newest_checkpoint(const std::string& path);

// Makes the folder, and removes what a process that was killed left half written. Throws an Error.
void prepare_folder(const std::string& folder);
void keep_newest(const std::string& folder, int64_t count);

}  // namespace tenon::cli
