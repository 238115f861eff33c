#include "training/instance.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "driver/budget.h"
#include "driver/pipeline.h"
#include "program/run.h"
#include "runtime/thread_pool.h"
#include "support/runtime_call.h"
#include "training/profile.h"

namespace tenon {

std::string_view name_of(Phase phase) {
  constexpr std::string_view kNames[] = {"forward", "backward", "update"};  // by Phase
  return kNames[static_cast<size_t>(phase)];
}

namespace {

int64_t bytes_of(std::span<const Tensor> tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.numel() * size_of(tensor.dtype());
  return bytes;
}

// A program that is compiled when it first runs, and the context that it always runs in.
class Part {
 public:
  Part(const Graph& graph, const std::vector<std::string>& devices, const FallbackFn& fallback)
      : graph_(graph), devices_(devices), fallback_(fallback) {}

  // Before it is compiled. The budget covers results, and what others keep meanwhile.
  void set_budget(int64_t budget, std::vector<KeptMemory> kept) {
    budget_ = budget;
    kept_ = std::move(kept);
    kept_.push_back({"results", largest_bytes(graph_, graph_.outputs())});
  }

  Status compile() {
    Result<Program> compiled = compile_program(graph_, {.devices = devices_,
                                                        .freeze = false,
                                                        .fallback = fallback_,
                                                        .budget = budget_,
                                                        .kept = kept_,
                                                        .keeps_states = !devices_.empty()});
    if (!compiled.ok()) return compiled.diagnostic();
    program_ = std::make_unique<Program>(std::move(compiled).value());
    return Unit{};
  }

  bool is_compiled() const { return program_ != nullptr; }
  const Program& program() {
    if (!program_) compile().value();
    return *program_;
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs, bool profiles, const DeviceBudgets& device_budgets,
                          const std::shared_ptr<runtime::States>& states) {
    if (!context_ || profiles != profiles_) {
      const int64_t budget = budget_ ? *budget_ - tenon::bytes_of(kept_) : runtime::kNoBudget;
      context_ = program().runner->make_context(
          {.budget = budget, .device_budgets = device_budgets, .telemetry = profiles}, states);
      profiles_ = profiles;
    }
    return ProgramRunner::run_in(*context_, program(), inputs);
  }

  const runtime::Context& context() const { return *context_; }
  void free_memory() { context_.reset(); }  // that it keeps for its next run

 private:
  const Graph& graph_;
  const std::vector<std::string>& devices_;
  const FallbackFn& fallback_;
  std::optional<int64_t> budget_;
  std::vector<KeptMemory> kept_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<runtime::Context> context_;
  bool profiles_ = false;
};

}  // namespace

class LocalTrainingInstance::State {
 public:
  State(const TrainingModel& model, TrainingOptions given, int64_t thread_count, std::vector<std::string> names)
      : options(std::move(given)),
        threads(thread_count),
        devices(std::move(names)),
        training_fallback(model.training_fallback),
        inference_fallback(model.inference_fallback),
        graphs(training_graphs(model, options)) {
    if (threads < 0 || threads > kMostThreads) fail("threads must be in [0, {}], got {}", kMostThreads, threads);
    if (!devices.empty()) on_devices = std::make_shared<runtime::States>(state_infos());
  }

  std::vector<runtime::StateInfo> state_infos() const {
    std::vector<runtime::StateInfo> infos;
    for (const auto& [name, data] : graphs.states)
      infos.push_back({name, static_cast<tenon_dtype>(data.dtype()), data.shape(), bytes_of({&data, 1}), data.data()});
    return infos;
  }

  // Before a state's memory is read.
  void read(const std::string& name) const {
    if (on_devices) call_runtime([&] { return on_devices->read(on_devices->find(name)); });
  }

  // Before all of a state's memory is written.
  void write(const std::string& name) const {
    if (on_devices) on_devices->write(on_devices->find(name));
  }

  void compile(Part& called) {
    if (called.is_compiled()) return;
    if (budget && (&called == &forward || &called == &backward)) return compile_in_two();
    if (budget) called.set_budget(*budget, {kept_states(&called != &step)});
    called.compile().value();
  }

  std::vector<Tensor> run(Part& called, std::span<const Tensor> inputs) {
    const ThreadCount count(threads);
    compile(called);
    if (budget) make_room_for(called);
    std::vector<Tensor> results = called.run(inputs, profiles, device_budgets, on_devices);
    uses_gradients |= &called == &backward || &called == &part;
    peak_bytes = called.context().allocator().peak() + bytes_of(results) + bytes_of(kept) + state_bytes[uses_gradients];
    if (profiles) {
      const std::vector<ProfiledTask> found = profile_of(called.program(), called.context(), phase_of(called));
      profile.insert(profile.end(), found.begin(), found.end());
    }
    return results;
  }

  // Other parts keep no memory meanwhile, and neither does the C library of what was freed.
  void make_room_for(const Part& called) {
    for (Part* other : parts) {
      if (other != &called) other->free_memory();
    }
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
  }

  // What every call finds in memory. Without a step in parts, nobody touches gradients.
  KeptMemory kept_states(bool with_gradients) const {
    std::vector<KeptMemory> found;
    for (const auto& [name, data] : graphs.states) {
      if (!with_gradients && name.starts_with(gradient_name(""))) continue;
      found.push_back({name, bytes_of({&data, 1})});
    }
    const int64_t bytes = tenon::bytes_of(found);
    return {fill_in("states ({})", list_largest(std::move(found))), bytes};
  }

  // Compiles forward and backward so that the values between them fit the budget, too.
  void compile_in_two() {
    Status last = Unit{};
    for (Keep keep : {Keep::kAll, Keep::kCostly, Keep::kInputs}) {
      if (keep != Keep::kAll) cut_in_two(graphs, options, keep);
      const int64_t between = largest_bytes(graphs.backward, graphs.backward.inputs());
      const int64_t results = largest_bytes(graphs.forward, graphs.forward.outputs()) - between;
      forward.set_budget(*budget, {kept_states(true)});
      backward.set_budget(*budget, {kept_states(true), {"values for backward", between}, {"results", results}});
      last = forward.compile();
      if (last.ok()) last = backward.compile();
      if (last.ok()) return;
    }
    last.value();
  }

  std::optional<Phase> phase_of(const Part& called) const {
    if (&called == &forward || &called == &evaluate || &called == &predict) return Phase::kForward;
    if (&called == &backward) return Phase::kBackward;
    if (&called == &update) return Phase::kUpdate;
    return {};
  }

  std::vector<Tensor> with_target(std::span<const Tensor> inputs, const Tensor& target) const {
    std::vector<Tensor> all(inputs.begin(), inputs.end());
    if (takes_target(options.loss) && !target.defined()) fail("a target is missing: the loss is computed of it");
    if (!takes_target(options.loss) && target.defined())
      fail("there is a target, but the loss is the model's own output");
    if (target.defined()) all.push_back(target);
    return all;
  }

  void begin(std::string_view call) {
    is_initialized = true;
    if (!training) fail("{} is for training, and eval() was called: call train() first", call);
    profile.clear();
  }

  Exclusive::Use use() { return Exclusive::Use(exclusive, "the training instance"); }

  const Program& program_of(Part& called) {
    const auto held = use();
    const ThreadCount count(threads);
    compile(called);
    return called.program();
  }

  // Also under its further names.
  const States::value_type& state_named(const std::string& name) const {
    const auto tied = graphs.tied.find(name);
    const auto found = graphs.states.find(tied == graphs.tied.end() ? name : tied->second);
    if (found == graphs.states.end()) fail("there is no state '{}'", name);
    return *found;
  }

  void clear_gradients() {
    for (const std::string& name : graphs.trained) {
      const Tensor& gradient = graphs.states.at(gradient_name(name));
      write(gradient_name(name));
      std::fill_n(gradient.data(), gradient.numel() * size_of(gradient.dtype()), std::byte{0});
    }
    summed = 0;
  }

  TrainingOptions options;
  int64_t threads;
  std::vector<std::string> devices;
  FallbackFn training_fallback, inference_fallback;
  TrainingGraphs graphs;
  Part step{graphs.step, devices, training_fallback}, forward{graphs.forward, devices, training_fallback},
      backward{graphs.backward, devices, training_fallback}, part{graphs.part, devices, training_fallback},
      update{graphs.update, devices, training_fallback}, evaluate{graphs.evaluate, devices, inference_fallback},
      predict{graphs.predict, devices, inference_fallback};
  const std::array<Part*, 7> parts = {&step, &forward, &backward, &part, &update, &evaluate, &predict};
  const std::array<int64_t, 2> state_bytes = {kept_states(false).bytes, kept_states(true).bytes};  // with gradients
  std::shared_ptr<runtime::States> on_devices;  // the same states, where devices keep them; null without devices
  std::optional<int64_t> budget;
  DeviceBudgets device_budgets;
  bool profiles = false;
  bool uses_gradients = false;
  bool is_initialized = false;
  std::atomic<bool> training = true;
  std::vector<Tensor> kept;  // of the last forward(), for backward(); empty after it
  bool has_forward = false;
  int64_t summed = 0;  // how many backward() the gradients are of
  std::vector<ProfiledTask> profile;
  std::atomic<int64_t> peak_bytes = 0;
  Exclusive exclusive;
};

LocalTrainingInstance::LocalTrainingInstance(const TrainingModel& model, TrainingOptions options, int64_t threads,
                                             std::vector<std::string> devices)
    : state_(std::make_unique<State>(model, std::move(options), threads, std::move(devices))) {}

LocalTrainingInstance::~LocalTrainingInstance() = default;

Exclusive::Use LocalTrainingInstance::use() const { return state_->use(); }

void LocalTrainingInstance::initialize(std::optional<int64_t> budget, DeviceBudgets device_budgets) {
  const auto held = use();
  State& s = *state_;
  if (s.is_initialized) fail("initialize() comes first, and once");
  const ThreadCount count(s.threads);
  s.budget = budget;
  s.device_budgets = std::move(device_budgets);
  if (s.options.accumulate > 1) {
    s.compile(s.part);
    s.compile(s.update);
  } else {
    s.compile(s.step);
  }
  s.is_initialized = true;
}

LocalTrainingInstance::Forward LocalTrainingInstance::forward(std::span<const Tensor> inputs, const Tensor& target) {
  const auto held = use();
  State& s = *state_;
  s.is_initialized = true;
  s.profile.clear();
  if (!s.training && !target.defined() && takes_target(s.options.loss)) return {s.run(s.predict, inputs), {}};
  if (s.budget) s.kept.clear(), s.has_forward = false;  // they would count twice
  std::vector<Tensor> results = s.run(s.training ? s.forward : s.evaluate, s.with_target(inputs, target));
  const size_t outputs = s.graphs.evaluate.outputs().size() - 1;
  Forward given{{results.begin(), results.begin() + static_cast<std::ptrdiff_t>(outputs)}, results[outputs]};
  if (s.training) {
    s.kept.assign(results.begin() + static_cast<std::ptrdiff_t>(outputs) + 1, results.end());
    s.has_forward = true;
  }
  return given;
}

States LocalTrainingInstance::backward() {
  const auto held = use();
  State& s = *state_;
  s.begin("backward()");
  if (!s.has_forward) fail("backward() needs a forward() before it, one for each");
  if (s.summed == 0) s.clear_gradients();
  s.run(s.backward, s.kept);
  s.kept.clear();
  s.has_forward = false;
  ++s.summed;
  States gradients;
  for (const std::string& name : s.graphs.trained) {
    s.read(gradient_name(name));
    gradients[name] = s.graphs.states.at(gradient_name(name));
  }
  return gradients;
}

void LocalTrainingInstance::update() {
  const auto held = use();
  State& s = *state_;
  s.begin("update()");
  if (s.summed == 0) fail("update() needs gradients: call forward() and backward() first");
  s.run(s.update, {});
  s.summed = 0;
}

Tensor LocalTrainingInstance::step(std::span<const Tensor> inputs, const Tensor& target) {
  const auto held = use();
  State& s = *state_;
  s.begin("step()");
  if (s.options.accumulate == 1) return s.run(s.step, s.with_target(inputs, target))[0];
  if (s.summed == 0) s.clear_gradients();
  Tensor loss = s.run(s.part, s.with_target(inputs, target))[0];
  if (++s.summed == s.options.accumulate) {
    s.run(s.update, {});
    s.summed = 0;
  }
  return loss;
}

void LocalTrainingInstance::zero_grad() {
  const auto held = use();
  state_->clear_gradients();
  state_->kept.clear();
  state_->has_forward = false;
}

void LocalTrainingInstance::train() {
  const auto held = use();
  state_->training = true;
}

void LocalTrainingInstance::eval() {
  const auto held = use();
  state_->training = false;
}

bool LocalTrainingInstance::is_training() const { return state_->training; }

const States& LocalTrainingInstance::states() const {
  if (!state_->on_devices) return state_->graphs.states;
  const auto held = use();
  for (const auto& [name, data] : state_->graphs.states) {
    state_->read(name);
    state_->write(name);
  }
  return state_->graphs.states;
}

const std::map<std::string, std::string>& LocalTrainingInstance::tied() const { return state_->graphs.tied; }
const std::vector<std::string>& LocalTrainingInstance::trained() const { return state_->graphs.trained; }
const TrainingOptions& LocalTrainingInstance::options() const { return state_->options; }
const TrainingGraphs& LocalTrainingInstance::graphs() const { return state_->graphs; }

States LocalTrainingInstance::copy_states(std::span<const std::string> names) const {
  const auto held = use();
  States copies;
  for (const std::string& given : names) {
    const auto& [name, data] = state_->state_named(given);
    state_->read(name);
    copies[given] = data.copy();
  }
  return copies;
}

void LocalTrainingInstance::load_states(const States& states) {
  const auto held = use();
  std::vector<std::pair<Tensor, Tensor>> copies;
  std::vector<std::string> written;
  for (const auto& [name, data] : states) {
    const auto& [own_name, state] = state_->state_named(name);
    if (type_of(data) != type_of(state))
      fail("state '{}' is {}, got {}", name, to_string(type_of(state)), to_string(type_of(data)));
    copies.emplace_back(state, data);
    written.push_back(own_name);
  }
  // What lies in a state is copied before any of them changes.
  const auto is_written = [&](const Tensor& data) {
    return std::ranges::any_of(copies, [&](const auto& copy) { return copy.first.shares_memory_with(data); });
  };
  for (auto& [state, data] : copies) {
    if (is_written(data)) data = data.copy();
  }
  for (const std::string& name : written) state_->write(name);
  for (auto& [state, data] : copies) state.copy_from(data);
}

void LocalTrainingInstance::enable_profiling(bool on) {
  const auto held = use();
  state_->profiles = on;
}

std::vector<ProfiledTask> LocalTrainingInstance::profile() const {
  const auto held = use();
  return state_->profile;
}

const Program& LocalTrainingInstance::step_program() { return state_->program_of(state_->step); }
const Program& LocalTrainingInstance::part_program() {
  const auto held = use();
  if (state_->summed == 0) state_->clear_gradients();
  return state_->program_of(state_->part);
}
const Program& LocalTrainingInstance::evaluate_program() { return state_->program_of(state_->evaluate); }
const Program& LocalTrainingInstance::predict_program() { return state_->program_of(state_->predict); }
int64_t LocalTrainingInstance::peak_bytes() const { return state_->peak_bytes; }

const MemoryReport* LocalTrainingInstance::memory_report() const {
  const auto held = use();
  State& s = *state_;
  Part& called = s.options.accumulate > 1 ? s.part : s.step;
  return s.budget ? called.program().memory_report.get() : nullptr;
}

}  // namespace tenon
