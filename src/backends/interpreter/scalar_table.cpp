#include "backends/interpreter/scalar_table.h"

#include "graph/cpp_text.h"
#include "loops/ir.h"

namespace tenon {
namespace {

constexpr std::string_view kHead =
    "// Written by `make docs` from the op table (tenon ops --scalar-table): the elementwise ops as functions.\n"
    "// clang-format off\n";

// A function of one number of each operand in a reference domain.
std::string function(const OpDef& op, DType domain, std::string_view form) {
  const std::string type = cpp::to_string(cpp::Type{domain});
  const size_t arity = op.operands.get().size();
  const std::vector<std::string> names = {"a", "b", "c"};
  std::vector<std::string> parameters;
  for (size_t i = 0; i < arity; ++i) parameters.push_back(type + " " + names[i]);
  const std::string text =
      op.name.get() == "cast"
          ? "a"
          : cpp::apply(op, domain, cpp::Type{domain}, {names.begin(), names.begin() + static_cast<ptrdiff_t>(arity)});
  return fmt::format("{3}<{0}>([]({1}) -> {0} {{ return {2}; }})", type, fmt::join(parameters, ", "), text, form);
}

std::string row(const OpDef& op, const Elementwise& elementwise) {
  const bool folds = loops::identity_of(op, DType::kF64) || loops::identity_of(op, DType::kI64);
  const std::string_view kind = cpp::divides_integers(op, DType::kI64) ? "kDivides" : folds ? "kFolds" : "kPlain";
  const std::string_view form = folds ? "folding" : "lanes";
  return fmt::format("{{\"{}\", {}, {},\n {},\n {}}},\n", op.name.get(), op.operands.get().size(), kind,
                     elementwise.real ? function(op, DType::kF64, form) : "nullptr",
                     elementwise.integer ? function(op, DType::kI64, form) : "nullptr");
}

}  // namespace

std::string scalar_table() {
  std::string text(kHead);
  for (const OpDef* op : op_table()) {
    if (const auto* elementwise = std::get_if<Elementwise>(&op->semantics.get())) text += row(*op, *elementwise);
  }
  return text;
}

}  // namespace tenon
