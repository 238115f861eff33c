#include "graph/attr.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "support/hash.h"
#include "support/overloaded.h"
#include "support/text.h"

namespace tenon {
namespace {

struct KindInfo {
  std::string_view name;
  size_t alternative;  // of Attr
};

constexpr KindInfo kKinds[] = {  // by AttrKind
    {"bool", 1},
    {"int", 2},
    {"real", 3},
    {"string", 4},
    {"dtype", 5},
    {"expression", 6},
    {"symbol", 6},
    {"scalar", 6},
    {"list of ints", 7},
    {"list of reals", 8},
    {"list of expressions", 9}};

const KindInfo& info(AttrKind kind) { return kKinds[static_cast<size_t>(kind)]; }

template <class T, class Print>
std::string list_to_string(const std::vector<T>& items, Print print) {
  return "[" + join(items, ", ", print) + "]";
}

bool same_real(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

size_t hash_real(double value) { return std::isnan(value) ? 1 : std::hash<uint64_t>()(std::bit_cast<uint64_t>(value)); }

}  // namespace

std::string_view name_of(AttrKind kind) { return info(kind).name; }

bool has_kind(const Attr& attr, AttrKind kind) {
  if (kind == AttrKind::kScalar && std::holds_alternative<double>(attr)) return true;
  const auto* expr = std::get_if<symbolic::Expr>(&attr);
  if (kind == AttrKind::kSymbol && expr && !expr->is_constant() && expr->kind() != symbolic::Kind::kSymbol)
    return false;
  return attr.index() == info(kind).alternative;
}

std::string to_string(const Attr& attr) {
  const auto expr_text = [](const symbolic::Expr& expr) { return to_string(expr); };
  return std::visit(
      Overloaded{[](None) -> std::string { return "none"; },
                 [](bool value) -> std::string { return value ? "true" : "false"; },
                 [](int64_t value) { return std::to_string(value); },
                 [](double value) { return real_to_string(value); },
                 [](const std::string& value) { return quote(value); },
                 [](DType value) { return std::string(name_of(value)); },
                 [&](const symbolic::Expr& value) { return expr_text(value); },
                 [](const std::vector<int64_t>& value) {
                   return list_to_string(value, [](int64_t item) { return std::to_string(item); });
                 },
                 [](const std::vector<double>& value) { return list_to_string(value, real_to_string); },
                 [&](const std::vector<symbolic::Expr>& value) { return list_to_string(value, expr_text); }},
      attr);
}

bool equal(const Attr& a, const Attr& b) {
  const double* left = std::get_if<double>(&a);
  const double* right = std::get_if<double>(&b);
  if (left && right) return same_real(*left, *right);
  const auto* left_list = std::get_if<std::vector<double>>(&a);
  const auto* right_list = std::get_if<std::vector<double>>(&b);
  if (left_list && right_list) return std::ranges::equal(*left_list, *right_list, same_real);
  return a == b;
}

size_t hash_of(const Attr& attr) {
  const auto hash_list = [](const auto& items, const auto& hash) {
    size_t seed = items.size();
    for (const auto& item : items) hash_combine(seed, hash(item));
    return seed;
  };
  size_t seed = attr.index();
  const auto visitor =
      Overloaded{[](None) -> size_t { return 0; },
                 [](double value) { return hash_real(value); },
                 [](DType value) { return static_cast<size_t>(value); },
                 [&](const std::vector<int64_t>& list) { return hash_list(list, std::hash<int64_t>()); },
                 [&](const std::vector<double>& list) { return hash_list(list, hash_real); },
                 [&](const std::vector<symbolic::Expr>& list) { return hash_list(list, std::hash<symbolic::Expr>()); },
                 [](const auto& value) { return std::hash<std::decay_t<decltype(value)>>()(value); }};
  hash_combine(seed, std::visit(visitor, attr));
  return seed;
}

std::string real_to_string(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  return with_point(std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr));
}

std::string with_point(std::string digits) {
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\n' || c == '\t') {
      quoted += c == '\n' ? "\\n" : "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace tenon
