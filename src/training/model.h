// Models to train, as torch.export writes them.
#pragma once

#include <string>
#include <vector>

#include "capture/import_pt2.h"
#include "training/graphs.h"

namespace tenon {

struct ExportedModel {
  TrainingModel model;
  std::vector<std::string> frozen;  // parameters that need no gradient, for TrainingOptions
  std::vector<Assertion> assertions;
};

// Reads a .pt2 file in both modes, whatever mode it was exported in. Throws an Error, which lists all calls that Tenon
// lacks.
ExportedModel read_exported_model(const std::string& path);

}  // namespace tenon
