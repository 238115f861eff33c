// LocalTrainingInstance: a model that trains, on this machine.
//
//     LocalTrainingInstance trainer(model, {.loss = parse_loss("cross_entropy").value(),
//                                           .optimizer = parse_optimizer("adamw(lr=3e-4)").value()});
//     for (const Batch& batch : batches) loss = trainer.step(batch.inputs, batch.target);
//
// A step is forward, backward and update, compiled as one program. The three can also be called one after the other:
// then outputs and gradients can be looked at in between, and backward() of several forward() adds up, until an
// update(). What is called out of order is an Error that says what is missing.
//
// The instance has its own copy of the model's parameters; states() has all that a training is: two instances of one
// model with equal states do equal steps, to the last bit, given the same number of threads.
//
// One call uses an instance at a time. A call from another thread meanwhile is an Error, and changes nothing. What is
// written to states() directly is the writer's to keep apart from calls.
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

// What a task took in the last call, of each program that ran.
struct ProfiledTask {
  Phase phase;
  std::string name;
  Location location;
  double microseconds;
  int64_t bytes;  // that it reads and writes; -1 where that is not known
};

class LocalTrainingInstance {
 public:
  // Throws an Error for what cannot be trained.
  LocalTrainingInstance(const TrainingModel& model, TrainingOptions options, int64_t threads = 0,
                        std::vector<std::string> devices = {});  // as ProgramOptions::devices
  ~LocalTrainingInstance();

  // Compiles the step. The budget bounds what a call needs besides states, inputs and results, in bytes: below what a
  // step needs by nature, values of forward are computed again in backward instead of kept. Too little is an Error that
  // names the least. Sizes that are not fixed are taken at the upper end of their range. forward() and backward() on
  // their own compute nothing twice. Without this call the first step compiles, with no budget. Must come before the
  // first of the calls below.
  void initialize(std::optional<int64_t> budget = {});
  void initialize_backend(int64_t mem_size) { initialize(mem_size); }  // FlexFlow's name for it

  struct Forward {
    std::vector<Tensor> outputs;
    Tensor loss;  // undefined where there is no target
  };
  // In the mode of eval() the target may be left out: then there is no loss.
  Forward forward(std::span<const Tensor> inputs, const Tensor& target = {});
  // The gradients by parameter: their sum, if several backward() came since the last update() or zero_grad(). They
  // change with the next call.
  States backward();
  void update();
  // The loss.
  Tensor step(std::span<const Tensor> inputs, const Tensor& target = {});
  void zero_grad();

  void train();  // the mode at first
  void eval();   // forward() as in inference; step(), backward() and update() are errors
  bool is_training() const;

  // Held over several calls: no other thread comes in between.
  Exclusive::Use use() const;

  // Everything that stays from step to step, by name; shared, so what is written to it is used.
  const States& states() const;
  const std::map<std::string, std::string>& tied() const;  // further names of states
  const std::vector<std::string>& trained() const;
  const TrainingOptions& options() const;
  const TrainingGraphs& graphs() const;
  States copy_states(std::span<const std::string> names) const;  // as they are now
  // Copies; the given tensors may be parts of states() themselves, with any strides. Other states stay as they are. A
  // name or a type that does not fit is an Error, and nothing changes then.
  void load_states(const States& states);

  void enable_profiling(bool on = true);
  std::vector<ProfiledTask> profile() const;

  // The programs of a file (training/file.h): what was compiled, or is now.
  const Program& step_program();
  const Program& part_program();
  const Program& evaluate_program();
  const Program& predict_program();
  int64_t peak_bytes() const;  // of the last call, besides states, inputs and results
  // Of a step, or of its parts where there are several; null without a budget.
  const MemoryReport* memory_report() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

using LocalModelTrainingInstance = LocalTrainingInstance;  // FlexFlow's name for it

}  // namespace tenon
