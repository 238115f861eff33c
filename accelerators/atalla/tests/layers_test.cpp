// Whole layers on every body, against loops that know nothing of tiles.
#include "support.h"

namespace atalla {
namespace {

struct LayerCase {
  const char* name;
  Layer layer;
};
void PrintTo(const LayerCase& one, std::ostream* out) { *out << one.name; }

constexpr uint8_t kRequantize = Store::kBias | Store::kScale;
const Epilogue kRelu{.zero_point = -128, .low = 0, .high = 1e30F};
const Epilogue kAdd{.zero_point = 3, .residual_zero_point = -7, .low = -20, .high = 90, .residual_scale = 0.7F};

const LayerCase kLayers[] = {
    {"linear", {.height = 40, .channels = 64, .outputs = 48, .store_flags = kRequantize}},
    {"tails", {.height = 19, .channels = 37, .outputs = 21, .output = Output::kI32, .store_flags = Store::kBias}},
    {"dequantized", {.height = 19, .channels = 21, .outputs = 37, .output = Output::kF32, .store_flags = kRequantize}},
    {"conv3x3",
     {.height = 9,
      .width = 7,
      .channels = 32,
      .outputs = 32,
      .kernel = 3,
      .padding = 1,
      .pad = 0xf3,
      .store_flags = kRequantize | Store::kClamp,
      .epilogue = kRelu}},
    {"strided",
     {.height = 15,
      .width = 14,
      .channels = 20,
      .outputs = 16,
      .kernel = 3,
      .stride = 2,
      .padding = 1,
      .pad = 5,
      .store_flags = kRequantize}},
    {"conv7x7",
     {.height = 14,
      .width = 14,
      .channels = 3,
      .outputs = 8,
      .kernel = 7,
      .stride = 2,
      .padding = 3,
      .store_flags = kRequantize}},
    {"residual",
     {.height = 8,
      .width = 8,
      .channels = 16,
      .outputs = 40,
      .store_flags = kRequantize | Store::kResidual | Store::kClamp,
      .epilogue = kAdd}},
    {"blocks",
     {.height = 40, .width = 56, .channels = 80, .outputs = 16, .kernel = 3, .padding = 1, .store_flags = kRequantize}},
    {"bf16_linear",
     {.height = 33,
      .channels = 64,
      .outputs = 32,
      .is_float = true,
      .output = Output::kBf16,
      .store_flags = Store::kBias}},
    {"bf16_conv",
     {.height = 9,
      .width = 9,
      .channels = 63,
      .outputs = 20,
      .kernel = 3,
      .stride = 2,
      .padding = 1,
      .is_float = true,
      .output = Output::kF32,
      .store_flags = Store::kBias}},
    {"bf16_residual",
     {.height = 5,
      .width = 6,
      .channels = 64,
      .outputs = 20,
      .is_float = true,
      .output = Output::kBf16,
      .store_flags = Store::kBias | Store::kResidual | Store::kClamp,
      .epilogue = kAdd}},
};

class Layers : public testing::TestWithParam<LayerCase> {
 protected:
  static void expect_result(const std::string& body_name, const Machine& machine = {}) {
    const Problem problem = random_problem(machine, GetParam().layer, 7);
    const auto body = open_body(body_name, machine, {.memory_bytes = 4 << 20});
    ASSERT_NE(body, nullptr);
    EXPECT_EQ(result_of(*body, problem), reference_result(machine, problem));
  }
};

TEST_P(Layers, Model) { expect_result("model"); }
TEST_P(Layers, Cycles) { expect_result("cycles"); }
TEST_P(Layers, Rtl) {
  ATALLA_NEEDS_RTL();
  expect_result("rtl", *rtl_machine());
}
TEST_P(Layers, OtherMachines) {
  for (const uint32_t size : {4U, 8U, 32U, 64U})
    expect_result("cycles", {.size = size, .scratchpad_lines = 65536, .dma_bytes = 8, .dma_latency = 5});
}

INSTANTIATE_TEST_SUITE_P(All, Layers, testing::ValuesIn(kLayers), [](const auto& each) { return each.param.name; });

// The bars of the machine: the array is busy in layers with many channels.
const LayerCase kWide[] = {
    {"linear", {.height = 128, .channels = 768, .outputs = 768, .store_flags = kRequantize}},
    {"conv3x3",
     {.height = 14,
      .width = 14,
      .channels = 256,
      .outputs = 256,
      .kernel = 3,
      .padding = 1,
      .store_flags = kRequantize}},
    {"conv1x1", {.height = 14, .width = 14, .channels = 1024, .outputs = 256, .store_flags = kRequantize}},
    {"strided",
     {.height = 28,
      .width = 28,
      .channels = 256,
      .outputs = 256,
      .kernel = 3,
      .stride = 2,
      .padding = 1,
      .store_flags = kRequantize}},
    {"bf16",
     {.height = 128,
      .channels = 768,
      .outputs = 256,
      .is_float = true,
      .output = Output::kBf16,
      .store_flags = Store::kBias}},
};

class WideLayers : public testing::TestWithParam<LayerCase> {};

TEST_P(WideLayers, KeepTheArrayBusy) {
  const Problem problem = random_problem({}, GetParam().layer, 3);
  RunResult run;
  result_of(*open_body("cycles"), problem, &run);
  EXPECT_GE(run.counters.utilization(), 0.8);
  EXPECT_EQ(run.counters.rows * 256, GetParam().layer.multiplications());
}

TEST_P(WideLayers, TakeAsLongOnTheRtl) {
  ATALLA_NEEDS_RTL();
  const Problem problem = random_problem({}, GetParam().layer, 3);
  RunResult cycles, rtl;
  EXPECT_EQ(result_of(*open_body("cycles"), problem, &cycles), result_of(*open_body("rtl"), problem, &rtl));
  EXPECT_EQ(cycles.counters.cycles, rtl.counters.cycles);
}

INSTANTIATE_TEST_SUITE_P(All, WideLayers, testing::ValuesIn(kWide), [](const auto& each) { return each.param.name; });

TEST(Machines, SlowMemoryTakesLonger) {
  const Problem problem = random_problem({}, {.height = 64, .channels = 64, .outputs = 64}, 3);
  RunResult fast, slow;
  result_of(*open_body("cycles", {.dma_bytes = 16}), problem, &fast);
  result_of(*open_body("cycles", {.dma_bytes = 2, .dma_latency = 200}), problem, &slow);
  EXPECT_GT(slow.counters.cycles, 2 * fast.counters.cycles);
  EXPECT_GT(slow.counters.read_stalls, 0);
  EXPECT_EQ(fast.counters.rows, slow.counters.rows);
}

}  // namespace
}  // namespace atalla
