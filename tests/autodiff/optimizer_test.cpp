#include "autodiff/optimizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "graph/evaluate.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

Optimizer optimizer_of(std::string_view text) { return parse_optimizer(text).value(); }

std::string error_of(std::string_view text) { return parse_optimizer(text).diagnostic().text(); }

// ---- texts ----------------------------------------------------------------------------------------------------------

TEST(Optimizer, TextIsReadBack) {
  for (std::string_view text :
       {"sgd(lr=0.001)", "sgd(lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01, maximize=true)",
        "adam(lr=0.001, betas=(0.8, 0.9), eps=1e-06, amsgrad=true)",
        "adamw(lr=0.0003, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1, schedule=warmup(100) + cosine(1000), "
        "group(\"*.bias\", weight_decay=0))",
        "adagrad(lr=0.01, lr_decay=0.1, initial_accumulator_value=0.5)",
        "rmsprop(lr=0.01, alpha=0.9, momentum=0.9, centered=true, clip_value=0.5)",
        "lion(lr=0.0001, schedule=constant(factor=0.5, steps=3) + exponential(0.9))",
        "sgd(lr=1, schedule=linear(5, start=0.5, end=0.1) + step(3, gamma=0.5))",
        "sgd(lr=1, schedule=warmup(5, start=0.1) + one_cycle(9, pct_start=0.5, anneal=linear, three_phase=true))",
        "sgd(lr=1, group(\"a\\\"b\", \"c?\", lr=2), group(\"*\"))"}) {
    EXPECT_EQ(to_string(optimizer_of(text)), text);
  }
}

TEST(Optimizer, GroupsStartFromTheOptimizersSettingsWhereverTheyStand) {
  const Optimizer optimizer = optimizer_of("sgd(group(\"b\", weight_decay=0), 0.5)");
  EXPECT_EQ(std::get<Sgd>(optimizer.rule).lr, 0.5);
  EXPECT_EQ(std::get<Sgd>(optimizer.groups[0].rule).lr, 0.5);
}

TEST(Optimizer, MistakesInATextAreErrorsWithTheirPlace) {
  EXPECT_EQ(error_of("adamm(lr=1)"),
            "<text>:1:1: error: there is no optimizer 'adamm': use sgd, adam, adamw, adagrad, rmsprop, lion; did you "
            "mean 'adam'?");
  EXPECT_EQ(error_of("sgd(mumentum=0.9)"),
            "<text>:1:5: error: sgd has no setting 'mumentum'; did you mean 'momentum'?");
  EXPECT_EQ(error_of("adam(lr=-1)"), "<text>:1:6: error: lr must be at least 0, got -1");
  EXPECT_EQ(error_of("adam(betas=(0.9, 1))"), "<text>:1:6: error: betas must be in [0, 1), got 1");
  EXPECT_EQ(error_of("adam(betas=0.9)"), "<text>:1:6: error: expected two numbers, got 1");
  EXPECT_EQ(error_of("sgd(nesterov=true)"),
            "<text>:1:1: error: nesterov needs a momentum above 0 and no dampening, got momentum 0 and dampening 0");
  EXPECT_EQ(error_of("sgd(momentum=0.9, group(\"*\", nesterov=true, dampening=0.1))"),
            "<text>:1:19: error: nesterov needs a momentum above 0 and no dampening, got momentum 0.9 and dampening "
            "0.1");
  EXPECT_EQ(error_of("sgd(group(lr=1))"), "<text>:1:5: error: a group begins with patterns of names, in quotes");
  EXPECT_EQ(error_of("sgd(schedule=cosin(3))"),
            "<text>:1:14: error: there is no schedule 'cosin': use constant, warmup, linear, step, exponential, "
            "cosine, one_cycle; did you mean 'cosine'?");
  EXPECT_EQ(error_of("sgd(schedule=cosine)"), "<text>:1:14: error: steps must be at least 1, got 0");
  EXPECT_EQ(error_of("sgd(schedule=step(3) + cosine(4))"),
            "<text>:1:14: error: 'step' has no end, and nothing can follow it: step(3) + cosine(4)");
  EXPECT_EQ(error_of("sgd(schedule=0.1)"), "<text>:1:5: error: expected a name");
  EXPECT_EQ(error_of("sgd(schedule=step(1), schedule=step(2))"), "<text>:1:23: error: 'schedule' is given twice");
  EXPECT_EQ(error_of("sgd(0.1,\n  momentum=x)"), "<text>:2:3: error: expected a number");
  EXPECT_EQ(error_of("sgd(lr=0.1) adam"), "<text>:1:13: error: text after the end of an optimizer");
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

// Two parameters that are given their gradients.
struct Fixture {
  Graph graph;
  std::vector<TrainedParameter> parameters;

  Fixture() {
    for (const char* name : {"w", "b"}) {
      Tensor data = Tensor::zeros(DType::kF64, {2});
      const ValueRef buffer = graph.add_buffer(name, type_of(data), data);
      const ValueRef gradient = graph.add_input(std::string("d") + name, type_of(data));
      parameters.push_back({name, buffer, {graph, gradient}});
    }
  }
  OptimizerStep add(std::string_view text) { return add_optimizer(graph, optimizer_of(text), parameters); }
  std::vector<double> values(std::string_view leaf) { return test::values_of(graph.leaf_named(leaf)->data); }
  void run(double dw, double db) {
    const auto filled = [](double x) {
      Tensor tensor = Tensor::zeros(DType::kF64, {2});
      for (int64_t i = 0; i < 2; ++i) tensor.set_real(i, x);
      return tensor;
    };
    evaluate(graph, std::vector{filled(dw), filled(db)}).value();
  }
};

using Values = std::vector<double>;

TEST(Optimizer, StatesAreBuffersWithData) {
  Fixture f;
  f.add("adam(lr=0.5, amsgrad=true)");
  std::set<std::string> names;
  for (const Leaf& leaf : f.graph.leaves()) {
    if (leaf.kind == LeafKind::kBuffer && leaf.name.starts_with("optimizer.")) {
      names.insert(leaf.name);
      EXPECT_TRUE(leaf.data.defined());
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"optimizer.step", "optimizer.lr.0", "optimizer.exp_avg.w",
                                          "optimizer.exp_avg.b", "optimizer.exp_avg_sq.w", "optimizer.exp_avg_sq.b",
                                          "optimizer.max_exp_avg_sq.w", "optimizer.max_exp_avg_sq.b"}));
  EXPECT_EQ(f.values("optimizer.lr.0"), Values{0.5});
  EXPECT_EQ(f.graph.updates().size(), 2 + 3 * 2 + 2);
  EXPECT_TRUE(verify(f.graph).ok());
}

TEST(Optimizer, CountsItsUpdates) {
  Fixture f;
  f.add("sgd(lr=1)");
  f.run(1, 2);
  f.run(1, 2);
  EXPECT_EQ(f.values("optimizer.step"), Values{2});
  EXPECT_EQ(f.values("w"), (Values{-2, -2}));
  EXPECT_EQ(f.values("b"), (Values{-4, -4}));
}

TEST(Optimizer, TheFirstMomentumIsTheGradientWithoutDampening) {
  Fixture f;
  f.add("sgd(lr=1, momentum=0.5, dampening=0.75)");
  f.run(8, 0);
  EXPECT_EQ(f.values("optimizer.momentum_buffer.w"), (Values{8, 8}));
  f.run(8, 0);
  EXPECT_EQ(f.values("optimizer.momentum_buffer.w"), (Values{6, 6}));  // 0.5 * 8 + 0.25 * 8
}

TEST(Optimizer, TheFirstGroupThatMatchesCounts) {
  Fixture f;
  const OptimizerStep added = f.add("sgd(lr=1, group(\"w\", lr=2), group(\"?\", lr=3))");
  EXPECT_EQ(added.learning_rates.size(), 3);
  EXPECT_FALSE(added.learning_rates[0]);  // nobody is left for it
  EXPECT_EQ(f.graph.leaf_named("optimizer.lr.0"), nullptr);
  f.run(1, 1);
  EXPECT_EQ(f.values("w"), (Values{-2, -2}));
  EXPECT_EQ(f.values("b"), (Values{-3, -3}));
}

TEST(Optimizer, GradientsAreClippedTogether) {
  Fixture f;
  const OptimizerStep added = f.add("sgd(lr=1, clip_norm=5)");
  EXPECT_TRUE(added.gradient_norm);
  f.run(6, 8);  // of norm sqrt(2) * 10
  EXPECT_NEAR(f.values("w")[0], -3 / std::sqrt(2), 1e-6);
  EXPECT_NEAR(f.values("b")[0], -4 / std::sqrt(2), 1e-6);
}

std::string failure_of(Fixture& f, std::string_view text) {
  const std::string before = to_string(f.graph);
  try {
    f.add(text);
  } catch (const Error& error) {
    EXPECT_EQ(to_string(f.graph), before);
    return error.diagnostic().message;
  }
  return "";
}

TEST(Optimizer, GroupsWithoutParametersAreErrors) {
  Fixture f;
  EXPECT_EQ(failure_of(f, "sgd(group(\"w*\", \"x*\"))"), "the pattern \"x*\" of a group matches no parameter");
  EXPECT_EQ(failure_of(f, "sgd(group(\"*\"), group(\"w\", \"b\"))"),
            "the groups before \"w\", \"b\" match all of its parameters");
}

TEST(Optimizer, ParametersThatCannotBeTrainedAreErrors) {
  const auto failure_with = [](auto change) {
    Fixture f;
    change(f);
    return failure_of(f, "sgd(lr=1)");
  };
  EXPECT_EQ(failure_with([](Fixture& f) { f.parameters[1].name = "w"; }), "two parameters are named 'w'");
  EXPECT_EQ(failure_with([](Fixture& f) { f.parameters[1].parameter = f.parameters[0].parameter; }),
            "parameter 'b' is given twice");
  EXPECT_EQ(failure_with([](Fixture& f) { f.parameters[0].parameter = (f.parameters[0].gradient + 1).ref(); }),
            "parameter 'w' must be a buffer or an input of the graph, to be updated");
  EXPECT_EQ(failure_with([](Fixture& f) { f.parameters[0].gradient = Builder(f.graph).sum(f.parameters[0].gradient); }),
            "parameter 'w' is f64[2], its gradient f64[]");
  EXPECT_EQ(failure_with([](Fixture& f) {
              const ValueRef input = f.graph.add_input("n", parse_type("f32[N]").value());
              f.parameters[0] = {"n", input, {f.graph, input}};
            }),
            "parameter 'n' is f32[N]: its sizes must be known");
  EXPECT_EQ(failure_with([](Fixture& f) {
              const ValueRef input = f.graph.add_input("n", parse_type("i64[2]").value());
              f.parameters[0] = {"n", input, {f.graph, input}};
            }),
            "parameter 'n' is i64[2]: only floating ones are trained");
  EXPECT_EQ(
      failure_with([](Fixture& f) { f.graph.add_update(f.parameters[0].parameter, f.parameters[0].gradient.ref()); }),
      "parameter 'w' is updated already");
  EXPECT_EQ(failure_with([](Fixture& f) { f.add("sgd(lr=1)"); }), "graph main has an optimizer already");
}

TEST(Optimizer, AStructIsCheckedAsATextIs) {
  Fixture f;
  Optimizer optimizer{.rule = Sgd{.lr = -1}};
  EXPECT_THROW(add_optimizer(f.graph, optimizer, f.parameters), Error);
  optimizer = {.rule = Sgd{}, .groups = {{{"w"}, Adam{}}}};
  EXPECT_THROW(add_optimizer(f.graph, optimizer, f.parameters), Error);
}

TEST(Optimizer, WithoutParametersOnlyCounts) {
  Fixture f;
  f.parameters.clear();
  f.add("adam(clip_norm=1)");
  f.run(1, 1);
  EXPECT_EQ(f.values("optimizer.step"), Values{1});
}

// ---- learning rates -------------------------------------------------------------------------------------------------

std::vector<double> rates_of(std::string_view schedule, int count) {
  Fixture f;
  const OptimizerStep added = f.add(fmt::format("sgd(lr=8, schedule={})", schedule));
  f.graph.set_outputs({added.learning_rates[0].ref()});
  const Tensor zeros = Tensor::zeros(DType::kF64, {2});
  std::vector<double> rates;
  for (int i = 0; i < count; ++i) {
    rates.push_back(evaluate(f.graph, std::vector{zeros, zeros}).value()[0].real(0));
  }
  return rates;
}

TEST(LearningRate, PiecesFollowEachOther) {
  EXPECT_EQ(rates_of("constant", 2), (Values{8, 8}));
  EXPECT_EQ(rates_of("warmup(4)", 6), (Values{0, 2, 4, 6, 8, 8}));
  EXPECT_EQ(rates_of("step(2, gamma=0.5)", 5), (Values{8, 8, 4, 4, 2}));
  EXPECT_EQ(rates_of("warmup(2) + step(2, gamma=0.5)", 6), (Values{0, 4, 8, 8, 4, 4}));
  EXPECT_EQ(rates_of("constant(0.5, steps=1) + linear(2) + constant(0.25)", 5), (Values{4, 8, 4, 2, 2}));
  EXPECT_NEAR(rates_of("cosine(2)", 2)[1], 4, 1e-14);
}

}  // namespace
}  // namespace tenon
