#include "support/blocks.h"

namespace tenon {
namespace {

constexpr std::string_view kIndent = "  ";

std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

bool is_nothing(std::string_view line) {
  const size_t first = line.find_first_not_of(' ');
  return first == std::string_view::npos || line[first] == '#';
}

}  // namespace

std::vector<TextBlock> parse_blocks(std::string_view text, const Location& start) {
  std::vector<TextBlock> blocks;
  Location where = start;
  for (; !text.empty(); ++where.line) {
    const std::string_view line = take_line(text);
    if (line.starts_with(kIndent) && !blocks.empty()) {
      TextBlock& block = blocks.back();
      if (block.body.empty()) block.body_where = {where.file, where.line, where.column + 2};
      block.body += std::string(line.substr(kIndent.size())) + "\n";
    } else if (!is_nothing(line)) {
      blocks.push_back({line, {}, where, {}});
    }
  }
  return blocks;
}

std::string indented(std::string_view text) {
  std::string result;
  while (!text.empty()) result += std::string(kIndent) + std::string(take_line(text)) + "\n";
  return result;
}

}  // namespace tenon
