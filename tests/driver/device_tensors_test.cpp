// Tensors and states in the memory of a device, through the C interface: nothing that is there is transferred.
#include <gmock/gmock.h>

#include "driver/pipeline.h"
#include "graph/builder.h"
#include "program/artifact.h"
#include "tenon/device.h"
#include "tests/driver/support_loopback.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using testing::HasSubstr;

// y = relu(x @ w), and a state that counts the rows' sums
Graph model_graph() {
  Graph graph("model");
  Builder b(graph);
  test::Random numbers(1);
  const TensorType weights = parse_type("f32[8, 8]").value();
  const Value x = b.value(graph.add_input("x", parse_type("f32[N, 8]").value()));
  const Value w = b.value(graph.add_parameter("w", weights, test::random_tensor(weights, {}, {-1, 1}, numbers)));
  const Value sum = b.value(graph.add_buffer("sum", parse_type("f32[8]").value(), Tensor::zeros(DType::kF32, {8})));
  const Value y = b.op("relu", {b.op("matmul", {x, w})});
  graph.add_update(sum.ref(), (sum + b.sum(y, {0})).ref());
  graph.set_outputs({y.ref()});
  return graph;
}

// Loads a file of the model, on a device or on the CPU.
class DeviceTensors : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::load_loopback(); }

  DeviceTensors() {
    const Program cpu = compile_program(model_graph()).value();
    const Program device = compile_program(model_graph(), {.devices = {"loopback"}}).value();
    bytes_ = artifact_bytes({&cpu, &device}).value();
  }

  ~DeviceTensors() override {
    tenon_device_tensor_free(x_);
    tenon_device_tensor_free(y_);
    tenon_states_free(states_);
    tenon_context_free(context_);
    tenon_program_free(program_);
  }

  void open(const char* device, tenon_context_options options = {}) {
    const tenon_load_options load{.device = device};
    ASSERT_EQ(tenon_load_memory(bytes_.data(), bytes_.size(), &load, &program_), TENON_OK) << tenon_error();
    ASSERT_EQ(tenon_context_create(program_, &options, &context_), TENON_OK) << tenon_error();
    ASSERT_EQ(tenon_context_states(context_, &states_), TENON_OK);
  }

  tenon_tensor matrix(std::vector<float>& values) {
    shape_ = {static_cast<int64_t>(values.size()) / 8, 8};
    return {values.data(), TENON_F32, 2, shape_.data(), nullptr};
  }

  // On the device, if there are no values: memory that nobody wrote.
  tenon_device_tensor* on_device(std::vector<float> values, bool is_empty = false) {
    tenon_tensor tensor = matrix(values);
    if (is_empty) tensor.data = nullptr;
    tenon_device_tensor* made = nullptr;
    EXPECT_EQ(tenon_device_tensor_create("loopback", &tensor, &made), TENON_OK) << tenon_error();
    return made;
  }

  std::vector<float> values_of(tenon_device_tensor* tensor, size_t count) {
    std::vector<float> values(count);
    const tenon_tensor to = matrix(values);
    EXPECT_EQ(tenon_device_tensor_read(tensor, &to), TENON_OK) << tenon_error();
    return values;
  }

  std::vector<float> state() {
    tenon_tensor sum{};
    EXPECT_EQ(tenon_get_state(states_, 0, &sum), TENON_OK) << tenon_error();
    const auto* const values = static_cast<const float*>(sum.data);
    return {values, values + 8};
  }

  std::vector<std::byte> bytes_;
  std::vector<int64_t> shape_;
  tenon_program* program_ = nullptr;
  tenon_context* context_ = nullptr;
  tenon_states* states_ = nullptr;
  tenon_device_tensor *x_ = nullptr, *y_ = nullptr;
};

std::vector<float> some_values(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 7) - 3;
  return values;
}

TEST_F(DeviceTensors, RunsTransferNothingThatIsThere) {
  open("cpu");
  std::vector<float> given = some_values(24), expected(24);
  const tenon_tensor x = matrix(given);
  tenon_tensor y = x;
  y.data = expected.data();
  ASSERT_EQ(tenon_set_input(context_, 0, &x) | tenon_set_output(context_, 0, &y) | tenon_run(context_), TENON_OK);
  ASSERT_EQ(tenon_run(context_), TENON_OK);
  const std::vector<float> expected_state = state();
  tenon_states_free(states_), tenon_context_free(context_), tenon_program_free(program_);

  open("loopback");
  x_ = on_device(given), y_ = on_device(expected, true);
  ASSERT_EQ(tenon_set_input_on_device(context_, 0, x_), TENON_OK) << tenon_error();
  ASSERT_EQ(tenon_set_output_on_device(context_, 0, y_), TENON_OK) << tenon_error();
  const long first = test::loopback_copies();
  ASSERT_EQ(tenon_run(context_), TENON_OK) << tenon_error();
  const long before = test::loopback_copies();
  EXPECT_EQ(before, first + 1);  // the state's first value, and no copy of x for the host
  ASSERT_EQ(tenon_run(context_), TENON_OK) << tenon_error();
  EXPECT_EQ(test::loopback_copies(), before);  // neither x, nor y, nor the state
  EXPECT_EQ(values_of(y_, 24), expected);
  EXPECT_EQ(state(), expected_state);
  EXPECT_EQ(test::loopback_copies(), before + 2);
  tenon_tensor result{};
  EXPECT_EQ(tenon_get_output(context_, 0, &result), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(tenon_error(), HasSubstr("the result is on a device"));
}

TEST_F(DeviceTensors, MemoryOfTheCallerIsGivenBack) {
  open("loopback");
  x_ = on_device(some_values(8));
  const char* device = nullptr;
  tenon_tensor there{};
  ASSERT_EQ(tenon_device_tensor_info(x_, &device, &there), TENON_OK);
  EXPECT_STREQ(device, "loopback");
  int released = 0;
  const auto release = [](void* owner) { ++*static_cast<int*>(owner); };
  tenon_device_tensor* wrapped = nullptr;
  ASSERT_EQ(tenon_device_tensor_wrap("loopback", &there, release, &released, &wrapped), TENON_OK) << tenon_error();
  ASSERT_EQ(tenon_set_input_on_device(context_, 0, wrapped), TENON_OK);
  tenon_device_tensor_free(wrapped);
  EXPECT_EQ(released, 0);  // the context has it
  ASSERT_EQ(tenon_run(context_), TENON_OK) << tenon_error();
  ASSERT_EQ(tenon_set_input_on_device(context_, 0, x_), TENON_OK);
  EXPECT_EQ(released, 1);

  there.data = static_cast<std::byte*>(there.data) + 4;
  EXPECT_EQ(tenon_device_tensor_wrap("loopback", &there, nullptr, nullptr, &wrapped), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(tenon_error(), HasSubstr("not aligned to 64"));
}

TEST_F(DeviceTensors, MistakesAreErrors) {
  open("loopback");
  std::vector<float> values(24);
  x_ = on_device(values), y_ = on_device(std::vector<float>(16));
  const tenon_tensor three = matrix(values);
  tenon_device_tensor* made = nullptr;
  EXPECT_EQ(tenon_device_tensor_create("npu", &three, &made), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(tenon_error(), HasSubstr("there is no device 'npu'"));
  EXPECT_EQ(tenon_set_input_on_device(context_, 3, x_), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(tenon_set_input_on_device(context_, 0, nullptr), TENON_INVALID_ARGUMENT);
  ASSERT_EQ(tenon_set_input_on_device(context_, 0, x_), TENON_OK);
  ASSERT_EQ(tenon_set_output_on_device(context_, 0, y_), TENON_OK);
  EXPECT_EQ(tenon_run(context_), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(tenon_error(), HasSubstr("output 'out0' has the shape [3, 8], got memory for [2, 8]"));
  ASSERT_EQ(tenon_set_output_on_device(context_, 0, x_), TENON_OK);
  EXPECT_EQ(tenon_run(context_), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(tenon_error(), HasSubstr("on loopback overlaps that of input 'x'"));
  EXPECT_EQ(tenon_device_tensor_read(y_, &three), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(tenon_error(), HasSubstr("the tensor is f32[2, 8], got memory for f32[3, 8]"));
  ASSERT_EQ(tenon_set_output(context_, 0, nullptr), TENON_OK);
  EXPECT_EQ(tenon_run(context_), TENON_OK) << tenon_error();
}

TEST_F(DeviceTensors, BudgetsOfDevices) {
  const tenon_device_budget little{"loopback", 300}, enough{"loopback", 4000}, unknown{"npu", 5};
  open("loopback", {.device_budgets = &little, .device_budget_count = 1});
  x_ = on_device(some_values(24));
  ASSERT_EQ(tenon_set_input_on_device(context_, 0, x_), TENON_OK);
  EXPECT_EQ(tenon_run(context_), TENON_OVER_BUDGET);
  EXPECT_THAT(tenon_error(), HasSubstr("bytes of the memory of loopback, 320 of them for constants and states, and the "
                                       "budget is 300. Its largest tensors there are:\n  256 bytes: f32["));
  tenon_states_free(states_), tenon_context_free(context_), tenon_program_free(program_);
  open("loopback", {.device_budgets = &enough, .device_budget_count = 1});
  ASSERT_EQ(tenon_set_input_on_device(context_, 0, x_), TENON_OK);
  EXPECT_EQ(tenon_run(context_), TENON_OK) << tenon_error();
  tenon_context* refused = nullptr;
  const tenon_context_options options{.device_budgets = &unknown, .device_budget_count = 1};
  EXPECT_EQ(tenon_context_create(program_, &options, &refused), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(tenon_error(), HasSubstr("'npu', which is no device here"));
}

}  // namespace
}  // namespace tenon
