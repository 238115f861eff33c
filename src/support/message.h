// The text of a message: each "{}" stands for the next value. Public headers use this in place of fmt, so that programs
// that include them need no fmt.
//
//     fill_in("size {} is negative", expr)
//
// A value is a number, a text, or has a function to_string in its namespace.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace tenon {

// The text with the values in place of "{}"; "{{" and "}}" are braces.
std::string fill_in_texts(std::string_view text, std::initializer_list<std::string> values);

std::string real_text(double value);  // the fewest digits that read back: "0.5"
std::string real_text(float value);

template <class T>
std::string message_text(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    return std::string(1, value);
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return real_text(value);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return std::string(std::string_view(value));
  } else {
    return to_string(value);
  }
}

consteval size_t count_values(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{' && text[i] != '}') continue;
    const bool is_brace = i + 1 < text.size() && text[i + 1] == text[i];
    if (!is_brace && (text[i] == '}' || i + 1 == text.size() || text[i + 1] != '}')) throw "a message has {} alone";
    if (!is_brace) ++count;
    ++i;
  }
  return count;
}

// A text that has as many "{}" as there are Args: else it does not compile.
template <class... Args>
struct MessageFormat {
  consteval MessageFormat(const char* format) : text(format) {
    if (count_values(text) != sizeof...(Args)) throw "a message has one {} for each value";
  }
  std::string_view text;
};

// For functions that take such a text and values: the compiler finds out Args from the values alone.
template <class... Args>
using MessageFor = MessageFormat<std::type_identity_t<Args>...>;

template <class... Args>
std::string fill_in(MessageFor<Args...> format, const Args&... args) {
  return fill_in_texts(format.text, {message_text(args)...});
}

}  // namespace tenon
