// Failures inside the runtime: thrown as a StatusError, and turned into a status and a text at the C interface.
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

class StatusError : public std::exception {
 public:
  StatusError(tenon_status status, std::string message) : status_(status), message_(std::move(message)) {}
  tenon_status status() const { return status_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  tenon_status status_;
  std::string message_;
};

// A piece of a text. Taken by value, so that each function of it is compiled once, not once per argument list.
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

// The type in which a part is passed: literals of all lengths become one type, integers become two. So there are few
// instances of the functions below. No text is copied.
inline const char* passed(const char* text) { return text; }
inline std::string_view passed(const std::string& text) { return text; }
inline std::string_view passed(std::string_view text) { return text; }
inline double passed(double number) { return number; }
inline int64_t passed(std::signed_integral auto number) { return number; }
inline uint64_t passed(std::unsigned_integral auto number) { return number; }

template <class... Parts>
[[gnu::noinline]] std::string text_of_passed(Parts... parts) {
  return join({TextPart(parts)...});
}
template <class... Parts>
[[noreturn, gnu::noinline, gnu::cold]] void fail_passed(tenon_status status, Parts... parts) {
  fail_with(status, {TextPart(parts)...});
}

template <class... Parts>
[[gnu::always_inline]] inline std::string text_of(const Parts&... parts) {
  return text_of_passed(passed(parts)...);
}
template <class... Parts>
[[noreturn, gnu::always_inline]] inline void fail(tenon_status status, const Parts&... parts) {
  fail_passed(status, passed(parts)...);
}

// Where a function of the host or of a plug-in writes the text of its failure.
//
//     HostFailure failure;
//     failure.check(function(user_data, failure.place()), "call ", name);
class HostFailure {
 public:
  tenon_text* place() { return &place_; }
  void check(tenon_status status, const char* kind, std::string_view name) {  // throws unless it is TENON_OK
    if (status != TENON_OK) throw_it(status, kind, name);
  }

 private:
  [[noreturn]] void throw_it(tenon_status status, const char* kind, std::string_view name);

  char text_[512];
  tenon_text place_{(text_[0] = 0, text_), sizeof text_};
};

// Runs `body`. Its errors get `path` as a prefix.
template <class Body>
auto with_path(const std::string& path, Body body) {
  try {
    return body();
  } catch (const StatusError& error) {
    const std::string start = path + ": ";
    throw StatusError(error.status(), (error.message().starts_with(start) ? "" : start) + error.message());
  }
}

}  // namespace tenon::runtime
