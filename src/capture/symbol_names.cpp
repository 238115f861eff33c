#include "capture/symbol_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon {
namespace {

using symbolic::Expr;
using symbolic::Symbol;

constexpr std::string_view kAssertion = "Runtime assertion failed for expression ";  // how PyTorch's own messages begin

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_part(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); }

std::string valid_name(std::string name) {
  std::ranges::replace_if(name, [](char c) { return !is_word_part(c) && c != '.'; }, '_');
  const bool is_value = name == "nan" || name == "inf" || name == "none";
  const bool is_start = !name.empty() && !is_digit(name.front()) && name.front() != '.';
  return is_value || !is_start ? "_" + name : name;
}

class Naming {
 public:
  explicit Naming(std::set<Symbol> taken) : taken_(std::move(taken)) {}

  void name(Symbol symbol, std::string_view wanted) {
    if (names_.contains(symbol)) return;
    const std::string valid = valid_name(std::string(wanted));
    std::string unique = valid;
    for (int i = 2; taken_.contains(Symbol(unique)); ++i) unique = fmt::format("{}_{}", valid, i);
    taken_.insert(Symbol(unique));
    names_.emplace(symbol, Symbol(unique));
  }

  SymbolNames take() && { return std::move(names_); }

 private:
  std::set<Symbol> taken_;
  SymbolNames names_;
};

bool is_symbol(const Expr& size) { return size.kind() == symbolic::Kind::kSymbol; }

}  // namespace

SymbolNames readable_names(std::span<const SizedInput> inputs, const std::map<Symbol, std::string>& named,
                           const std::set<Symbol>& taken) {
  std::set<Symbol> occurring;
  for (const SizedInput& input : inputs) {
    for (const Expr& size : input.sizes) {
      for (Symbol symbol : symbolic::symbols_of(size)) occurring.insert(symbol);
    }
  }
  Naming naming(taken);
  for (const auto& [symbol, name] : named) {
    if (occurring.contains(symbol)) naming.name(symbol, name);
  }
  for (const SizedInput& input : inputs) {
    if (input.is_number) continue;
    for (size_t dim = 0; dim < input.sizes.size(); ++dim) {
      if (is_symbol(input.sizes[dim])) naming.name(input.sizes[dim].symbol(), fmt::format("{}.{}", input.name, dim));
    }
  }
  for (const SizedInput& input : inputs) {
    if (input.is_number && is_symbol(input.sizes[0])) naming.name(input.sizes[0].symbol(), input.name);
  }
  for (Symbol symbol : occurring) naming.name(symbol, symbol.name());
  return std::move(naming).take();
}

std::string with_readable_names(std::string message, const SymbolNames& names) {
  if (!message.starts_with(kAssertion)) return message;
  std::string result;
  for (size_t begin = 0; begin < message.size();) {
    size_t end = begin;
    while (end < message.size() && is_word_part(message[end])) ++end;
    const std::string word = message.substr(begin, end - begin);
    const auto found = std::ranges::find(names, word, [](const auto& entry) { return entry.first.name(); });
    result += found != names.end() ? found->second.name() : word;
    if (end < message.size()) result += message[end++];
    begin = end;
  }
  return result;
}

}  // namespace tenon
