// Errors, texts, Symbols and expressions.
#include "face.h"

#include <fmt/format.h>

namespace tenon::web {
namespace {

std::string last_error, last_text;

using Operator = Expr (*)(const Expr&, const Expr&);

Operator operator_named(std::string_view name) {
  constexpr std::pair<std::string_view, Operator> kOperators[] = {{"add", symbolic::operator+ },
                                                                   {"sub", symbolic::operator- },
                                                                    {
                                                                        "mul",
                                                                        symbolic::operator* },
                                                                        {"div", symbolic::floordiv},
                                                                        {"mod", symbolic::mod},
                                                                        {"min", symbolic::min},
                                                                        {"max", symbolic::max},
                                                                   };
  for (const auto& [known, apply] : kOperators) {
    if (known == name) return apply;
  }
  fail("expressions have no operator {}", name);
}

}  // namespace

void set_error(std::string text) { last_error = std::move(text); }
void set_text(std::string text) { last_text = std::move(text); }

Expr expr_from(const char* text) { return symbolic::parse(text).value(); }

named::Symbol symbol_from(std::string_view text) {
  if (const auto symbol = named::symbol_in(symbolic::Symbol(text))) return *symbol;
  fail("{} is no Symbol", text);
}

named::Symbols symbols_from(std::string_view texts) {
  named::Symbols symbols;
  for (size_t begin = 0; begin < texts.size();) {
    const size_t end = std::min(texts.find(' ', begin), texts.size());
    symbols.push_back(symbol_from(texts.substr(begin, end - begin)));
    begin = end + 1;
  }
  return symbols;
}

DType dtype_from(std::string_view name) {
  if (const auto dtype = dtype_named(name)) return *dtype;
  fail("there is no dtype '{}'", name);
}

std::string quoted(std::string_view text) {
  std::string json = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    if (c == '\n') {
      json += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      json += c;
    }
  }
  return json + "\"";
}

extern "C" __attribute__((export_name("tenon_error"))) const char* tenon_error() { return last_error.c_str(); }
extern "C" __attribute__((export_name("kernels_text"))) const char* kernels_text() { return last_text.c_str(); }

EXPORT(symbol_new)(const char* name) {
  return guarded([&] { set_text(named::Symbol(name).index_symbol().name()); });
}

EXPORT(symbol_size)(const char* symbol) {
  return guarded([&] { set_text(to_string(symbol_from(symbol).size())); });
}

EXPORT(expr_apply)(const char* name, const char* a, const char* b) {
  return guarded([&] { set_text(to_string(operator_named(name)(expr_from(a), expr_from(b)))); });
}

// With the names of the Symbols, for people.
EXPORT(expr_shown)(const char* expr) {
  return guarded([&] { set_text(named::shown(expr_from(expr))); });
}

}  // namespace tenon::web
