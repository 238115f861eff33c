// Attributes: the compile-time arguments of a node. The op's record lists their names and kinds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/dtype.h"
#include "symbolic/expr.h"

namespace tenon {

enum class AttrKind : uint8_t {
  kBool,    // true
  kInt,     // -1
  kReal,    // 0.5
  kString,  // "mean"
  kDType,   // f32
  kExpr,    // 2*N + 1
  kSymbol,  // K: a size that the op computes from data and thereby defines; or a number
  kScalar,  // an Expr or a real: the value that `full` fills with
  kInts,    // [0, -1]
  kReals,   // [0.5, 2.0]
  kExprs,   // [N, 784]
};

// "none" is the value of an optional attribute that is not given.
struct None {
  bool operator==(const None&) const = default;
};

using Attr = std::variant<None, bool, int64_t, double, std::string, DType, symbolic::Expr, std::vector<int64_t>,
                          std::vector<double>, std::vector<symbolic::Expr>>;

struct AttrDef {
  std::string_view name;
  AttrKind kind;
  std::string_view doc;
  // The value of an attribute that a node does not give. An attribute without a default is required.
  struct Default {
    bool required = true;
    Attr value;
    Default() = default;
    Default(Attr attr) : required(false), value(std::move(attr)) {}  // NOLINT
  } fallback = {};
};

std::string_view name_of(AttrKind kind);
std::string to_string(const Attr& attr);  // the text form; reals print their shortest exact digits
bool has_kind(const Attr& attr, AttrKind kind);
bool equal(const Attr& a, const Attr& b);  // NaN equals NaN, and -0 differs from 0
size_t hash_of(const Attr& attr);

std::string real_to_string(double value);    // "0.5", "1.0", "nan", "-inf": always distinguishable from an integer
std::string with_point(std::string digits);  // the digits of a real, with ".0" where they read as an integer
std::string quote(std::string_view text);    // with \" \\ \n \t and \xHH escapes

// Calls visit(expr) for each expression of an attribute, which may be const.
template <class AnyAttr, class Visit>
void for_each_expr(AnyAttr& attr, const Visit& visit) {
  if (auto* expr = std::get_if<symbolic::Expr>(&attr)) visit(*expr);
  if (auto* exprs = std::get_if<std::vector<symbolic::Expr>>(&attr)) std::ranges::for_each(*exprs, visit);
}

// What a caller writes: {{"dims", ints({0})}, {"keepdim", true}}. Order is free, defaults may be left out.
using NamedAttrs = std::vector<std::pair<std::string, Attr>>;

}  // namespace tenon
