// AMX on machines that have none: the instructions are calls of functions that do the same.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <regex>

#include "backends/cpu/cpu.h"
#include "codegen/codegen.h"
#include "loops/lower.h"
#include "runtime/kernel.h"
#include "runtime/loader.h"
#include "schedule/default_schedule.h"
#include "tests/codegen/support_llvm.h"
#include "tests/loops/support_kernels.h"

namespace tenon::codegen {
namespace {

using loops::LoopTree;
using loops::testing::elements;
using loops::testing::filled;
using loops::testing::run_on;

constexpr int64_t kRow = 64;  // bytes
constexpr uint8_t kTiles = 8;

struct Register {
  std::byte bytes[16 * kRow];
};

// The registers of this thread. Without a configuration they must not be used.
bool is_configured = false;
int64_t configurations = 0;
Register registers[kTiles];

Register& tile(uint8_t number) {
  EXPECT_TRUE(is_configured) << "tile " << int{number} << " is used before LDTILECFG";
  return registers[number % kTiles];
}

void ldtilecfg(const uint8_t* bytes) {
  EXPECT_EQ(bytes[0], 1) << "the palette";
  for (size_t i = 0; i < kTiles; ++i) {
    EXPECT_EQ(bytes[16 + 2 * i], kRow);
    EXPECT_EQ(bytes[48 + i], 16);
  }
  std::memset(registers, 0xff, sizeof registers);  // NaNs: the real ones are zeros, which nothing may rely on
  is_configured = true;
  ++configurations;
}

void tilerelease() { is_configured = false; }

void tilezero(uint8_t number) { std::memset(&tile(number), 0, sizeof(Register)); }

void tileloadd64(uint8_t number, const std::byte* from, int64_t stride) {
  for (int64_t i = 0; i < 16; ++i) std::memcpy(tile(number).bytes + i * kRow, from + i * stride, kRow);
}

void tilestored64(uint8_t number, std::byte* to, int64_t stride) {
  for (int64_t i = 0; i < 16; ++i) std::memcpy(to + i * stride, tile(number).bytes + i * kRow, kRow);
}

template <class T>
T* elements_of(uint8_t number) {
  return reinterpret_cast<T*>(tile(number).bytes);
}

// c[m, n] += a[m, k] * b[k, n], where 4 bytes of k lie together.
template <class A, class B, class C, class Product>
void multiply(uint8_t c, uint8_t a, uint8_t b, Product product) {
  constexpr int64_t kGroup = 4 / sizeof(A), kDepth = 16 * kGroup;
  C* const sums = elements_of<C>(c);
  const A* const left = elements_of<A>(a);
  const B* const right = elements_of<B>(b);
  for (int64_t m = 0; m < 16; ++m) {
    for (int64_t n = 0; n < 16; ++n) {
      for (int64_t k = 0; k < kDepth; ++k) {
        sums[m * 16 + n] += product(left[m * kDepth + k], right[(k / kGroup * 16 + n) * kGroup + k % kGroup]);
      }
    }
  }
}

float real(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

void tdpbf16ps(uint8_t c, uint8_t a, uint8_t b) {
  multiply<uint16_t, uint16_t, float>(c, a, b, [](auto x, auto y) { return real(x) * real(y); });
}

template <class A, class B>
void tdpb(uint8_t c, uint8_t a, uint8_t b) {
  multiply<A, B, int32_t>(c, a, b, [](int32_t x, int32_t y) { return x * y; });
}

// A function of the IR that calls one of this process.
template <class... Args>
std::string emulated(std::string_view name, void (*function)(Args...)) {
  [[maybe_unused]] const auto type_of = [](auto tag) {
    using T = typename decltype(tag)::type;
    return std::is_pointer_v<T> ? "ptr" : sizeof(T) == 1 ? "i8" : "i64";
  };
  const std::vector<std::string> types = {type_of(std::type_identity<Args>{})...};
  std::vector<std::string> parameters;
  for (size_t i = 0; i < types.size(); ++i) parameters.push_back(fmt::format("{} %a{}", types[i], i));
  const std::string list = fmt::format("{}", fmt::join(parameters, ", "));
  return fmt::format(
      "\ndefine internal void @emulated.{}({}) {{\n  call void inttoptr (i64 {} to ptr)({})\n  ret void\n}}\n", name,
      list, reinterpret_cast<uintptr_t>(function), list);
}

std::string emulated(std::string text) {
  text = std::regex_replace(text, std::regex("declare [^\n]*@llvm\\.x86\\.(ldtile|tile|tdp)[^\n]*\n"), "");
  text = std::regex_replace(text, std::regex("@llvm\\.x86\\.((ldtile|tile|tdp)\\w+)"), "@emulated.$1");
  text += emulated("ldtilecfg", ldtilecfg) + emulated("tilerelease", tilerelease) + emulated("tilezero", tilezero);
  text += emulated("tileloadd64", tileloadd64) + emulated("tilestored64", tilestored64);
  text += emulated("tdpbf16ps", tdpbf16ps) + emulated("tdpbssd", tdpb<int8_t, int8_t>);
  text += emulated("tdpbsud", tdpb<int8_t, uint8_t>) + emulated("tdpbusd", tdpb<uint8_t, int8_t>);
  return text + emulated("tdpbuud", tdpb<uint8_t, uint8_t>);
}

int64_t serial_for(const tenon_services*, int64_t begin, int64_t end, tenon_stretch stretch, void* context) {
  return stretch(context, begin, end);
}

// Full of NaNs: nothing that was not written may be used.
void* allocate(const tenon_services*, int64_t bytes) {
  void* const memory = std::aligned_alloc(64, (static_cast<size_t>(bytes) + 63) / 64 * 64);
  std::memset(memory, 0xff, static_cast<size_t>(bytes));
  return memory;
}

// `n` is the value of the only symbol of sizes, if there is one.
Tensor run_emulated(const LoopTree& tree, const std::vector<Tensor>& inputs, int64_t n = 0) {
  const KernelSource source{&tree, "kernel"};
  const std::string text = emit_llvm({&source, 1}, find_target("sapphirerapids"));
  EXPECT_THAT(text, ::testing::HasSubstr("@llvm.x86.tdp")) << tree.dump();
  const auto code = runtime::LoadedCode::load(testing::object_of(emulated(text), find_target("native")));
  const TensorType type = tree.ir.type(tree.ir.writes()[0]);
  Sizes sizes;
  for (const Expr& size : type.shape) sizes.push_back(size.is_constant() ? size.constant() : n);
  Tensor output = Tensor::zeros(type.dtype, sizes);
  std::vector<void*> memory;
  for (const Tensor& input : inputs) memory.push_back(const_cast<void*>(static_cast<const void*>(input.data())));
  memory.push_back(output.data());
  int64_t error[4] = {};
  const tenon_services services{serial_for, allocate, [](const tenon_services*, void* memory) { std::free(memory); }};
  EXPECT_EQ(code->function<std::remove_pointer_t<tenon_kernel>>("kernel")(memory.data(), &n, error, &services), 0);
  EXPECT_FALSE(is_configured) << "tiles are not released";
  return output;
}

// Small enough that sums are exact.
Tensor numbers(DType dtype, Sizes shape, int64_t seed) {
  const int64_t low = dtype == DType::kU8 ? 0 : dtype == DType::kI8 ? -128 : -12;
  const int64_t count = is_float(dtype) ? 25 : 256;
  return filled(dtype, std::move(shape), [=](int64_t i) { return low + (i * 37 + seed) % count; });
}

void expect_exact(int64_t m, int64_t n, int64_t k, DType a, DType b, std::string_view wide) {
  SCOPED_TRACE(fmt::format("{} x {} x {}: {} * {}", m, n, k, name_of(a), name_of(b)));
  const std::string graph = fmt::format(R"(graph g(%x: {3}[{0}, {2}], %y: {4}[{2}, {1}]) {{
  %a: {5}[{0}, {2}] = cast(%x) {{dtype={5}}}
  %b: {5}[{2}, {1}] = cast(%y) {{dtype={5}}}
  %h: {5}[{0}, {1}] = matmul(%a, %b)
  return %h
}}
)",
                                        m, n, k, name_of(a), name_of(b), wide);
  const LoopTree tree =
      default_schedule(lower(parse_graph(graph).value()).value(), tenon::machine_of("sapphirerapids"));
  const std::vector<Tensor> inputs = {numbers(a, {m, k}, 1), numbers(b, {k, n}, 2)};
  EXPECT_EQ(elements(run_emulated(tree, inputs)), elements(run_on("interpreter", tree, inputs)[0]));
}

// A convolution of small numbers, so that sums are exact.
struct Window {
  Sizes image;   // batch, channels, sizes
  Sizes kernel;  // channels of the result, channels, taps
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
};

std::string list_of(int64_t value, size_t times) { return fmt::format("[{}]", fmt::join(Sizes(times, value), ", ")); }

std::string conv_text(const Window& w, DType image, DType weights, std::string_view wide) {
  const size_t rank = w.image.size() - 2;
  Sizes out = {w.image[0], w.kernel[0]};
  for (size_t i = 2; i < w.image.size(); ++i)
    out.push_back((w.image[i] + 2 * w.padding - w.dilation * (w.kernel[i] - 1) - 1) / w.stride + 1);
  const auto shape = [](const Sizes& sizes) { return fmt::format("{}", fmt::join(sizes, ", ")); };
  std::string text = fmt::format("graph g(%x: {}[{}], %w: {}[{}]) {{\n", name_of(image), shape(w.image),
                                 name_of(weights), shape(w.kernel));
  if (!is_float(image)) {
    text += fmt::format("  %xi: {0}[{1}] = cast(%x) {{dtype={0}}}\n", wide, shape(w.image));
    text += fmt::format("  %wi: {0}[{1}] = cast(%w) {{dtype={0}}}\n", wide, shape(w.kernel));
  }
  const char* const names = is_float(image) ? "%x, %w" : "%xi, %wi";
  text += fmt::format("  %h: {}[{}] = conv({}, none) {{stride={}, padding={}, dilation={}, groups=1}}\n",
                      is_float(image) ? name_of(image) : wide, shape(out), names, list_of(w.stride, rank),
                      list_of(w.padding, rank), list_of(w.dilation, rank));
  return text + "  return %h\n}\n";
}

LoopTree scheduled(const std::string& graph) {
  return default_schedule(lower(parse_graph(graph).value()).value(), tenon::machine_of("sapphirerapids"));
}

void expect_exact(const Window& w, DType image = DType::kBF16, DType weights = DType::kBF16) {
  const std::string graph = conv_text(w, image, weights, is_float(image) ? "f32" : "i32");
  SCOPED_TRACE(graph);
  const LoopTree tree = scheduled(graph);
  const auto small = [](DType dtype, Sizes shape, int64_t seed) {
    const int64_t low = dtype == DType::kU8 ? 0 : -2;
    return filled(dtype, std::move(shape), [=](int64_t i) { return low + (i * 7 + seed + i / 5) % 5; });
  };
  const std::vector<Tensor> inputs = {small(image, w.image, 1), small(weights, w.kernel, 2)};
  EXPECT_EQ(elements(run_emulated(tree, inputs)), elements(run_on("interpreter", tree, inputs)[0]));
}

TEST(Amx, IsExactForAllTails) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{16, 16}, {64, 64}, {70, 100}, {33, 17}, {12, 45}}) {
    expect_exact(m, n, 96, DType::kBF16, DType::kBF16, "f32");
    expect_exact(m, n, 64, DType::kI8, DType::kI8, "i32");
  }
}

TEST(Amx, IsExactForAllBytes) {
  for (DType a : {DType::kI8, DType::kU8}) {
    for (DType b : {DType::kI8, DType::kU8}) expect_exact(32, 48, 128, a, b, "i32");
  }
}

// c = x * y with the rows of x in reverse order, read where they are.
LoopTree product_of_reversed_rows(int64_t rows) {
  constexpr std::string_view kLoops =
      R"(for m by 32, n by 32, k by 32, m by 16 unroll, n by 16 unroll, m tile "amx-bf16", k by 2, n, k)";
  return LoopTree(loops::parse(fmt::format(R"(tenon loops 1
kernel product {{
  var m = {0}
  var n = 32
  var k = 64
  %x: bf16[m, k] = read 0
  %y: bf16[k, n] = read 1
  %packed: bf16[k, n] = view %y[k, n] for n by 32, k by 32, n by 16 unroll, k by 2, n tile "interleave", k
  %reversed: bf16[m, k] = view %x[{1} - m, k] {2}
  %a: f32[m, k] = cast(%reversed) {2}
  %b: f32[k, n] = cast(%packed) {2}
  %product: f32[m, n, k] = mul(%a, %b) {2}
  %sum: f32[m, n] = reduce add(%product) {2}
  %out: f32[m, n] = write 0 (%sum) for m by 32, n by 32, m by 16, m, n by 16 unroll, n vectorize
}})",
                                           rows, rows - 1, kLoops))
                      .value());
}

std::string llvm_of(const LoopTree& tree) {
  const KernelSource source{&tree, "kernel"};
  return emit_llvm({&source, 1}, find_target("sapphirerapids"));
}

TEST(Amx, ReadsNoRowsBeforeTheFirst) {
  EXPECT_THAT(llvm_of(product_of_reversed_rows(64)), ::testing::HasSubstr("@llvm.x86.tdp"));
  EXPECT_THAT(llvm_of(product_of_reversed_rows(33)), ::testing::Not(::testing::HasSubstr("@llvm.x86.tdp")));
}

TEST(Amx, ConvolutionsAreExact) {
  expect_exact({.image = {1, 32, 4, 36}, .kernel = {32, 32, 3, 3}, .padding = 1});  // rows, with a tail of columns
  expect_exact({.image = {1, 32, 9, 13}, .kernel = {48, 32, 3, 3}, .padding = 1});  // all pixels in one row
  expect_exact({.image = {1, 64, 7, 7}, .kernel = {40, 64, 1, 1}});                 // a tail of output channels
  expect_exact({.image = {1, 24, 3, 40}, .kernel = {32, 24, 1, 1}});                // channels that fill no tile
  expect_exact({.image = {1, 17, 3, 40}, .kernel = {32, 17, 3, 3}, .padding = 1});
  expect_exact({.image = {2, 32, 7, 9}, .kernel = {32, 32, 3, 3}, .padding = 1});  // images
  expect_exact({.image = {2, 32, 5, 33}, .kernel = {16, 32, 1, 3}});               // one tap along an axis
  expect_exact({.image = {2, 64, 50}, .kernel = {32, 64, 3}, .padding = 1});       // one axis
}

TEST(Amx, ConvolutionsThatSkipPixelsAreExact) {
  expect_exact({.image = {1, 32, 16, 14}, .kernel = {32, 32, 3, 3}, .stride = 2, .padding = 1});
  expect_exact({.image = {1, 32, 7, 60}, .kernel = {32, 32, 3, 3}, .stride = 2, .padding = 1});
  expect_exact({.image = {1, 64, 14, 14}, .kernel = {32, 64, 1, 1}, .stride = 2});
  expect_exact({.image = {1, 32, 5, 20}, .kernel = {32, 32, 3, 3}, .padding = 2, .dilation = 2});
  expect_exact({.image = {1, 32, 9, 52}, .kernel = {32, 32, 3, 3}, .stride = 3, .padding = 2, .dilation = 2});
}

TEST(Amx, ConvolutionsOfFewChannelsAreExact) {
  expect_exact({.image = {1, 3, 13, 44}, .kernel = {32, 3, 7, 7}, .stride = 2, .padding = 3});
  expect_exact({.image = {1, 3, 16, 224}, .kernel = {32, 3, 8, 16}, .stride = 16});  // patches
  expect_exact({.image = {1, 3, 9, 100}, .kernel = {32, 3, 5, 6}, .stride = 4, .padding = 2});
  expect_exact({.image = {2, 3, 7, 19}, .kernel = {32, 3, 5, 5}, .padding = 2});
}

TEST(Amx, ConvolutionsOfBytesAreExact) {
  for (DType image : {DType::kI8, DType::kU8}) {
    expect_exact({.image = {1, 64, 3, 36}, .kernel = {32, 64, 3, 3}, .padding = 1}, image, DType::kI8);
    expect_exact({.image = {1, 64, 8, 12}, .kernel = {32, 64, 3, 3}, .stride = 2, .padding = 1}, image, DType::kI8);
  }
}

// Channels are neighbours already, and an odd number of them leaves a group with one.
TEST(Amx, ConvolutionsOfImagesWithChannelsLastAreExact) {
  for (int64_t channels : {17, 32}) {
    const std::string text = fmt::format(R"(graph g(%x: bf16[1, 4, 36, {0}], %w: bf16[32, {0}, 3, 3]) {{
  %p: bf16[1, {0}, 4, 36] = permute(%x) {{dims=[0, 3, 1, 2]}}
  %h: bf16[1, 32, 4, 36] = conv(%p, %w, none) {{stride=[1, 1], padding=[1, 1]}}
  return %h
}}
)",
                                         channels);
    SCOPED_TRACE(text);
    const LoopTree tree = scheduled(text);
    const auto small = [](Sizes shape) {
      return filled(DType::kBF16, std::move(shape), [](int64_t i) { return (i * 7 + i / 5) % 5 - 2; });
    };
    const std::vector<Tensor> inputs = {small({1, 4, 36, channels}), small({32, channels, 3, 3})};
    EXPECT_EQ(elements(run_emulated(tree, inputs)), elements(run_on("interpreter", tree, inputs)[0]));
  }
}

TEST(Amx, ConvolutionsOfImagesWhoseNumberIsKnownLaterAreExact) {
  constexpr std::string_view text = R"(graph g(%x: bf16[N, 32, 5, 20], %w: bf16[32, 32, 3, 3]) {
  symbol N in [0, 64]
  %h: bf16[N, 32, 5, 20] = conv(%x, %w, none) {stride=[1, 1], padding=[1, 1]}
  return %h
}
)";
  const LoopTree tree = scheduled(std::string(text));
  const auto small = [](Sizes shape) {
    return filled(DType::kBF16, std::move(shape), [](int64_t i) { return (i * 7 + i / 5) % 5 - 2; });
  };
  const std::vector<Tensor> inputs = {small({3, 32, 5, 20}), small({32, 32, 3, 3})};
  EXPECT_EQ(elements(run_emulated(tree, inputs, 3)), elements(run_on("interpreter", tree, inputs)[0]));
}

// Attention rounds its weights to bf16, and its result: to within a few parts in 256 of the largest value.
void expect_attention(int64_t queries, int64_t keys, int64_t features, bool is_causal, std::string_view mask = "") {
  const std::string text =
      fmt::format(R"(graph g(%q: bf16[2, {0}, {2}], %k: bf16[2, {1}, {2}], %v: bf16[2, {1}, {2}]{4}{5}) {{
  %h: bf16[2, {0}, {2}] = scaled_dot_product_attention(%q, %k, %v, {6}) {{causal={3}, scale=0.02}}
  return %h
}}
)",
                  queries, keys, features, is_causal,
                  mask.empty() ? "" : ", %m: ", mask.empty() ? "" : fmt::format("{}[{}, {}]", mask, queries, keys),
                  mask.empty() ? "none" : "%m");
  SCOPED_TRACE(text);
  const loops::IR kernel = lower(parse_graph(text).value()).value();
  std::vector<Tensor> inputs = {numbers(DType::kBF16, {2, queries, features}, 1),
                                numbers(DType::kBF16, {2, keys, features}, 2),
                                numbers(DType::kBF16, {2, keys, features}, 3)};
  if (mask == "bool") inputs.push_back(filled(DType::kBool, {queries, keys}, [](int64_t i) { return i * 7 % 3 > 0; }));
  if (mask == "bf16") inputs.push_back(filled(DType::kBF16, {queries, keys}, [](int64_t i) { return i * 7 % 5 - 2; }));
  const LoopTree tree = default_schedule(kernel, tenon::machine_of("sapphirerapids"));
  const std::string code = emit_llvm(std::vector{KernelSource{&tree, "kernel"}}, find_target("sapphirerapids"));
  // Products of single numbers weigh blocks of keys, and nothing else.
  if (keys <= 128) EXPECT_THAT(code, ::testing::Not(::testing::HasSubstr("@llvm.fma.f32"))) << tree.dump();
  const std::vector<double> results = elements(run_emulated(tree, inputs));
  const std::vector<double> wanted = elements(run_on("interpreter", LoopTree(kernel), inputs)[0]);
  ASSERT_EQ(results.size(), wanted.size());
  for (size_t i = 0; i < results.size(); ++i) ASSERT_NEAR(results[i], wanted[i], 12 * 0.02) << "element " << i;
}

TEST(Amx, AttentionIsTwoProductsOfTiles) {
  expect_attention(32, 64, 32, false);
  expect_attention(40, 40, 64, false);   // a part of a tile of queries, and of a group of keys
  expect_attention(17, 144, 32, false);  // an odd number of groups of keys
  expect_attention(64, 64, 32, true);
  expect_attention(33, 520, 32, false);  // two blocks of keys
  expect_attention(40, 48, 32, false, "bool");
  expect_attention(40, 48, 32, false, "bf16");
}

// A parallel loop's function has tiles of its own, for all of its blocks.
TEST(Amx, ConfiguresTilesOncePerCall) {
  configurations = 0;
  expect_exact({.image = {1, 32, 4, 36}, .kernel = {32, 32, 3, 3}, .padding = 1});
  EXPECT_EQ(configurations, 1);
}

}  // namespace
}  // namespace tenon::codegen
