#include "capture/pt2/metadata.h"

#include <charconv>
#include <optional>

namespace tenon::pt2 {
namespace {

// What PyTorch says of nodes that it added itself.
constexpr std::string_view kNoModule = "_empty_nn_module_stack_from_metadata_hook";

bool is_pytorch(std::string_view path) {
  return path.starts_with('<') || path.starts_with("torch/") || path.find("-packages/torch/") != std::string_view::npos;
}

bool is_installed(std::string_view path) {
  return path.find("site-packages") != std::string_view::npos || path.find("dist-packages") != std::string_view::npos;
}

// `File "model.py", line 12, in forward`; other lines are source text.
std::optional<Location> frame(std::string_view line) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (!line.starts_with(kFile)) return std::nullopt;
  line.remove_prefix(kFile.size());
  const size_t end = line.find(kLine);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view digits = line.substr(end + kLine.size());
  int number = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc()) return std::nullopt;
  return Location{std::string(line.substr(0, end)), number, 0};
}

// Calls the body with each part of the text, without the separators.
template <class Body>
void for_each_part(std::string_view text, char separator, Body&& body) {
  while (true) {
    const size_t end = text.find(separator);
    body(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Location model_location(std::string_view stack_trace) {
  Location in_model;
  Location in_package;
  for_each_part(stack_trace, '\n', [&](std::string_view line) {
    const std::optional<Location> found = frame(line);
    if (!found || is_pytorch(found->file)) return;
    (is_installed(found->file) ? in_package : in_model) = *found;
  });
  return in_model.known() ? in_model : in_package;
}

ModuleName innermost_module(std::string_view nn_module_stack) {
  const std::string_view last = nn_module_stack.substr(nn_module_stack.rfind(';') + 1);
  const size_t before_type = last.rfind(',');
  if (before_type == std::string_view::npos) return {};
  const std::string_view named = last.substr(0, before_type);
  const std::string_view path = named.substr(named.rfind(',') + 1);
  if (path == kNoModule) return {};
  return {std::string(path), std::string(last.substr(before_type + 1))};
}

}  // namespace tenon::pt2
