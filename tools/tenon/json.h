// Writing JSON. Values are passed as their text.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/description.h"
#include "support/warning.h"

namespace tenon::cli::json {

inline std::string string(std::string_view text) { return runtime::json_string(text); }

inline std::string boolean(bool value) { return value ? "true" : "false"; }

inline std::string array(const std::vector<std::string>& items) { return fmt::format("[{}]", fmt::join(items, ", ")); }

inline std::string object(const std::vector<std::pair<std::string_view, std::string>>& fields) {
  std::string text;
  for (const auto& [name, value] : fields) text += (text.empty() ? "" : ", ") + string(name) + ": " + value;
  return "{" + text + "}";
}

// Strings and records, each printed.
template <class Items, class Print>
std::string array_of(const Items& items, Print print) {
  std::vector<std::string> texts;
  for (const auto& item : items) texts.push_back(print(item));
  return array(texts);
}

// Those of this process.
inline std::string warnings() {
  return array_of(tenon::warnings(), [](const Warning& warning) {
    return object({{"text", string(warning.text)}, {"count", std::to_string(warning.count)}});
  });
}

}  // namespace tenon::cli::json
