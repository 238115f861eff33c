// A training as a file (.tenon): the runtime continues the training without a compiler.
//
// The entries share the states, and the file has the current values of the states:
//   step      inputs, target -> loss; updates everything
//   evaluate  inputs, target -> outputs, loss; in the mode of inference
//   predict   inputs -> outputs; likewise
// A training in parts (accumulate=N) has these entries in place of the step:
//   part      inputs, target -> loss; adds to the gradients
//   update    changes the parameters by the gradients and clears the gradients. Run it after every N parts.
//
// The first entry has notes: "loss" and "optimizer" as text, and "accumulate".
#pragma once

#include <string>
#include <vector>

#include "program/artifact.h"
#include "training/instance.h"

namespace tenon {

struct TrainingFile {
  struct Entry {
    std::string name;
    std::vector<const Program*> variants;  // for each CPU; with the instance's devices, one more
  };
  std::vector<Entry> entries;
  std::vector<std::unique_ptr<Program>> compiled;  // programs that the instance does not have
};

// How the external calls of the graphs are called, as notes "external.N" (program/artifact.h). The notes of a call's
// gradient are those of call -1 - N.
struct CallNotes {
  Notes training;   // of the step
  Notes inference;  // of evaluate and predict
};

// Compiles the programs that the instance has not compiled. Throws an Error.
TrainingFile training_file(LocalTrainingInstance& trainer, const std::vector<std::string>& cpus = {"native"});
// Replaces a file in one step.
Status write_training(const std::string& path, LocalTrainingInstance& trainer,
                      const std::vector<std::string>& cpus = {"native"}, const CallNotes& calls = {});
Status write_training(const std::string& path, const LocalTrainingInstance& trainer, const TrainingFile& file,
                      const CallNotes& calls = {});

}  // namespace tenon
