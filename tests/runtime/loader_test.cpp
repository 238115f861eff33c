#include "runtime/loader.h"

#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "runtime/error.h"
#include "support/file.h"
#include "tests/codegen/support_llvm.h"
#include "tests/runtime/support_system.h"
#include "tests/support/support_environment.h"

namespace tenon::runtime {
namespace {

using codegen::find_target;
using codegen::testing::object_of;

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
  } catch (const StatusError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'nobody'"));
  }
  EXPECT_THROW(LoadedCode::load(everything())->address("nothing"), StatusError);
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
  EXPECT_THROW(LoadedCode::load(""), StatusError);
  EXPECT_THROW(LoadedCode::load("not an object"), StatusError);
  const std::string wasm = object_of("define void @f() {\n ret void\n}", find_target("wasm32"));
  EXPECT_THROW(LoadedCode::load(wasm), StatusError);
}

// ---- hostile bytes --------------------------------------------------------------------------------------------------

bool loads(const std::string& object) {
  try {
    LoadedCode::load(object);
    return true;
  } catch (const StatusError& error) {
    EXPECT_TRUE(error.status() == TENON_BAD_FILE || error.status() == TENON_UNSUPPORTED) << error.what();
    return false;
  }
}

TEST(Loader, NoShorterFileLoads) {
  for (size_t size = 0; size < everything().size(); ++size) {
    EXPECT_FALSE(loads(everything().substr(0, size))) << size;
  }
}

// It may load or not, but it stays inside of the file.
TEST(Loader, OneBitFlippedDoesNoHarm) {
  std::string object = everything();
  int refused = 0;
  for (char& byte : object) {
    for (int bit = 0; bit < 8; ++bit) {
      byte = static_cast<char>(byte ^ (1 << bit));
      refused += !loads(object);
      byte = static_cast<char>(byte ^ (1 << bit));
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Loader, SeveralBytesChangedDoNoHarm) {
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string object = everything();
    for (int i = 0; i < 4; ++i) object[random() % object.size()] = static_cast<char>(random());
    refused += !loads(object);
  }
  EXPECT_GT(refused, 100);
}

template <class T>
T& at(std::string& object, size_t offset) {
  return *reinterpret_cast<T*>(object.data() + offset);
}

size_t find_section(std::string& object, uint32_t type) {
  const auto header = at<Elf64_Ehdr>(object, 0);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const size_t place = header.e_shoff + i * sizeof(Elf64_Shdr);
    if (at<Elf64_Shdr>(object, place).sh_type == type) return place;
  }
  ADD_FAILURE() << "no section of type " << type;
  return 0;
}

TEST(Loader, RelocationsThatReachNothingAreRefused) {
  std::string object = everything();
  const size_t first = at<Elf64_Shdr>(object, find_section(object, SHT_RELA)).sh_offset;
  const auto with = [&](uint64_t info, int64_t addend) {
    std::string changed = object;
    at<Elf64_Rela>(changed, first).r_info = info;
    at<Elf64_Rela>(changed, first).r_addend = addend;
    return changed;
  };
  for (const uint64_t type : {R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_64, R_X86_64_PC64, R_X86_64_GOTPCREL}) {
    EXPECT_FALSE(loads(with(ELF64_R_INFO(0, type), 0))) << type;  // symbol 0 is none
    EXPECT_FALSE(loads(with(ELF64_R_INFO(1 << 20, type), 0))) << type;
  }
  EXPECT_FALSE(loads(with(ELF64_R_INFO(1, R_X86_64_PC32), INT64_MAX)));
  EXPECT_FALSE(loads(with(ELF64_R_INFO(1, R_X86_64_PC32), INT64_MIN)));
}

TEST(Loader, SectionsThatShareBytesAreRefused) {
  std::string object = everything();
  auto& section = at<Elf64_Shdr>(object, find_section(object, SHT_STRTAB));
  section.sh_offset = 0;
  section.sh_size = object.size();
  EXPECT_FALSE(loads(object));
}

TEST(Loader, AFailureOfTheSystemLeavesNothingBehind) {
  int64_t calls = 1;
  for (int64_t failing = 0; failing <= calls; ++failing) {
    const testing::CountedSystem system(failing, ENOMEM);
    try {
      const auto code = LoadedCode::load(everything());
      EXPECT_EQ(failing, calls);
      EXPECT_GT(system.mapped(), 0);
    } catch (const StatusError& error) {
      EXPECT_EQ(error.status(), TENON_OUT_OF_MEMORY) << error.what();
      EXPECT_EQ(system.calls(), failing + 1);
      calls = failing + 1;
    }
    EXPECT_EQ(system.mapped(), 0);
  }
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace tenon::runtime
