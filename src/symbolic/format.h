// Expressions in texts that fmt makes: fmt::format("for {} times", expr).
#pragma once

#include <fmt/format.h>

#include "symbolic/expr.h"

template <>
struct fmt::formatter<tenon::symbolic::Expr> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const tenon::symbolic::Expr& expr, Context& context) const {
    return fmt::formatter<std::string>::format(to_string(expr), context);
  }
};
