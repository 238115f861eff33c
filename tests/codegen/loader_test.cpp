#include "codegen/loader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <random>

#include "support/diagnostic.h"
#include "support/file.h"
#include "tests/codegen/support_llvm.h"
#include "tests/support/support_environment.h"

namespace tenon::codegen::testing {
namespace {

using ::testing::HasSubstr;

// Constants, variables, jumps by a table, addresses of functions, calls inside and outside.
constexpr std::string_view kEverything = R"(
@table = private constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
@count = global i64 40
@steps = constant [2 x ptr] [ptr @twice, ptr @fmod]
declare double @fmod(double, double)
declare ptr @memcpy(ptr, ptr, i64)

define double @twice(double %x, double %y) noinline {
  %r = fadd double %x, %x
  ret double %r
}
define double @entry_of_table(i64 %i) {
  %p = getelementptr double, ptr @table, i64 %i
  %v = load double, ptr %p
  ret double %v
}
define i64 @next() {
  %v = load i64, ptr @count
  %w = add i64 %v, 1
  store i64 %w, ptr @count
  ret i64 %w
}
define double @step(i64 %i, double %x, double %y) {
  %p = getelementptr ptr, ptr @steps, i64 %i
  %f = load ptr, ptr %p
  %r = call double %f(double %x, double %y)
  ret double %r
}
define double @call_both(double %x, double %y) {
  %r = call double @fmod(double %x, double %y)
  %s = call double @twice(double %r, double %y)
  ret double %s
}
define void @copy(ptr %to, ptr %from, i64 %bytes) {
  call ptr @memcpy(ptr %to, ptr %from, i64 %bytes)
  ret void
}
define i64 @choose(i64 %i, i64 %x) {
  switch i64 %i, label %none [i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e]
a:
  ret i64 %x
b:
  %vb = mul i64 %x, %x
  ret i64 %vb
c:
  %vc = xor i64 %x, 5
  ret i64 %vc
d:
  %vd = sub i64 7, %x
  ret i64 %vd
e:
  %ve = sdiv i64 %x, 3
  ret i64 %ve
none:
  ret i64 -1
})";

const std::string& everything() {
  static const std::string object = object_of(kEverything, find_target("x86-64-v2"));
  return object;
}

TEST(Loader, CodeRunsAsItWouldLinked) {
  const auto code = LoadedCode::load(everything());
  EXPECT_EQ(code->function<double(int64_t)>("entry_of_table")(2), 3.5);
  EXPECT_EQ(code->function<int64_t()>("next")(), 41);
  EXPECT_EQ(code->function<int64_t()>("next")(), 42);
  EXPECT_EQ(*code->function<int64_t>("count"), 42);
  auto* const step = code->function<double(int64_t, double, double)>("step");
  EXPECT_EQ(step(0, 7.5, 2), 15);
  EXPECT_EQ(step(1, 7.5, 2), 1.5);
  EXPECT_EQ(code->function<double(double, double)>("call_both")(7.5, 2), 3);
  const std::string from = "some text";
  std::string to(from.size(), ' ');
  code->function<void(char*, const char*, int64_t)>("copy")(to.data(), from.data(), 9);
  EXPECT_EQ(to, from);
  auto* const choose = code->function<int64_t(int64_t, int64_t)>("choose");
  const int64_t expected[] = {9, 81, 12, -2, 3, -1};
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(choose(i, 9), expected[i]);
}

TEST(Loader, LoadsAreApart) {
  const auto one = LoadedCode::load(everything()), other = LoadedCode::load(everything());
  one->function<int64_t()>("next")();
  EXPECT_EQ(other->function<int64_t()>("next")(), 41);
}

TEST(Loader, NoMemoryIsWritableAndExecutable) {
  const auto code = LoadedCode::load(everything());
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) EXPECT_EQ(line.find("rwx"), line.npos) << line;
}

TEST(Loader, AnUnknownFunctionIsNamed) {
  const std::string object = object_of("declare void @nobody()\ndefine void @f() {\n call void @nobody()\n ret void\n}",
                                       find_target("x86-64-v2"));
  try {
    LoadedCode::load(object);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'nobody'"));
  }
  EXPECT_THROW(LoadedCode::load(everything())->address("nothing"), Error);
}

TEST(Loader, NamesItsFunctionsToPerf) {
  const tenon::testing::WithVariable perf("TENON_PERF", "1");
  const auto code = LoadedCode::load(everything(), "the label");
  const std::string path = fmt::format("/tmp/perf-{}.map", ::getpid());
  const std::string map(read_file(path).value().text());
  ::unlink(path.c_str());
  EXPECT_THAT(map, HasSubstr(fmt::format("{:x} ", reinterpret_cast<uintptr_t>(code->address("call_both")))));
  EXPECT_THAT(map, HasSubstr(" the label call_both\n"));
}

TEST(Loader, OtherFilesAreRefused) {
  EXPECT_THROW(LoadedCode::load(""), Error);
  EXPECT_THROW(LoadedCode::load("not an object"), Error);
  const std::string wasm = object_of("define void @f() {\n ret void\n}", find_target("wasm32"));
  EXPECT_THROW(LoadedCode::load(wasm), Error);
}

// It may load or not, but it stays inside of the file.
TEST(Loader, DamagedFilesDoNoHarm) {
  for (size_t size = 0; size < everything().size(); size += 7) {
    EXPECT_THROW(LoadedCode::load(everything().substr(0, size)), Error) << size;
  }
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string object = everything();
    for (int i = 0; i < 4; ++i) object[random() % object.size()] = static_cast<char>(random());
    try {
      LoadedCode::load(object);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tenon::codegen::testing
