// Small helpers for texts and messages.
#pragma once

#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tenon {

// The texts of the items, with the separator between them.
template <class Items, class TextOf>
std::string join(const Items& items, std::string_view separator, const TextOf& text_of) {
  std::string text;
  bool is_first = true;
  for (const auto& item : items) {
    if (!std::exchange(is_first, false)) text += separator;
    text += text_of(item);
  }
  return text;
}

// A variable of the environment; empty if it is not set.
inline std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// "; did you mean 'softmax'?" when a candidate is close to `wrong`, else nothing.
std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> candidates);

}  // namespace tenon
