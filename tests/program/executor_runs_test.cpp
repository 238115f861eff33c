// Runs of whole programs on an executor.
#include <gtest/gtest.h>

#include <stdexcept>

#include "driver/pipeline.h"
#include "graph/builder.h"
#include "program/artifact.h"
#include "program/run.h"
#include "runtime/artifact.h"
#include "runtime/context.h"
#include "runtime/error.h"

namespace tenon {
namespace {

constexpr int64_t kSize = 256;

// A product, whose loop is parallel, and then a look-up that fails for a bad index.
Program product_and_lookup() {
  Graph graph("model");
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {kSize, kSize}}));
  const Value at = b.value(graph.add_input("at", {DType::kI64, {1}}));
  const Value product = b.op("matmul", {x, x});
  graph.set_outputs({b.op("index", {product, at}).ref()});
  return compile_program(graph).value();
}

std::string error_of(runtime::Context& context, const runtime::TaskGraph& graph, int64_t index) {
  std::vector<Tensor> inputs = {Tensor::zeros(DType::kF32, {kSize, kSize}), Tensor::zeros(DType::kI64, {1})};
  inputs[1].set_integer(0, index);
  try {
    run_context(context, graph, inputs);
    return "";
  } catch (const runtime::StatusError& error) {
    return error.message();
  }
}

TEST(ExecutorRuns, WhatItThrewInARunThatFailedIsNotOfTheNextRun) {
  bool throws = true;
  const tenon_executor executor = {.parallel =
                                       [](void* user, int64_t, void (*)(void*, int64_t), void*) {
                                         if (*static_cast<bool*>(user)) throw std::runtime_error("no threads");
                                       },
                                   .user = &throws};
  const Program program = product_and_lookup();
  const std::vector<std::byte> bytes = artifact_bytes({&program}).value();
  const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(bytes));
  const auto loaded = runtime::load_program(container, {});
  runtime::Context context(loaded, {.threads = 4, .executor = executor});
  EXPECT_EQ(error_of(context, loaded->graph(), 0), "the executor threw: no threads");
  EXPECT_NE(error_of(context, loaded->graph(), kSize).find("is out of range"), std::string::npos);
  throws = false;
  EXPECT_EQ(error_of(context, loaded->graph(), 0), "");
}

}  // namespace
}  // namespace tenon
