// Trainings with calls that Tenon lacks: the host runs the calls and their gradients, in this process and from a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tenon/tenon.h"
#include "tests/runtime/support_system.h"
#include "training/file.h"

namespace tenon {
namespace {

using testing::HasSubstr;

Tensor counted(Sizes shape, double step) {
  Tensor tensor = Tensor::zeros(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_real(i, step * static_cast<double>(i % 7) - 1);
  return tensor;
}

// scores = linear(product(x, scale), weight): `product` multiplies rows of x by a vector.
Graph model_graph(const std::string& product) {
  Graph graph = parse_graph(R"(
graph model(%x: f32[N, 4]) {
  symbol N in [1, 64]
  %scale: f32[4] = parameter "scale"
  %weight: f32[3, 4] = parameter "weight"
  %scaled: f32[N, 4] = )" + product +
                            R"(
  %scores: f32[N, 3] = linear(%scaled, %weight, none)
  return %scores
})")
                    .value();
  graph.bind("scale", counted({4}, 0.5));
  graph.bind("weight", counted({3, 4}, 0.25));
  return graph;
}

const std::string kCall = R"(external(%x, %scale) {target="my.product.default", call=0, types="f32[N, 4]"})";
const CallNotes kNotes = {
    {{"external.0", "(x=%0, scale=%1) -> [%0]"}, {"external.-1", "(x=%0, scale=%1, *, gradients=[%2]) -> [%0, %1]"}},
    {{"external.0", "(x=%0, scale=%1) -> [%0]"}}};

void multiply(const float* x, const float* scale, int64_t rows, float* to) {
  for (int64_t i = 0; i < rows * 4; ++i) to[i] = x[i] * scale[i % 4];
}

void gradient_of_scale(const float* x, const float* gradient, int64_t rows, float* to) {
  std::fill_n(to, 4, 0.0F);
  for (int64_t i = 0; i < rows * 4; ++i) to[i % 4] += x[i] * gradient[i];
}

const float* floats_of(const Tensor& tensor) { return reinterpret_cast<const float*>(tensor.data()); }
float* floats_of(Tensor& tensor) { return reinterpret_cast<float*>(tensor.data()); }

std::vector<Tensor> run_in_process(int64_t call, std::span<const Tensor> operands) {
  const int64_t rows = operands[0].shape()[0];
  Tensor first = Tensor::zeros(DType::kF32, {rows, 4});
  if (call == 0) {
    multiply(floats_of(operands[0]), floats_of(operands[1]), rows, floats_of(first));
    return {first};
  }
  EXPECT_EQ(call, -1);
  multiply(floats_of(operands[2]), floats_of(operands[1]), rows, floats_of(first));
  Tensor second = Tensor::zeros(DType::kF32, {4});
  gradient_of_scale(floats_of(operands[0]), floats_of(operands[2]), rows, floats_of(second));
  return {first, second};
}

TrainingModel model_with_calls() {
  return {.training = model_graph(kCall),
          .inference = model_graph(kCall),
          .training_fallback = run_in_process,
          .inference_fallback = run_in_process};
}

TrainingOptions options() {
  return {.loss = parse_loss("cross_entropy").value(), .optimizer = parse_optimizer("sgd(lr=0.1)").value()};
}

const std::vector<Tensor> kInputs = {counted({5, 4}, 0.3)};
const Tensor kTarget = Tensor::zeros(DType::kI64, {5});

TEST(TrainingCalls, TrainAsTheOpThatTheyStandFor) {
  LocalTrainingInstance called(model_with_calls(), options());
  const Graph plain = model_graph("mul(%x, %scale)");
  LocalTrainingInstance native({.training = plain, .inference = plain}, options());
  for (int i = 0; i < 5; ++i)
    EXPECT_NEAR(called.step(kInputs, kTarget).real(0), native.step(kInputs, kTarget).real(0), 1e-6);
  for (LocalTrainingInstance* each : {&called, &native}) each->forward(kInputs, kTarget);
  const States ours = called.backward(), theirs = native.backward();
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(ours.at("scale").real(i), theirs.at("scale").real(i), 1e-6);
}

TEST(TrainingCalls, NeedAFallback) {
  TrainingModel model = model_with_calls();
  model.training_fallback = {};
  LocalTrainingInstance trainer(model, options());
  try {
    trainer.initialize();
    FAIL() << "it was compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.diagnostic().message, HasSubstr("no fallback to run them"));
    EXPECT_THAT(error.diagnostic().message, HasSubstr("my.product.default"));
  }
}

// ---- from a file, by the C interface ----

const float* floats_of(const tenon_tensor& tensor) { return static_cast<const float*>(tensor.data); }

tenon_status product(void*, tenon_call* call, tenon_text* error) {
  float* const to = static_cast<float*>(call->make_output(call, 0, call->inputs[0].shape));
  if (to == nullptr) return tenon_write_text(error, TENON_OUT_OF_MEMORY, "no memory");
  multiply(floats_of(call->inputs[0]), floats_of(call->inputs[1]), call->inputs[0].shape[0], to);
  return TENON_OK;
}

// Nothing needs the gradient of x, which is an input of the model: the text says None in its place.
tenon_status gradient_of_product(void*, tenon_call* call, tenon_text* error) {
  const std::string expected = "(x=%0, scale=%1, *, gradients=[%2]) -> [None, %0]";
  if (call->text != expected || call->input_count != 3 || call->output_count != 1)
    return tenon_write_text(error, TENON_RUN_FAILED, call->text);
  float* const to = static_cast<float*>(call->make_output(call, 0, call->inputs[1].shape));
  if (to == nullptr) return tenon_write_text(error, TENON_OUT_OF_MEMORY, "no memory");
  gradient_of_scale(floats_of(call->inputs[0]), floats_of(call->inputs[2]), call->inputs[0].shape[0], to);
  return TENON_OK;
}

class TrainingCallFiles : public testing::Test {
 protected:
  ~TrainingCallFiles() override {
    tenon_context_free(context_);
    tenon_program_free(program_);
    tenon_register_call("my.product.default", nullptr, nullptr);
    tenon_register_call("gradient.my.product.default", nullptr, nullptr);
    std::filesystem::remove(path_);
  }

  // The loss of a step, or NaN with tenon_error().
  float step() {
    const tenon_tensor x{kInputs[0].data(), TENON_F32, 2, kInputs[0].shape().data(), nullptr};
    const tenon_tensor target{kTarget.data(), TENON_I64, 1, kTarget.shape().data(), nullptr};
    tenon_tensor loss;
    if (tenon_set_input(context_, 0, &x) || tenon_set_input(context_, 1, &target) || tenon_run(context_) ||
        tenon_get_output(context_, 0, &loss))
      return std::numeric_limits<float>::quiet_NaN();
    return floats_of(loss)[0];
  }

  std::string path_ = testing::TempDir() + "training_calls." + std::to_string(::getpid()) + ".tenon";
  tenon_program* program_ = nullptr;
  tenon_context* context_ = nullptr;
};

TEST_F(TrainingCallFiles, GoOnWithFunctionsOfTheHost) {
  LocalTrainingInstance trainer(model_with_calls(), options());
  trainer.step(kInputs, kTarget);
  ASSERT_TRUE(write_training(path_, trainer, {"native"}, kNotes).ok());
  tenon_register_call("my.product.default", product, nullptr);
  tenon_register_call("gradient.my.product.default", gradient_of_product, nullptr);
  ASSERT_EQ(tenon_load_file(path_.c_str(), nullptr, &program_), TENON_OK) << tenon_error();
  ASSERT_EQ(tenon_context_create(program_, nullptr, &context_), TENON_OK) << tenon_error();
  for (int i = 0; i < 4; ++i) {
    const double expected = trainer.step(kInputs, kTarget).real(0);
    EXPECT_EQ(step(), static_cast<float>(expected)) << tenon_error();
  }
}

TEST_F(TrainingCallFiles, ListWhatIsMissing) {
  LocalTrainingInstance trainer(model_with_calls(), options());
  ASSERT_TRUE(write_training(path_, trainer, {"native"}, kNotes).ok());
  EXPECT_NE(tenon_load_file(path_.c_str(), nullptr, &program_), TENON_OK);
  EXPECT_THAT(tenon_error(), HasSubstr("\n  my.product.default\n  gradient.my.product.default"));
}

TEST_F(TrainingCallFiles, NeedANoteForTheGradient) {
  LocalTrainingInstance trainer(model_with_calls(), options());
  CallNotes notes = kNotes;
  notes.training.erase("external.-1");
  const Status written = write_training(path_, trainer, {"native"}, notes);
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.diagnostic().message, HasSubstr("\n  gradient.my.product.default"));
}

}  // namespace
}  // namespace tenon
