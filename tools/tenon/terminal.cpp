#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "loops/lower.h"
#include "loops/schedule.h"
#include "support/cursor.h"
#include "support/file.h"

namespace tenon::cli {
namespace {

constexpr size_t kWidestLine = 120;

bool errors_have_colour() {
  static const bool colour = [] {
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    const bool refused = (no_color && *no_color) || (term && std::string_view(term) == "dumb");
    return ::isatty(STDERR_FILENO) == 1 && !refused;
  }();
  return colour;
}

std::string styled(std::string_view style, std::string text) {
  return errors_have_colour() ? fmt::format("\x1b[{}m{}\x1b[0m", style, text) : text;
}

// What a file says must not drive the terminal.
std::string printable(std::string_view text) {
  std::string result(text);
  std::ranges::replace_if(result, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return result;
}

// A line of ours is indented. Any other newline comes from a file, which must not forge an error of its own.
std::string printable_lines(std::string_view text) {
  constexpr std::string_view kNextLine = "\n  ";
  const size_t end = text.find(kNextLine);
  if (end == std::string_view::npos) return printable(text);
  return printable(text.substr(0, end)) + "\n" + printable_lines(text.substr(end + 1));
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The line, or the part of a long one around the column, and a caret below that column.
std::string excerpt(std::string_view line, int column) {
  const size_t at = std::min(static_cast<size_t>(column - 1), line.size());
  size_t start = line.size() > kWidestLine && at > kWidestLine / 2 ? at - kWidestLine / 2 : 0;
  while (start < at && continues_character(line[start])) ++start;
  std::string shown(line.substr(start, kWidestLine));
  std::ranges::replace(shown, '\t', ' ');
  const std::string_view before = line.substr(start, at - start);
  const auto indent = before.size() - static_cast<size_t>(std::ranges::count_if(before, continues_character));
  return fmt::format("  {}\n  {}{}\n", printable(shown), std::string(indent, ' '), styled("1;32", "^"));
}

std::string line_of(std::string_view text, int line) {
  for (; line > 1; --line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return std::string(text.substr(0, text.find_first_of("\r\n")));
}

}  // namespace

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) return;
  if (errno == EPIPE) throw ClosedPipe();
  fail("cannot write to standard output: {}", std::generic_category().message(errno));
}

void print_error(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

std::string progress_bar(double part) {
  constexpr int kWidth = 30;
  const int filled = std::clamp(static_cast<int>(part * kWidth), 0, kWidth);
  return "[" + std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(kWidth - filled), '.') +
         "]";
}

namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";

}  // namespace

Progress::Progress(size_t steps) : live_(::isatty(STDERR_FILENO) == 1), steps_(steps) {}

Progress::~Progress() { clear(); }

void Progress::begin(std::string_view step) { show(static_cast<double>(begun_++) / static_cast<double>(steps_), step); }

void Progress::show(double part, std::string_view text) {
  if (live_) print_error(fmt::format("{}{} {}", kClearLine, progress_bar(part), printable(text)));
}

void Progress::clear() {
  if (live_) print_error(kClearLine);
}

std::string render(const Diagnostic& diagnostic, std::string_view line) {
  const std::string place = diagnostic.where.known() ? to_string(diagnostic.where) + ": " : "";
  std::string text =
      styled("1", printable(place)) + styled("1;31", "error:") + " " + printable_lines(diagnostic.message) + "\n";
  if (!line.empty() && diagnostic.where.column > 0) text += excerpt(line, diagnostic.where.column);
  return text;
}

namespace {

// Reads a text and parses it; a mistake in it is shown with its line.
template <class Parse>
auto read_text(const std::string& path, Parse parse) {
  const bool standard_input = path == "-";
  const std::string name = standard_input ? "<stdin>" : path;
  const FileContent file = (standard_input ? read_descriptor(STDIN_FILENO, name) : read_file(path)).value();
  auto parsed = parse(file.text(), name);
  if (parsed.ok()) return std::move(parsed).value();
  const Diagnostic& diagnostic = parsed.diagnostic();
  throw SourceError(diagnostic, line_of(file.text(), diagnostic.where.line));
}

}  // namespace

Graph read_graph(const std::string& path) { return read_text(path, parse_graph); }

namespace {

// A kernel that says nothing of its loops gets those to start from.
Result<loops::IR> scheduled(Result<loops::IR> kernel, std::string_view text) {
  if (!kernel.ok() || text.find(" for ") != std::string_view::npos) return kernel;
  return loops::initial_schedule(std::move(kernel).value());
}

}  // namespace

loops::IR read_kernel(const std::string& path) {
  return read_text(path, [](std::string_view text, const std::string& name) -> Result<loops::IR> {
    if (!Cursor(text).accept_word("graph")) return scheduled(loops::parse(text, name), text);
    const Result<Graph> graph = parse_graph(text, name);
    return graph.ok() ? lower(*graph) : Result<loops::IR>(graph.diagnostic());
  });
}

}  // namespace tenon::cli
