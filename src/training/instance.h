// LocalTrainingInstance: a model that trains, on this machine.
//
//     LocalTrainingInstance trainer(model, {.loss = parse_loss("cross_entropy").value(),
//                                           .optimizer = parse_optimizer("adamw(lr=3e-4)").value()});
//     for (const Batch& batch : batches) loss = trainer.step(batch.inputs, batch.target);
//
// A step is forward, backward and update, compiled as one program. A caller can also call the three one after the other
// and read outputs and gradients in between. The gradients of several backward() add up until update(). A call out of
// order is an Error that names the missing call.
//
// The instance has its own copy of the model's parameters. states() is the whole state of a training: two instances of
// one model with equal states and the same number of threads do equal steps, to the last bit.
//
// One thread at a time may use an instance. A call from a second thread is an Error, and changes nothing. A caller that
// writes to states() directly must not do so during a call.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "program/program.h"
#include "support/exclusive.h"
#include "training/graphs.h"

namespace tenon {

enum class Phase : uint8_t { kForward, kBackward, kUpdate };
std::string_view name_of(Phase phase);

// The time of a task in the last call.
struct ProfiledTask {
  Phase phase;
  std::string name;
  Location location;
  double microseconds;
  int64_t bytes;  // read and written; -1 if unknown
};

class LocalTrainingInstance {
 public:
  // Throws an Error for what cannot be trained.
  LocalTrainingInstance(const TrainingModel& model, TrainingOptions options, int64_t threads = 0,
                        std::vector<std::string> devices = {});  // as ProgramOptions::devices
  ~LocalTrainingInstance();

  // Compiles the step. The budget bounds the memory of every call, in bytes: states, results, values that forward()
  // keeps for backward(), temporaries and scratch. If a call needs more, backward computes values of forward again
  // instead of keeping them. Too small a budget is an Error that names the minimum and what takes the memory. Symbolic
  // sizes count with the upper end of their range. Without this call the first step compiles, with no budget. Call it
  // before the functions below.
  // `device_budgets` bound the memory of devices, as in ProgramOptions; the first call that needs more is an Error.
  void initialize(std::optional<int64_t> budget = {}, DeviceBudgets device_budgets = {});
  void initialize_backend(int64_t mem_size) { initialize(mem_size); }  // FlexFlow's name for it

  struct Forward {
    std::vector<Tensor> outputs;
    Tensor loss;  // undefined where there is no target
  };
  // After eval() the target is optional. Without a target there is no loss.
  Forward forward(std::span<const Tensor> inputs, const Tensor& target = {});
  // The gradients by parameter: their sum over all backward() since the last update() or zero_grad(). The next call
  // changes them.
  States backward();
  void update();
  // The loss.
  Tensor step(std::span<const Tensor> inputs, const Tensor& target = {});
  void zero_grad();

  void train();  // the mode at first
  void eval();   // forward() as in inference; step(), backward() and update() are errors
  bool is_training() const;

  // Keeps other threads out over several calls.
  Exclusive::Use use() const;

  // The states by name. The tensors share memory with the instance: the next call uses values that a caller writes.
  // Devices keep states in their own memory: this call copies all of them to the host, and the next call copies them
  // back. So call it again to see, or to change, what is there then. copy_states and load_states move what they name.
  const States& states() const;
  const std::map<std::string, std::string>& tied() const;  // further names of states
  const std::vector<std::string>& trained() const;
  const TrainingOptions& options() const;
  const TrainingGraphs& graphs() const;
  States copy_states(std::span<const std::string> names) const;  // as they are now
  // Copies the given tensors, which may be parts of states() with any strides. Other states do not change. An unknown
  // name or a wrong type is an Error, and changes nothing.
  void load_states(const States& states);

  void enable_profiling(bool on = true);
  std::vector<ProfiledTask> profile() const;

  // The programs of a file (training/file.h). Compiles a program on its first use. The gradients that an update has
  // used are zero then: part_program() adds to them.
  const Program& step_program();
  const Program& part_program();
  const Program& evaluate_program();
  const Program& predict_program();
  int64_t peak_bytes() const;  // of the last call: all that the budget covers
  // The report on a step, or on a part of it. Null without a budget.
  const MemoryReport* memory_report() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

using LocalModelTrainingInstance = LocalTrainingInstance;  // FlexFlow's name for it

}  // namespace tenon
