// A model on a device, whose launches somebody else makes: for tools that look into them.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "runnable.h"

namespace tenon::cli {

// A launch that the model needs now.
struct WatchedLaunch {
  size_t number;         // of the run, from 0
  uint32_t task_number;  // in the program
  const Task& task;
  const runtime::DeviceProgram& program;
  const tenon_launch& launch;
  std::vector<int64_t> bytes;  // of each buffer: inputs, then outputs
  size_t inputs;               // how many buffers are only read
};

class WatchedModel {
 public:
  // `model.devices` names one device. A .tenon file's graph is compiled anew. Throws an Error if the device runs no
  // node of the model.
  explicit WatchedModel(const ModelOptions& model);
  WatchedModel(const Graph& graph, const std::string& device);  // which may run no node of it

  bool uses_device() const { return program().uses_devices(); }
  const Program& program() const { return *model_.compiled(); }
  const Runnable& runnable() const { return model_; }
  // From arguments (bind.h). Without any, random numbers, which are within [-2, 2) where they are reals.
  std::vector<Tensor> inputs(const std::vector<std::string>& arguments, int64_t seed) const;

  // `watch` makes each launch, and waits for it. What it throws ends the run. The context of the run knows the times of
  // tasks, with telemetry.
  using Watch = std::function<void(const WatchedLaunch&)>;
  std::unique_ptr<runtime::Context> run(const std::vector<Tensor>& inputs, const Watch& watch,
                                        runtime::ContextOptions options = {}) const;

 private:
  Runnable model_;
};

}  // namespace tenon::cli
