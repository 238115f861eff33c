// A training in a file, stepped by the runtime: the same as in the instance, to the last bit. tests/cli and
// tests/python have it from outside, with whole models.
#include "training/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "program/artifact.h"
#include "program/run.h"
#include "runtime/artifact.h"
#include "runtime/context.h"
#include "runtime/states.h"
#include "tests/runtime/support_system.h"
#include "training/model.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor counted(Sizes shape, double step) {
  Tensor tensor = Tensor::zeros(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_real(i, step * static_cast<double>(i % 7) - 1);
  return tensor;
}

TrainingModel classifier() {
  Graph graph = parse_graph(R"(
graph classifier(%x: f32[N, 4]) {
  symbol N in [1, 64]
  %weight: f32[3, 4] = parameter "weight"
  %bias: f32[3] = parameter "bias"
  %scores: f32[N, 3] = linear(%x, %weight, %bias)
  return %scores
})")
                    .value();
  graph.bind("weight", counted({3, 4}, 0.25));
  graph.bind("bias", counted({3}, 0.5));
  return {.training = graph, .inference = graph};
}

TrainingOptions options(int64_t accumulate) {
  return {.loss = parse_loss("cross_entropy").value(),
          .optimizer = parse_optimizer("adamw(lr=0.1)").value(),
          .accumulate = accumulate};
}

struct Batch {
  std::vector<Tensor> inputs = {counted({5, 4}, 0.3)};
  Tensor target = Tensor::zeros(DType::kI64, {5});
  std::vector<Tensor> all() const { return {inputs[0], target}; }
};

class TrainingFileTest : public testing::Test {
 protected:
  ~TrainingFileTest() override { std::filesystem::remove(path_); }

  void load() {
    container_ = std::make_shared<const runtime::Container>(runtime::Container::open(path_));
    entries_ = runtime::load_entries(container_, {});
    runtime::Programs programs;
    for (const runtime::Entry& entry : entries_) programs.push_back(entry.program);
    states_ = std::make_shared<runtime::States>(programs, std::make_shared<runtime::Allocator>());
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const runtime::Entry& entry : entries_) names.push_back(entry.name);
    return names;
  }

  std::vector<Tensor> run(size_t entry, const std::vector<Tensor>& inputs) {
    runtime::Context context(entries_[entry].program, {}, states_);
    return run_context(context, entries_[entry].program->graph(), inputs);
  }

  Tensor state(const std::string& name) const {
    const size_t i = states_->find(name);
    const runtime::StateInfo& info = states_->all().at(i);
    return Tensor::borrow(static_cast<DType>(info.dtype), info.shape, contiguous_strides(info.shape), states_->read(i),
                          nullptr);
  }

  // Tests run beside each other.
  std::string path_ = testing::TempDir() + "training_" + testing::UnitTest::GetInstance()->current_test_info()->name() +
                      "." + std::to_string(::getpid()) + ".tenon";
  std::shared_ptr<const runtime::Container> container_;
  std::vector<runtime::Entry> entries_;
  std::shared_ptr<runtime::States> states_;
};

TEST_F(TrainingFileTest, StepsAsTheInstanceDoes) {
  LocalTrainingInstance trainer(classifier(), options(1));
  const Batch batch;
  trainer.step(batch.inputs, batch.target);
  ASSERT_TRUE(write_training(path_, trainer).ok());
  load();
  EXPECT_THAT(names(), ElementsAre("step", "evaluate", "predict"));
  EXPECT_TRUE(identical(state("weight"), trainer.states().at("weight")));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(identical(run(0, batch.all())[0], trainer.step(batch.inputs, batch.target)));
  for (const runtime::StateInfo& info : states_->all())
    EXPECT_TRUE(identical(state(info.name), trainer.states().at(info.name))) << info.name;
  trainer.eval();
  const LocalTrainingInstance::Forward expected = trainer.forward(batch.inputs, batch.target);
  const std::vector<Tensor> evaluated = run(1, batch.all());
  ASSERT_EQ(evaluated.size(), 2u);
  EXPECT_TRUE(identical(evaluated[0], expected.outputs[0]));
  EXPECT_TRUE(identical(evaluated[1], expected.loss));
  EXPECT_TRUE(identical(run(2, batch.inputs)[0], expected.outputs[0]));
}

TEST_F(TrainingFileTest, PartsAddUpUntilAnUpdateClearsThem) {
  LocalTrainingInstance trainer(classifier(), options(2));
  ASSERT_TRUE(write_training(path_, trainer).ok());
  load();
  EXPECT_THAT(names(), ElementsAre("part", "update", "evaluate", "predict"));
  const Batch batch;
  const Tensor zero = Tensor::zeros(DType::kF32, {3, 4});
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(identical(run(0, batch.all())[0], trainer.step(batch.inputs, batch.target)));
    EXPECT_FALSE(identical(state("gradient.weight"), zero));
    if (i % 2 == 1) run(1, {});
    EXPECT_TRUE(identical(state("weight"), trainer.states().at("weight"))) << i;
  }
  EXPECT_TRUE(identical(state("gradient.weight"), zero));
  EXPECT_EQ(state("optimizer.step").integer(0), 2);
}

TEST_F(TrainingFileTest, SaysHowItTrains) {
  LocalTrainingInstance trainer(classifier(), options(3));
  ASSERT_TRUE(write_training(path_, trainer, {"x86-64-v3", "x86-64-v4"}).ok());
  load();
  const Notes notes = read_notes(*container_).value();
  EXPECT_EQ(notes.at("loss"), "cross_entropy");
  EXPECT_THAT(notes.at("optimizer"), HasSubstr("adamw(lr=0.1"));
  EXPECT_EQ(notes.at("accumulate"), "3");
}

TrainingModel wide_layer() {
  Graph graph = parse_graph(R"(
graph wide(%x: f32[2, 512]) {
  %weight: f32[512, 512] = parameter "weight"
  %bias: f32[512] = parameter "bias"
  %scores: f32[2, 512] = linear(%x, %weight, %bias)
  return %scores
})")
                    .value();
  graph.bind("weight", counted({512, 512}, 0.25));
  graph.bind("bias", counted({512}, 0.5));
  return {.training = graph, .inference = graph};
}

TEST_F(TrainingFileTest, HowStatesStartIsNotKeptInMemoryBesideThem) {
  LocalTrainingInstance trainer(wide_layer(), options(1));
  ASSERT_TRUE(write_training(path_, trainer).ok());
  load();
  const std::span<const std::byte> weights = container_->find(format::SectionKind::kWeights)->bytes;
  const int64_t parameter = int64_t{512} * 512 * 4;
  ASSERT_GE(std::ssize(weights), 2 * parameter);  // and zeros, with which two states of the optimizer start
  EXPECT_LT(runtime::testing::resident(weights), parameter / 4);
  EXPECT_TRUE(identical(state("weight"), trainer.states().at("weight")));
  std::fill_n(states_->write(states_->find("weight")), parameter, std::byte{7});
  states_->reset();
  EXPECT_TRUE(identical(state("weight"), trainer.states().at("weight")));
  EXPECT_LT(runtime::testing::resident(weights), parameter / 4);
}

TEST_F(TrainingFileTest, ReportsAPathThatCannotBeWritten) {
  LocalTrainingInstance trainer(classifier(), options(1));
  const Status status = write_training("/nowhere/training.tenon", trainer);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.diagnostic().text(), HasSubstr("/nowhere/training.tenon"));
}

TEST(ExportedModel, IsReadInBothModes) {
  const ExportedModel exported = read_exported_model("tests/capture/data/linear.pt2");
  EXPECT_EQ(exported.model.outputs, 1u);
  EXPECT_EQ(exported.model.training.leaves().size(), exported.model.inference.leaves().size());
  EXPECT_THROW(read_exported_model("missing.pt2"), Error);
}

}  // namespace
}  // namespace tenon
