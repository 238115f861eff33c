#include "support/diagnostic.h"

#include <fmt/format.h>

namespace tenon {

std::string to_string(const Location& location) {
  std::string text = location.file.empty() ? "<text>" : location.file;
  if (location.line > 0) text += fmt::format(":{}", location.line);
  if (location.line > 0 && location.column > 0) text += fmt::format(":{}", location.column);
  return text;
}

std::string Diagnostic::text() const {
  if (!where.known()) return "error: " + message;
  return fmt::format("{}: error: {}", to_string(where), message);
}

}  // namespace tenon
