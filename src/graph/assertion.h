// A condition that a model states about its data.
#pragma once

#include <optional>
#include <string>

#include "support/diagnostic.h"
#include "symbolic/expr.h"

namespace tenon {

struct Assertion {
  std::string message;
  Location location = {};
  std::optional<size_t> output = {};         // of the graph: none of its elements may be zero
  std::optional<symbolic::Expr> guard = {};  // of the sizes of inputs: it must not be zero
};

}  // namespace tenon
