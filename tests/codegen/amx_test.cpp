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

struct Register {
  std::byte bytes[16 * kRow];
};

void load(Register* to, int16_t rows, int16_t row_bytes, const std::byte* from, int64_t stride) {
  std::memset(to, 0, sizeof(Register));
  for (int16_t i = 0; i < rows; ++i) std::memcpy(to->bytes + i * kRow, from + i * stride, row_bytes);
}

void store(int16_t rows, int16_t row_bytes, std::byte* to, int64_t stride, const Register* from) {
  for (int16_t i = 0; i < rows; ++i) std::memcpy(to + i * stride, from->bytes + i * kRow, row_bytes);
}

template <class T>
T* at(Register* tile, int64_t row, int64_t column) {
  return reinterpret_cast<T*>(tile->bytes + row * kRow) + column;
}

// c[m, n] += a[m, k] * b[k, n], where 4 bytes of k lie together.
template <class A, class B, class C, class Product>
void multiply(int64_t rows, int64_t columns, int64_t groups, Register* c, Register* a, Register* b, Product product) {
  constexpr int64_t kGroup = 4 / sizeof(A);
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t n = 0; n < columns; ++n) {
      for (int64_t k = 0; k < groups * kGroup; ++k) {
        *at<C>(c, m, n) += product(*at<A>(a, m, k), *at<B>(b, k / kGroup, n * kGroup + k % kGroup));
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

void tdpbf16ps(int16_t m, int16_t n, int16_t k, Register* c, Register* a, Register* b) {
  multiply<uint16_t, uint16_t, float>(m, n / 4, k / 4, c, a, b, [](auto x, auto y) { return real(x) * real(y); });
}

template <class A, class B>
void tdpb(int16_t m, int16_t n, int16_t k, Register* c, Register* a, Register* b) {
  multiply<A, B, int32_t>(m, n / 4, k / 4, c, a, b, [](int32_t x, int32_t y) { return x * y; });
}

template <class Function>
std::string address_of(Function* function) {
  return fmt::format("inttoptr (i64 {} to ptr)", reinterpret_cast<uintptr_t>(function));
}

template <class Function>
std::string dot(std::string_view name, Function* function) {
  return fmt::format(R"(
define internal <256 x i32> @emulated.{}(i16 %m, i16 %n, i16 %k, <256 x i32> %c, <256 x i32> %a, <256 x i32> %b) {{
  %tiles = alloca [3 x <256 x i32>]
  %a.at = getelementptr <256 x i32>, ptr %tiles, i64 1
  %b.at = getelementptr <256 x i32>, ptr %tiles, i64 2
  store <256 x i32> %c, ptr %tiles
  store <256 x i32> %a, ptr %a.at
  store <256 x i32> %b, ptr %b.at
  call void {}(i16 %m, i16 %n, i16 %k, ptr %tiles, ptr %a.at, ptr %b.at)
  %sum = load <256 x i32>, ptr %tiles
  ret <256 x i32> %sum
}}
)",
                     name, address_of(function));
}

std::string emulation() {
  std::string text = fmt::format(R"(
define internal <256 x i32> @emulated.cast(<256 x i32> %x) {{
  ret <256 x i32> %x
}}
define internal <256 x i32> @emulated.tileloadd64(i16 %rows, i16 %bytes, ptr %from, i64 %stride) {{
  %tile = alloca <256 x i32>
  call void {}(ptr %tile, i16 %rows, i16 %bytes, ptr %from, i64 %stride)
  %value = load <256 x i32>, ptr %tile
  ret <256 x i32> %value
}}
define internal void @emulated.tilestored64(i16 %rows, i16 %bytes, ptr %to, i64 %stride, <256 x i32> %value) {{
  %tile = alloca <256 x i32>
  store <256 x i32> %value, ptr %tile
  call void {}(i16 %rows, i16 %bytes, ptr %to, i64 %stride, ptr %tile)
  ret void
}}
)",
                                 address_of(load), address_of(store));
  text += dot("tdpbf16ps", tdpbf16ps) + dot("tdpbssd", tdpb<int8_t, int8_t>) + dot("tdpbsud", tdpb<int8_t, uint8_t>);
  return text + dot("tdpbusd", tdpb<uint8_t, int8_t>) + dot("tdpbuud", tdpb<uint8_t, uint8_t>);
}

std::string emulated(std::string text) {
  text = std::regex_replace(text, std::regex("declare [^\n]*@llvm\\.x86\\.(tile|tdp|cast)[^\n]*\n"), "");
  text = std::regex_replace(text, std::regex("@llvm\\.x86\\.(tile\\w+|tdp\\w+)\\.internal"), "@emulated.$1");
  text = std::regex_replace(text, std::regex("@llvm\\.x86\\.cast\\.\\w+\\.to\\.\\w+\\.v256i32"), "@emulated.cast");
  return std::regex_replace(text, std::regex("x86_amx"), "<256 x i32>") + emulation();
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

Tensor run_emulated(const LoopTree& tree, const std::vector<Tensor>& inputs) {
  const KernelSource source{&tree, "kernel"};
  const std::string text = emit_llvm({&source, 1}, find_target("sapphirerapids"));
  EXPECT_THAT(text, ::testing::HasSubstr("@llvm.x86.tdp"));
  const auto code = runtime::LoadedCode::load(testing::object_of(emulated(text), find_target("native")));
  const TensorType type = tree.ir.type(tree.ir.writes()[0]);
  Tensor output = Tensor::zeros(type.dtype, {type.shape[0].constant(), type.shape[1].constant()});
  void* memory[] = {inputs[0].data(), inputs[1].data(), output.data()};
  int64_t error[4] = {};
  const tenon_services services{serial_for, allocate, [](const tenon_services*, void* memory) { std::free(memory); }};
  EXPECT_EQ(code->function<std::remove_pointer_t<tenon_kernel>>("kernel")(memory, nullptr, error, &services), 0);
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

}  // namespace
}  // namespace tenon::codegen
