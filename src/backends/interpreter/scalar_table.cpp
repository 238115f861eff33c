#include "backends/interpreter/scalar_table.h"

#include <fmt/format.h>

#include "graph/cpp_text.h"
#include "loops/ir.h"

namespace tenon {
namespace {

constexpr std::string_view kHead =
    "// Written by `make docs` from the op table (tenon ops --scalar-table): the elementwise ops as functions.\n"
    "// clang-format off\n";

std::string row(const OpDef& op, const Elementwise& elementwise) {
  const bool folds = loops::identity_of(op, DType::kF64) || loops::identity_of(op, DType::kI64);
  const bool divides = elementwise.integer.divides_by_operand();
  const auto function = [&](const ScalarFn& fn, DType domain) {
    if (!fn) return std::string("nullptr");
    const std::string type = cpp::to_string(cpp::Type{domain});
    return fmt::format("{}<{}>({})", folds ? "folding" : "lanes", type, cpp::function_text(op, domain, domain));
  };
  return fmt::format("{{\"{}\", {}, {},\n {},\n {}}},\n", op.name.get(), op.operands.get().size(),
                     divides ? "kDivides"
                     : folds ? "kFolds"
                             : "kPlain",
                     function(elementwise.real, DType::kF64), function(elementwise.integer, DType::kI64));
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
