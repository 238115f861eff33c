// A position in a text that is parsed, with line and column for diagnostics. The parsers of Tenon's text forms use it.
#pragma once

#include <string>
#include <string_view>

#include "support/diagnostic.h"

namespace tenon {

class Cursor {
 public:
  // `start` is where the text begins in its file.
  explicit Cursor(std::string_view text, Location start = {"", 1, 1})
      : text_(text), here_(std::move(start)), last_line_(here_.line), last_column_(here_.column) {}

  // Where the next token begins: blanks, newlines and # comments are skipped.
  Location here();
  bool at_end();
  char peek();  // the next character that is not blank; '\0' at the end

  bool accept(std::string_view token);                 // consumes it when it is next
  void expect(std::string_view token);                 // or fails: "expected ')', got 'x'"
  bool accept_word(std::string_view word);             // a whole identifier
  std::string_view identifier(std::string_view what);  // [A-Za-z_][A-Za-z0-9_.]*
  std::string_view name(std::string_view what);        // [A-Za-z0-9_.]+
  int64_t integer(std::string_view what);
  std::string string(std::string_view what);  // "quoted", unescaped

  // The text up to, not including, the first of `stops` outside parentheses and brackets.
  std::string_view until(std::string_view stops);
  // A number or word, as far as it goes: [A-Za-z0-9_.+-]+
  std::string_view number(std::string_view what);

  // The rest of the line as a text of its own. This cursor goes on behind it.
  Cursor line();

  size_t remaining() const { return text_.size() - position_; }  // characters

  // Both fail at the next token; at the end of the text, right after the last one.
  [[noreturn]] void expected(std::string_view what);  // "expected {what}, got 'x'"
  template <class... Args>
  [[noreturn]] void fail(MessageFor<Args...> format, const Args&... args) {
    throw Error({fill_in(format, args...), next_place()});
  }

 private:
  void skip_blank();
  void move(size_t count);
  void advance(size_t count);  // over a token
  Location next_place();
  char escaped(std::string_view what);
  std::string next_token() const;  // for messages

  std::string_view text_;
  size_t position_ = 0;
  Location here_;
  int last_line_;  // where the last token ended
  int last_column_;
  std::string_view end_ = "the end of the text";  // for messages
};

// The characters and names that Cursor reads.
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_name_part(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.'; }
bool is_name(std::string_view text);        // [A-Za-z0-9_.]+
bool is_identifier(std::string_view text);  // [A-Za-z_][A-Za-z0-9_.]*

}  // namespace tenon
