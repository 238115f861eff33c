// The table of functions that recorders of ATen calls use.
#include "tenon/aten_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tenon {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const tenon_aten_compiler& table() { return *tenon_aten_compiler_v1(); }

class AtenCompilerTest : public ::testing::Test {
 protected:
  AtenCompilerTest() { EXPECT_EQ(table().import_new(&import_, &error_), TENON_OK); }
  ~AtenCompilerTest() override {
    table().import_free(import_);
    if (program_ != nullptr) table().program_free(program_);
  }

  tenon_aten_arg input(tenon_dtype dtype, const std::vector<int64_t>& shape) {
    const tenon_tensor type = {nullptr, dtype, static_cast<int32_t>(shape.size()), shape.data(), nullptr};
    int64_t number = -1;
    EXPECT_EQ(table().import_input(import_, &type, 0, &number, &error_), TENON_OK) << text_;
    return {TENON_ARG_TENSOR, number, 0, nullptr, nullptr};
  }

  tenon_status call(const char* target, const std::vector<tenon_aten_arg>& args, tenon_aten_arg& result,
                    const std::vector<tenon_tensor>& results = {}) {
    const tenon_aten_call request = {sizeof(tenon_aten_call), target,         args.data(), args.size(), nullptr, 0,
                                     results.data(),          results.size(), nullptr};
    const tenon_aten_arg* given = nullptr;
    const tenon_status status = table().import_call(import_, &request, &given, &error_);
    if (status == TENON_OK) result = *given;
    return status;
  }

  tenon_status compile(const std::vector<tenon_aten_arg>& outputs, const std::vector<uint64_t>& donated = {},
                       tenon_fallback fallback = nullptr, void* user_data = nullptr, void (*release)(void*) = nullptr) {
    const tenon_compile_request request = {sizeof(tenon_compile_request),
                                           outputs.data(),
                                           outputs.size(),
                                           nullptr,
                                           donated.data(),
                                           donated.size(),
                                           fallback,
                                           user_data,
                                           release};
    return table().import_compile(import_, &request, &program_, &error_);
  }

  tenon_status run(std::vector<float>& x, std::vector<float>& y) {
    const int64_t shape[] = {static_cast<int64_t>(x.size())};
    const tenon_tensor given = {x.data(), TENON_F32, 1, shape, nullptr};
    tenon_owned_tensor result = {};
    const tenon_status status = table().program_run(program_, &given, 1, &result, 1, &error_);
    if (status != TENON_OK) return status;
    const auto* data = static_cast<const float*>(result.tensor.data);
    y.assign(data, data + result.tensor.shape[0]);
    result.release(result.owner);
    return status;
  }

  std::string text() const { return text_; }

  char text_[1000] = "";
  tenon_text error_ = {text_, sizeof(text_)};
  tenon_import* import_ = nullptr;
  tenon_aten_program* program_ = nullptr;
};

TEST_F(AtenCompilerTest, CallsBecomeAProgramThatRuns) {
  const tenon_aten_arg x = input(TENON_F32, {3});
  tenon_aten_arg y = {};
  ASSERT_EQ(call("aten.mul.Scalar", {x, {TENON_ARG_REAL, 0, 2.5, nullptr, nullptr}}, y), TENON_OK) << text();
  ASSERT_EQ(compile({y}), TENON_OK) << text();
  std::vector<float> given = {1, 2, -3}, result;
  ASSERT_EQ(run(given, result), TENON_OK) << text();
  EXPECT_THAT(result, ElementsAre(2.5, 5, -7.5));
  EXPECT_THAT(table().program_text(program_), HasSubstr("Segment 0: cpu"));
}

TEST_F(AtenCompilerTest, ATensorIsDescribed) {
  const tenon_aten_arg x = input(TENON_BF16, {3, 4});
  tenon_imported_tensor facts = {sizeof(tenon_imported_tensor), TENON_F32, 0, nullptr, 0, 0};
  ASSERT_EQ(table().import_tensor(import_, x.integer, &facts, &error_), TENON_OK);
  EXPECT_EQ(facts.dtype, TENON_BF16);
  EXPECT_THAT(std::vector(facts.shape, facts.shape + facts.rank), ElementsAre(3, 4));
}

TEST_F(AtenCompilerTest, AResultTakesTheMemoryOfADonatedInput) {
  tenon_aten_arg y = {};
  ASSERT_EQ(call("aten.exp.default", {input(TENON_F32, {2})}, y), TENON_OK) << text();
  ASSERT_EQ(compile({y}, {0}), TENON_OK) << text();
  tenon_program_facts facts = {sizeof(tenon_program_facts), 0, 0, nullptr, 0};
  table().program_facts(program_, &facts);
  EXPECT_EQ(facts.places[0], 0);
  std::vector<float> given = {0, 0}, result;
  ASSERT_EQ(run(given, result), TENON_OK) << text();
  EXPECT_THAT(given, ElementsAre(1, 1));
}

// ---- the fallback ---------------------------------------------------------------------------------------------------

struct Doubler {
  std::vector<float> memory;
  bool fails = false;
  int released = 0;

  static tenon_status run(void* self, int64_t call, const tenon_tensor* operands, uint64_t /*operand_count*/,
                          tenon_owned_tensor* results, uint64_t /*result_count*/, tenon_text* error) {
    auto& doubler = *static_cast<Doubler*>(self);
    if (doubler.fails) return tenon_write_text(error, TENON_RUN_FAILED, "no doubling today");
    const auto* data = static_cast<const float*>(operands[0].data);
    doubler.memory.clear();
    for (int64_t i = 0; i < operands[0].shape[0]; ++i) doubler.memory.push_back(data[i] * 2 + static_cast<float>(call));
    results[0] = {{doubler.memory.data(), TENON_F32, 1, operands[0].shape, nullptr}, nullptr, nullptr};
    return TENON_OK;
  }
};

TEST_F(AtenCompilerTest, TheFallbackRunsWhatTenonLacks) {
  const tenon_aten_arg x = input(TENON_F32, {2});
  tenon_aten_arg y = {};
  EXPECT_EQ(call("mylib.double.default", {x}, y), TENON_UNSUPPORTED);
  EXPECT_THAT(text(), HasSubstr("mylib.double.default is not supported: not in the registry"));
  const int64_t shape[] = {2};
  ASSERT_EQ(call("mylib.double.default", {x}, y, {{nullptr, TENON_F32, 1, shape, nullptr}}), TENON_OK) << text();
  ASSERT_EQ(y.kind, TENON_ARG_LIST);
  Doubler doubler;
  const auto release = [](void* self) { ++static_cast<Doubler*>(self)->released; };
  ASSERT_EQ(compile({y.items[0]}, {}, Doubler::run, &doubler, release), TENON_OK) << text();
  std::vector<float> given = {1, 2}, result;
  ASSERT_EQ(run(given, result), TENON_OK) << text();
  EXPECT_THAT(result, ElementsAre(2, 4));
  doubler.fails = true;
  EXPECT_EQ(run(given, result), TENON_RUN_FAILED);
  EXPECT_THAT(text(), HasSubstr("no doubling today"));
  EXPECT_EQ(doubler.released, 0);
  table().program_free(std::exchange(program_, nullptr));
  EXPECT_EQ(doubler.released, 1);
}

// ---- mistakes -------------------------------------------------------------------------------------------------------

TEST_F(AtenCompilerTest, MistakesAreTold) {
  tenon_aten_arg y = {};
  EXPECT_EQ(call("aten.exp.default", {{TENON_ARG_TENSOR, 5, 0, nullptr, nullptr}}, y), TENON_UNSUPPORTED);
  EXPECT_THAT(text(), HasSubstr("there is no tensor 5 in this import: it has 0"));
  EXPECT_EQ(call("aten.exp.default", {{77, 0, 0, nullptr, nullptr}}, y), TENON_UNSUPPORTED);
  EXPECT_THAT(text(), HasSubstr("77 is no kind of argument"));
  const tenon_tensor type = {nullptr, static_cast<tenon_dtype>(99), 0, nullptr, nullptr};
  int64_t number = 0;
  EXPECT_EQ(table().import_input(import_, &type, 0, &number, &error_), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("99 is no dtype"));
  const tenon_aten_arg x = input(TENON_F32, {2});
  Doubler doubler;
  const auto release = [](void* self) { ++static_cast<Doubler*>(self)->released; };
  EXPECT_EQ(compile({{TENON_ARG_BOOL, 1, 0, nullptr, nullptr}, x}, {}, Doubler::run, &doubler, release),
            TENON_UNSUPPORTED);
  EXPECT_THAT(text(), HasSubstr("output 0 is no tensor"));
  EXPECT_EQ(doubler.released, 1);
}

TEST(AtenCompiler, TheCpuIsDeviceZero) {
  char text[200] = "";
  tenon_text error = {text, sizeof(text)};
  tenon_device_facts facts = {sizeof(tenon_device_facts), nullptr, 0, 0, 0};
  ASSERT_EQ(table().device_facts(0, &facts, &error), TENON_OK);
  EXPECT_STREQ(table().device_name(0), "cpu");
  EXPECT_EQ(table().device_name(table().device_count()), nullptr);
  EXPECT_STREQ(facts.name, "cpu");
  EXPECT_GT(facts.total_memory, facts.free_memory);
  EXPECT_EQ(table().device_facts(table().device_count(), &facts, &error), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(text, HasSubstr("there is no device"));
}

TEST(AtenCompiler, OverloadsAreListed) {
  std::vector<std::string> names;
  table().each_overload(
      &names, [](void* all, const char* name) { static_cast<std::vector<std::string>*>(all)->emplace_back(name); });
  EXPECT_THAT(names, Contains("aten.add.Tensor"));
}

}  // namespace
}  // namespace tenon
