#include "named/symbol.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>

namespace tenon::named {
namespace {

constexpr std::string_view kSizeSuffix = ".size";

std::atomic<uint64_t> next_id = 0;

bool is_size(symbolic::Symbol part) { return part.name().ends_with(kSizeSuffix); }

}  // namespace

Symbol::Symbol(std::string_view name) : Symbol(name, next_id++) {}

Symbol::Symbol(std::string_view name, uint64_t id)
    : name_(symbolic::Symbol(name).name()),
      id_(id),
      index_(fmt::format("{}.{}", name, id)),
      size_(fmt::format("{}.{}{}", name, id, kSizeSuffix)) {}

std::optional<Symbol> symbol_in(symbolic::Symbol part) {
  std::string_view text = part.name();
  if (is_size(part)) text.remove_suffix(kSizeSuffix.size());
  const size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return {};
  uint64_t id = 0;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data() + dot + 1, end, id).ptr != end || dot + 1 == text.size()) return {};
  return Symbol(text.substr(0, dot), id);
}

std::vector<Symbol> dims_of(const Expr& index) {
  std::vector<Symbol> dims;
  for (symbolic::Symbol part : symbols_of(index)) {
    const std::optional<Symbol> symbol = symbol_in(part);
    if (!symbol) fail("{} in the index {} is no named::Symbol", part.name(), shown(index));
    if (!is_size(part)) dims.push_back(*symbol);
  }
  std::ranges::sort(dims, std::less<>());
  return dims;
}

std::string shown(const Expr& expr) {
  symbolic::Substitution names;
  for (symbolic::Symbol part : symbols_of(expr)) {
    const std::optional<Symbol> symbol = symbol_in(part);
    if (symbol) names.emplace(part, symbolic::Symbol(symbol->name() + (is_size(part) ? "_size" : "")));
  }
  return to_string(substitute(expr, names));
}

}  // namespace tenon::named
