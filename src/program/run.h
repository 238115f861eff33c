// Inside of program: how it runs.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>

#include "program/program.h"
#include "runtime/context.h"

namespace tenon {

// A tensor in a device's memory, row-major.
struct TensorOnDevice {
  DType dtype;
  Sizes shape;
  std::shared_ptr<runtime::DeviceTensor> memory;
};

TensorOnDevice to_device(const Tensor& tensor, const std::shared_ptr<runtime::Device>& device);
Tensor to_host(const TensorOnDevice& tensor);

// Which tensors of a run lie in the memory of devices.
struct DevicePlaces {
  std::map<size_t, TensorOnDevice> inputs = {};  // by number, in place of those on the host
  std::set<size_t> kept = {};                    // results that stay in the memory of this device:
  std::shared_ptr<runtime::Device> device = {};
  std::map<size_t, TensorOnDevice> outputs = {};  // what the run makes of them
  // Memory for a result that stays there, by its number; none: the device's own.
  std::function<TensorOnDevice(size_t output, DType dtype, const Sizes& shape)> allocate = {};

  TensorOnDevice new_output(size_t output, DType dtype, Sizes shape) const;
  TensorOnDevice moved_output(size_t output, const Tensor& value) const;  // from the host
};

// A program in the hands of the runtime: its tables, and contexts that are free.
class ProgramRunner {
 public:
  explicit ProgramRunner(const Program& program);

  // An input or result that `places` has is an undefined tensor.
  std::vector<Tensor> run(const Program& program, std::span<const Tensor> inputs, DevicePlaces* places = nullptr) const;
  // In a context of the caller's: with a budget, with telemetry, or just the same one each time.
  // The states are those of a program that keeps them; without any, all contexts of the program share one set.
  std::unique_ptr<runtime::Context> make_context(const runtime::ContextOptions& options,
                                                 std::shared_ptr<runtime::States> states = {}) const;
  static std::vector<Tensor> run_in(runtime::Context& context, const Program& program, std::span<const Tensor> inputs,
                                    DevicePlaces* places = nullptr);
  const runtime::LoadedProgram& loaded() const { return *program_; }  // its inputs are the program's, then its leaves
  int64_t arena_bytes() const;
  void free_memory() const;  // of the contexts that wait for a run

 private:
  static void check_inputs(const Program& program, std::span<const Tensor> inputs, const DevicePlaces& places);
  static void check_update(const Program& program, std::span<const Tensor> inputs, size_t number,
                           bool leaves_are_checked);
  static Diagnostic located(const Program& program, uint32_t task, const std::string& message, Location where);
  std::unique_ptr<runtime::Context> take() const;
  void give_back(std::unique_ptr<runtime::Context> context) const;

  std::string tables_;
  int64_t budget_;
  DeviceBudgets device_budgets_;
  std::shared_ptr<const runtime::LoadedProgram> program_;
  std::shared_ptr<runtime::States> states_;  // of a program that keeps them
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<runtime::Context>> free_;
  mutable std::atomic<bool> leaves_are_checked_ = false;  // what is updated of them, against each other
};

// Runs a task on its own, with results of these static types: what is computed of constants while a program is made.
std::vector<Tensor> run_task_once(const Task& task, const std::vector<TensorType>& results,
                                  const std::vector<Tensor>& inputs);

// One run, of the context's graph; leaves are its last inputs. Results are fresh memory. Throws an Error or a
// runtime::StatusError.
std::vector<Tensor> run_context(runtime::Context& context, const runtime::TaskGraph& graph,
                                std::span<const Tensor> inputs, std::span<const Tensor> leaves = {});
std::vector<Tensor> run_context(runtime::Context& context, const runtime::TaskGraph& graph,
                                std::span<const Tensor> inputs, std::span<const Tensor> leaves, DevicePlaces& places);

// The steps of run_context for tensors on devices.
void set_inputs(runtime::Context& context, std::span<const Tensor> inputs, const DevicePlaces& places);
void keep_outputs(runtime::Context& context, const runtime::TaskGraph& graph, DevicePlaces& places);  // once prepared

tenon_tensor described(const Tensor& tensor);  // for the runtime; points into the tensor

// A tensor that is not zeroed.
Tensor new_tensor(DType dtype, Sizes shape);

// Runs a graph of one node as a function of the runtime, where there is one, else on the reference backend. `sizes` are
// those that are known, whether the shapes of the inputs tell them or not.
std::vector<Tensor> run_whole(const Graph& body, const std::vector<Tensor>& inputs, const symbolic::Bindings& sizes);

}  // namespace tenon
