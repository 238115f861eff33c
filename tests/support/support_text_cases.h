// Tests as small text files: input, steps, expected output. A file holds cases like
//
//     # a title, which may go on
//     # in a second line
//     graph g(%x: f32[3]) { ... }
//     ---- canonicalize, dce
//     graph g(%x: f32[3]) { ... }
//     ====
//
// With TENON_UPDATE_TESTS=1 in the environment, the files get what comes out as their expected output: read the diff.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::test {

struct TextCase {
  std::string title;
  std::string input;
  std::vector<std::string> steps;
  std::string expected;
};

struct TextFile {
  std::string path;
  std::vector<TextCase> cases;
};

// The .txt files of a folder, sorted by name. A malformed file is a gtest failure, and is not among them.
std::vector<TextFile> text_files(const std::string& folder);

// Compares what `output` gives for each case with what the case expects, or updates the files.
void run_text_files(const std::string& folder, const std::function<std::string(const TextCase&)>& output);

}  // namespace tenon::test
