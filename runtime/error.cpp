#include "runtime/error.h"

#include <charconv>
#include <cstdarg>
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

void append_sizes(std::string& text, TextSizes sizes) {
  text += '[';
  for (size_t i = 0; i < sizes.size; ++i) {
    if (i > 0) text += ", ";
    append_integer(text, sizes.data[i]);
  }
  text += ']';
}

void append_part(std::string& text, TextPart kind, va_list& parts) {
  switch (kind) {
    case TextPart::kLiteral:
      text += va_arg(parts, const char*);
      return;
    case TextPart::kText: {
      const auto bytes = va_arg(parts, TextBytes);
      text.append(bytes.data, bytes.size);
      return;
    }
    case TextPart::kSigned:
      return append_integer(text, va_arg(parts, int64_t));
    case TextPart::kUnsigned:
      return append_integer(text, va_arg(parts, uint64_t));
    case TextPart::kSizes:
      return append_sizes(text, va_arg(parts, TextSizes));
    case TextPart::kReal:
      return append_real(text, va_arg(parts, double));
    case TextPart::kEnd:
      return;
  }
}

std::string joined(uint64_t kinds, va_list& parts) {
  std::string text;
  for (; kinds != 0; kinds >>= kPartBits) {
    append_part(text, static_cast<TextPart>(kinds & ((1u << kPartBits) - 1)), parts);
  }
  return text;
}

}  // namespace

std::string join_parts(uint64_t kinds, ...) {
  va_list parts;
  va_start(parts, kinds);
  std::string text = joined(kinds, parts);
  va_end(parts);
  return text;
}

void fail_with_parts(tenon_status status, uint64_t kinds, ...) {
  va_list parts;
  va_start(parts, kinds);
  std::string text = joined(kinds, parts);
  va_end(parts);
  throw StatusError(status, std::move(text));
}

void HostFailure::throw_it(tenon_status status, const char* kind, std::string_view name) {
  text_[sizeof text_ - 1] = 0;
  const bool is_known = status >= TENON_INVALID_ARGUMENT && status <= TENON_INTERNAL;
  fail(is_known ? status : TENON_RUN_FAILED, kind, name, ": ", text_[0] == 0 ? "it failed without a reason" : text_);
}

}  // namespace tenon::runtime
