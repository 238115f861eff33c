#include "training/instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/graph/support_values.h"
#include "training/file.h"
#include "training/part.h"

namespace tenon {
namespace {

using testing::HasSubstr;

Tensor matrix(Sizes shape, std::vector<double> values) {
  Tensor tensor = Tensor::zeros(DType::kF64, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_real(static_cast<int64_t>(i), values[i]);
  return tensor;
}

// y = x w, of two numbers.
Graph line() {
  Graph graph = parse_graph(R"(graph line(%x: f64[N, 2]) {
  %w: f64[2, 1] = parameter "w"
  %y: f64[N, 1] = matmul(%x, %w)
  return %y
}
)")
                    .value();
  graph.bind("w", matrix({2, 1}, {1, -1}));
  return graph;
}

TrainingOptions options_of(std::string_view optimizer) {
  return {.loss = parse_loss("mse").value(), .optimizer = parse_optimizer(optimizer).value()};
}

LocalTrainingInstance trainer_of(TrainingOptions options) {
  return LocalTrainingInstance({.training = line(), .inference = line()}, std::move(options));
}

const std::vector<Tensor> kInputs = {matrix({2, 2}, {1, 2, 3, 4})};
const Tensor kTarget = matrix({2, 1}, {0, 1});

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.diagnostic().message;
  }
  return "nothing failed";
}

// The errors are (-1, -2), so the gradient is x^T e = (1*-1 + 3*-2, 2*-1 + 4*-2), times 2 / 2.
TEST(LocalTrainingInstance, StepsDownTheGradient) {
  LocalTrainingInstance trainer = trainer_of(options_of("sgd(lr=0.1)"));
  const Tensor loss = trainer.step(kInputs, kTarget);
  EXPECT_DOUBLE_EQ(loss.real(0), (1 + 4) / 2.0);
  const Tensor& w = trainer.states().at("w");
  EXPECT_DOUBLE_EQ(w.real(0), 1 + 0.7);
  EXPECT_DOUBLE_EQ(w.real(1), -1 + 1.0);
  EXPECT_EQ(trainer.states().at("optimizer.step").integer(0), 1);
}

TEST(LocalTrainingInstance, HasFlexFlowsNames) {
  LocalModelTrainingInstance trainer = trainer_of(options_of("sgd(lr=0.1)")),
                             other = trainer_of(options_of("sgd(lr=0.1)"));
  const std::string message = message_of([&] { trainer.initialize_backend(1); });
  EXPECT_NE(message, "nothing failed");
  EXPECT_EQ(message, message_of([&] { other.initialize(1); }));
}

TEST(LocalTrainingInstance, InPartsAsInOne) {
  LocalTrainingInstance whole = trainer_of(options_of("adam(lr=0.1)")), parts = trainer_of(options_of("adam(lr=0.1)"));
  for (int i = 0; i < 3; ++i) {
    whole.step(kInputs, kTarget);
    const auto [outputs, loss] = parts.forward(kInputs, kTarget);
    EXPECT_EQ(outputs[0].shape(), (Sizes{2, 1}));
    EXPECT_TRUE(loss.defined());
    EXPECT_EQ(parts.backward().size(), 1);
    parts.update();
  }
  EXPECT_EQ(test::values_of(whole.states().at("w")), test::values_of(parts.states().at("w")));
}

TEST(LocalTrainingInstance, GradientsAddUpUntilAnUpdate) {
  LocalTrainingInstance trainer = trainer_of(options_of("sgd(lr=0.1)"));
  trainer.forward(kInputs, kTarget);
  EXPECT_EQ(test::values_of(trainer.backward().at("w")), (std::vector<double>{-7, -10}));
  trainer.forward(kInputs, kTarget);
  EXPECT_EQ(test::values_of(trainer.backward().at("w")), (std::vector<double>{-14, -20}));
  trainer.zero_grad();
  trainer.forward(kInputs, kTarget);
  EXPECT_EQ(test::values_of(trainer.backward().at("w")), (std::vector<double>{-7, -10}));
}

TEST(LocalTrainingInstance, SaysWhatIsMissing) {
  LocalTrainingInstance trainer = trainer_of(options_of("sgd(lr=0.1)"));
  EXPECT_THAT(message_of([&] { trainer.backward(); }), HasSubstr("needs a forward()"));
  EXPECT_THAT(message_of([&] { trainer.update(); }), HasSubstr("needs gradients"));
  EXPECT_THAT(message_of([&] { trainer.step(kInputs); }), HasSubstr("a target is missing"));
  trainer.eval();
  EXPECT_THAT(message_of([&] { trainer.step(kInputs, kTarget); }), HasSubstr("is for training"));
  EXPECT_FALSE(trainer.forward(kInputs).loss.defined());
}

TEST(LocalTrainingInstance, TakesStatesThatFit) {
  LocalTrainingInstance trainer = trainer_of(options_of("sgd(lr=0.1)"));
  trainer.load_states({{"w", matrix({2, 1}, {5, 6})}});
  EXPECT_EQ(test::values_of(trainer.states().at("w")), (std::vector<double>{5, 6}));
  EXPECT_THAT(message_of([&] { trainer.load_states({{"v", kTarget}}); }), HasSubstr("there is no state 'v'"));
  EXPECT_THAT(message_of([&] { trainer.load_states({{"w", kInputs[0]}}); }), HasSubstr("is f64[2, 1], got f64[2, 2]"));
}

TEST(LocalTrainingInstance, ACopyOfTheModelTrains) {
  const Graph model = line();
  LocalTrainingInstance trainer({.training = model, .inference = model}, options_of("sgd(lr=0.1)"));
  trainer.step(kInputs, kTarget);
  EXPECT_EQ(test::values_of(model.leaf_named("w")->data), (std::vector<double>{1, -1}));
}

TEST(LocalTrainingInstance, ProfilesEachPhase) {
  LocalTrainingInstance trainer = trainer_of(options_of("sgd(lr=0.1)"));
  trainer.enable_profiling();
  trainer.step(kInputs, kTarget);
  const auto has = [&](Phase phase) {
    return std::ranges::any_of(trainer.profile(), [&](const ProfiledTask& task) { return task.phase == phase; });
  };
  EXPECT_TRUE(has(Phase::kForward));
  EXPECT_TRUE(has(Phase::kUpdate));
}

TEST(LocalTrainingInstance, NothingToTrain) {
  TrainingOptions options = options_of("sgd(lr=0.1)");
  options.frozen = {"*"};
  EXPECT_THAT(message_of([&] { trainer_of(options); }), HasSubstr("nothing to train"));
  options.frozen = {"v*"};
  EXPECT_THAT(message_of([&] { trainer_of(options); }), HasSubstr("no parameter is called 'v*'"));
}

// ---- parts of graphs ----

TEST(PartOf, KeepsWhatTheSecondPartNeedsAndNoViews) {
  const Graph graph = parse_graph(R"(graph g(%x: f64[2, 3]) {
  %a: f64[2, 3] = exp(%x)
  %t: f64[3, 2] = permute(%a) {dims=[1, 0]}
  %s: f64[] = sum(%a)
  %d: f64[3, 2] = mul(%t, %t)
  return %s, %d
}
)")
                          .value();
  const std::vector<ValueRef> first = {graph.outputs()[0]}, later = {graph.outputs()[1]};
  const std::vector<ValueRef> kept = kept_for(graph, first, later, Keep::kAll);
  ASSERT_EQ(kept.size(), 1);
  EXPECT_EQ(graph.node(graph.producer(kept[0])).op->name.get(), "exp");
  const Graph second = part_of(graph, kept, later, {});
  EXPECT_EQ(second.inputs().size(), 1);
  EXPECT_EQ(second.nodes().size(), 2);
}

TEST(PartOf, ComputesAgainWhatIsNotKept) {
  const Graph graph = parse_graph(R"(graph g(%x: f64[3, 3]) {
  %a: f64[3, 3] = exp(%x)
  %p: f64[3, 3] = matmul(%a, %a)
  %s: f64[3, 3] = exp(%p)
  %d: f64[3, 3] = mul(%s, %a)
  return %s, %d
}
)")
                          .value();
  const std::vector<ValueRef> first = {graph.outputs()[0]}, later = {graph.outputs()[1]};
  const auto ops_of = [&](Keep keep) {
    std::vector<std::string> ops;
    for (ValueRef value : kept_for(graph, first, later, keep)) {
      ops.push_back(graph.leaf(value) ? graph.leaf(value)->name
                                      : std::string(graph.node(graph.producer(value)).op->name));
    }
    return ops;
  };
  EXPECT_THAT(ops_of(Keep::kAll), ::testing::ElementsAre("exp", "exp"));
  EXPECT_THAT(ops_of(Keep::kCostly), ::testing::ElementsAre("x", "matmul"));
  EXPECT_THAT(ops_of(Keep::kInputs), ::testing::ElementsAre("x"));
}

// ---- threads --------------------------------------------------------------------------------------------------------

TEST(LocalTrainingInstance, IsUsedByOneThreadAtATime) {
  LocalTrainingInstance trainer = trainer_of(options_of("sgd(lr=0.1)"));
  trainer.step(kInputs, kTarget);
  const std::vector<std::function<void()>> calls = {
      [&] { trainer.step(kInputs, kTarget); },
      [&] { trainer.forward(kInputs, kTarget); },
      [&] { trainer.backward(); },
      [&] { trainer.update(); },
      [&] { trainer.zero_grad(); },
      [&] { trainer.train(); },
      [&] { trainer.eval(); },
      [&] { trainer.initialize(); },
      [&] { trainer.load_states({{"w", matrix({2, 1}, {5, 6})}}); },
      [&] { trainer.copy_states(std::vector<std::string>{"w"}); },
      [&] { trainer.enable_profiling(); },
      [&] { trainer.profile(); },
      [&] { trainer.memory_report(); },
      [&] { trainer.step_program(); },
      [&] { write_training("unused.tenon", trainer).value(); },
  };
  const auto held = trainer.use();
  std::thread([&] {
    for (const auto& call : calls) EXPECT_THAT(message_of(call), HasSubstr("the training instance is in use"));
  }).join();
  EXPECT_TRUE(trainer.is_training());
  trainer.step(kInputs, kTarget);  // by whoever holds it
}

TEST(LocalTrainingInstance, IsFreeAfterACallThatFails) {
  LocalTrainingInstance trainer = trainer_of(options_of("sgd(lr=0.1)"));
  EXPECT_THAT(message_of([&] { trainer.backward(); }), HasSubstr("needs a forward()"));
  std::thread([&] { trainer.step(kInputs, kTarget); }).join();
}

TEST(LocalTrainingInstance, LoadsStatesThatLieInItsOwn) {
  Graph graph = parse_graph(R"(graph two(%x: f64[N, 2]) {
  %a: f64[2, 2] = parameter "a"
  %b: f64[2, 2] = parameter "b"
  %h: f64[N, 2] = matmul(%x, %a)
  %y: f64[N, 2] = matmul(%h, %b)
  return %y
}
)")
                    .value();
  graph.bind("a", matrix({2, 2}, {1, 2, 3, 4}));
  graph.bind("b", matrix({2, 2}, {5, 6, 7, 8}));
  LocalTrainingInstance trainer({.training = graph, .inference = graph}, options_of("sgd(lr=0.1)"));
  const Tensor a = trainer.states().at("a"), b = trainer.states().at("b");
  trainer.load_states({{"a", Tensor::borrow(DType::kF64, {2, 2}, {1, 2}, b.data(), b.owner())}, {"b", a}});
  EXPECT_TRUE(identical(a, matrix({2, 2}, {5, 7, 6, 8})));
  EXPECT_TRUE(identical(b, matrix({2, 2}, {1, 2, 3, 4})));
  trainer.load_states({{"a", Tensor::borrow(DType::kF64, {2, 2}, {1, 2}, a.data(), a.owner())}});
  EXPECT_TRUE(identical(a, matrix({2, 2}, {5, 6, 7, 8})));
}

}  // namespace
}  // namespace tenon
