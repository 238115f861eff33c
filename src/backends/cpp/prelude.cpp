// The text before the functions of a file.
#include <fmt/format.h>

#include "backends/cpp/cpp.h"
#include "embedded/kCppFunctions.h"
#include "embedded/kKernelAbi.h"
#include "embedded/kPrelude.h"
#include "embedded/kScalarFunctions.h"
#include "graph/cpp_text.h"
#include "support/cpp_source.h"
#include "symbolic/c_text.h"

namespace tenon {
namespace {

constexpr std::string_view kTypes = kPrelude.substr(0, kPrelude.find("// ---- "));

const CppFunctions& helpers() {
  static const CppFunctions helpers(
      {symbolic::kCFunctions, kScalarFunctions, kCppFunctions, kPrelude.substr(kTypes.size())});
  return helpers;
}

}  // namespace

std::set<std::string, std::less<>> cpp_words() {
  std::set<std::string, std::less<>> words = helpers().names();
  words.insert({"b8",  "bf16", "f16",   "f32", "f64",   "i16", "i32",  "i64",    "i8",       "u16",   "u32",
                "u64", "u8",   "begin", "end", "error", "at",  "lane", "memory", "services", "sizes", "wrong"});
  words.insert({"kTenonDivisionByZero", "kTenonOutOfMemory", "kTenonOutOfRange", "tenon_services", "tenon_kernel",
                "tenon_stretch"});
  for (const auto& [name, definition] : cpp::vector_types()) words.insert(name);
  return words;
}

std::string cpp_file(std::string_view functions) {
  std::string types;
  for (const auto& [name, definition] : cpp::vector_types()) {
    if (functions.find(name) != functions.npos) types += definition;
  }
  const std::string used = helpers().used_by(functions);
  return fmt::format("{}\n{}{}{}{}{}", kKernelAbi, kTypes, types, types.empty() ? "" : "\n",
                     used.empty() ? "" : fmt::format("namespace {{\n\n{}}}  // namespace\n\n", used), functions);
}

}  // namespace tenon
