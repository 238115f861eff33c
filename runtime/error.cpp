#include "runtime/error.h"

#include <charconv>
#include <cstdio>

namespace tenon::runtime {
namespace {

template <class Integer>
void append_integer(std::string& text, Integer number) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

void append_real(std::string& text, double number) {
  char digits[32];
  text.append(digits, static_cast<size_t>(std::snprintf(digits, sizeof digits, "%g", number)));
}

}  // namespace

void TextPart::append_to(std::string& text) const {
  switch (kind_) {
    case kText:
      text += text_;
      return;
    case kReal:
      return append_real(text, real_);
    case kSigned:
      return append_integer(text, signed_);
    case kUnsigned:
      return append_integer(text, unsigned_);
  }
}

std::string join(std::initializer_list<TextPart> parts) {
  std::string text;
  for (const TextPart& part : parts) part.append_to(text);
  return text;
}

void HostFailure::throw_it(tenon_status status, const char* kind, std::string_view name) {
  text_[sizeof text_ - 1] = 0;
  const bool is_known = status >= TENON_INVALID_ARGUMENT && status <= TENON_INTERNAL;
  fail(is_known ? status : TENON_RUN_FAILED, kind, name, ": ", text_[0] == 0 ? "it failed without a reason" : text_);
}

void fail_with(tenon_status status, std::initializer_list<TextPart> parts) { throw StatusError(status, join(parts)); }

}  // namespace tenon::runtime
