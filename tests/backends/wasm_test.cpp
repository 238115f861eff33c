// What the writer of WebAssembly emits. Whether it computes the right numbers, tests/python/test_web_kernels.py asks in
// Node.
#include "backends/wasm/wasm.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "schedule/default_schedule.h"
#include "tests/loops/support_random_ir.h"
#include "tests/loops/support_random_schedule.h"

namespace tenon {
namespace {

using loops::LoopTree;
using ::testing::HasSubstr;
using ::testing::Not;

LoopTree tree_of(std::string_view statements) {
  return LoopTree(loops::parse(fmt::format("tenon loops 1\nkernel test {{\n{}\n}}\n", statements)).value());
}

std::string text_of(const LoopTree& tree, const WasmOptions& options = {}) {
  return wasm::to_text(emit_wasm(tree, options));
}

size_t count_of(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// The text between the last "loop" and its end.
std::string innermost_loop(const std::string& text) {
  const size_t begin = text.rfind("loop\n");
  return text.substr(begin, text.find("br_if", begin) - begin);
}

const char* const kMatmul =
    "var m = 60\n var k = 64\n var n = 48\n"
    "%a: f32[m, k] = read 0\n %b: f32[k, n] = read 1\n"
    "%p: f32[m, n, k] = mul(%a, %b)\n %c: f32[m, n] = reduce add(%p) for m, n, k\n"
    "%out: f32[m, n] = write 0 (%c)";

TEST(Wasm, IsAModuleWithOneKernel) {
  const std::string text = text_of(tree_of("var i = 4\n %x: f32[i] = read 0\n %y: f32[i] = write 0 (%x)"));
  EXPECT_THAT(text, HasSubstr("(import \"env\" \"memory\" (memory 1))"));
  EXPECT_THAT(text, HasSubstr("(export \"kernel\" (func 0))"));
  EXPECT_THAT(text, HasSubstr("(func (;0;) (param i32 i32 i32 i32) (result i64)"));
  EXPECT_THAT(text, Not(HasSubstr("allocate")));
}

TEST(Wasm, KeepsTheBlockOfAProductInLocals) {
  const LoopTree tree = default_schedule(tree_of(kMatmul).ir, wasm_machine());
  const std::string loop = innermost_loop(text_of(tree));
  EXPECT_EQ(count_of(loop, "f32x4.mul"), 2 * 6 * 4) << tree.dump();  // two steps of k
  EXPECT_EQ(count_of(loop, "load"), 2 * (6 + 4)) << loop;
  EXPECT_EQ(count_of(loop, "store"), 0) << loop;
  EXPECT_THAT(text_of(tree, {.relaxed = true}), HasSubstr("f32x4.relaxed_madd"));
}

TEST(Wasm, ComputesAddressesOutsideOfTheLoopsThatDoNotChangeThem) {
  const std::string text =
      text_of(tree_of("var i = 100\n var j = 100\n %x: f32[i, j] = read 0\n"
                      "%y: f32[i, j] = neg(%x) for i, j\n %z: f32[i, j] = write 0 (%y) for i, j"));
  EXPECT_EQ(count_of(innermost_loop(text), "i32.const 400"), 0) << innermost_loop(text);
  EXPECT_EQ(count_of(text, "i32.const 400"), 2);
}

TEST(Wasm, HasVectorsOfNarrowIntegersAndMasks) {
  const std::string text =
      text_of(tree_of("var i = 64\n %x: u8[i] = read 0\n %zero: u8[] = constant 0\n"
                      "%b: bool[i] = gt(%x, %zero) for i vectorize\n %n: bool[i] = write 0 (%b) for i vectorize"));
  for (const char* op : {"v128.load32_zero", "i32x4.extend_low_i16x8_u", "i32x4.gt_s", "v128.store32_lane"}) {
    EXPECT_THAT(text, HasSubstr(op));
  }
}

TEST(Wasm, CallsWhatNoInstructionComputes) {
  const std::string text =
      text_of(tree_of("var i = 8\n %x: f64[i] = read 0\n %y: f64[i] = lgamma(%x)\n"
                      "%z: f64[i] = write 0 (%y)"));
  EXPECT_THAT(text, HasSubstr("(import \"env\" \"lgamma\" (func $lgamma (param f64) (result f64)))"));
  EXPECT_THAT(text, HasSubstr("call $lgamma"));
}

TEST(Wasm, RefusesWhatItCannotWrite) {
  const auto error_of = [](std::string_view statements) {
    const auto status = attempt([&] { emit_wasm(tree_of(statements)); });
    return status.ok() ? "no error" : status.diagnostic().message;
  };
  EXPECT_EQ(error_of("var i = 4\n %x: f32[i] = read 0\n %y: f32[i] = write 0 (%x) for i tile \"amx\""),
            "backend wasm has no tile \"amx\": take it off the loop over i");
  EXPECT_EQ(error_of("var i = 3000000000\n %x: f32[i] = read 0\n %y: f32[i] = write 0 (%x)"),
            "backend wasm: 3000000000 elements along i are too many for addresses of 32 bits");
}

// Every module has a text, and an engine takes it.
TEST(Wasm, WritesValidModulesOfRandomKernels) {
  if (std::system("node --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no node";
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / fmt::format("wasm-{}", getpid());
  std::filesystem::create_directories(folder);
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const LoopTree tree = loops::testing::random_schedule(LoopTree(test::random_ir(seed)), 20, random);
    const std::string bytes = emit_wasm(tree, {.relaxed = false});
    EXPECT_THAT(wasm::to_text(bytes), HasSubstr("(module\n"));
    std::ofstream(folder / fmt::format("{}.wasm", seed), std::ios::binary) << bytes;
  }
  const std::string script =
      "const fs = require('fs'), at = process.argv[1] + '/';"
      "process.exit(fs.readdirSync(at).every((name) => WebAssembly.validate(fs.readFileSync(at + name))) ? 0 : 1)";
  EXPECT_EQ(std::system(fmt::format("node -e \"{}\" {}", script, folder.string()).c_str()), 0);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tenon
