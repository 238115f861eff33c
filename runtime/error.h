// Failures inside the runtime: thrown as a StatusError, and turned into a status and a text at the C interface.
//
//     fail(TENON_BAD_FILE, "task ", i, " reads slot ", slot, ", but there are ", count);
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
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

// The parts of a text, as arguments of one function: a word tells what each argument is. There are hundreds of places
// that fail, and none of them is worth code of its own.
enum class TextPart : uint8_t { kEnd, kLiteral, kText, kSigned, kUnsigned, kReal, kSizes };
constexpr size_t kPartBits = 3, kMostParts = 64 / kPartBits;

std::string join_parts(uint64_t kinds, ...);
[[noreturn, gnu::cold]] void fail_with_parts(tenon_status status, uint64_t kinds, ...);

// Views that may be arguments after `...`.
struct TextBytes {
  const char* data;
  size_t size;
};
struct TextSizes {
  const int64_t* data;
  size_t size;
};

// How a part is passed: a literal without its length, an integer in 64 bits. No text is copied.
inline const char* passed(const char* text) { return text; }
inline TextBytes passed(std::string_view text) { return {text.data(), text.size()}; }
inline TextBytes passed(const std::string& text) { return {text.data(), text.size()}; }
inline TextSizes passed(std::span<const int64_t> sizes) { return {sizes.data(), sizes.size()}; }  // as "[2, 3]"
inline double passed(double number) { return number; }
inline int64_t passed(std::signed_integral auto number) { return number; }
inline uint64_t passed(std::unsigned_integral auto number) { return number; }

constexpr TextPart kind_of(const char*) { return TextPart::kLiteral; }
constexpr TextPart kind_of(TextBytes) { return TextPart::kText; }
constexpr TextPart kind_of(TextSizes) { return TextPart::kSizes; }
constexpr TextPart kind_of(double) { return TextPart::kReal; }
constexpr TextPart kind_of(int64_t) { return TextPart::kSigned; }
constexpr TextPart kind_of(uint64_t) { return TextPart::kUnsigned; }

// The first part stands in the lowest bits.
template <class... Passed>
constexpr uint64_t kinds_of() {
  static_assert(sizeof...(Passed) < kMostParts);
  uint64_t kinds = 0, shift = 0;
  ((kinds |= static_cast<uint64_t>(kind_of(Passed())) << shift, shift += kPartBits), ...);
  return kinds;
}

template <class... Parts>
[[gnu::always_inline]] inline std::string text_of(const Parts&... parts) {
  return join_parts(kinds_of<decltype(passed(parts))...>(), passed(parts)...);
}
template <class... Parts>
[[noreturn, gnu::always_inline]] inline void fail(tenon_status status, const Parts&... parts) {
  fail_with_parts(status, kinds_of<decltype(passed(parts))...>(), passed(parts)...);
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
