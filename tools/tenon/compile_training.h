// tenon compile --train: makes a file of a model that trains without a compiler.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "model.h"

namespace tenon::cli {

struct TrainingRequest {
  bool train = false;
  std::string loss;
  std::string optimizer;
  std::vector<std::string> frozen;
  std::string precision = "f32";
  int64_t accumulate = 1;
  int64_t seed = 0;
  std::vector<std::string> budgets;
};

void add_training_options(CLI::App& app, TrainingRequest& request);
// Throws an Error where something is asked of a training, but not the training itself; or where it lacks something.
void check_training_options(const CLI::App& app, const TrainingRequest& request);

void write_training_file(const ModelOptions& model, const TrainingRequest& request,
                         const std::vector<std::string>& cpus, const std::string& output, bool json);

// For people: what a file does not check of what the model asserts.
void note_assertions(const std::vector<Assertion>& assertions, const std::string& output);

}  // namespace tenon::cli
