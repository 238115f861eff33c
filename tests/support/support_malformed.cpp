#include "tests/support/support_malformed.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "support/file.h"

namespace tenon::test {
namespace {

constexpr std::string_view kMark = "\n==== ";

int number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

MalformedCase parse_case(const std::string& file, std::string_view part) {
  const std::string_view head = part.substr(0, part.find('\n'));
  const size_t at = head.rfind(" @ ");
  const size_t colon = head.rfind(':');
  check(at != std::string_view::npos && colon > at, "malformed head of a case: {}", head);
  return {file, std::string(head.substr(0, at)), number(head.substr(at + 3)), number(head.substr(colon + 1)),
          std::string(part.substr(std::min(head.size() + 1, part.size())))};
}

void add_cases_of(const std::string& path, std::vector<MalformedCase>& cases) {
  const FileContent file = read_file(path).value();
  const std::string text = "\n" + std::string(file.text());
  for (size_t start = text.find(kMark); start != std::string::npos;) {
    start += kMark.size();
    const size_t next = text.find(kMark, start);
    cases.push_back(parse_case(path, std::string_view(text).substr(start, next - start)));
    start = next;
  }
}

bool is_inside(const Location& where, std::string_view text) {
  size_t start = 0;
  for (int line = 1; line < where.line; ++line) {
    start = text.find('\n', start);
    if (start == std::string_view::npos) return false;
    ++start;
  }
  const size_t length = std::min(text.find('\n', start), text.size()) - start;
  return where.line >= 1 && where.column >= 1 && static_cast<size_t>(where.column) <= length + 1;
}

}  // namespace

std::vector<MalformedCase> malformed_cases(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  std::vector<MalformedCase> cases;
  for (const std::string& path : paths) add_cases_of(path, cases);
  return cases;
}

void expect_place_inside(const Diagnostic& diagnostic, std::string_view text) {
  EXPECT_TRUE(is_inside(diagnostic.where, text)) << diagnostic.text() << "\n" << text;
  EXPECT_FALSE(diagnostic.message.empty());
}

std::vector<std::string> with_changed_bytes(std::string_view whole) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char byte : std::string_view("\0\xff\n \"#%()-,.09:=@AN[\\]{|}", 24)) {
      texts.emplace_back(whole);
      texts.back()[at] = byte;
    }
  }
  return texts;
}

std::vector<std::string> with_changed_stretches(std::string_view whole) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (size_t size : {1, 2, 5, 17, 60}) {
      texts.push_back(std::string(whole).erase(at, size));
      texts.push_back(std::string(whole).insert(at, whole.substr(at, size)));
    }
  }
  return texts;
}

std::string repeat(std::string_view part, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += part;
  return text;
}

}  // namespace tenon::test
