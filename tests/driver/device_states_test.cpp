// States and tensors of the caller that programs on several devices and on the CPU share, through the C interface: any
// order of runs, reads, writes, checkpoints and failures gives what the CPU gives.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <thread>

#include "driver/pipeline.h"
#include "graph/builder.h"
#include "program/artifact.h"
#include "tenon/device.h"
#include "tests/driver/support_loopback.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using Values = std::vector<float>;

constexpr int64_t kRows = 4, kColumns = 8;

Tensor random(const std::string& type, uint64_t seed) {
  test::Random numbers(seed);
  return test::random_tensor(parse_type(type).value(), {}, {-1, 1}, numbers);
}

// y = relu(x @ w) * scale, z = tanh(y) - next, where next is the next value of the state `sum`. It also updates the
// state `scale` and the input `seen`.
Graph model_graph() {
  Graph graph("model");
  Builder b(graph);
  const auto leaf = [&](const std::string& name, const std::string& type, uint64_t seed) {
    return b.value(graph.add_buffer(name, parse_type(type).value(), random(type, seed)));
  };
  const Value x = b.value(graph.add_input("x", parse_type("f32[4, 8]").value()));
  const Value seen = b.value(graph.add_input("seen", parse_type("f32[8]").value()));
  const Value w = b.value(graph.add_parameter("w", parse_type("f32[8, 8]").value(), random("f32[8, 8]", 1)));
  const Value sum = leaf("sum", "f32[8]", 2), scale = leaf("scale", "f32[8]", 3);
  const Value y = b.relu(b.matmul(x, w)) * scale;
  const Value next = sum * 0.5 + b.sum(y, {0});
  graph.add_update(sum.ref(), next.ref());
  graph.add_update(scale.ref(), (b.tanh(scale) + 0.25).ref());
  graph.add_update(seen.ref(), (seen * 0.5 + b.sum(x, {0})).ref());
  graph.set_outputs({y.ref(), (b.tanh(y) - next).ref()});
  return graph;
}

#define NEED(call) ASSERT_EQ(call, TENON_OK) << tenon_error()
#define EXPECT_OK(call) EXPECT_EQ(call, TENON_OK) << tenon_error()

constexpr int64_t kMatrix[] = {kRows, kColumns}, kVector[] = {kColumns};

tenon_tensor view(const Values& values) {
  const bool is_matrix = values.size() == kRows * kColumns;
  return {const_cast<float*>(values.data()), TENON_F32, is_matrix ? 2 : 1, is_matrix ? kMatrix : kVector, nullptr};
}

struct Freed {
  void operator()(tenon_program* it) const { tenon_program_free(it); }
  void operator()(tenon_context* it) const { tenon_context_free(it); }
  void operator()(tenon_states* it) const { tenon_states_free(it); }
  void operator()(tenon_device_tensor* it) const { tenon_device_tensor_free(it); }
};
template <class T>
using Owned = std::unique_ptr<T, Freed>;

// A tensor on a device; its value may be there only.
struct Placed {
  explicit Placed(const Values& values, const char* device = "loopback") {
    const tenon_tensor tensor = view(values);
    tenon_device_tensor* made = nullptr;
    EXPECT_OK(tenon_device_tensor_create(device, &tensor, &made));
    it.reset(made);
  }
  Values values(size_t count) const {
    Values read(count);
    const tenon_tensor to = view(read);
    EXPECT_OK(tenon_device_tensor_read(it.get(), &to));
    return read;
  }
  Owned<tenon_device_tensor> it;
};

// A program on a device or on the CPU, with a context.
class Running {
 public:
  explicit Running(const std::string& device, tenon_states* states = nullptr, tenon_context_options options = {}) {
    const Program cpu = compile_program(model_graph()).value();
    const bool is_cpu = device == "cpu";
    const Program there = is_cpu ? Program() : compile_program(model_graph(), {.devices = {device}}).value();
    bytes_ = artifact_bytes(is_cpu ? std::vector{&cpu} : std::vector{&cpu, &there}).value();
    const tenon_load_options load{.device = device.c_str()};
    tenon_program* program = nullptr;
    tenon_context* context = nullptr;
    EXPECT_OK(tenon_load_memory(bytes_.data(), bytes_.size(), &load, &program));
    program_.reset(program);
    EXPECT_OK(states == nullptr ? tenon_context_create(program, &options, &context)
                                : tenon_context_create_with(program, &options, states, &context));
    context_.reset(context);
  }

  Owned<tenon_states> states() const {
    tenon_states* states = nullptr;
    EXPECT_OK(tenon_context_states(context_.get(), &states));
    return Owned<tenon_states>(states);
  }
  tenon_context* get() const { return context_.get(); }
  const tenon_program* program() const { return program_.get(); }

  // In the host's memory.
  tenon_status run(const Values& x, Values& seen, Values& y, Values& z) {
    const tenon_tensor tensors[] = {view(x), view(seen), view(y), view(z)};
    EXPECT_OK(tenon_set_input(get(), 0, &tensors[0]));
    EXPECT_OK(tenon_set_input(get(), 1, &tensors[1]));
    EXPECT_OK(tenon_set_output(get(), 0, &tensors[2]));
    EXPECT_OK(tenon_set_output(get(), 1, &tensors[3]));
    return tenon_run(get());
  }

 private:
  std::vector<std::byte> bytes_;
  Owned<tenon_program> program_;
  Owned<tenon_context> context_;
};

Values state_of(tenon_states* states, size_t number) {
  tenon_tensor tensor{};
  EXPECT_OK(tenon_get_state(states, number, &tensor));
  const auto* const data = static_cast<const float*>(tensor.data);
  return data == nullptr ? Values() : Values(data, data + kColumns);
}

void expect_close(const Values& actual, const Values& expected, std::string_view what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 1e-4 + 1e-4 * std::abs(expected[i])) << what << " at " << i;
}

// ---- any order ------------------------------------------------------------------------------------------------------

// Operations on states that contexts of several devices share, beside the same on a CPU alone.
class Sequence {
 public:
  explicit Sequence(uint64_t seed)
      : random_(seed),
        path_(fmt::format("{}device_states.{}", testing::TempDir(), ::getpid())),
        contexts_(5),
        reference_("cpu") {
    contexts_[0] = std::make_unique<Running>("cpu");
    states_ = contexts_[0]->states();
    reference_states_ = reference_.states();
    const std::string devices[] = {"loopback", fmt::format("loopback:claim=0.5,delay=20,seed={}", seed),
                                   "loopback:delay=5",  // the host reads y and the next sum, too:
                                   "loopback:ops=matmul+relu+mul+sum+add"};
    for (size_t i = 0; i < 4; ++i) contexts_[i + 1] = std::make_unique<Running>(devices[i], states_.get());
  }
  ~Sequence() { std::filesystem::remove(path_); }

  void step() {
    const int64_t kind = below(10);
    SCOPED_TRACE(fmt::format("operation {}", kind));
    if (kind < 5) return run();
    if (kind == 5) return write_state();
    if (kind == 6) return compare_states();
    if (kind == 7) return compare_tensors();
    if (kind == 8) return save_or_load();
    EXPECT_OK(tenon_states_reset(states_.get()));
    EXPECT_OK(tenon_states_reset(reference_states_.get()));
  }

  void compare_states() {
    for (size_t i = 0; i < 2; ++i)
      expect_close(state_of(states_.get(), i), state_of(reference_states_.get(), i), "a state");
  }

  void compare_tensors() {
    expect_close(seen_.values(kColumns), reference_seen_, "the input that is updated");
    if (is_y_set_) expect_close(y_.values(kRows * kColumns), reference_y_, "a result on the device");
  }

 private:
  int64_t below(int64_t end) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(end)); }

  Values values(size_t count) {
    Values made(count);
    for (float& value : made) value = static_cast<float>(below(17) - 8) / 8;
    return made;
  }

  // Each tensor on the host or on the device. What is on the device stays there for later runs.
  void run() {
    Running& context = *contexts_[static_cast<size_t>(below(5))];
    const Values x = values(kRows * kColumns);
    const Placed placed_x(x);
    const bool keeps_y = below(2) == 0, updates_there = below(2) == 0;
    Values y(x.size()), z(x.size()), seen = seen_.values(kColumns), expected_y(x.size()), expected_z(x.size());
    const tenon_tensor host_x = view(x), host_seen = view(seen), host_y = view(y), host_z = view(z);
    tenon_context* const it = context.get();
    EXPECT_OK(below(2) == 0 ? tenon_set_input(it, 0, &host_x) : tenon_set_input_on_device(it, 0, placed_x.it.get()));
    EXPECT_OK(updates_there ? tenon_set_input_on_device(it, 1, seen_.it.get()) : tenon_set_input(it, 1, &host_seen));
    EXPECT_OK(keeps_y ? tenon_set_output_on_device(it, 0, y_.it.get()) : tenon_set_output(it, 0, &host_y));
    EXPECT_OK(tenon_set_output(it, 1, &host_z));
    EXPECT_OK(tenon_run(it));
    EXPECT_OK(reference_.run(x, reference_seen_, expected_y, expected_z));
    expect_close(z, expected_z, "z");
    if (!keeps_y) expect_close(y, expected_y, "y");
    if (!updates_there) {
      expect_close(seen, reference_seen_, "the input that is updated");
      seen_ = Placed(seen);
    }
    if (keeps_y) reference_y_ = expected_y;
    is_y_set_ |= keeps_y;
  }

  void write_state() {
    const auto number = static_cast<size_t>(below(2));
    const Values value = values(kColumns);
    const tenon_tensor tensor = view(value);
    EXPECT_OK(tenon_set_state(states_.get(), number, &tensor));
    EXPECT_OK(tenon_set_state(reference_states_.get(), number, &tensor));
  }

  // A checkpoint of the one is a checkpoint of the other.
  void save_or_load() {
    EXPECT_OK(tenon_states_save(states_.get(), path_.c_str()));
    if (below(2) == 0) {
      const Values other = values(kColumns);
      const tenon_tensor tensor = view(other);
      EXPECT_OK(tenon_set_state(states_.get(), 0, &tensor));
      EXPECT_OK(tenon_states_load(states_.get(), path_.c_str()));
      return;
    }
    Running fresh("cpu");
    const Owned<tenon_states> loaded = fresh.states();
    EXPECT_OK(tenon_states_load(loaded.get(), path_.c_str()));
    for (size_t i = 0; i < 2; ++i)
      expect_close(state_of(loaded.get(), i), state_of(reference_states_.get(), i), "a state of a checkpoint");
  }

  test::Random random_;
  std::string path_;
  std::vector<std::unique_ptr<Running>> contexts_;
  Running reference_;
  Owned<tenon_states> states_, reference_states_;
  Placed seen_{Values(kColumns)}, y_{Values(kRows * kColumns)};
  Values reference_seen_ = Values(kColumns), reference_y_;
  bool is_y_set_ = false;
};

class DeviceStates : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::load_loopback(); }
};

TEST_F(DeviceStates, AnyOrderOfRunsReadsAndWritesGivesWhatTheCpuGives) {
  const long live = test::loopback_live();
  for (uint64_t seed = 0; seed < 6 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Sequence sequence(seed);
    for (int i = 0; i < 60 && !HasFailure(); ++i) {
      SCOPED_TRACE(fmt::format("step {}", i));
      sequence.step();
    }
    sequence.compare_states();
    sequence.compare_tensors();
  }
  EXPECT_EQ(test::loopback_live(), live) << "leaked";
}

// A program without tasks of devices, such as the prediction of a training.
TEST_F(DeviceStates, TheCpuSeesWhatADeviceWrote) {
  Running there("loopback"), reference("cpu");
  const Owned<tenon_states> states = there.states(), expected = reference.states();
  Running here("cpu", states.get());
  const Values x(kRows * kColumns, 0.5F);
  Values seen(kColumns), y(x.size()), z(x.size()), expected_z(x.size());
  for (Running* each : {&there, &here, &there, &there, &here}) {
    NEED(each->run(x, seen, y, z));
    NEED(reference.run(x, seen, y, expected_z));
    expect_close(z, expected_z, "z");
  }
  for (size_t i = 0; i < 2; ++i) expect_close(state_of(states.get(), i), state_of(expected.get(), i), "a state");
}

TEST_F(DeviceStates, AResultThatStaysOnTheDeviceIsReadByTheHost) {
  const char* const device = "loopback:ops=matmul+relu+mul+sum+add";  // tanh of y is not among them
  Running there(device), reference("cpu");
  const Values x(kRows * kColumns, 0.5F);
  Values seen(kColumns), y(x.size()), z(x.size()), expected_z(x.size());
  const Placed left(y, device);
  for (int run = 0; run < 3; ++run) {
    const tenon_tensor tensors[] = {view(x), view(seen), view(z)};
    NEED(tenon_set_input(there.get(), 0, &tensors[0]));
    NEED(tenon_set_input(there.get(), 1, &tensors[1]));
    NEED(tenon_set_output_on_device(there.get(), 0, left.it.get()));
    NEED(tenon_set_output(there.get(), 1, &tensors[2]));
    NEED(tenon_run(there.get()));
    NEED(reference.run(x, seen, y, expected_z));
    expect_close(z, expected_z, "z");
    expect_close(left.values(y.size()), y, "y");
  }
}

TEST_F(DeviceStates, AStateThatTheHostReadDuringARunIsThere) {
  Running there("loopback:ops=matmul+relu+mul+sum+add");  // the host subtracts the next value of `sum`
  const Owned<tenon_states> states = there.states();
  Values seen(kColumns), y(kRows * kColumns), z(y.size());
  NEED(there.run(Values(y.size(), 0.5F), seen, y, z));
  const long before = test::loopback_copies();
  state_of(states.get(), 0);
  EXPECT_EQ(test::loopback_copies(), before);
}

TEST_F(DeviceStates, ResultsDoNotOverlapOnADevice) {
  const char* const device = "loopback";
  Running there(device);
  const Values x(kRows * kColumns, 0.5F), seen(kColumns), y(x.size());
  const Placed left(y, device);
  const tenon_tensor tensors[] = {view(x), view(seen)};
  for (size_t i = 0; i < 2; ++i) {
    NEED(tenon_set_input(there.get(), i, &tensors[i]));
    NEED(tenon_set_output_on_device(there.get(), i, left.it.get()));
  }
  EXPECT_EQ(tenon_run(there.get()), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(tenon_error(), HasSubstr("the memory of output 'out1' on loopback overlaps that of output 'out0'"));
}

// Somebody else may know the address.
TEST_F(DeviceStates, AnInputIsUpdatedWhereItLies) {
  const Values x(kRows * kColumns, 0.5F);
  for (const char* device : {"cpu", "loopback", "loopback:delay=5"}) {
    SCOPED_TRACE(device);
    Running running(device), reference("cpu");
    Values y(x.size()), z(x.size()), expected(kColumns);
    const Placed seen(expected);
    tenon_tensor memory{};
    tenon_device_tensor* wrapped = nullptr;
    NEED(tenon_device_tensor_info(seen.it.get(), nullptr, &memory));
    NEED(tenon_device_tensor_wrap("loopback", &memory, nullptr, nullptr, &wrapped));
    const Owned<tenon_device_tensor> alias(wrapped);
    const tenon_tensor tensors[] = {view(x), view(y), view(z)};
    NEED(tenon_set_input(running.get(), 0, &tensors[0]));
    NEED(tenon_set_input_on_device(running.get(), 1, seen.it.get()));
    NEED(tenon_set_output(running.get(), 0, &tensors[1]));
    NEED(tenon_set_output(running.get(), 1, &tensors[2]));
    NEED(tenon_run(running.get()));
    NEED(reference.run(x, expected, y, z));
    Values found(kColumns);
    const tenon_tensor to = view(found);
    NEED(tenon_device_tensor_read(alias.get(), &to));
    expect_close(found, expected, "the input that is updated");
  }
}

// ---- failures -------------------------------------------------------------------------------------------------------

TEST_F(DeviceStates, ARunThatFailsOnTheDeviceChangesNoState) {
  Running failing("loopback:fail=0.04,seed=3"), reference("cpu");
  const Owned<tenon_states> states = failing.states(), expected = reference.states();
  const Values x(kRows * kColumns, 0.5F);
  Values seen(kColumns), reference_seen(kColumns), y(x.size()), z(x.size());
  int failures = 0;
  for (int run = 0; run < 60; ++run) {
    while (failing.run(x, seen, y, z) != TENON_OK) {
      ASSERT_THAT(tenon_error(), HasSubstr("injected failure"));
      ++failures;
      seen = reference_seen;
    }
    NEED(reference.run(x, reference_seen, y, z));
  }
  EXPECT_GT(failures, 10);
  for (size_t i = 0; i < 2; ++i) {
    tenon_tensor tensor{};
    while (tenon_get_state(states.get(), i, &tensor) != TENON_OK) {
    }
    const auto* const data = static_cast<const float*>(tensor.data);
    expect_close({data, data + kColumns}, state_of(expected.get(), i), "a state");
  }
}

// The device works on after the first failure: the run must wait for it, for the memory is the caller's.
TEST_F(DeviceStates, ARunThatFailedWritesNothingLater) {
  Running failing("loopback:fail=0.05,delay=4000,seed=3");
  const Values x(kRows * kColumns, 0.5F);
  int failures = 0;
  for (int run = 0; run < 40 && failures < 8; ++run) {
    Values seen(kColumns), y(x.size(), -7), z(x.size(), -7);
    if (failing.run(x, seen, y, z) == TENON_OK) continue;
    ++failures;
    const Values seen_then = seen, y_then = y, z_then = z;
    usleep(15000);
    EXPECT_EQ(seen, seen_then);
    EXPECT_EQ(y, y_then);
    EXPECT_EQ(z, z_then);
  }
  EXPECT_GE(failures, 3);
}

// All tasks are the device's: one wait, at the end, finds out which of them failed.
TEST_F(DeviceStates, TheTaskThatFailedIsNamed) {
  const Program program = compile_program(model_graph(), {.devices = {"loopback:fail=0.03,seed=5"}}).value();
  std::set<std::string> names, failed;
  for (const Task& task : program.tasks) names.insert(task.name);
  const std::vector<Tensor> inputs = {random("f32[4, 8]", 4), random("f32[8]", 5)};
  for (int run = 0; run < 100; ++run) {
    const auto result = attempt([&] { return program.run(inputs); });
    if (result.ok()) continue;
    const std::string& message = result.diagnostic().message;
    const std::string name = message.substr(0, message.find(": "));
    if (names.contains(name)) failed.insert(name);
  }
  EXPECT_GE(failed.size(), 3u) << fmt::format("{}", fmt::join(failed, ", "));
}

// The program runs on one device, and leaves a result on another, which fails.
TEST_F(DeviceStates, AResultThatCannotBeLeftOnADeviceChangesNoState) {
  Running there("loopback"), reference("cpu");
  const Owned<tenon_states> states = there.states(), expected = reference.states();
  const Values x(kRows * kColumns, 0.5F);
  Values seen(kColumns), y(x.size()), z(x.size());
  const tenon_tensor type{nullptr, TENON_F32, 2, kMatrix, nullptr};
  tenon_device_tensor* made = nullptr;
  NEED(tenon_device_tensor_create("loopback:fail=0.5,seed=2", &type, &made));
  const Owned<tenon_device_tensor> result(made);
  int failures = 0;
  for (int run = 0; run < 20; ++run) {
    const tenon_tensor tensors[] = {view(x), view(seen), view(z)};
    NEED(tenon_set_input(there.get(), 0, &tensors[0]));
    NEED(tenon_set_input(there.get(), 1, &tensors[1]));
    NEED(tenon_set_output_on_device(there.get(), 0, result.get()));
    NEED(tenon_set_output(there.get(), 1, &tensors[2]));
    const bool ran = tenon_run(there.get()) == TENON_OK;
    failures += ran ? 0 : 1;
    if (ran) NEED(reference.run(x, seen, y, z));
    for (size_t i = 0; i < 2; ++i) expect_close(state_of(states.get(), i), state_of(expected.get(), i), "a state");
  }
  EXPECT_GT(failures, 3);
  EXPECT_LT(failures, 17);
}

// A slow device may not read the context's memory when the next run writes there.
TEST_F(DeviceStates, ResultsOnASlowDeviceAreThoseOfTheirRuns) {
  Running cpu("cpu");
  Values seen(kColumns), z(kRows * kColumns);
  for (int i = 0; i < 5; ++i) {
    std::vector<Placed> results;
    for (int run = 0; run < 2; ++run) {
      const Values x(kRows * kColumns, run == 0 ? 0.5F : -0.5F);
      const tenon_tensor tensors[] = {view(x), view(seen), view(z)};
      results.emplace_back(Values(x.size()), "loopback:delay=4000");
      NEED(tenon_set_input(cpu.get(), 0, &tensors[0]));
      NEED(tenon_set_input(cpu.get(), 1, &tensors[1]));
      NEED(tenon_set_output_on_device(cpu.get(), 0, results[run].it.get()));
      NEED(tenon_set_output(cpu.get(), 1, &tensors[2]));
      NEED(tenon_run(cpu.get()));
    }
    // relu leaves the columns of w with a positive sum to the one, and those with a negative sum to the other.
    const Values first = results[0].values(z.size()), second = results[1].values(z.size());
    for (size_t k = 0; k < first.size(); ++k) EXPECT_TRUE((first[k] == 0) != (second[k] == 0)) << k;
  }
}

// ---- threads --------------------------------------------------------------------------------------------------------

TEST_F(DeviceStates, ThreadsReadOneTensor) {
  const Values x(kRows * kColumns, 0.25F);
  Values seen(kColumns), expected(x.size()), z(x.size());
  NEED(Running("cpu").run(x, seen, expected, z));
  for (int round = 0; round < 8; ++round) {
    const Placed shared(x);  // the host has no copy yet
    std::vector<std::unique_ptr<Running>> contexts;
    for (const char* device : {"cpu", "cpu", "loopback", "loopback:claim=0.5"})
      contexts.push_back(std::make_unique<Running>(device));
    std::vector<Values> results(contexts.size(), Values(x.size()));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < contexts.size(); ++i) {
      threads.emplace_back([&, i] {
        Values own_seen(kColumns), own_z(x.size());
        const tenon_tensor there = view(own_seen), y = view(results[i]), last = view(own_z);
        tenon_context* const it = contexts[i]->get();
        EXPECT_OK(tenon_set_input_on_device(it, 0, shared.it.get()));
        EXPECT_OK(tenon_set_input(it, 1, &there));
        EXPECT_OK(tenon_set_output(it, 0, &y));
        EXPECT_OK(tenon_set_output(it, 1, &last));
        EXPECT_OK(tenon_run(it));
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Values& result : results) expect_close(result, expected, "a thread's result");
  }
}

// ---- budgets --------------------------------------------------------------------------------------------------------

int64_t needed_in(const std::string& error) {
  const size_t at = error.find(" needs ");
  return at == std::string::npos ? -1 : std::stoll(error.substr(at + 7));
}

// A budget is for a device by its name, with any options, or by name and options. The need that an error names is
// enough, and no byte less; it is what loopback gives out.
TEST_F(DeviceStates, BudgetsAreExactForNamesAndSpecs) {
  const std::string spec = "loopback:delay=1";
  const Values x(kRows * kColumns, 0.5F);
  Values seen(kColumns), y(x.size()), z(x.size());
  const auto run = [&](const char* device, int64_t bytes) {
    const tenon_device_budget budget{device, bytes};
    Running running(spec, nullptr, {.device_budgets = &budget, .device_budget_count = 1});
    return running.run(x, seen, y, z) == TENON_OK ? std::string() : std::string(tenon_error());
  };
  const int64_t constants = 8 * 8 * 4, states = 2 * 2 * 8 * 4;  // each state with room for its next value
  for (const char* device : {"loopback", "loopback:delay=1"}) {
    SCOPED_TRACE(device);
    const std::string refused = run(device, 1);
    const int64_t needed = needed_in(refused);
    EXPECT_THAT(refused,
                HasSubstr(fmt::format("memory of {}, {} of them for constants and states", spec, constants + states)));
    EXPECT_GT(needed, constants + states);
    EXPECT_EQ(run(device, needed), "");
    EXPECT_EQ(needed_in(run(device, needed - 1)), needed);
  }
  EXPECT_EQ(run("loopback:delay=2", 1), "");  // of another device
}

}  // namespace
}  // namespace tenon
