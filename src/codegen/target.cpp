#include "codegen/target.h"

#include <fmt/format.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/AArch64TargetParser.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/X86TargetParser.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>

#include "codegen/tiles.h"
#include "runtime/cpu_features.h"
#include "support/diagnostic.h"
#include "support/text.h"

namespace tenon::codegen {
namespace {

using namespace std::string_view_literals;
using Features = std::set<std::string, std::less<>>;

constexpr std::string_view kNative = "native", kX86Oldest = "x86-64-v2", kArm64 = "aarch64", kWasm32 = "wasm32",
                           kWasm32Relaxed = "wasm32-relaxed", kNvptx64 = "nvptx64", kSve = "+sve";

constexpr std::array kX86OldestFeatures = {"cx16"sv, "popcnt"sv, "sahf"sv, "sse4.2"sv};  // psABI: beside SSE before it

// The names that messages list. LLVM knows others.
constexpr std::array kX86Cpus = {kX86Oldest,         "x86-64-v3"sv,      "x86-64-v4"sv, "haswell"sv, "skylake-avx512"sv,
                                 "icelake-server"sv, "sapphirerapids"sv, "znver3"sv,    "znver4"sv,  "znver5"sv};
constexpr std::array kArm64Cpus = {kArm64,          "cortex-a72"sv,  "cortex-a76"sv, "neoverse-n1"sv,
                                   "neoverse-v1"sv, "neoverse-v2"sv, "apple-m1"sv};

#if defined(__x86_64__)
constexpr Arch kArchHere = Arch::kX86;
#elif defined(__aarch64__)
constexpr Arch kArchHere = Arch::kArm64;
#else
#error "Tenon's compiler runs on x86-64 and AArch64"
#endif

std::string_view name_of(Arch arch) {
  switch (arch) {
    case Arch::kX86:
      return "x86-64";
    case Arch::kArm64:
      return kArm64;
    case Arch::kWasm:
      return kWasm32;
    case Arch::kPtx:
      return kNvptx64;
  }
  return "";
}

// ---- x86 ------------------------------------------------------------------------------------------------------------

// What instructions that come of LLVM IR may need. The others of a CPU (transactions, keys, random numbers, ...) are
// not asked of a machine, which may hide them.
bool is_used(std::string_view feature) {
  static const std::set<std::string_view> others = {
      "fma",  "f16c", "bmi", "bmi2", "lzcnt",     "popcnt", "movbe", "cmov",    "cx16",   "mmx",
      "fxsr", "sahf", "x87", "cx8",  "64bit",     "crc32",  "gfni",  "evex512", "pclmul", "prfchw",
      "xop",  "fma4", "tbm", "egpr", "push2pop2", "ppx",    "ndd",   "ccmp",    "cf"};
  return feature.starts_with("sse") || feature.starts_with("ssse") || feature.starts_with("avx") ||
         feature.starts_with("amx") || others.contains(feature);
}

bool is_x86_cpu(std::string_view name) {
  return llvm::X86::parseArchX86({name.data(), name.size()}, /*Only64Bit=*/true) != llvm::X86::CK_None;
}

// LLVM lists those that no other implies.
Features features_of_cpu(std::string_view cpu) {
  llvm::SmallVector<llvm::StringRef, 128> listed;
  llvm::X86::getFeaturesForCPU({cpu.data(), cpu.size()}, listed);
  llvm::StringMap<bool> all;
  for (const llvm::StringRef feature : listed) {
    all[feature] = true;
    llvm::X86::updateImpliedFeatures(feature, true, all);
  }
  Features used;
  for (const auto& entry : all) {
    if (is_used({entry.getKey().data(), entry.getKey().size()})) used.insert(entry.getKey().str());
  }
  return used;
}

Target x86_target(std::string_view name, std::string_view cpu, const Features& features) {
  const auto has = [&](std::string_view feature) { return features.contains(feature); };
  const bool avx512 = has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq");
  Target target{.name = std::string(name), .arch = Arch::kX86, .triple = "x86_64-unknown-linux-gnu"};
  target.cpu = cpu;
  target.vector_bytes = avx512 ? 64 : has("avx2") ? 32 : 16;
  target.vector_registers = avx512 ? 32 : 16;
  target.index_bits = 64;
  target.has_fma = has("fma");
  target.has_masks = avx512;
  target.has_gathers = avx512 && !cpu.starts_with("znver");
  target.has_f16 = has("f16c");
  target.has_bf16_dot = avx512 && has("avx512bf16");
  target.has_vnni = avx512 ? has("avx512vnni") : has("avxvnni");
  target.has_amx = has("amx-tile") && has("amx-bf16") && has("amx-int8");
  target.has_threads = true;
  return target;
}

Target named_x86(std::string_view name) {
  const Features features = features_of_cpu(name);
  std::vector<std::string_view> missing;
  std::ranges::copy_if(kX86OldestFeatures, std::back_inserter(missing),
                       [&](std::string_view feature) { return !features.contains(feature); });
  if (!missing.empty())
    fail("CPU '{}' lacks {}: Tenon makes code for {} and newer", name, fmt::join(missing, ", "), kX86Oldest);
  Target target = x86_target(name, name, features);
  for (const std::string& feature : features) target.features += (target.features.empty() ? "+" : ",+") + feature;
  return target;
}

#ifdef __x86_64__
struct Host {
  std::string cpu = llvm::sys::getHostCPUName().str();
  std::map<std::string, bool> features;

  // LLVM looks at what the system saves (XCR0), and does not touch leaf 0x1D of CPUID, which some machines leave empty.
  // It does not ask whether the process may use tiles.
  Host() {
    for (const auto& entry : llvm::sys::getHostCPUFeatures()) features[entry.getKey().str()] = entry.getValue();
    for (auto& [name, has] : features) has = has && (!name.starts_with("amx") || runtime::has_feature(name));
  }
};

const Host& host() {
  static const Host host;
  return host;
}

// What the machine lacks is said as well: LLVM would expect it of a CPU of that name.
Target native_target() {
  Features features;
  std::string text;
  for (const auto& [name, has] : host().features) {
    if (has) features.insert(name);
    text += (text.empty() ? "" : ",") + ((has ? "+" : "-") + name);
  }
  Target target = x86_target(kNative, host().cpu, features);
  target.features = text;
  return target;
}
#endif

// ---- AArch64 --------------------------------------------------------------------------------------------------------

struct ArmFeature {
  std::string_view name;
  llvm::AArch64::ArchExtKind of_llvm;
};
// The features that emitted code gains from. LLVM uses those that a target names, and no other: SVE, say, is none of
// them.
constexpr ArmFeature kArmFeatures[] = {
    {"dotprod", llvm::AArch64::AEK_DOTPROD}, {"i8mm", llvm::AArch64::AEK_I8MM}, {"bf16", llvm::AArch64::AEK_BF16}};

Target arm_target(std::string_view name, std::string_view tuning, const Features& features) {
  Target target{.name = std::string(name), .arch = Arch::kArm64, .triple = "aarch64-unknown-linux-gnu"};
  target.cpu = "generic";
  target.tuning = tuning;
  target.features = "+neon";
  for (const std::string& feature : features) target.features += ",+" + feature;
  target.vector_bytes = 16;
  target.vector_registers = 32;
  target.index_bits = 64;
  target.has_fma = true;
  target.has_f16 = true;
  target.has_bf16_dot = features.contains("bf16");
  target.has_vnni = features.contains("i8mm");
  target.has_dotprod = features.contains("dotprod");
  target.has_threads = true;
  return target;
}

// "neoverse-v1+sve256" is a CPU, and the length of its SVE registers, which LLVM does not know.
std::string_view without_sve(std::string_view name) { return name.substr(0, name.find(kSve)); }

bool is_arm_cpu(std::string_view name) {
  const std::string_view cpu = without_sve(name);
  return cpu == kArm64 || llvm::AArch64::parseCpu({cpu.data(), cpu.size()}).has_value();
}

Target plain_arm(std::string_view name) {
  if (name == kArm64) return arm_target(name, "generic", {});
  const auto extensions = llvm::AArch64::parseCpu({name.data(), name.size()})->getImpliedExtensions();
  Features features;
  for (const auto& [feature, of_llvm] : kArmFeatures) {
    if (extensions.test(of_llvm)) features.emplace(feature);
  }
  return arm_target(name, name, features);
}

bool has_sve(std::string_view cpu) {
  if (cpu == kArm64) return true;  // some have it
  return llvm::AArch64::parseCpu({cpu.data(), cpu.size()})->getImpliedExtensions().test(llvm::AArch64::AEK_SVE);
}

Target named_arm(std::string_view name) {
  const std::string_view cpu = without_sve(name);
  Target target = plain_arm(cpu);
  if (cpu == name) return target;
  const std::string_view bits = name.substr(cpu.size() + kSve.size());
  if (bits != "256" && bits != "512") fail("there is no CPU '{}': SVE is {}+sve256 or {}+sve512", name, cpu, cpu);
  if (!has_sve(cpu)) fail("CPU '{}' has no SVE", cpu);
  target.name = name;
  target.features += ",+sve";
  target.sve_bits = bits == "256" ? 256 : 512;
  target.vector_bytes = target.sve_bits / 8;
  return target;
}

#ifdef __aarch64__
Target native_target() {
  Features features;
  for (const ArmFeature& feature : kArmFeatures) {
    if (runtime::has_feature(feature.name)) features.emplace(feature.name);
  }
  return arm_target(kNative, llvm::sys::getHostCPUName().str(), features);
}
#endif

// Whether a file asks it of the machine. Every AArch64 CPU has NEON. SVE is asked for with its length.
bool is_asked(Arch arch, std::string_view feature) {
  return arch == Arch::kX86 ? is_used(feature) : feature != "neon" && feature != "sve";
}

// ---- the others -----------------------------------------------------------------------------------------------------

Target wasm_target(std::string_view name) {
  Target target{.name = std::string(name), .arch = Arch::kWasm, .triple = "wasm32-unknown-unknown"};
  target.cpu = "generic";
  target.features = "+simd128,+bulk-memory,+sign-ext,+nontrapping-fptoint,+mutable-globals";
  target.vector_bytes = 16;
  target.vector_registers = 16;  // of the machines that run it
  target.has_relaxed_fma = name == kWasm32Relaxed;
  target.has_threads = true;  // where the page has some; else a call of the runtime runs the whole loop
  if (target.has_relaxed_fma) target.features += ",+relaxed-simd";
  target.index_bits = 32;
  return target;
}

Target ptx_target() {
  Target target{.name = std::string(kNvptx64), .arch = Arch::kPtx, .triple = "nvptx64-nvidia-cuda"};
  target.cpu = "sm_80";
  target.features = "+ptx70";
  target.vector_bytes = 4;  // a lane is a thread
  target.vector_registers = 128;
  target.index_bits = 64;
  target.has_fma = true;
  target.has_f16 = true;
  return target;
}

}  // namespace

std::vector<std::string> target_names() {
  std::vector<std::string> names = {std::string(kNative)};
  names.insert(names.end(), kX86Cpus.begin(), kX86Cpus.end());
  names.insert(names.end(), kArm64Cpus.begin(), kArm64Cpus.end());
  for (std::string_view name : {kWasm32, kWasm32Relaxed, kNvptx64}) names.emplace_back(name);
  return names;
}

Target find_target(std::string_view name) {
  if (name == kNative) {
    const char* const instead = std::getenv("TENON_CPU");
    if (!instead || !*instead || instead == kNative) return native_target();
    name = instead;
  }
  if (name == kWasm32 || name == kWasm32Relaxed) return wasm_target(name);
  if (name == kNvptx64) return ptx_target();
  if (is_x86_cpu(name)) return named_x86(name);
  if (is_arm_cpu(name)) return named_arm(name);
  const std::vector<std::string> names = target_names();
  const std::vector<std::string_view> views(names.begin(), names.end());
  fail("there is no CPU '{}'{} (there are: {}, and all other CPUs of LLVM)", name, did_you_mean(name, views),
       fmt::join(names, ", "));
}

Machine machine_of(const Target& target) {
  Machine machine{.vector_bytes = target.vector_bytes, .vector_registers = target.vector_registers};
  machine.tiles = tiles_of(target);
  // Engines on x86 keep the sums of a block in memory; more sums hide that better. Measured: a third faster than 16.
  if (target.arch == Arch::kWasm) machine.product_registers = 32;
  return machine;
}

std::string level_of(const Target& target) {
  if (target.name != kNative) return target.name;
  return target.arch == Arch::kArm64 ? target.tuning : target.cpu;
}

std::string needed_features(const Target& target) {
  if (target.arch == Arch::kWasm) return target.has_relaxed_fma ? "wasm32,relaxed-simd" : "wasm32";
  std::string needed;
  const auto add = [&](std::string_view feature) {
    if (!needed.empty()) needed += ',';
    needed += feature;
  };
  if (target.arch == Arch::kArm64) add(kArm64);
  const std::string_view features = target.features;
  for (size_t begin = 0; begin < features.size();) {
    const size_t end = std::min(features.find(',', begin), features.size());
    const std::string_view feature = features.substr(begin + 1, end - begin - 1);
    if (features[begin] == '+' && is_asked(target.arch, feature)) add(feature);
    begin = end + 1;
  }
  if (target.sve_bits > 0) add(fmt::format("sve{}", target.sve_bits));
  return needed;
}

std::vector<std::string> missing_here(const Target& target) {
  if (target.arch != kArchHere) return {std::string(name_of(target.arch))};
  return runtime::missing_features(needed_features(target));
}

bool runs_here(const Target& target) { return missing_here(target).empty(); }

}  // namespace tenon::codegen
