// What tools say of an action's data is what the layer computes: activations, weights and results belong together.
#include "tiles/origin.h"

#include <gtest/gtest.h>

#include <random>

#include "graph/builder.h"
#include "tiles/compile.h"

namespace tenon {
namespace {

const tenon_tile_machine kMachine = {.size = sizeof(tenon_tile_machine),
                                     .rows = 8,
                                     .columns = 8,
                                     .operand_dtypes = 1U << TENON_BF16 | 1U << TENON_I8,
                                     .output_dtypes = 1U << TENON_BF16 | 1U << TENON_F32,
                                     .epilogues = TENON_TILE_BIAS | TENON_TILE_CLAMP | TENON_TILE_SCALE,
                                     .line_bytes = 8,
                                     .lines = 2048,
                                     .line_banks = 4,
                                     .accumulator_rows = 128,
                                     .accumulator_banks = 2,
                                     .max_run = 4096,
                                     .max_count = 1024,
                                     .max_line_step = 4096,
                                     .max_stride = 1 << 20,
                                     .dma_bytes = 8,
                                     .dma_latency = 10,
                                     .hertz = 1e9};

using Ints = std::vector<int64_t>;

struct Window {
  int64_t kernel, stride, padding;
};
constexpr Window kFirst = {3, 2, 1}, kSecond = {2, 1, 0};

int64_t positions(int64_t size, const Window& w) { return (size + 2 * w.padding - w.kernel) / w.stride + 1; }

// A convolution with `outputs` channels in packed weights.
Value convolution(Builder& b, Graph& graph, Value x, const Ints& image, int64_t outputs, const Window& w) {
  const Ints shape = {image[0], positions(image[1], w), positions(image[2], w), outputs};
  const Shape weights = {ceil_div(outputs, 8), ceil_div(image[3], 8), w.kernel, w.kernel, 8, 8};
  const Value packed(graph, graph.add_input("w" + std::to_string(outputs), {DType::kBF16, weights}));
  return b.op("tile_layer", {x, packed, Value(), Value()},
              {{"image", image},
               {"outputs", outputs},
               {"shape", shape},
               {"dtype", DType::kBF16},
               {"kernel", Ints{w.kernel, w.kernel}},
               {"stride", Ints{w.stride, w.stride}},
               {"padding", Ints{w.padding, w.padding}},
               {"dilation", Ints{1, 1}}});
}

// Two layers: what is between them lies in scratch.
Graph two_layers() {
  Graph graph("layers");
  Builder b(graph);
  const Value x(graph, graph.add_input("x", {DType::kBF16, {2, 9, 7, 20}}));
  const Value y = convolution(b, graph, x, {2, 9, 7, 20}, 19, kFirst);
  const Ints between = {2, positions(9, kFirst), positions(7, kFirst), 19};
  graph.set_outputs({convolution(b, graph, y, between, 12, kSecond).ref()});
  return graph;
}

class Origins : public testing::Test {
 protected:
  std::optional<TileOrigin> origin(size_t action, int64_t address) {
    return origin_of(graph_, code_, kMachine, action, address);
  }

  Graph graph_ = two_layers();
  TileCode code_ = compile_tiles(graph_, kMachine).value();
};

TEST_F(Origins, OfSums) {
  size_t inside = 0, padding = 0;
  for (size_t i = 0; i < code_.actions.size(); ++i) {
    const tenon_tile_action& a = code_.actions[i];
    if (a.kind != TENON_TILE_MULTIPLY) continue;
    const Window& w = a.node == 0 ? kFirst : kSecond;
    for (int64_t row = 0; row < int64_t{a.outer} * a.inner; ++row) {
      const auto it = origin(i, (a.accumulator + row) * 8 * 4 + 2 * 4);  // column 2
      ASSERT_TRUE(it && it->weights) << i;
      EXPECT_EQ(it->outer * a.inner + it->inner, row);
      EXPECT_EQ(it->element, 2);
      const Ints& tile = it->weights->index;  // output tile, channel tile, tap
      ASSERT_TRUE(it->becomes) << i;
      EXPECT_EQ(it->becomes->value, graph_.nodes()[a.node].results[0].id);
      const Ints& y = it->becomes->index;
      EXPECT_EQ(y[3], tile[0] * 8 + 2);
      const Ints x = {y[0], y[1] * w.stride + tile[2] - w.padding, y[2] * w.stride + tile[3] - w.padding, tile[1] * 8};
      const Shape& image = graph_.type(graph_.nodes()[a.node].operands[0]).shape;
      const bool is_inside = x[1] >= 0 && x[2] >= 0 && x[1] < image[1].constant() && x[2] < image[2].constant();
      ++(is_inside ? inside : padding);
      ASSERT_EQ(it->reads.has_value(), is_inside) << i << " row " << row;
      if (!is_inside) continue;
      EXPECT_EQ(it->reads->value, graph_.nodes()[a.node].operands[0].id);
      EXPECT_EQ(it->reads->index, x) << "action " << i << ", row " << row;
    }
  }
  EXPECT_GT(inside, 500);
  EXPECT_GT(padding, 50);
}

TEST_F(Origins, OfStores) {
  std::map<uint32_t, std::set<Ints>> written;
  for (size_t i = 0; i < code_.actions.size(); ++i) {
    const tenon_tile_action& a = code_.actions[i];
    if (a.kind != TENON_TILE_STORE) continue;
    for (int64_t outer = 0; outer < a.outer; ++outer) {
      for (int64_t inner = 0; inner < a.inner; ++inner) {
        for (int64_t column = 0; column < a.run; ++column) {
          const auto it = origin(i, a.offset + outer * a.outer_stride + inner * a.inner_stride + column * 2);
          ASSERT_TRUE(it && it->becomes);
          EXPECT_EQ(it->element, column);
          EXPECT_TRUE(written[it->becomes->value].insert(it->becomes->index).second) << "written twice";
        }
      }
    }
  }
  ASSERT_EQ(written.size(), 2);  // both results, each element once
  for (const auto& [value, elements] : written) {
    int64_t count = 1;
    for (const Expr& size : graph_.type({value}).shape) count *= size.constant();
    EXPECT_EQ(std::ssize(elements), count);
  }
}

TEST_F(Origins, OfNoByte) {
  const auto store = std::ranges::find(code_.actions, uint32_t{TENON_TILE_STORE}, &tenon_tile_action::kind);
  const auto number = static_cast<size_t>(store - code_.actions.begin());
  EXPECT_FALSE(origin(number, -1));
  EXPECT_FALSE(origin(number, int64_t{1} << 40));
  EXPECT_FALSE(origin(code_.actions.size(), 0));
  const auto it = origin(number, store->offset);
  ASSERT_TRUE(it && it->becomes);
  EXPECT_EQ(to_string(graph_, *it->becomes), "%0[0, 0, 0, 0]");
}

}  // namespace
}  // namespace tenon
