#include "program/donate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/pipeline.h"
#include "graph/builder.h"
#include "graph/evaluate.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Places = std::vector<std::optional<uint32_t>>;

struct Model {
  Graph graph{"model"};
  Builder b{graph};

  Value input(std::string name, Shape shape, DType dtype = DType::kF32) {
    return b.value(graph.add_input(std::move(name), {dtype, std::move(shape)}));
  }
  void outputs(const std::vector<Value>& values) {
    std::vector<ValueRef> refs;
    for (const Value& value : values) refs.push_back(value.ref());
    graph.set_outputs(std::move(refs));
  }
  // Which input each output takes, of those that are given.
  Places places(const std::set<uint32_t>& given, bool shares = false) const {
    Places places;
    for (const ResultPlace& place : donate_inputs(graph, given, shares).results) places.push_back(place.input);
    return places;
  }
};

// Momentum, and a step along it.
Model gradient_descent() {
  Model m;
  const Value x = m.input("x", {8, 16}), p = m.input("p", {16, 16}), momentum = m.input("momentum", {16, 16}),
              rate = m.input("rate", {});
  const Value y = m.b.matmul(x, p);
  const Value next = momentum * 0.9 + m.b.matmul(m.b.transpose(x, 0, 1), y);
  m.outputs({m.b.mean(y * y), next, p - next * rate});
  return m;
}

TEST(Donate, EachResultTakesThePlaceOfWhatItIsTheNewValueOf) {
  EXPECT_THAT(gradient_descent().places({0, 1, 2, 3}), ElementsAre(std::nullopt, 2u, 1u));
}

TEST(Donate, WhatIsNotGivenIsLeftAlone) {
  EXPECT_THAT(gradient_descent().places({1}), ElementsAre(std::nullopt, std::nullopt, 1u));
  EXPECT_THAT(gradient_descent().places({}), ElementsAre(std::nullopt, std::nullopt, std::nullopt));
}

TEST(Donate, TheNearestOfSeveralIsTaken) {
  Model m;
  const Value a = m.input("a", {4}), b = m.input("b", {4});
  const Value far = m.b.tanh(m.b.tanh(a + b));
  m.outputs({b * far, a * 2.0});
  EXPECT_THAT(m.places({0, 1}), ElementsAre(1u, 0u));
}

TEST(Donate, TypesMustAgree) {
  Model m;
  const Value a = m.input("a", {4}), b = m.input("b", {2, 2});
  m.outputs({m.b.cast(a, DType::kF64), m.b.reshape(b, {4})});
  EXPECT_THAT(m.places({0, 1}), ElementsAre(std::nullopt, std::nullopt));
}

TEST(Donate, WhatIsAResultItselfKeepsItsMemory) {
  Model m;
  const Value a = m.input("a", {4});
  m.outputs({a, a * 2.0});
  EXPECT_THAT(m.places({0}), ElementsAre(std::nullopt, std::nullopt));
}

TEST(Donate, AResultThatIsGivenTwiceHasMemoryOfItsOwn) {
  Model m;
  const Value a = m.input("a", {4});
  const Value twice = a * 2.0;
  m.outputs({twice, twice});
  EXPECT_THAT(m.places({0}), ElementsAre(std::nullopt, std::nullopt));
}

TEST(Donate, AnInputThatIsUpdatedAnywayIsNotTaken) {
  Model m;
  const Value a = m.input("a", {4});
  m.graph.add_update(a.ref(), (a + 1.0).ref());
  m.outputs({a * 2.0});
  EXPECT_THAT(m.places({0}), ElementsAre(std::nullopt));
}

TEST(Donate, AnInputThatIsNotThereIsAnError) {
  const Model m = gradient_descent();
  EXPECT_THAT([&] { donate_inputs(m.graph, {4}); }, testing::ThrowsMessage<Error>(HasSubstr("none is number 4")));
}

TEST(Donate, EqualResultsThatMayShareAreOneUpdate) {
  Model m;
  const Value a = m.input("a", {4}), b = m.input("b", {4});
  const Value twice = a * 2.0;
  m.outputs({twice, b, twice});
  EXPECT_THAT(m.places({0, 1}, true), ElementsAre(0u, std::nullopt, 0u));
  EXPECT_EQ(donate_inputs(m.graph, {0}, true).graph.updates().size(), 1u);
}

TEST(Donate, PermutedResultsThatMayShareAreOneOutput) {
  Model m;
  const Value a = m.input("a", {2, 3, 4});
  const Value sum = a + 1.0;
  const Value turned = m.b.permute(sum, {1, 2, 0});
  m.outputs({m.b.permute(turned, {2, 1, 0}), sum, turned, sum});
  const Donation donation = donate_inputs(m.graph, {}, true);
  EXPECT_EQ(donation.graph.outputs(), std::vector{sum.ref()});
  std::vector<std::vector<int64_t>> orders;
  for (const ResultPlace& place : donation.results) {
    EXPECT_EQ(place.output, 0u);
    orders.push_back(place.order);
  }
  EXPECT_THAT(orders, ElementsAre(ElementsAre(0, 2, 1), ElementsAre(), ElementsAre(1, 2, 0), ElementsAre()));
  EXPECT_EQ(donate_inputs(m.graph, {}).graph.outputs().size(), 4u);
}

TEST(Donate, WhatAPermutationIsOfNeedsToBeAResult) {
  Model m;
  const Value a = m.input("a", {2, 3});
  m.outputs({m.b.permute(a + 1.0, {1, 0})});
  const Donation donation = donate_inputs(m.graph, {}, true);
  EXPECT_EQ(donation.graph.outputs(), m.graph.outputs());
  EXPECT_TRUE(donation.results[0].order.empty());
}

TEST(Donate, TheProgramWritesThereInPlace) {
  const Model m = gradient_descent();
  const Donation donation = donate_inputs(m.graph, {1, 2});
  const Program program = compile_program(donation.graph).value();
  const auto is_in_place = [&](const Slot& slot) {
    return slot.over != kNoSlot && program.slots[slot.over].kind == SlotKind::kInput;
  };
  EXPECT_EQ(std::ranges::count_if(program.slots, is_in_place), 2);

  test::Random random(3);
  std::vector<Tensor> inputs;
  for (ValueRef input : m.graph.inputs())
    inputs.push_back(test::random_tensor(m.graph.type(input), {}, {-1, 1}, random));
  const std::vector<Tensor> expected = evaluate(m.graph, inputs).value();
  const std::vector<Tensor> outputs = program.run(inputs);
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_TRUE(test::close(outputs[0], expected[0]));
  EXPECT_TRUE(test::close(inputs[2], expected[1]));
  EXPECT_TRUE(test::close(inputs[1], expected[2]));
}

}  // namespace
}  // namespace tenon
