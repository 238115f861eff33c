// Failure inside of the runtime: thrown as an Error, turned into a status and a text where the C interface ends.
//
//     fail(TENON_BAD_FILE, "task ", i, " reads slot ", slot, ", but there are ", count);
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <initializer_list>
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

// A piece of a text, by value: functions of it are compiled once, not for each list of arguments.
class TextPart {
 public:
  TextPart(std::string_view text) : kind_(kText), text_(text) {}           // NOLINT: an argument of fail
  TextPart(const char* text) : TextPart(std::string_view(text)) {}         // NOLINT
  TextPart(const std::string& text) : TextPart(std::string_view(text)) {}  // NOLINT
  TextPart(double number) : kind_(kReal), real_(number) {}                 // NOLINT
  template <std::signed_integral Integer>
  TextPart(Integer number) : kind_(kSigned), signed_(number) {}  // NOLINT
  template <std::unsigned_integral Integer>
  TextPart(Integer number) : kind_(kUnsigned), unsigned_(number) {}  // NOLINT

  void append_to(std::string& text) const;

 private:
  enum : uint8_t { kText, kReal, kSigned, kUnsigned } kind_;
  union {
    std::string_view text_;
    double real_;
    int64_t signed_;
    uint64_t unsigned_;
  };
};

std::string join(std::initializer_list<TextPart> parts);
[[noreturn]] void fail_with(tenon_status status, std::initializer_list<TextPart> parts);

// By value: literals of all lengths are one type, and one function.
template <class... Parts>
std::string text_of(Parts... parts) {
  return join({TextPart(parts)...});
}

template <class... Parts>
[[noreturn]] void fail(tenon_status status, Parts... parts) {
  fail_with(status, {TextPart(parts)...});
}

}  // namespace tenon::runtime
