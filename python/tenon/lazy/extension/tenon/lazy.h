// PyTorch's device "lazy" with Tenon behind it, for C++ programs: no Python is needed. docs/lazy.md is the guide.
//
//     tenon::lazy::init();
//     torch::nn::Linear model(784, 10);
//     model->to(torch::kLazy);
//     for (auto& [x, y] : batches) {
//       torch::nn::functional::cross_entropy(model(x.to(torch::kLazy)), y.to(torch::kLazy)).backward();
//       optimizer.step();
//       tenon::lazy::mark_step();  // here the step runs
//     }
//
// A CMake project links it as Tenon::lazy (find_package(Tenon COMPONENTS lazy), after find_package(Torch)). Functions
// throw std::exception. All are safe to call from several threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon::lazy {

// Makes Tenon the backend of device "lazy", for the rest of the process. A second call does nothing.
void init();
// The same, by the name that backends of torch::lazy have.
void InitTenonBackend();
bool is_initialized();

// ---- steps ----

// Ends a step: compiles everything that this thread recorded, unless an equal graph was compiled before, and runs it.
// Throws std::runtime_error if the run fails.
void mark_step(bool wait = false);
// The same, and returns when all of it has run.
void sync();

// ---- devices ----

// The names of the devices lazy:0, lazy:1, ...: the CPU, then those of plug-ins (tenon/device.h).
std::vector<std::string> devices();

struct MemoryInfo {
  int64_t total_bytes = 0;    // of the device; 0: not known
  int64_t free_bytes = 0;     // of them
  int64_t tensor_bytes = 0;   // of tensors on this lazy device; they are in the CPU's memory between runs
  int64_t program_bytes = 0;  // that programs of this process hold on a device; 0 for the CPU
};
// Throws for a number that no device has.
MemoryInfo memory_info(int64_t device = 0);

// ---- what happened ----

// Counts since init, or since reset_metrics. docs/lazy.md explains each.
struct Metrics {
  using Counts = std::map<std::string, int64_t>;
  int64_t compiles = 0;
  double compile_seconds = 0;
  int64_t runs = 0;
  int64_t hits = 0;
  Counts fallbacks = {};
  int64_t torchscript_runs = 0;
  Counts refused = {};
  Counts internal_errors = {};
  int64_t reused_bytes = 0;
  int64_t copied_bytes = 0;
};
Metrics metrics();
void reset_metrics();
std::string to_string(const Metrics& metrics);  // a table

// The last compiled graph, its segments, and the loops of its kernels. Empty if there is none.
std::string explain();

}  // namespace tenon::lazy
