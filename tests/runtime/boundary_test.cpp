// The runtime sees itself, its public header, the format of the artifact and the C++ library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// <x> of a library other than C++'s and the system's has a folder or says .hpp.
bool is_allowed(const std::string& header) {
  static const std::regex allowed(R"re(<[a-z0-9_]+(\.h)?>|<(sys|linux)/[a-z_]+\.h>|"runtime/[a-z0-9_/]+\.(h|inc)"|)re"
                                  R"re("format/[a-z_]+\.h"|"tenon/(device|device_debug|tenon)\.h")re");
  return std::regex_match(header, allowed);
}

std::vector<std::string> includes_of(const fs::path& file) {
  static const std::regex include(R"(^\s*#\s*include\s*(\S+).*)");
  std::vector<std::string> headers;
  std::ifstream text(file);
  std::smatch match;
  for (std::string line; std::getline(text, line);) {
    if (std::regex_match(line, match, include)) headers.push_back(match[1]);
  }
  return headers;
}

TEST(RuntimeBoundary, IncludesNothingOfOthers) {
  size_t seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator("runtime")) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp") continue;
    for (const std::string& header : includes_of(entry.path())) {
      EXPECT_TRUE(is_allowed(header)) << entry.path() << " includes " << header;
      ++seen;
    }
  }
  EXPECT_GT(seen, 10u);
}

TEST(RuntimeBoundary, KnowsWhatIsOfOthers) {
  for (const char* header :
       {"<vector>", "<math.h>", "<sys/mman.h>", "\"runtime/services.h\"", "\"runtime/kernels/sort.h\"",
        "\"format/container.h\"", "\"format/expr_generated.h\"", "\"tenon/tenon.h\""}) {
    EXPECT_TRUE(is_allowed(header)) << header;
  }
  for (const char* header : {"<fmt/core.h>", "<llvm/IR/Module.h>", "\"graph/tensor.h\"", "\"../src/graph/tensor.h\"",
                             "\"runtime/../src/graph/tensor.h\"", "<runtime.hpp>"}) {
    EXPECT_FALSE(is_allowed(header)) << header;
  }
}

}  // namespace
}  // namespace tenon
