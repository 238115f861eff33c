#include <gmock/gmock.h>

#include <thread>

#include "support/diagnostic.h"
#include "tests/codegen/support_llvm.h"

// Of LeakSanitizer, where it is there.
extern "C" __attribute__((weak)) void __lsan_disable();
extern "C" __attribute__((weak)) void __lsan_enable();

namespace tenon::codegen::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kAdd = R"(
define void @add(ptr %x) {
  %v = load <16 x float>, ptr %x, align 4
  %w = fadd <16 x float> %v, %v
  store <16 x float> %w, ptr %x, align 4
  ret void
})";

std::string error_of(std::string_view ir, const char* cpu) {
  try {
    object_of(ir, find_target(cpu));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Module, VectorsAreAsWideAsTheTargets) {
  EXPECT_THAT(asm_of(kAdd, find_target("x86-64-v4")), HasSubstr("zmm"));
  EXPECT_THAT(asm_of(kAdd, find_target("sapphirerapids")), HasSubstr("zmm"));
  EXPECT_THAT(asm_of(kAdd, find_target("x86-64-v3")), HasSubstr("ymm"));
  EXPECT_THAT(asm_of(kAdd, find_target("x86-64-v3")), Not(HasSubstr("zmm")));
  EXPECT_THAT(asm_of(kAdd, find_target("x86-64-v2")), Not(HasSubstr("ymm")));
  EXPECT_THAT(asm_of(kAdd, find_target("wasm32")), HasSubstr("f32x4.add"));
  EXPECT_THAT(asm_of(kAdd, find_target("nvptx64")), HasSubstr(".target sm_80"));
}

// What LLVM holds when it gives up is lost.
struct LeaksAreExpected {
  LeaksAreExpected() {
    if (__lsan_disable) __lsan_disable();
  }
  ~LeaksAreExpected() {
    if (__lsan_enable) __lsan_enable();
  }
};

// LLVM would end the process at each of these.
TEST(Module, WhatLlvmCannotDoIsAnError) {
  const LeaksAreExpected leaks;
  constexpr std::string_view wide = R"(
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
define void @dot(ptr %x) {
  %a = load <16 x float>, ptr %x
  %b = load <32 x bfloat>, ptr %x
  %r = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %a, <32 x bfloat> %b, <32 x bfloat> %b)
  store <16 x float> %r, ptr %x
  ret void
})";
  EXPECT_THAT(error_of(wide, "x86-64-v4"), HasSubstr("LLVM cannot generate this code"));
  EXPECT_EQ(error_of(wide, "znver4"), "no error");
  constexpr std::string_view nonsense = R"(
define void @nonsense() {
  call void asm sideeffect "nonsense", ""()
  ret void
})";
  EXPECT_THAT(error_of(nonsense, "x86-64-v4"), HasSubstr("nonsense"));
  EXPECT_EQ(error_of(kAdd, "x86-64-v4"), "no error");  // the thread goes on
}

TEST(Module, OneThatIsNotWellFormedIsOurBug) {
  constexpr std::string_view wrong = R"(
define i32 @wrong() {
  %b = add i32 %a, 1
  %a = add i32 %b, 1
  ret i32 %a
})";
  EXPECT_THROW(object_of(wrong, find_target("x86-64-v2")), InternalError);
}

TEST(Module, ThreadsCompileAtTheSameTime) {
  const std::string expected = object_of(kAdd, find_target("x86-64-v4"));
  std::vector<std::thread> threads;
  std::atomic<int> same = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 8; ++round) same += object_of(kAdd, find_target("x86-64-v4")) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 32);
}

}  // namespace
}  // namespace tenon::codegen::testing
