// External calls in files: the host's functions run them (tenon_register_call).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <stdexcept>

#include "driver/pipeline.h"
#include "driver/recompile.h"
#include "graph/builder.h"
#include "program/artifact.h"
#include "runtime/artifact.h"
#include "tenon/tenon.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

// y = relu(scale(x, 3)): a call that Tenon lacks, between kernels; and of a second call the second of two results.
Graph model_graph() {
  Graph graph("model");
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", parse_type("f32[N, 4]").value()));
  const auto external = [&](const std::string& target, int64_t call, const std::string& types, const Value& operand) {
    return b.results("external", {operand}, {{"target", target}, {"call", call}, {"types", types}});
  };
  const Value scaled = external("my.scale.default", 0, "f32[N, 4]", x + 1.0)[0];
  const Value positive = external("my.split.default", 1, "f32[4]; f32[K, 2]", scaled)[1];
  graph.set_outputs({b.op("relu", {scaled}).ref(), (positive * 2.0).ref()});
  return graph;
}

const Notes kNotes = {{"external.0", "(self=%0, factor=3) -> [%0]"}, {"external.1", "(self=%0) -> [%0, %1]"}};

Program compiled() {
  const FallbackFn fallback = [](int64_t, std::span<const Tensor>) { return std::vector<Tensor>(); };
  return compile_program(model_graph(), {.fallback = fallback}).value();
}

Bytes file() {
  const Program program = compiled();
  return artifact_bytes({&program}, kNotes).value();
}

const float* values_of(const tenon_tensor& tensor) { return static_cast<const float*>(tensor.data); }

// Multiplies by the factor in user_data.
tenon_status scale(void* user_data, tenon_call* call, tenon_text* error) {
  if (std::string(call->text) != "(self=%0, factor=3) -> [%0]" || call->input_count != 1 || call->output_count != 1)
    return tenon_write_text(error, TENON_RUN_FAILED, call->text);
  const tenon_tensor& input = call->inputs[0];
  if (input.rank != 2 || call->outputs[0].dtype != TENON_F32 || call->outputs[0].shape[0] != -1 ||
      call->outputs[0].shape[1] != 4)
    return tenon_write_text(error, TENON_RUN_FAILED, "other types");
  auto* const to = static_cast<float*>(call->make_output(call, 0, input.shape));
  if (to == nullptr) return tenon_write_text(error, TENON_OUT_OF_MEMORY, "no memory");
  for (int64_t i = 0; i < input.shape[0] * 4; ++i) to[i] = values_of(input)[i] * *static_cast<const float*>(user_data);
  return TENON_OK;
}

// Pairs of the elements that are positive: how many is known now.
tenon_status split(void*, tenon_call* call, tenon_text* error) {
  if (std::string(call->text) != "(self=%0) -> [None, %0]")
    return tenon_write_text(error, TENON_RUN_FAILED, call->text);
  std::vector<float> found;
  for (int64_t i = 0; i < call->inputs[0].shape[0] * 4; ++i) {
    const float value = values_of(call->inputs[0])[i];
    if (value > 0) found.insert(found.end(), {value, static_cast<float>(i)});
  }
  const int64_t shape[] = {static_cast<int64_t>(found.size() / 2), 2};
  std::memcpy(call->make_output(call, 0, shape), found.data(), found.size() * sizeof(float));
  return TENON_OK;
}

class Calls : public testing::Test {
 protected:
  void SetUp() override {
    tenon_register_call("my.scale.default", scale, &factor_);
    tenon_register_call("my.split.default", split, nullptr);
  }
  void TearDown() override {
    tenon_register_call("my.scale.default", nullptr, nullptr);
    tenon_register_call("my.split.default", nullptr, nullptr);
  }

  // Loads it and runs it once; the results as text.
  static std::string run(const Bytes& bytes, bool native = true) {
    tenon_program* program = nullptr;
    tenon_context* context = nullptr;
    const tenon_load_options options{.no_native = !native};
    float values[] = {-3, 0, 1, -5, 2, 7, -1, -2};
    const int64_t shape[] = {2, 4};
    const tenon_tensor input{values, TENON_F32, 2, shape, nullptr};
    std::string text;
    if (tenon_load_memory(bytes.data(), bytes.size(), &options, &program) ||
        tenon_context_create(program, nullptr, &context) || tenon_set_input(context, 0, &input) || tenon_run(context)) {
      text = tenon_error();
    } else {
      for (size_t output = 0; output < 2; ++output) {
        tenon_tensor result;
        tenon_get_output(context, output, &result);
        for (int64_t i = 0; i < result.shape[0] * result.shape[1]; ++i)
          text += fmt::format("{} ", values_of(result)[i] + 0.0F);
      }
    }
    tenon_context_free(context);
    tenon_program_free(program);
    return text;
  }

  float factor_ = 3;
};

TEST_F(Calls, RunFunctionsOfTheHost) {
  const Bytes bytes = file();
  const std::string expected = "0 3 6 0 9 24 0 0 6 2 12 4 18 8 48 10 ";
  EXPECT_EQ(run(bytes), expected);
  EXPECT_EQ(run(bytes, false), expected);
  factor_ = -1;
  EXPECT_EQ(run(bytes), "2 0 0 4 0 0 0 1 4 0 8 6 2 14 ");
}

TEST_F(Calls, MissingOnesAreListedAtLoad) {
  TearDown();
  EXPECT_EQ(run(file()),
            "the file needs calls that this process does not have (tenon_register_call):\n  my.scale.default\n  "
            "my.split.default");
}

TEST_F(Calls, MissingOnesAreListedByWholeNames) {
  Graph graph("model");
  Builder b(graph);
  Value x = b.value(graph.add_input("x", parse_type("f32[4]").value()));
  int64_t call = 0;
  for (const std::string target : {"my.shift.out", "my.shift", "my.shift.out"})
    x = b.results("external", {x}, {{"target", target}, {"call", call++}, {"types", "f32[4]"}})[0];
  graph.set_outputs({x.ref()});
  const FallbackFn fallback = [](int64_t, std::span<const Tensor>) { return std::vector<Tensor>(); };
  const Program program = compile_program(graph, {.fallback = fallback}).value();
  const std::string note = "(self=%0) -> [%0]";
  EXPECT_THAT(
      run(artifact_bytes({&program}, {{"external.0", note}, {"external.1", note}, {"external.2", note}}).value()),
      testing::EndsWith(":\n  my.shift.out\n  my.shift"));
}

TEST_F(Calls, AFailureEndsTheRunWithItsText) {
  tenon_register_call(
      "my.scale.default",
      [](void*, tenon_call*, tenon_text* error) { return tenon_write_text(error, TENON_RUN_FAILED, "too hot"); },
      nullptr);
  EXPECT_EQ(run(file()), "my.scale.default: my.scale.default: too hot");
  tenon_register_call("my.scale.default", [](void*, tenon_call*, tenon_text*) { return TENON_OK; }, nullptr);
  EXPECT_THAT(run(file()), HasSubstr("my.scale.default did not make each of its results"));
  tenon_register_call(
      "my.scale.default",
      [](void*, tenon_call* call, tenon_text*) {
        const int64_t shape[] = {5, 4}, none[] = {-2, 4};
        const bool refuses =
            call->make_output(call, 7, shape) == nullptr && call->make_output(call, 0, none) == nullptr;
        return refuses && call->make_output(call, 0, shape) ? TENON_OK : TENON_INTERNAL;
      },
      nullptr);
  EXPECT_THAT(run(file()), HasSubstr("dimension 0 of a result must be N = 2, got 5"));
}

TEST_F(Calls, WhatAFunctionThrowsEndsTheRun) {
  const Bytes bytes = file();
  tenon_register_call(
      "my.scale.default", [](void*, tenon_call*, tenon_text*) -> tenon_status { throw std::runtime_error("too hot"); },
      nullptr);
  EXPECT_EQ(run(bytes), "too hot");
  tenon_register_call("my.scale.default", [](void*, tenon_call*, tenon_text*) -> tenon_status { throw 3; }, nullptr);
  EXPECT_EQ(run(bytes), "a function of the host threw an object that is not a std::exception");
}

TEST_F(Calls, StayWhenTheFileIsCompiledAnew) {
  const Bytes bytes = file();
  const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(bytes));
  EXPECT_EQ(run(recompiled_artifact(container).value()), run(bytes));
}

TEST_F(Calls, WithoutANoteCannotBeSaved) {
  const Program program = compiled();
  EXPECT_THAT(artifact_bytes({&program}, {{"external.0", "(self=%0) -> [%0]"}}).diagnostic().message,
              HasSubstr("cannot be saved: these run only in the process that has PyTorch:\n  my.split.default"));
}

TEST_F(Calls, FilesAreVerifiedWithoutThem) {
  TearDown();
  const Bytes bytes = file();
  const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(bytes));
  EXPECT_EQ(runtime::load_program(container, {.calls = {runtime::absent_call}})->graph().inputs.size(), 1U);
}

TEST(CallRegistry, NeedsAName) {
  EXPECT_EQ(tenon_register_call("", nullptr, nullptr), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(tenon_register_call(nullptr, nullptr, nullptr), TENON_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tenon
