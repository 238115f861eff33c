#include "codegen/target.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "runtime/cpu_features.h"
#include "support/diagnostic.h"
#include "tests/support/support_environment.h"

namespace tenon::codegen {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class TargetTest : public ::testing::Test {
 private:
  tenon::testing::WithVariable none_{"TENON_CPU", nullptr};
};

TEST_F(TargetTest, EveryNameIsFound) {
  for (const std::string& name : target_names()) EXPECT_EQ(find_target(name).name, name);
}

TEST_F(TargetTest, LevelsOfX86DifferInVectors) {
  EXPECT_EQ(find_target("x86-64-v2").vector_bytes, 16);
  EXPECT_FALSE(find_target("x86-64-v2").has_fma);
  EXPECT_EQ(find_target("x86-64-v3").vector_bytes, 32);
  EXPECT_TRUE(find_target("x86-64-v3").has_fma);
  EXPECT_FALSE(find_target("x86-64-v3").has_masks);
  EXPECT_EQ(find_target("x86-64-v4").vector_bytes, 64);
  EXPECT_TRUE(find_target("x86-64-v4").has_masks);
  EXPECT_FALSE(find_target("x86-64-v4").has_vnni);
  EXPECT_TRUE(find_target("znver4").has_bf16_dot);
  EXPECT_FALSE(find_target("znver4").has_amx);
  EXPECT_TRUE(find_target("sapphirerapids").has_amx);
}

TEST_F(TargetTest, CpusOfArm64DifferInDotProducts) {
  for (const char* name : {"aarch64", "cortex-a72", "cortex-a76", "neoverse-n1", "neoverse-v2", "apple-m1"}) {
    const Target target = find_target(name);
    EXPECT_EQ(target.vector_bytes, 16) << name;
    EXPECT_TRUE(target.has_fma && target.has_f16 && target.has_threads) << name;
    EXPECT_THAT(target.features, Not(HasSubstr("sve"))) << name;
    EXPECT_EQ(missing_here(target), std::vector<std::string>{"aarch64"}) << name;
  }
  EXPECT_FALSE(find_target("aarch64").has_dotprod);
  EXPECT_FALSE(find_target("cortex-a72").has_dotprod);
  EXPECT_TRUE(find_target("neoverse-n1").has_dotprod);
  EXPECT_FALSE(find_target("neoverse-n1").has_vnni);
  EXPECT_TRUE(find_target("apple-m1").has_dotprod);
  EXPECT_TRUE(find_target("neoverse-v2").has_vnni);
  EXPECT_TRUE(find_target("neoverse-v2").has_bf16_dot);
}

TEST_F(TargetTest, SveIsForOneLengthOfRegisters) {
  const Target target = find_target("neoverse-v1+sve256");
  EXPECT_EQ(target.name, "neoverse-v1+sve256");
  EXPECT_EQ(target.tuning, "neoverse-v1");
  EXPECT_EQ(target.vector_bytes, 32);
  EXPECT_EQ(level_of(target), "neoverse-v1+sve256");
  EXPECT_EQ(needed_features(target), "aarch64,bf16,dotprod,i8mm,sve256");
  EXPECT_EQ(find_target("a64fx+sve512").vector_bytes, 64);
  EXPECT_EQ(needed_features(find_target("aarch64+sve512")), "aarch64,sve512");
}

TEST_F(TargetTest, SveThatIsNotThereIsAnError) {
  const auto message_of = [](std::string_view name) -> std::string {
    try {
      find_target(name);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message_of("neoverse-n1+sve256"), "error: CPU 'neoverse-n1' has no SVE");
  EXPECT_EQ(message_of("neoverse-v1+sve"),
            "error: there is no CPU 'neoverse-v1+sve': SVE is neoverse-v1+sve256 or neoverse-v1+sve512");
  EXPECT_THAT(message_of("haswell+sve256"), HasSubstr("there is no CPU 'haswell+sve256'"));
}

TEST_F(TargetTest, EveryCpuOfLlvmIsKnownByItsName) {
  EXPECT_TRUE(find_target("znver5").has_bf16_dot);
  EXPECT_TRUE(find_target("graniterapids").has_amx);
  EXPECT_EQ(find_target("silvermont").vector_bytes, 16);
  EXPECT_EQ(find_target("cortex-x4").name, "cortex-x4");
}

TEST_F(TargetTest, ACpuThatIsTooOldSaysWhatItLacks) {
  try {
    find_target("core2");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "error: CPU 'core2' lacks popcnt, sse4.2: Tenon makes code for x86-64-v2 and newer");
  }
}

TEST_F(TargetTest, TheOthers) {
  EXPECT_EQ(find_target("wasm32").index_bits, 32);
  EXPECT_EQ(find_target("wasm32").vector_bytes, 16);
  EXPECT_TRUE(find_target("wasm32").has_threads);
  EXPECT_FALSE(find_target("wasm32").has_relaxed_fma);
  EXPECT_TRUE(find_target("wasm32-relaxed").has_relaxed_fma);
  EXPECT_EQ(find_target("nvptx64").vector_bytes, 4);
  EXPECT_EQ(missing_here(find_target("wasm32")), std::vector<std::string>{"wasm32"});
}

TEST_F(TargetTest, FilesNameTheirCodeByItsLevelAndWhatItNeeds) {
  EXPECT_EQ(level_of(find_target("x86-64-v3")), "x86-64-v3");
  EXPECT_EQ(level_of(find_target("wasm32")), "wasm32");
  EXPECT_EQ(level_of(find_target("neoverse-v2")), "neoverse-v2");
  EXPECT_EQ(needed_features(find_target("aarch64")), "aarch64");
  EXPECT_EQ(needed_features(find_target("neoverse-v2")), "aarch64,bf16,dotprod,i8mm");
  EXPECT_EQ(needed_features(find_target("wasm32")), "wasm32");
  EXPECT_EQ(needed_features(find_target("wasm32-relaxed")), "wasm32,relaxed-simd");
}

TEST_F(TargetTest, AnUnknownNameListsThoseThereAre) {
  try {
    find_target("x86-64-v5");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no CPU 'x86-64-v5'"));
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'x86-64-v2'?"));
    EXPECT_THAT(error.what(), HasSubstr("sapphirerapids"));
    EXPECT_THAT(error.what(), HasSubstr("neoverse-n1"));
  }
}

TEST_F(TargetTest, NativeRunsHereAndMayBeAnother) {
  EXPECT_TRUE(runs_here(find_target("native")));
  EXPECT_TRUE(runs_here(find_target("x86-64-v2")));
  const tenon::testing::WithVariable cpu("TENON_CPU", "x86-64-v3");
  EXPECT_EQ(find_target("native").name, "x86-64-v3");
  EXPECT_EQ(find_target("native").vector_bytes, 32);
}

TEST_F(TargetTest, SaysWhatThisMachineLacks) {
  const bool amx = find_target("native").has_amx;
  EXPECT_EQ(runs_here(find_target("sapphirerapids")), amx);
  if (!amx) {
    EXPECT_THAT(missing_here(find_target("sapphirerapids")), Contains("amx-tile"));
  }
}

// Names and bits of the runtime's own table.
TEST_F(TargetTest, TheRuntimeSeesTheSameMachineAsLlvm) {
  const std::string features = find_target("native").features;
  size_t seen = 0;
  for (size_t begin = 0, end = 0; begin < features.size(); begin = end + 1) {
    end = std::min(features.find(',', begin), features.size());
    const std::string name = features.substr(begin + 1, end - begin - 1);
    const bool has = features[begin] == '+';
    const bool is_needed = name.starts_with("avx") || name.starts_with("sse") || name.starts_with("amx");
    if (!is_needed && !runtime::has_feature(name)) continue;
    EXPECT_EQ(runtime::has_feature(name), has) << name;
    ++seen;
  }
  EXPECT_GT(seen, 40u);
}

TEST_F(TargetTest, TheRuntimeKnowsAllThatCodeMayNeed) {
  EXPECT_EQ(runtime::missing_features(needed_features(find_target("native"))), std::vector<std::string>{});
  EXPECT_THAT(needed_features(find_target("x86-64-v3")), HasSubstr("avx2"));
  EXPECT_THAT(needed_features(find_target("x86-64-v3")), Not(HasSubstr("avx512f")));
}

TEST_F(TargetTest, AnUnknownFeatureIsMissing) {
  EXPECT_EQ(runtime::missing_features("+sse2,nonsense,-avx,+more"), (std::vector<std::string>{"nonsense", "more"}));
  EXPECT_TRUE(runtime::missing_features("").empty());
}

}  // namespace
}  // namespace tenon::codegen
