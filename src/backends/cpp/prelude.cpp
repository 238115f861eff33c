// What comes before the functions of a file.
#include <map>

#include "backends/cpp/cpp.h"
#include "embedded/kCppFunctions.h"
#include "embedded/kPrelude.h"
#include "embedded/kScalarFunctions.h"
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

// By name: what defines it.
std::map<std::string, std::string> vector_types() {
  std::map<std::string, std::string> types;
  for (const char* type : {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "b8"}) {
    for (int lanes = 2; lanes <= 64; lanes *= 2) {
      const std::string name = fmt::format("{}x{}", type, lanes);
      types[name] =
          fmt::format("typedef {0} {1} __attribute__((vector_size({2} * sizeof({0}))));\n", type, name, lanes);
    }
  }
  return types;
}

}  // namespace

std::set<std::string, std::less<>> cpp_words() {
  std::set<std::string, std::less<>> words = helpers().names();
  words.insert(
      {"b8",   "bf16", "f16",   "f32", "f64",   "i16", "i32",  "i64",    "i8",       "u16",   "u32",
       "u64",  "u8",   "begin", "end", "error", "at",  "lane", "memory", "parallel", "sizes", "tenon_parallel_for",
       "wrong"});
  words.insert({"kDivisionByZero", "kOutOfMemory", "kOutOfRange"});
  for (const auto& [name, definition] : vector_types()) words.insert(name);
  return words;
}

std::string cpp_file(std::string_view functions) {
  std::string types;
  for (const auto& [name, definition] : vector_types()) {
    if (functions.find(name) != functions.npos) types += definition;
  }
  const std::string used = helpers().used_by(functions);
  return fmt::format("{}{}{}{}{}", kTypes, types, types.empty() ? "" : "\n",
                     used.empty() ? "" : fmt::format("namespace {{\n\n{}}}  // namespace\n\n", used), functions);
}

}  // namespace tenon
