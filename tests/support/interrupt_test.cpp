#include "support/interrupt.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "graph/builder.h"
#include "graph/evaluate.h"
#include "passes/passes.h"

namespace tenon {
namespace {

void end_work() { throw std::runtime_error("enough"); }

// Each test runs in a thread of its own: a thread calls the check at most 20 times a second.
template <class Work>
std::string interruption_of(const Work& work) {
  std::string what = "none";
  set_interrupt_check(end_work);
  std::thread([&] {
    try {
      work();
    } catch (const InterruptedWork& interrupted) {
      try {
        std::rethrow_exception(interrupted.cause);
      } catch (const std::runtime_error& error) {
        what = error.what();
      }
    }
  }).join();
  set_interrupt_check(nullptr);
  return what;
}

Graph chain() {
  Graph graph;
  Builder b(graph);
  Value x(graph, graph.add_input("x", {DType::kF32, {4}}));
  for (int i = 0; i < 4; ++i) x = x + x;
  graph.set_outputs({x.ref()});
  return graph;
}

TEST(Interrupt, WithoutACheckNothingHappens) { EXPECT_NO_THROW(check_interrupt()); }

TEST(Interrupt, EndsPasses) {
  const Graph graph = chain();
  EXPECT_EQ(interruption_of([&] { canonicalize(graph); }), "enough");
}

TEST(Interrupt, EndsAnEvaluation) {
  const Graph graph = chain();
  const Tensor x = Tensor::zeros(DType::kF32, {4});
  EXPECT_EQ(interruption_of([&] { (void)evaluate(graph, {&x, 1}); }), "enough");
}

TEST(Interrupt, EndsParsing) {
  EXPECT_EQ(interruption_of([&] { (void)parse_graph("graph g() { %x = iota() {size=3} return %x }"); }), "enough");
}

}  // namespace
}  // namespace tenon
