// A training as a file (.tenon): whoever has the runtime, and no compiler, goes on with it.
//
// Its entries share the states, which are in the file as the instance has them now:
//   step      inputs, target -> loss; updates everything
//   evaluate  inputs, target -> outputs, loss; in the mode of inference
//   predict   inputs -> outputs; likewise
// Of a training in parts (accumulate=N), in place of the step:
//   part      inputs, target -> loss; adds to the gradients
//   update    changes the parameters by the gradients, and makes these zero: to be run after every N parts
//
// The first entry has notes: "loss" and "optimizer" as text, and "accumulate".
#pragma once

#include <string>
#include <vector>

#include "training/instance.h"

namespace tenon {

struct TrainingFile {
  struct Entry {
    std::string name;
    std::vector<const Program*> variants;  // for each CPU
  };
  std::vector<Entry> entries;
  std::vector<std::unique_ptr<Program>> compiled;  // those that the instance does not have
};

// Compiles what the instance has not compiled. Throws an Error.
TrainingFile training_file(LocalTrainingInstance& trainer, const std::vector<std::string>& cpus = {"native"});
// Replaces a file in one step.
Status write_training(const std::string& path, LocalTrainingInstance& trainer,
                      const std::vector<std::string>& cpus = {"native"});
Status write_training(const std::string& path, const LocalTrainingInstance& trainer, const TrainingFile& file);

}  // namespace tenon
