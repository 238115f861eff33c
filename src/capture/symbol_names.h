// Names that people can read for the symbols of a model's sizes. PyTorch calls them s77; here they are called as the
// user did (`batch`, of torch.export.Dim), or else by where they stand: `x.0` is the size of dimension 0 of input x.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "symbolic/expr.h"

namespace tenon {

// What an input of the model tells of symbols: the sizes of a tensor, or a number that is a size.
struct SizedInput {
  std::string name;
  std::vector<symbolic::Expr> sizes;
  bool is_number = false;
};

using SymbolNames = std::map<symbolic::Symbol, symbolic::Symbol>;

// A name for each symbol that occurs in the inputs, each its own. A symbol that the user `named` has that name. Any
// other has that of the first dimension which it is the size of, else that of the first number which it is; one that
// only occurs within expressions keeps PyTorch's. Where a name is in use, `taken` among them, a number is appended;
// characters that a symbol cannot have become underscores.
SymbolNames readable_names(std::span<const SizedInput> inputs, const std::map<symbolic::Symbol, std::string>& named,
                           const std::set<symbolic::Symbol>& taken);

// A message of PyTorch with the readable names. What the user wrote himself is left as it is.
std::string with_readable_names(std::string message, const SymbolNames& names);

}  // namespace tenon
