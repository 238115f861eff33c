#include "graph/attr.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "support/diagnostic.h"
#include "support/hash.h"

namespace tenon {
namespace {

template <class... Fns>
struct Overload : Fns... {
  using Fns::operator()...;
};

template <class T, class Print>
std::string list_to_string(const std::vector<T>& items, Print print) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) text += (i > 0 ? ", " : "") + print(items[i]);
  return text + "]";
}

bool same_real(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

size_t hash_real(double value) { return std::isnan(value) ? 1 : std::hash<uint64_t>()(std::bit_cast<uint64_t>(value)); }

}  // namespace

std::string_view name_of(AttrKind kind) {
  switch (kind) {
    case AttrKind::kBool:
      return "bool";
    case AttrKind::kInt:
      return "int";
    case AttrKind::kReal:
      return "real";
    case AttrKind::kString:
      return "string";
    case AttrKind::kDType:
      return "dtype";
    case AttrKind::kExpr:
      return "expression";
    case AttrKind::kSymbol:
      return "symbol";
    case AttrKind::kScalar:
      return "scalar";
    case AttrKind::kInts:
      return "list of ints";
    case AttrKind::kReals:
      return "list of reals";
    case AttrKind::kExprs:
      return "list of expressions";
  }
  return "?";
}

bool has_kind(const Attr& attr, AttrKind kind) {
  switch (kind) {
    case AttrKind::kBool:
      return std::holds_alternative<bool>(attr);
    case AttrKind::kInt:
      return std::holds_alternative<int64_t>(attr);
    case AttrKind::kReal:
      return std::holds_alternative<double>(attr);
    case AttrKind::kString:
      return std::holds_alternative<std::string>(attr);
    case AttrKind::kDType:
      return std::holds_alternative<DType>(attr);
    case AttrKind::kExpr:
      return std::holds_alternative<symbolic::Expr>(attr);
    case AttrKind::kSymbol: {
      const auto* expr = std::get_if<symbolic::Expr>(&attr);
      return expr && (expr->is_constant() || expr->kind() == symbolic::Kind::kSymbol);
    }
    case AttrKind::kScalar:
      return std::holds_alternative<symbolic::Expr>(attr) || std::holds_alternative<double>(attr);
    case AttrKind::kInts:
      return std::holds_alternative<std::vector<int64_t>>(attr);
    case AttrKind::kReals:
      return std::holds_alternative<std::vector<double>>(attr);
    case AttrKind::kExprs:
      return std::holds_alternative<std::vector<symbolic::Expr>>(attr);
  }
  return false;
}

std::string to_string(const Attr& attr) {
  const auto expr_text = [](const symbolic::Expr& expr) { return to_string(expr); };
  return std::visit(
      Overload{[](None) -> std::string { return "none"; },
               [](bool value) -> std::string { return value ? "true" : "false"; },
               [](int64_t value) { return std::to_string(value); }, [](double value) { return real_to_string(value); },
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
  const auto hash_list = [](const auto& items) {
    size_t seed = items.size();
    for (const auto& item : items) hash_combine(seed, std::hash<std::decay_t<decltype(item)>>()(item));
    return seed;
  };
  size_t seed = attr.index();
  hash_combine(seed,
               std::visit(Overload{[](None) -> size_t { return 0; }, [](double value) { return hash_real(value); },
                                   [](DType value) { return static_cast<size_t>(value); },
                                   [&](const std::vector<int64_t>& value) { return hash_list(value); },
                                   [](const std::vector<double>& value) {
                                     size_t list = value.size();
                                     for (double item : value) hash_combine(list, hash_real(item));
                                     return list;
                                   },
                                   [&](const std::vector<symbolic::Expr>& value) { return hash_list(value); },
                                   [](const auto& value) { return std::hash<std::decay_t<decltype(value)>>()(value); }},
                          attr));
  return seed;
}

std::string real_to_string(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        quoted += "\\\"";
        break;
      case '\\':
        quoted += "\\\\";
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\t':
        quoted += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          quoted += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          quoted += c;
        }
    }
  }
  return quoted + "\"";
}

}  // namespace tenon
