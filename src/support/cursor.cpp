#include "support/cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tenon {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void Cursor::move(size_t count) {
  for (const size_t end = position_ + count; position_ < end; ++position_) {
    if (text_[position_] == '\n') {
      ++here_.line;
      here_.column = 1;
    } else {
      ++here_.column;
    }
  }
}

void Cursor::advance(size_t count) {
  move(count);
  last_line_ = here_.line;
  last_column_ = here_.column;
}

void Cursor::skip_blank() {
  while (position_ < text_.size()) {
    if (is_blank(text_[position_])) {
      move(1);
    } else if (text_[position_] == '#') {
      while (position_ < text_.size() && text_[position_] != '\n') move(1);
    } else {
      return;
    }
  }
}

Location Cursor::here() {
  skip_blank();
  return here_;
}

Location Cursor::next_place() {
  skip_blank();
  if (position_ < text_.size()) return here_;
  return {here_.file, last_line_, last_column_};
}

bool Cursor::at_end() {
  skip_blank();
  return position_ == text_.size();
}

char Cursor::peek() { return at_end() ? '\0' : text_[position_]; }

std::string Cursor::next_token() const {
  if (position_ == text_.size()) return std::string(end_);
  size_t end = position_;
  while (end < text_.size() && end < position_ + 32 && is_name_part(text_[end])) ++end;
  if (end == position_) ++end;
  std::string token(text_.substr(position_, end - position_));
  for (char& c : token) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  return "'" + token + "'";
}

bool Cursor::accept(std::string_view token) {
  skip_blank();
  if (!text_.substr(position_).starts_with(token)) return false;
  advance(token.size());
  return true;
}

void Cursor::expected(std::string_view what) {
  skip_blank();
  fail("expected {}, got {}", what, next_token());
}

void Cursor::expect(std::string_view token) {
  if (!accept(token)) expected(fmt::format("'{}'", token));
}

bool Cursor::accept_word(std::string_view word) {
  skip_blank();
  const std::string_view rest = text_.substr(position_);
  if (!rest.starts_with(word) || (rest.size() > word.size() && is_name_part(rest[word.size()]))) return false;
  advance(word.size());
  return true;
}

std::string_view Cursor::identifier(std::string_view what) {
  if (!is_letter(peek())) expected(what);
  return name(what);
}

std::string_view Cursor::name(std::string_view what) {
  if (!is_name_part(peek())) expected(what);
  const size_t start = position_;
  size_t end = start;
  while (end < text_.size() && is_name_part(text_[end])) ++end;
  advance(end - start);
  return text_.substr(start, end - start);
}

bool is_name(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_name_part); }

bool is_identifier(std::string_view text) { return is_name(text) && is_letter(text[0]); }

Cursor Cursor::line() {
  skip_blank();
  const std::string_view rest = text_.substr(position_, text_.find('\n', position_) - position_);
  Cursor line(rest, here_);
  line.end_ = "the end of the line";
  advance(rest.size());
  return line;
}

int64_t Cursor::integer(std::string_view what) {
  skip_blank();
  int64_t value = 0;
  const char* begin = text_.data() + position_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range) fail("{} does not fit 64 bits", what);
  if (error != std::errc()) expected(what);
  advance(static_cast<size_t>(end - begin));
  return value;
}

std::string Cursor::string(std::string_view what) {
  if (peek() != '"') expected(fmt::format("{} in quotes", what));
  const Location start = here_;
  advance(1);
  std::string value;
  while (true) {
    if (position_ == text_.size() || text_[position_] == '\n') fail_at(start, "{} lacks its closing quote", what);
    const char c = text_[position_];
    if (c == '\\') {
      value += escaped(what);
      continue;
    }
    advance(1);
    if (c == '"') return value;
    value += c;
  }
}

// The character that the escape at the cursor stands for.
char Cursor::escaped(std::string_view what) {
  const std::string_view rest = text_.substr(position_, 4);
  const Location start = here_;
  const auto take = [&](size_t count, char c) { return advance(count), c; };
  const char kind = rest.size() > 1 ? rest[1] : '\0';
  if (kind == 'n') return take(2, '\n');
  if (kind == 't') return take(2, '\t');
  if (kind == '"' || kind == '\\') return take(2, kind);
  const bool hex = kind == 'x' && rest.size() == 4 && hex_digit(rest[2]) >= 0 && hex_digit(rest[3]) >= 0;
  if (hex) return take(4, static_cast<char>(hex_digit(rest[2]) * 16 + hex_digit(rest[3])));
  fail_at(start, "unknown escape in {}: use \\\" \\\\ \\n \\t or \\xHH", what);
}

std::string_view Cursor::until(std::string_view stops) {
  skip_blank();
  const size_t start = position_;
  size_t end = start;
  int depth = 0;
  while (end < text_.size() && text_[end] != '\n') {
    const char c = text_[end];
    if (depth == 0 && stops.find(c) != std::string_view::npos) break;
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    ++end;
  }
  advance(end - start);
  return text_.substr(start, end - start);
}

std::string_view Cursor::number(std::string_view what) {
  skip_blank();
  const size_t start = position_;
  size_t end = start;
  while (end < text_.size() && (is_name_part(text_[end]) || text_[end] == '-' || text_[end] == '+')) ++end;
  if (end == start) expected(what);
  advance(end - start);
  return text_.substr(start, end - start);
}

}  // namespace tenon
