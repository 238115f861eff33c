// Files with several programs over the same states, and checkpoints of them. tests/robustness uses them from C++ and
// with damage; here is what needs a compiler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <thread>

#include "driver/pipeline.h"
#include "driver/recompile.h"
#include "graph/builder.h"
#include "program/artifact.h"
#include "runtime/artifact.h"
#include "runtime/checkpoint.h"
#include "runtime/context.h"
#include "runtime/error.h"

namespace tenon {
namespace {

using runtime::Container;
using runtime::Context;
using runtime::States;
using testing::ElementsAre;
using testing::HasSubstr;

Tensor filled(Sizes shape, double value, DType dtype = DType::kF32) {
  Tensor tensor = Tensor::zeros(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_real(i, value);
  return tensor;
}

// weight += x, steps += 1; the result is what the weight was, times x.
Graph step_graph(int64_t size, double start = 2) {
  Graph graph("step");
  Builder builder(graph);
  const Value x = builder.value(graph.add_input("x", {DType::kF32, {size}}));
  const Value weight = builder.value(graph.add_buffer("layer.weight", {DType::kF32, {size}}, filled({size}, start)));
  const Value steps = builder.value(graph.add_buffer("steps", {DType::kF32, {2}}, filled({2}, 0)));
  graph.add_update(weight.ref(), (weight + x).ref());
  graph.add_update(steps.ref(), (steps + 1.0).ref());
  graph.set_outputs({(weight * x).ref()});
  return graph;
}

// What the weight is, times x; nothing is updated.
Graph eval_graph(int64_t size, double start = 2) {
  Graph graph("eval");
  Builder builder(graph);
  const Value x = builder.value(graph.add_input("x", {DType::kF32, {size}}));
  const Tensor data = filled({size}, start);
  const Value weight = builder.value(graph.add_parameter("layer.weight", type_of(data), data));
  const Value bias = builder.value(graph.add_constant(filled({size}, 0.5)));
  graph.set_outputs({(weight * x).ref(), (x + bias).ref()});
  return graph;
}

Result<std::vector<std::byte>> file_of(const Graph& step, const Graph& eval, const std::string& cpu = "native") {
  const Program first = compile_program(step, {.cpu = cpu, .freeze = false}).value();
  const Program second = compile_program(eval, {.cpu = cpu, .freeze = false}).value();
  return artifact_bytes(
      std::vector<ProgramEntry>{{"step", {&first}, {{"role", "training"}}}, {"eval", {&second}, {{"role", "test"}}}});
}

std::shared_ptr<const Container> contained(const std::vector<std::byte>& bytes) {
  return std::make_shared<const Container>(Container::of_memory(bytes));
}

// A file's entries over one set of states.
struct Loaded {
  explicit Loaded(std::vector<std::byte> file, const runtime::LoadOptions& options = {})
      : bytes(std::move(file)), entries(runtime::load_entries(contained(bytes), options)) {
    runtime::Programs programs;
    for (const runtime::Entry& entry : entries) programs.push_back(entry.program);
    states = std::make_shared<States>(programs, std::make_shared<runtime::Allocator>());
    for (const runtime::Entry& entry : entries)
      contexts.push_back(std::make_unique<Context>(entry.program, runtime::ContextOptions{}, states));
  }

  double run(size_t entry, double x) {
    const Tensor input = filled({states->all()[0].shape[0]}, x);
    contexts[entry]->set_input(0, {input.data(), TENON_F32, 1, input.shape().data(), nullptr});
    contexts[entry]->run();
    return *static_cast<const float*>(contexts[entry]->output(0).view.data);
  }
  double value(const std::string& name) const {
    return *reinterpret_cast<const float*>(states->read(states->find(name)));
  }

  std::vector<std::byte> bytes;
  std::vector<runtime::Entry> entries;
  std::shared_ptr<States> states;
  std::vector<std::unique_ptr<Context>> contexts;
};

Loaded training(int64_t size = 32) { return Loaded(file_of(step_graph(size), eval_graph(size)).value()); }

TEST(Entries, ShareTheirStates) {
  for (const bool native : {true, false}) {
    Loaded file(file_of(step_graph(32), eval_graph(32)).value(), {.native = native});
    EXPECT_EQ(file.run(1, 10), 20);
    EXPECT_EQ(file.run(0, 3), 6);
    EXPECT_EQ(file.run(1, 10), 50) << "the weight is 5 now";
    EXPECT_EQ(file.run(0, 1), 5);
    EXPECT_EQ(file.value("steps"), 2);
    file.states->reset();
    EXPECT_EQ(file.run(1, 10), 20);
  }
}

TEST(Entries, HaveNamesNotesAndGraphs) {
  const std::vector<std::byte> bytes = file_of(step_graph(32), eval_graph(32)).value();
  const auto container = contained(bytes);
  EXPECT_THAT(runtime::entry_names(*container), ElementsAre("step", "eval"));
  EXPECT_EQ(read_notes(*container, "eval").value().at("role"), "test");
  EXPECT_EQ(read_notes(*container).value().at("role"), "training");
  EXPECT_EQ(read_artifact_graph(container, "eval").value().name(), "eval");
  EXPECT_EQ(runtime::load_program(container, {.entry = "eval"})->graph().name, "eval");
  try {
    runtime::load_program(container, {.entry = "trian"});
    FAIL();
  } catch (const runtime::StatusError& error) {
    EXPECT_EQ(error.message(), "the file has no entry 'trian'; its entries are step, eval");
  }
}

TEST(Entries, KeepEachWeightOnce) {
  const int64_t size = 4096;
  const std::vector<std::byte> bytes = file_of(step_graph(size), eval_graph(size)).value();
  const size_t weights = contained(bytes)->find(format::SectionKind::kWeights)->bytes.size();
  EXPECT_LT(weights, 2 * 4 * static_cast<size_t>(size) + 1024) << "a weight and a constant";
}

TEST(Entries, AreRefusedByReadersOfTheFirstFormat) {
  const std::vector<std::byte> bytes = file_of(step_graph(32), eval_graph(32)).value();
  const auto* const first = reinterpret_cast<const format::Section*>(bytes.data() + sizeof(format::Header));
  EXPECT_EQ(first->kind, static_cast<uint32_t>(format::SectionKind::kEntries));
  EXPECT_EQ(first->flags, format::kSectionRequired);
}

TEST(Entries, MustAgreeAboutTheirStates) {
  EXPECT_EQ(file_of(step_graph(32), eval_graph(16)).diagnostic().message,
            "state 'layer.weight' is f32[32] in 'step' and f32[16] in 'eval'");
  EXPECT_EQ(file_of(step_graph(32, 1), eval_graph(32, 2)).diagnostic().message,
            "state 'layer.weight' does not start with the same values in 'step' and 'eval'");
  const Program step = compile_program(step_graph(4)).value();
  const Program other = compile_program(step_graph(4), {.cpu = "x86-64-v2"}).value();
  const auto message = [](const std::vector<ProgramEntry>& entries) {
    return artifact_bytes(entries).diagnostic().message;
  };
  EXPECT_THAT(message({{"a", {&step}}, {"a", {&step}}}), HasSubstr("two entries have the name 'a'"));
  EXPECT_THAT(message({{"a b", {&step}}}), HasSubstr("named by an identifier of at most 15 characters, got 'a b'"));
  EXPECT_THAT(message({{"a_name_of_16_let", {&step}}}), HasSubstr("got 'a_name_of_16_let'"));
  EXPECT_THAT(message({{"a", {&step}}, {"b", {&other}}}), HasSubstr("not compiled for the same CPUs"));
}

TEST(Entries, AreCompiledAnewWithTheirStates) {
  const std::vector<std::byte> bytes = file_of(step_graph(32), eval_graph(32), "x86-64-v2").value();
  Loaded file(recompiled_artifact(contained(bytes)).value());
  EXPECT_THAT(runtime::entry_names(*contained(file.bytes)), ElementsAre("step", "eval"));
  EXPECT_EQ(file.states->all().size(), 2u) << "a constant became a state";
  EXPECT_EQ(file.run(0, 3), 6);
  EXPECT_EQ(file.run(1, 10), 50);
  EXPECT_EQ(read_notes(*contained(file.bytes), "eval").value().at("role"), "test");
}

// ---- states ---------------------------------------------------------------------------------------------------------

std::string message_of(const auto& body) {
  try {
    body();
  } catch (const runtime::StatusError& error) {
    return error.message();
  }
  return "no error";
}

TEST(States, OfAContextCountForItsBudget) {
  const std::vector<std::byte> bytes = artifact_bytes({[] {
                                         static const Program program = compile_program(step_graph(1024)).value();
                                         return &program;
                                       }()})
                                           .value();
  const auto program = runtime::load_program(contained(bytes), {});
  EXPECT_EQ(message_of([&] { Context(program, {.budget = 4096}); }),
            "the states up to 'steps' need at least 4104 bytes, and the budget is 4096");
  const Context context(program, {.budget = 4104});
  EXPECT_EQ(context.allocator().used(), 4104);
  const auto allocator = std::make_shared<runtime::Allocator>(4104);
  const auto shared = std::make_shared<States>(runtime::Programs{program}, allocator);
  const Context other(program, {.budget = 1}, shared);
  EXPECT_EQ(other.allocator().used(), 0);
  EXPECT_EQ(allocator->used(), 4104);
}

TEST(States, OfAnotherTypeDoNotFit) {
  Loaded file = training(32), other = training(16);
  EXPECT_EQ(message_of([&] { Context(file.entries[0].program, {}, other.states); }),
            "state 'layer.weight' is f32[16], and not f32[32]");
  const int64_t shape[] = {8, 4};
  EXPECT_EQ(message_of([&] { file.states->set(0, {nullptr, TENON_F32, 2, shape, nullptr}); }),
            "state 'layer.weight' is f32[32], got f32[8, 4]");
}

TEST(States, AreUsedByOneAtATime) {
  Loaded file = training();
  const States::Use use(*file.states);
  EXPECT_THAT(message_of([&] { file.run(0, 1); }), HasSubstr("the states are in use"));
  EXPECT_EQ(file.value("steps"), 0);
}

// ---- checkpoints ----------------------------------------------------------------------------------------------------

class Checkpoint : public testing::Test {
 protected:
  Checkpoint() { std::filesystem::create_directory(folder_); }
  ~Checkpoint() override { std::filesystem::remove_all(folder_); }

  void save_step(States& states, int64_t step) const {
    for (size_t i = 0; i < states.all().size(); ++i) {
      const Tensor value = filled(states.all()[i].shape, static_cast<double>(step));
      states.set(i, {value.data(), TENON_F32, static_cast<int32_t>(value.rank()), value.shape().data(), nullptr});
    }
    states.notes()["step"] = std::to_string(step);
    runtime::save_states(states, path_);
  }

  // Which one it is, all of it.
  int64_t load_step(States& states) const {
    runtime::load_states(states, path_);
    const int64_t step = std::stoll(states.notes().at("step"));
    for (size_t i = 0; i < states.all().size(); ++i) {
      const auto* const values = reinterpret_cast<const float*>(states.read(i));
      const auto count = static_cast<size_t>(states.all()[i].bytes) / sizeof(float);
      const bool is_whole = std::all_of(values, values + count, [&](float v) { return v == static_cast<float>(step); });
      EXPECT_TRUE(is_whole) << states.all()[i].name;
    }
    return step;
  }

  std::string folder_ = testing::TempDir() + "entries_test." + std::to_string(::getpid());
  std::string path_ = folder_ + "/checkpoint.tenon";
};

TEST_F(Checkpoint, GivesValuesAndNotesBack) {
  Loaded file = training(), other = training();
  save_step(*file.states, 7);
  EXPECT_EQ(load_step(*other.states), 7);
  EXPECT_EQ(other.run(1, 10), 70);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "something is left behind";
}

TEST_F(Checkpoint, OfOtherStatesChangesNothing) {
  Loaded file = training(32), larger = training(64);
  Loaded only_eval(file_of(eval_graph(32), eval_graph(32)).value());
  save_step(*larger.states, 7);
  const std::string start = path_ + ": ";
  EXPECT_EQ(message_of([&] { runtime::load_states(*file.states, path_); }),
            start + "state 'layer.weight' is f32[32], and not f32[64]");
  save_step(*file.states, 8);
  EXPECT_EQ(message_of([&] { runtime::load_states(*only_eval.states, path_); }),
            start + "the file has a state 'steps', which this program lacks");
  EXPECT_EQ(only_eval.value("layer.weight"), 2);
  EXPECT_TRUE(only_eval.states->notes().empty());
  save_step(*only_eval.states, 9);
  EXPECT_EQ(message_of([&] { runtime::load_states(*file.states, path_); }), start + "the file has no state 'steps'");
  EXPECT_EQ(file.value("layer.weight"), 8);
}

TEST_F(Checkpoint, IsNoModelAndAModelIsNoCheckpoint) {
  Loaded file = training();
  save_step(*file.states, 1);
  const auto container = std::make_shared<const Container>(Container::open(path_));
  EXPECT_EQ(message_of([&] { runtime::load_program(container, {}); }), "this is a checkpoint of states, not a model");
  const Program program = compile_program(step_graph(4)).value();
  ASSERT_TRUE(write_artifact(path_, {&program}).ok());
  EXPECT_EQ(message_of([&] { runtime::load_states(*file.states, path_); }), path_ + ": this is not a checkpoint");
}

TEST_F(Checkpoint, ReplacesWhatALinkPointsTo) {
  Loaded file = training();
  const std::string real = folder_ + "/real.tenon";
  save_step(*file.states, 1);
  std::filesystem::rename(path_, real);
  std::filesystem::create_symlink(real, path_);
  save_step(*file.states, 2);
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(load_step(*file.states), 2);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(message_of([&] { save_step(*file.states, 3); }), HasSubstr("this is not a regular file"));
}

// A process that saves step after step until it is killed.
class EndlessSaves {
 public:
  EndlessSaves(const auto& save, int64_t step) {
    EXPECT_EQ(::pipe(progress_), 0);
    child_ = ::fork();
    if (child_ < 0) std::abort();  // kill(-1) would end every process
    if (child_ == 0) save_for_ever(save, step);
    ::close(progress_[1]);
  }
  ~EndlessSaves() {
    EXPECT_EQ(::kill(child_, SIGKILL), 0);
    int status = 0;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    ::close(progress_[0]);
  }
  EndlessSaves(const EndlessSaves&) = delete;

  void wait_for_a_step() const {
    char byte = 0;
    EXPECT_EQ(::read(progress_[0], &byte, 1), 1);
  }

 private:
  [[noreturn]] void save_for_ever(const auto& save, int64_t step) const {
    for (;; ++step) {
      save(step);
      if (::write(progress_[1], "", 1) != 1) ::_exit(1);
    }
  }

  int progress_[2] = {-1, -1};  // a pipe: a byte for each step that is saved
  pid_t child_ = -1;
};

TEST_F(Checkpoint, IsOldOrNewAfterAKillAtAnyMoment) {
  constexpr int kKills = 200;
  constexpr int kLongestMicroseconds = 5'000;
  Loaded file = training(64 * 1024);
  std::mt19937 random(1);
  int64_t last = 1;
  save_step(*file.states, last);
  for (int i = 0; i < kKills; ++i) {
    const bool is_after_a_step = i % 2 == 0;
    {
      const EndlessSaves saves([&](int64_t step) { save_step(*file.states, step); }, last + 1);
      if (is_after_a_step) saves.wait_for_a_step();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % kLongestMicroseconds));
    }
    const int64_t found = load_step(*file.states);
    EXPECT_GE(found, is_after_a_step ? last + 1 : last);
    last = found;
  }
  const auto left = std::distance(std::filesystem::directory_iterator(folder_), {}) - 1;
  std::printf("%d kills: %lld in the middle of a file\n", kKills, static_cast<long long>(left));
  EXPECT_GT(left, 0) << "no kill came while a file was written";
}

}  // namespace
}  // namespace tenon
