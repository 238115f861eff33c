#include "runtime/loader.h"

#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <random>

#include "runtime/error.h"
#include "runtime/link_target.h"
#include "support/file.h"
#include "tests/arm64/support_emulator.h"
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
}

define internal ptr @store(ptr %at, double %x) {
  store double %x, ptr %at
  %next = getelementptr double, ptr %at, i64 1
  ret ptr %next
}
define i64 @kernel(ptr %memory, ptr %sizes, ptr %error, ptr %services) {
  %from = load ptr, ptr %memory
  %to_at = getelementptr ptr, ptr %memory, i64 1
  %to = load ptr, ptr %to_at
  %count_at = getelementptr ptr, ptr %memory, i64 2
  %p0 = load ptr, ptr %count_at
  call void @copy(ptr %to, ptr %from, i64 9)
  %entry = call double @entry_of_table(i64 2)
  %p1 = call ptr @store(ptr %p0, double %entry)
  %first = call i64 @next()
  %second = call i64 @next()
  %second_real = sitofp i64 %second to double
  %p2 = call ptr @store(ptr %p1, double %second_real)
  %twice = call double @step(i64 0, double 7.5, double 2.0)
  %p3 = call ptr @store(ptr %p2, double %twice)
  %fmod = call double @step(i64 1, double 7.5, double 2.0)
  %p4 = call ptr @store(ptr %p3, double %fmod)
  %both = call double @call_both(double 7.5, double 2.0)
  %p5 = call ptr @store(ptr %p4, double %both)
  %chosen = call i64 @choose(i64 3, i64 9)
  %chosen_real = sitofp i64 %chosen to double
  %p6 = call ptr @store(ptr %p5, double %chosen_real)
  ret i64 0
})";

struct Architecture {
  const char* cpu;
  const LinkTarget& target;
  std::vector<uint32_t> relocations;  // of code and of data
};

const Architecture kX86{
    "x86-64-v2", kX86Link, {R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_64, R_X86_64_PC64, R_X86_64_GOTPCREL}};
const Architecture kArm64{"aarch64",
                          kArm64Link,
                          {R_AARCH64_CALL26, R_AARCH64_JUMP26, R_AARCH64_ABS64, R_AARCH64_PREL64, R_AARCH64_PREL32,
                           R_AARCH64_ADR_PREL_PG_HI21, R_AARCH64_ADD_ABS_LO12_NC, R_AARCH64_LDST8_ABS_LO12_NC,
                           R_AARCH64_LDST16_ABS_LO12_NC, R_AARCH64_LDST32_ABS_LO12_NC, R_AARCH64_LDST64_ABS_LO12_NC,
                           R_AARCH64_LDST128_ABS_LO12_NC, R_AARCH64_ADR_GOT_PAGE, R_AARCH64_LD64_GOT_LO12_NC}};

// Tests of the loader itself, with an object for this machine.
#ifdef __aarch64__
const Architecture& kHere = kArm64;
#else
const Architecture& kHere = kX86;
#endif

const std::string& everything(const Architecture& architecture = kHere) {
  static std::map<std::string, std::string> objects;
  std::string& object = objects[architecture.cpu];
  if (object.empty()) object = object_of(kEverything, find_target(architecture.cpu));
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
                                       find_target(kHere.cpu));
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

// ---- every architecture ---------------------------------------------------------------------------------------------

class LoaderOf : public ::testing::TestWithParam<const Architecture*> {
 protected:
  const std::string& everything() const { return runtime::everything(*GetParam()); }

  // Whether an object can be linked. It is not run.
  bool links(const std::string& object) const {
    try {
      LoadedCode::link(object, GetParam()->target);
      return true;
    } catch (const StatusError& error) {
      EXPECT_TRUE(error.status() == TENON_BAD_FILE || error.status() == TENON_UNSUPPORTED) << error.what();
      return false;
    }
  }
};

// What `kernel` of kEverything gives: in this process, or in the emulator.
test::FencedResult result_of_everything(const Architecture& architecture, std::string& copy,
                                        std::vector<double>& numbers) {
  std::string text = "some text";
  const test::FencedArray arrays[] = {{"from", text.data(), text.size(), 1, false},
                                      {"to", copy.data(), copy.size(), 1, true},
                                      {"numbers", numbers.data(), 8 * numbers.size(), 8, true}};
  const std::string& object = everything(architecture);
  if (&architecture == &kHere) {
    const auto code = LoadedCode::load(object);
    return test::call_fenced(code->function<std::remove_pointer_t<tenon_kernel>>("kernel"), arrays, {});
  }
  test::Arm64Emulator& emulator = test::Arm64Emulator::get();
  return emulator.call(emulator.load(object, "kernel"), arrays, {});
}

TEST_P(LoaderOf, CodeRunsAsItWouldLinked) {
  if (GetParam() != &kHere && !test::Arm64Emulator::missing().empty()) GTEST_SKIP() << test::Arm64Emulator::missing();
  std::string copy(9, ' ');
  std::vector<double> numbers(6);
  const test::FencedResult result = result_of_everything(*GetParam(), copy, numbers);
  EXPECT_EQ(result.complaints, "");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(copy, "some text");
  // The kernel runs twice, so that `next` counts to 44.
  EXPECT_EQ(numbers, (std::vector<double>{3.5, 44, 15, 1.5, 3, -2}));
}

TEST_P(LoaderOf, AnObjectOfAnotherArchitectureIsNamed) {
  const Architecture& other = GetParam() == &kX86 ? kArm64 : kX86;
  try {
    LoadedCode::link(everything(), other.target);
    FAIL();
  } catch (const StatusError& error) {
    EXPECT_STREQ(error.what(), text_of("this is not an object file of ", other.target.name).c_str());
  }
}

TEST_P(LoaderOf, NoShorterFileLoads) {
  for (size_t size = 0; size < everything().size(); ++size) {
    EXPECT_FALSE(links(everything().substr(0, size))) << size;
  }
}

// It may load or not, but it stays inside of the file.
TEST_P(LoaderOf, OneBitFlippedDoesNoHarm) {
  std::string object = everything();
  int refused = 0;
  for (char& byte : object) {
    for (int bit = 0; bit < 8; ++bit) {
      byte = static_cast<char>(byte ^ (1 << bit));
      refused += !links(object);
      byte = static_cast<char>(byte ^ (1 << bit));
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST_P(LoaderOf, SeveralBytesChangedDoNoHarm) {
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string object = everything();
    for (int i = 0; i < 4; ++i) object[random() % object.size()] = static_cast<char>(random());
    refused += !links(object);
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

// The object with another first relocation.
std::string with_relocation(std::string object, uint64_t symbol, uint64_t type, int64_t addend) {
  auto& first = at<Elf64_Rela>(object, at<Elf64_Shdr>(object, find_section(object, SHT_RELA)).sh_offset);
  first.r_info = ELF64_R_INFO(symbol, type);
  first.r_addend = addend;
  return object;
}

TEST_P(LoaderOf, RelocationsThatReachNothingAreRefused) {
  for (const uint32_t type : GetParam()->relocations) {
    EXPECT_FALSE(links(with_relocation(everything(), 0, type, 0))) << type;  // symbol 0 is none
    EXPECT_FALSE(links(with_relocation(everything(), 1 << 20, type, 0))) << type;
  }
  EXPECT_FALSE(links(with_relocation(everything(), 1, 9999, 0)));
}

TEST_P(LoaderOf, SectionsThatShareBytesAreRefused) {
  std::string object = everything();
  auto& section = at<Elf64_Shdr>(object, find_section(object, SHT_STRTAB));
  section.sh_offset = 0;
  section.sh_size = object.size();
  EXPECT_FALSE(links(object));
}

INSTANTIATE_TEST_SUITE_P(All, LoaderOf, ::testing::Values(&kX86, &kArm64),
                         [](const auto& info) { return info.param == &kX86 ? "x86_64" : "aarch64"; });

// ---- relocations ----------------------------------------------------------------------------------------------------

// Whether the place, which holds an instruction, can be pointed to a target so many bytes away.
bool reaches(const LinkTarget& target, uint32_t type, int64_t distance) {
  alignas(4096) static std::byte place[8];
  return target.relocate(type, place, reinterpret_cast<uint64_t>(place) + static_cast<uint64_t>(distance));
}

TEST(Relocations, ReachAsFarAsTheirBits) {
  constexpr int64_t k2G = int64_t{1} << 31, k128M = int64_t{1} << 27, k4G = int64_t{1} << 32;
  struct Reach {
    const LinkTarget& target;
    uint32_t type;
    int64_t low, high, unit;
  };
  const Reach reaches_of[] = {{kX86Link, R_X86_64_PC32, -k2G, k2G - 1, 1},
                              {kArm64Link, R_AARCH64_PREL32, -k2G, k2G - 1, 1},
                              {kArm64Link, R_AARCH64_CALL26, -k128M, k128M - 4, 4},
                              {kArm64Link, R_AARCH64_JUMP26, -k128M, k128M - 4, 4},
                              {kArm64Link, R_AARCH64_ADR_PREL_PG_HI21, -k4G, k4G - 1, 4096}};
  for (const auto& [target, type, low, high, unit] : reaches_of) {
    EXPECT_TRUE(reaches(target, type, low)) << type;
    EXPECT_TRUE(reaches(target, type, high)) << type;
    EXPECT_FALSE(reaches(target, type, low - unit)) << type;
    EXPECT_FALSE(reaches(target, type, high + unit)) << type;
  }
  EXPECT_FALSE(reaches(kArm64Link, R_AARCH64_CALL26, 2)) << "no instruction begins there";
  EXPECT_TRUE(reaches(kArm64Link, R_AARCH64_LDST128_ABS_LO12_NC, 32));
  EXPECT_FALSE(reaches(kArm64Link, R_AARCH64_LDST128_ABS_LO12_NC, 24)) << "the load has a multiple of 16 bytes";
}

// As an assembler encodes them, for a place at the start of a page.
TEST(Relocations, OfArm64SetTheBitsOfInstructions) {
  struct Encoded {
    uint32_t type;
    int64_t distance;
    uint32_t before, after;
  };
  const Encoded cases[] = {
      {R_AARCH64_CALL26, 16, 0x94000000, 0x94000004},                  // bl .+16
      {R_AARCH64_JUMP26, -4, 0x14000000, 0x17ffffff},                  // b .-4
      {R_AARCH64_ADR_PREL_PG_HI21, 0x5000, 0x90000008, 0xb0000028},    // adrp x8, .+0x5000
      {R_AARCH64_ADR_PREL_PG_HI21, -0x1000, 0x90000008, 0xf0ffffe8},   // adrp x8, .-0x1000
      {R_AARCH64_ADD_ABS_LO12_NC, 0x123, 0x91000108, 0x91048d08},      // add x8, x8, #0x123
      {R_AARCH64_LDST8_ABS_LO12_NC, 0x123, 0x39400108, 0x39448d08},    // ldrb w8, [x8, #0x123]
      {R_AARCH64_LDST64_ABS_LO12_NC, 0x128, 0xf9400108, 0xf9409508},   // ldr x8, [x8, #0x128]
      {R_AARCH64_LDST128_ABS_LO12_NC, 0x120, 0x3dc00100, 0x3dc04900},  // ldr q0, [x8, #0x120]
  };
  alignas(4096) static std::byte place[8];
  for (const auto& [type, distance, before, after] : cases) {
    for (const uint32_t instruction : {before, after}) {  // what was there is replaced
      std::memcpy(place, &instruction, sizeof instruction);
      const uint64_t target = reinterpret_cast<uint64_t>(place) + static_cast<uint64_t>(distance);
      ASSERT_TRUE(kArm64Link.relocate(type, place, target)) << type;
      uint32_t got;
      std::memcpy(&got, place, sizeof got);
      EXPECT_EQ(got, after) << std::hex << type << " " << got;
    }
  }
}

// ---- failures -------------------------------------------------------------------------------------------------------

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
