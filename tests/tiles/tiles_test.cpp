// Random layers on random machines: the interpreter of tile actions against the op's own definition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "graph/builder.h"
#include "graph/evaluate.h"
#include "graph/runtime_dtype.h"
#include "tiles/compile.h"
#include "tiles/form.h"
#include "tiles/interpret.h"
#include "tiles/layer.h"
#include "tiles/text.h"

namespace tenon {
namespace {

using testing::HasSubstr;

tenon_tile_machine machine_of(uint32_t rows, uint32_t columns, uint32_t line_bytes, uint32_t lines,
                              uint32_t accumulator_rows) {
  return {.size = sizeof(tenon_tile_machine),
          .rows = rows,
          .columns = columns,
          .operand_dtypes = 1u << TENON_BF16 | 1u << TENON_I8,
          .output_dtypes = 1u << TENON_BF16 | 1u << TENON_F32 | 1u << TENON_I8 | 1u << TENON_I32,
          .epilogues = TENON_TILE_BIAS | TENON_TILE_SCALE | TENON_TILE_RESIDUAL | TENON_TILE_CLAMP,
          .line_bytes = line_bytes,
          .lines = lines,
          .line_banks = 4,
          .accumulator_rows = accumulator_rows,
          .accumulator_banks = 2,
          .max_run = 4096,
          .max_count = 1024,
          .max_line_step = 4096,
          .max_stride = 1 << 20,
          .dma_bytes = 8,
          .dma_latency = 10,
          .hertz = 1e9};
}

const std::vector<tenon_tile_machine> kMachines = {
    machine_of(16, 16, 16, 16384, 2048),  // as Atalla
    machine_of(8, 8, 8, 2048, 128),       // smaller
    machine_of(8, 16, 16, 2048, 64),      // not square
    machine_of(4, 4, 8, 700, 40),         // hardly any memory
};

class LayerMaker {
 public:
  LayerMaker(const tenon_tile_machine& machine, uint32_t seed) : machine_(machine), random_(seed) {}

  Graph product(DType operand = DType::kBF16, DType result = DType::kF32) {
    Builder b(graph_);
    const int64_t batch = draw(1, 3), rows = draw(1, 50), channels = draw(1, 60), outputs = draw(1, 40);
    const bool transposed = draw(0, 1) == 1;
    const Value x = input("x", {batch, rows, channels}, operand);
    const Value w = input("w", transposed ? Shape{batch, outputs, channels} : Shape{batch, channels, outputs}, operand);
    return finished(b.op("tile_layer", {x, w, Value(), Value()},
                         {{"image", std::vector<int64_t>{batch, rows, 1, channels}},
                          {"outputs", outputs},
                          {"shape", std::vector<int64_t>{batch, rows, outputs}},
                          {"dtype", result},
                          {"packed", false},
                          {"transposed", transposed}}));
  }

  Graph convolution(DType dtype = DType::kBF16) {
    Builder b(graph_);
    const bool is_integer = dtype == DType::kI8;
    const std::vector<int64_t> kernel = {draw(1, 3), draw(1, 3)}, stride = {draw(1, 2), draw(1, 2)};
    std::vector<int64_t> padding = {draw(0, 2), draw(0, 2)}, dilation = {draw(1, 2), draw(1, 2)};
    const bool runs = draw(0, 2) == 0;
    if (runs) padding = {0, 0}, dilation[1] = 1;
    const int64_t groups = runs ? 1 : draw(1, 3), own_channels = is_integer ? machine_.rows * draw(1, 2) : draw(1, 40);
    const int64_t own_outputs = draw(1, 40), outputs = groups * own_outputs;
    const std::vector<int64_t> image = {draw(1, 2), draw(5, 9), draw(5, 9), groups * own_channels};
    const auto positions = [&](size_t i) {
      return (image[1 + i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
    };
    const std::vector<int64_t> shape = {image[0], positions(0), positions(1), outputs};
    const int64_t k = machine_.rows, n = machine_.columns;
    const int64_t tiles = groups * ceil_div(own_outputs, n),
                  channel_tiles = ceil_div(own_channels * (runs ? kernel[1] : 1), k);
    const Value x = input("x", {image[0], image[1], image[2], image[3]}, dtype);
    const Value w = input("w", {tiles, channel_tiles, kernel[0], runs ? 1 : kernel[1], k, n}, dtype);
    const Value vectors = is_integer || draw(0, 1) == 1 ? input("v", {tiles, 2, n}, DType::kF32) : Value();
    const Value residual = draw(0, 1) == 1 ? input("r", {shape[0], shape[1], shape[2], outputs}, dtype) : Value();
    NamedAttrs attrs{{"image", image},   {"outputs", outputs}, {"shape", shape},     {"dtype", dtype},
                     {"kernel", kernel}, {"stride", stride},   {"padding", padding}, {"dilation", dilation}};
    attrs.emplace_back("groups", groups);
    attrs.emplace_back("runs", runs);
    if (is_integer) {
      attrs.emplace_back("pad", draw(-128, 127));
      attrs.emplace_back("zero_point", draw(-9, 9));
      attrs.emplace_back("residual_scale", static_cast<double>(draw(1, 32)) / 16);
      attrs.emplace_back("residual_zero_point", draw(-128, 127));
    }
    if (draw(0, 1) == 1) attrs.emplace_back("low", -0.5);
    if (draw(0, 1) == 1) attrs.emplace_back("high", 1.5);
    return finished(b.op("tile_layer", {x, w, vectors, residual}, std::move(attrs)));
  }

  std::vector<Tensor> arguments() {
    std::vector<Tensor> tensors;
    std::normal_distribution<double> normal;
    for (ValueRef ref : graph_.inputs()) {
      const TensorType& type = graph_.type(ref);
      std::vector<int64_t> shape;
      for (const Expr& size : type.shape) shape.push_back(size.constant());
      Tensor tensor = Tensor::zeros(type.dtype, shape);
      const bool is_integer = graph_.type(graph_.inputs()[0]).dtype == DType::kI8;
      for (int64_t i = 0; i < tensor.numel(); ++i) {
        if (type.dtype == DType::kI8) {
          tensor.set_integer(i, draw(-128, 127));
        } else if (is_integer && i / shape[2] % 2 == 0) {
          const auto bias = static_cast<int32_t>(draw(-90000, 90000));  // as bits
          std::memcpy(static_cast<std::byte*>(tensor.data()) + i * 4, &bias, sizeof bias);
        } else {
          tensor.set_real(i, is_integer ? 1e-4 * std::abs(normal(random_)) : normal(random_));
        }
      }
      tensors.push_back(tensor);
    }
    return tensors;
  }

 private:
  int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  Value input(const char* name, Shape shape, DType dtype = DType::kBF16) {
    return {graph_, graph_.add_input(name, {dtype, std::move(shape)})};
  }
  Graph finished(Value y) {
    graph_.set_outputs({y.ref()});
    return graph_;
  }

  const tenon_tile_machine& machine_;
  std::mt19937 random_;
  Graph graph_;
};

// Inputs, then the output.
std::vector<Tensor> interpreted(const TileCode& code, const tenon_tile_machine& machine, const Graph& graph,
                                std::vector<Tensor> tensors) {
  std::vector<int64_t> shape;
  const TensorType& type = graph.type(graph.outputs()[0]);
  for (const Expr& size : type.shape) shape.push_back(size.constant());
  tensors.push_back(Tensor::zeros(type.dtype, shape));
  std::vector<std::span<std::byte>> buffers;
  for (Tensor& tensor : tensors)
    buffers.emplace_back(static_cast<std::byte*>(tensor.data()), tensor.numel() * size_of(tensor.dtype()));
  interpret_tiles(code, machine, buffers).value();
  return tensors;
}

void expect_right(const tenon_tile_machine& machine, LayerMaker maker, const Graph& graph, double error = 0.01) {
  const std::string reason = misfit(graph, graph.nodes()[0], machine);
  if (graph.type(graph.inputs()[0]).dtype == DType::kI8 && machine.rows % machine.line_bytes != 0) {
    ASSERT_EQ(reason, "a row of its array in i8 does not fill whole lines");
    return;
  }
  ASSERT_EQ(reason, "") << to_string(graph);
  const TileCode code = compile_tiles(graph, machine).value();
  const std::vector<Tensor> arguments = maker.arguments();
  const Tensor found = interpreted(code, machine, graph, arguments).back();
  const Tensor wanted = evaluate(graph, arguments).value()[0];
  for (int64_t i = 0; i < found.numel(); ++i) {
    const double tolerance = error * (2 + std::abs(wanted.real(i)));
    ASSERT_NEAR(found.real(i), wanted.real(i), tolerance) << "element " << i << " of " << to_string(graph);
  }
}

class TileLayers : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Machines, TileLayers, testing::Range<size_t>(0, kMachines.size()));

TEST_P(TileLayers, ProductsAreThoseOfTheOp) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    LayerMaker maker(kMachines[GetParam()], seed);
    const Graph graph = maker.product();
    expect_right(kMachines[GetParam()], maker, graph);
  }
}

TEST_P(TileLayers, ConvolutionsAreThoseOfTheOp) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    LayerMaker maker(kMachines[GetParam()], 100 + seed);
    const Graph graph = maker.convolution();
    expect_right(kMachines[GetParam()], maker, graph);
  }
}

TEST_P(TileLayers, SumsOfBytesAreExact) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    LayerMaker maker(kMachines[GetParam()], 200 + seed);
    const Graph graph = maker.product(DType::kI8, DType::kI32);
    expect_right(kMachines[GetParam()], maker, graph, 0);
  }
}

TEST_P(TileLayers, ConvolutionsOfBytesAreThoseOfTheOp) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    LayerMaker maker(kMachines[GetParam()], 300 + seed);
    const Graph graph = maker.convolution(DType::kI8);
    expect_right(kMachines[GetParam()], maker, graph, 0);
  }
}

TEST_P(TileLayers, ParseBack) {
  LayerMaker maker(kMachines[GetParam()], 3);
  const TileCode code = compile_tiles(maker.convolution(), kMachines[GetParam()]).value();
  const std::string text = to_string(code);
  EXPECT_EQ(to_string(parse_tiles(text).value()), text);
}

TEST(TileText, BadTextIsAnError) {
  EXPECT_THAT(parse_tiles("lines").diagnostic().message, HasSubstr("tile code begins with"));
  EXPECT_THAT(parse_tiles("tiles scratch=0\n jump").diagnostic().message, HasSubstr("no tile action 'jump'"));
  EXPECT_THAT(parse_tiles("tiles scratch=0\n load colour=3").diagnostic().message, HasSubstr("no field 'colour'"));
  EXPECT_THAT(parse_tiles("tiles scratch=0\n load run=x").diagnostic().message, HasSubstr("no number"));
}

// Code without one of its tokens either waits for ever or races: the judge says so.
TEST(TileInterpreter, EveryTokenIsNeeded) {
  const tenon_tile_machine machine = machine_of(4, 4, 8, 700, 40);
  LayerMaker maker(machine, 7);
  const Graph graph = maker.product();
  const TileCode code = compile_tiles(graph, machine).value();
  const std::vector<Tensor> arguments = maker.arguments();
  size_t waits = 0;
  for (size_t i = 0; i < code.actions.size() && waits < 40; ++i) {
    if (code.actions[i].wait == 0) continue;
    ++waits;
    TileCode broken = code;
    broken.actions[i].wait = 0;
    EXPECT_THROW(interpreted(broken, machine, graph, arguments), Error) << i << ": " << to_string(code.actions[i]);
  }
  EXPECT_GT(waits, 3u);
}

TEST(TileMachine, ADescriptionIsChecked) {
  tenon_tile_machine machine = kMachines[0];
  machine.columns = 0;
  EXPECT_THAT(checked_machine(machine).diagnostic().message, HasSubstr("0 columns of its array"));
  machine = kMachines[0];
  machine.max_run = 3;
  EXPECT_THAT(checked_machine(machine).diagnostic().message, HasSubstr("3 bytes of a run at most"));
}

TEST(TileMachine, DeclinesWhatItLacks) {
  tenon_tile_machine machine = kMachines[1];
  LayerMaker maker(machine, 5);
  const Graph graph = maker.product();
  machine.output_dtypes = 1u << TENON_BF16;
  EXPECT_EQ(misfit(graph, graph.nodes()[0], machine), "it does not store f32");
  machine.operand_dtypes = 0;
  EXPECT_EQ(misfit(graph, graph.nodes()[0], machine), "its array does not multiply bf16");
  machine = kMachines[1];
  machine.lines = 8;
  EXPECT_EQ(misfit(graph, graph.nodes()[0], machine), "no block of the layer fits its memories");
}

}  // namespace
}  // namespace tenon
