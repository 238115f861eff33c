// Failure inside of the runtime: thrown as an Error, turned into a status and a text where the C interface ends.
//
//     fail(TENON_BAD_FILE, "task ", i, " reads slot ", slot, ", but there are ", count);
#pragma once

#include <charconv>
#include <concepts>
#include <exception>
#include <string>
#include <string_view>

#include "tenon/tenon.h"

namespace tenon::runtime {

class Error : public std::exception {
 public:
  Error(tenon_status status, std::string message) : status_(status), message_(std::move(message)) {}
  tenon_status status() const { return status_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  tenon_status status_;
  std::string message_;
};

inline void append(std::string& text, std::string_view part) { text += part; }
void append(std::string& text, double part);
template <std::integral Integer>
void append(std::string& text, Integer part) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, part).ptr);
}

template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::string text;
  (append(text, parts), ...);
  return text;
}

template <class... Parts>
[[noreturn]] void fail(tenon_status status, const Parts&... parts) {
  throw Error(status, text_of(parts...));
}

}  // namespace tenon::runtime
