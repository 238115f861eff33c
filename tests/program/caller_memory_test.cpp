// Memory that a caller of the C interface gives: strides, and what may overlap what (include/tenon/tenon.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/pipeline.h"
#include "graph/builder.h"
#include "program/artifact.h"
#include "tenon/tenon.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kShape[] = {2, 2};
constexpr int64_t kTransposed[] = {1, 2};

tenon_tensor view(void* data, const int64_t* strides = nullptr) { return {data, TENON_F32, 2, kShape, strides}; }

std::vector<float> values_of(const tenon_tensor& tensor) {
  const auto* const data = static_cast<const float*>(tensor.data);
  return {data, data + 4};
}

struct Model {
  Graph graph{"model"};
  Builder builder{graph};
  Value input(const char* name) { return builder.value(graph.add_input(name, {DType::kF32, {2, 2}})); }
};

class CallerMemory : public testing::Test {
 protected:
  ~CallerMemory() override {
    tenon_states_free(states_);
    tenon_context_free(context_);
    tenon_program_free(program_);
  }

  void load(const Graph& graph) {
    const Program program = compile_program(graph, {.freeze = false}).value();
    bytes_ = artifact_bytes({&program}).value();
    ASSERT_EQ(tenon_load_memory(bytes_.data(), bytes_.size(), nullptr, &program_), TENON_OK) << tenon_error();
    ASSERT_EQ(tenon_context_create(program_, nullptr, &context_), TENON_OK) << tenon_error();
    ASSERT_EQ(tenon_context_states(context_, &states_), TENON_OK) << tenon_error();
  }

  // state += x; y = the old state * x.
  void load_with_state() {
    Model m;
    const Value x = m.input("x");
    Tensor start = Tensor::zeros(DType::kF32, {2, 2});
    for (int64_t i = 0; i < 4; ++i) start.set_real(i, static_cast<double>(i + 1));
    const Value state = m.builder.value(m.graph.add_buffer("state", {DType::kF32, {2, 2}}, start));
    m.graph.add_update(state.ref(), (state + x).ref());
    m.graph.set_outputs({(state * x).ref()});
    load(m.graph);
  }

  // y = x + x'.
  void load_with_transposition() {
    Model m;
    const Value x = m.input("x");
    m.graph.set_outputs({(x + m.builder.op("permute", {x}, {{"dims", std::vector<int64_t>{1, 0}}})).ref()});
    load(m.graph);
  }

  // x += 1, z += x; y = x * z.
  void load_with_updated_inputs() {
    Model m;
    const Value x = m.input("x"), z = m.input("z");
    m.graph.add_update(x.ref(), (x + 1.0).ref());
    m.graph.add_update(z.ref(), (z + x).ref());
    m.graph.set_outputs({(x * z).ref()});
    load(m.graph);
  }

  tenon_tensor state() {
    tenon_tensor tensor = {};
    EXPECT_EQ(tenon_get_state(states_, 0, &tensor), TENON_OK) << tenon_error();
    return tensor;
  }
  tenon_tensor output() {
    tenon_tensor tensor = {};
    EXPECT_EQ(tenon_get_output(context_, 0, &tensor), TENON_OK) << tenon_error();
    return tensor;
  }
  void set_input(size_t number, const tenon_tensor& tensor) {
    ASSERT_EQ(tenon_set_input(context_, number, &tensor), TENON_OK) << tenon_error();
  }
  void set_output(const tenon_tensor& tensor) {
    ASSERT_EQ(tenon_set_output(context_, 0, &tensor), TENON_OK) << tenon_error();
  }
  void expect_run_fails(const std::string& why) {
    EXPECT_EQ(tenon_run(context_), TENON_INVALID_ARGUMENT);
    EXPECT_THAT(tenon_error(), HasSubstr(why));
  }

  std::vector<std::byte> bytes_;
  tenon_program* program_ = nullptr;
  tenon_context* context_ = nullptr;
  tenon_states* states_ = nullptr;
  float x_[4] = {1, 1, 1, 1};
};

TEST_F(CallerMemory, AStateTakesATransposedViewOfItself) {
  load_with_state();
  const tenon_tensor transposed = view(state().data, kTransposed);
  ASSERT_EQ(tenon_set_state(states_, 0, &transposed), TENON_OK) << tenon_error();
  EXPECT_THAT(values_of(state()), ElementsAre(1, 3, 2, 4));
}

TEST_F(CallerMemory, AStateTakesAnyStrides) {
  load_with_state();
  float given[] = {5, 6, 7, 8};
  const int64_t reversed[] = {-2, -1}, repeated[] = {0, 1};
  const tenon_tensor backwards = view(given + 3, reversed);
  ASSERT_EQ(tenon_set_state(states_, 0, &backwards), TENON_OK) << tenon_error();
  EXPECT_THAT(values_of(state()), ElementsAre(8, 7, 6, 5));
  const tenon_tensor row = view(given, repeated);
  ASSERT_EQ(tenon_set_state(states_, 0, &row), TENON_OK) << tenon_error();
  EXPECT_THAT(values_of(state()), ElementsAre(5, 6, 5, 6));
}

TEST_F(CallerMemory, AResultMayNotLieInAState) {
  load_with_state();
  set_input(0, view(x_));
  set_output(view(state().data));
  expect_run_fails("the memory of output 'out0' overlaps that of a state");
  EXPECT_THAT(values_of(state()), ElementsAre(1, 2, 3, 4));
}

TEST_F(CallerMemory, AnInputMayLieInAStateAndIsReadAsItWas) {
  load_with_state();
  set_input(0, view(state().data, kTransposed));
  ASSERT_EQ(tenon_run(context_), TENON_OK) << tenon_error();
  EXPECT_THAT(values_of(output()), ElementsAre(1, 6, 6, 16));
  EXPECT_THAT(values_of(state()), ElementsAre(2, 5, 5, 8));
  set_input(0, view(state().data));
  ASSERT_EQ(tenon_run(context_), TENON_OK) << tenon_error();
  EXPECT_THAT(values_of(output()), ElementsAre(4, 25, 25, 64));
  EXPECT_THAT(values_of(state()), ElementsAre(4, 10, 10, 16));
}

TEST_F(CallerMemory, AnInputMayBeTheLastResult) {
  load_with_transposition();
  float x[] = {1, 2, 3, 4};
  set_input(0, view(x));
  ASSERT_EQ(tenon_run(context_), TENON_OK) << tenon_error();
  EXPECT_THAT(values_of(output()), ElementsAre(2, 5, 5, 8));
  set_input(0, output());
  for (int i = 0; i < 2; ++i) ASSERT_EQ(tenon_run(context_), TENON_OK) << tenon_error();
  EXPECT_THAT(values_of(output()), ElementsAre(8, 20, 20, 32));
}

TEST_F(CallerMemory, AResultMayNotLieInTheContextsOwnMemory) {
  load_with_transposition();
  set_input(0, view(x_));
  ASSERT_EQ(tenon_run(context_), TENON_OK) << tenon_error();
  set_output(view(output().data, kTransposed));
  expect_run_fails("the memory of output 'out0' is the context's own");
}

TEST_F(CallerMemory, AResultMayNotOverlapItself) {
  load_with_transposition();
  set_input(0, view(x_));
  float y[4];
  const int64_t repeated[] = {0, 1};
  set_output(view(y, repeated));
  expect_run_fails("the memory of output 'out0' overlaps itself");
}

TEST_F(CallerMemory, InputsThatAreUpdatedLieApart) {
  load_with_updated_inputs();
  const int64_t repeated[] = {0, 1};
  float z[6] = {1, 2, 3, 4, 5, 6};
  set_input(0, view(x_));
  set_input(1, view(z, repeated));
  expect_run_fails("input 'z' is updated, but overlaps itself");
  set_input(0, view(z + 2));
  set_input(1, view(z));
  expect_run_fails("input 'x' is updated, but overlaps what is updated too, 'z'");
  set_input(0, view(x_));
  ASSERT_EQ(tenon_run(context_), TENON_OK) << tenon_error();
  EXPECT_THAT(values_of(view(z)), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(values_of(view(x_)), ElementsAre(2, 2, 2, 2));
  set_input(1, output());
  expect_run_fails("input 'z' is updated, but lies in an earlier result of the context");
}

TEST_F(CallerMemory, TensorsThatCannotBeAreRefused) {
  load_with_transposition();
  const auto refused = [&](const tenon_tensor& tensor, const std::string& why) {
    EXPECT_EQ(tenon_set_input(context_, 0, &tensor), TENON_INVALID_ARGUMENT);
    EXPECT_THAT(tenon_error(), HasSubstr(why));
  };
  const int64_t far[] = {INT64_MAX / 2, 1}, farthest[] = {INT64_MIN, 1};
  refused(view(x_, far), "strides are too large");
  refused(view(x_, farthest), "strides are too large");
  refused(view(reinterpret_cast<char*>(x_) + 1), "not aligned");
}

}  // namespace
}  // namespace tenon
