#include "tests/support/support_text_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "support/file.h"

namespace tenon::test {
namespace {

constexpr std::string_view kSteps = "---- ";
constexpr std::string_view kEnd = "====";

std::vector<std::string> split_steps(const std::string& text) {
  std::vector<std::string> steps;
  std::stringstream stream(text);
  for (std::string step; std::getline(stream, step, ',');) {
    const size_t first = step.find_first_not_of(' ');
    steps.push_back(first == std::string::npos ? "" : step.substr(first, step.find_last_not_of(' ') - first + 1));
  }
  return steps;
}

std::string without_blank_lines_around(const std::string& text) {
  const size_t start = text.find_first_not_of('\n');
  return start == std::string::npos ? "" : text.substr(start, text.find_last_not_of('\n') - start + 1) + "\n";
}

enum class Part : uint8_t { kTitle, kInput, kExpected };

std::optional<TextFile> parse_file(const std::string& path) {
  TextFile file{path, {}};
  std::ifstream stream(path);
  TextCase current;
  Part part = Part::kTitle;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(kEnd)) {
      if (part != Part::kExpected || current.title.empty()) {
        ADD_FAILURE() << path << ": the case '" << current.title << "' lacks a title or the line '---- steps'";
        return std::nullopt;
      }
      current.input = without_blank_lines_around(current.input);
      current.expected = without_blank_lines_around(current.expected);
      file.cases.push_back(std::exchange(current, {}));
      part = Part::kTitle;
    } else if (line.starts_with(kSteps)) {
      current.steps = split_steps(line.substr(kSteps.size()));
      part = Part::kExpected;
    } else if (part == Part::kTitle && line.starts_with("# ")) {
      current.title += line + "\n";
    } else if (part == Part::kExpected) {
      current.expected += line + "\n";
    } else if (!line.empty()) {
      part = Part::kInput;
      current.input += line + "\n";
    }
  }
  if (part == Part::kTitle && current.title.empty()) return file;
  ADD_FAILURE() << path << ": the last case lacks its end, " << kEnd;
  return std::nullopt;
}

std::string text_of(const TextFile& file) {
  std::string text;
  for (const TextCase& c : file.cases) {
    std::string steps;
    for (const std::string& step : c.steps) steps += (steps.empty() ? "" : ", ") + step;
    text += c.title + c.input + std::string(kSteps) + steps + "\n" + c.expected + std::string(kEnd) + "\n";
  }
  return text;
}

}  // namespace

std::vector<TextFile> text_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  std::vector<TextFile> files;
  for (const std::string& path : paths) {
    if (std::optional<TextFile> file = parse_file(path)) files.push_back(*std::move(file));
  }
  return files;
}

void run_text_files(const std::string& folder, const std::function<std::string(const TextCase&)>& output) {
  const bool updates = std::getenv("TENON_UPDATE_TESTS") != nullptr;
  for (TextFile& file : text_files(folder)) {
    for (TextCase& c : file.cases) {
      SCOPED_TRACE(file.path + "\n" + c.title + c.input);
      const std::string actual = output(c);
      if (updates) c.expected = actual;
      EXPECT_EQ(actual, c.expected);
    }
    if (updates) EXPECT_TRUE(write_file(file.path, text_of(file)).ok()) << file.path;
  }
}

}  // namespace tenon::test
