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

// A .pt2 file in both modes, whichever it was exported in. Throws an Error, also for calls that Tenon lacks: it lists
// them all.
ExportedModel read_exported_model(const std::string& path);

}  // namespace tenon
