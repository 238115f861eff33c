// Devices and calls through the C++ interface. tests/golden/1.2 has a file with code for a device, and one with a call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "tenon/tenon.hpp"
#include "tests/robustness/support_golden.h"

extern "C" const tenon_device_api* tenon_device_plugin_v1(const tenon_host* host);  // examples/devices/hello.c

namespace tenon::golden {
namespace {

using testing::Contains;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

// The status, then the text.
std::string failure_of(const auto& body) {
  try {
    body();
  } catch (const RuntimeError& error) {
    return std::to_string(error.status()) + ": " + error.what();
  }
  return "no error";
}

std::span<const float> floats(const Array& array) {
  return {reinterpret_cast<const float*>(array.data.data()), array.elements()};
}

class CppDevices : public testing::Test {
 protected:
  CppDevices() : artifact_(read("1.2/devices")) { register_device(tenon_device_plugin_v1); }

  Program program() const { return Program::load(artifact_.path, {.device = "hello"}); }
  Tensor input() { return Tensor(artifact_.runs[0].inputs[0].view()); }
  std::span<const float> expected() const { return floats(artifact_.runs[0].outputs[0]); }

  Artifact artifact_;
  const std::vector<int64_t> shape_ = {2, 4};
};

TEST_F(CppDevices, TensorsOfADeviceAreReadAndWrittenThere) {
  EXPECT_THAT(devices(), Contains("hello"));
  Context context(program());
  const DeviceTensor y = DeviceTensor::empty("hello", TENON_F32, shape_);
  context.set_input(0, DeviceTensor("hello", input()));  // the context keeps it
  context.set_output(0, y);
  context.run();
  EXPECT_EQ(y.device(), "hello");
  EXPECT_TRUE(std::ranges::equal(y.info().shape(), shape_));
  std::vector<float> scores(8);
  y.read(Tensor::of(scores, shape_));
  EXPECT_THAT(scores, Pointwise(FloatNear(1e-6F), expected()));
  EXPECT_THAT(failure_of([&] { context.output(0); }), HasSubstr("the result is on a device"));
  context.forget_output(0);
  context.run();
  EXPECT_THAT(context.output(0).values<float>(), Pointwise(FloatNear(1e-6F), expected()));
}

TEST_F(CppDevices, MemoryOfTheCallerIsReleasedOnceByItsLastUser) {
  int released = 0;
  const DeviceTensor owner("hello", input());
  Context context(program());
  {
    const DeviceTensor wrapped = DeviceTensor::wrap("hello", owner.info(), [&] { ++released; });
    context.set_input(0, wrapped);
  }
  context.run();
  EXPECT_EQ(released, 0);
  EXPECT_THAT(context.output(0).values<float>(), Pointwise(FloatNear(1e-6F), expected()));
  context.set_input(0, owner);
  EXPECT_EQ(released, 1);
  const Tensor odd(static_cast<std::byte*>(owner.info().data()) + 4, TENON_F32, owner.info().shape());
  EXPECT_THAT(failure_of([&] { DeviceTensor::wrap("hello", odd, [&] { ++released; }); }),
              HasSubstr("not aligned to 64"));
  EXPECT_EQ(released, 1);  // what was refused stays the caller's
}

TEST_F(CppDevices, MistakesAreExceptions) {
  EXPECT_THAT(failure_of([&] { DeviceTensor("npu", input()); }), HasSubstr("there is no device 'npu'"));
  EXPECT_THAT(failure_of([] { load_plugin("/nowhere/npu.so"); }), HasSubstr("/nowhere/npu.so"));
  Context context(program());
  EXPECT_THAT(failure_of([&] { context.set_input(0, DeviceTensor::empty("hello", TENON_I64, shape_)); }),
              HasSubstr("input 'x' must be f32[2, 16], got i64[2, 4]"));
}

TEST_F(CppDevices, BudgetsBoundTheMemoryOfDevices) {
  const auto run = [&](int64_t bytes) {
    Context context(program(), {}, {{"hello", bytes}});
    context.set_input(0, input());
    context.run();
  };
  EXPECT_EQ(failure_of([&] { run(1 << 20); }), "no error");
  const std::string refused = failure_of([&] { run(100); });
  EXPECT_THAT(refused, HasSubstr(std::to_string(TENON_OVER_BUDGET) + ": "));
  EXPECT_THAT(refused, HasSubstr("bytes of the memory of hello"));
  EXPECT_THAT(failure_of([&] { Context(program(), {}, {{"npu", 5}}); }), HasSubstr("'npu', which is no device here"));
}

// ---- calls ----

class CppCalls : public testing::Test {
 protected:
  CppCalls() : artifact_(read("1.2/calls")) {}
  ~CppCalls() override { forget_call("golden.scale.default"); }

  std::string run(std::vector<float>& result) {
    return failure_of([&] {
      Context context(Program::load(artifact_.path));
      context.set_input(0, Tensor(artifact_.runs[0].inputs[0].view()));
      context.run();
      const std::span<float> values = context.output(0).values<float>();
      result.assign(values.begin(), values.end());
    });
  }

  Artifact artifact_;
  std::vector<float> result_;
};

TEST_F(CppCalls, AFunctionOfTheProgramRuns) {
  EXPECT_THAT(run(result_), HasSubstr("golden.scale.default"));
  int calls = 0;
  register_call("golden.scale.default", [&calls](Call& call) {
    ++calls;
    ASSERT_EQ(call.name(), "golden.scale.default");
    ASSERT_EQ(call.input_count(), 1U);
    ASSERT_EQ(call.output_count(), 1U);  // nothing needs the other
    ASSERT_EQ(call.output_type(0).shape().size(), 2U);
    const Tensor x = call.input(0), y = call.make_output(0, x.shape());
    std::ranges::transform(x.values<float>(), y.values<float>().begin(), [](float each) { return 3 * each; });
  });
  ASSERT_EQ(run(result_), "no error");
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(result_, Pointwise(FloatNear(1e-6F), floats(artifact_.runs[0].outputs[0])));
}

TEST_F(CppCalls, WhatAFunctionThrowsEndsTheRun) {
  register_call("golden.scale.default", [](Call&) { throw std::runtime_error("no such weather"); });
  EXPECT_THAT(run(result_), HasSubstr("no such weather"));
  register_call("golden.scale.default", [](Call&) { throw 7; });
  EXPECT_THAT(run(result_), HasSubstr("no std::exception"));
  register_call("golden.scale.default", [](Call& call) { call.input(1); });
  EXPECT_THAT(run(result_), HasSubstr("there are 1, and number 1 was asked for"));
  register_call("golden.scale.default", [](Call& call) { call.make_output(0, {}); });
  EXPECT_THAT(run(result_), HasSubstr("there is no memory for result 0 of these sizes"));
  register_call("golden.scale.default", [](Call&) {});
  EXPECT_THAT(run(result_), HasSubstr("golden.scale.default"));
}

}  // namespace
}  // namespace tenon::golden
