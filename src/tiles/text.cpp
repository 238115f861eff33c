#include "tiles/text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "support/text.h"

namespace tenon {
namespace {

using Action = tenon_tile_action;

constexpr std::array<std::string_view, 4> kKinds = {"load", "multiply", "epilogue", "store"};

// One list of names for printing and parsing. Flags and units are numbers by the bits of tenon/device.h.
template <class Fields>
void for_each_field(Fields fields, auto& a) {
  fields("wait", a.wait);
  fields("signal", a.signal);
  fields("flags", a.flags);
  fields("node", a.node);
  fields("dtype", a.dtype);
  fields("buffer", a.buffer);
  fields("offset", a.offset);
  fields("run", a.run);
  fields("inner", a.inner);
  fields("inner_stride", a.inner_stride);
  fields("inner_lines", a.inner_lines);
  fields("outer", a.outer);
  fields("outer_stride", a.outer_stride);
  fields("outer_lines", a.outer_lines);
  fields("line", a.line);
  fields("inner_first", a.inner_first);
  fields("inner_last", a.inner_last);
  fields("outer_first", a.outer_first);
  fields("outer_last", a.outer_last);
  fields("accumulator", a.accumulator);
  fields("weights", a.weights);
  fields("weight_lines", a.weight_lines);
  fields("epilogues", a.epilogues);
  fields("low", a.low);
  fields("high", a.high);
  fields("residual_scale", a.residual_scale);
  fields("residual_zero_point", a.residual_zero_point);
  fields("pad", a.pad);
  fields("zero_point", a.zero_point);
}

std::string_view word(std::string_view& rest, char end) {
  const size_t at = std::min(rest.find(end), rest.size());
  const std::string_view found = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return found;
}

template <class T>
T number(std::string_view text) {
  T value = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) fail("'{}' is no number that fits", text);
  return value;
}

Action parse_action(std::string_view line) {
  const std::string_view kind = word(line, ' ');
  const auto found = std::ranges::find(kKinds, kind);
  if (found == kKinds.end()) fail("there is no tile action '{}'", kind);
  Action action = {};
  action.kind = static_cast<uint32_t>(found - kKinds.begin());
  while (!line.empty()) {
    std::string_view value = word(line, ' ');
    const std::string_view name = word(value, '=');
    bool is_known = false;
    for_each_field(
        [&](std::string_view each, auto& field) {
          if (each != name) return;
          is_known = true;
          field = number<std::decay_t<decltype(field)>>(value);
        },
        action);
    if (!is_known) fail("a tile action has no field '{}'", name);
  }
  return action;
}

TileCode parse(std::string_view text) {
  constexpr std::string_view kHead = "tiles scratch=";
  std::string_view head = word(text, '\n');
  if (!head.starts_with(kHead)) fail("tile code begins with '{}BYTES'", kHead);
  TileCode code{.scratch_bytes = number<int64_t>(head.substr(kHead.size()))};
  while (!text.empty()) {
    std::string_view line = word(text, '\n');
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!line.empty()) code.actions.push_back(parse_action(line));
  }
  return code;
}

}  // namespace

std::string to_string(const Action& action) {
  std::string text(action.kind < kKinds.size() ? kKinds[action.kind] : "?");
  for_each_field(
      [&](std::string_view name, const auto& field) {
        if (field != 0) text += fmt::format(" {}={}", name, field);
      },
      action);
  return text;
}

std::string to_string(const TileCode& code) {
  std::string text = fmt::format("tiles scratch={}\n", code.scratch_bytes);
  for (const Action& action : code.actions) text += "  " + to_string(action) + "\n";
  return text;
}

Result<TileCode> parse_tiles(std::string_view text) {
  return attempt([&] { return parse(text); });
}

}  // namespace tenon
