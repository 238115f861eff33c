#include "capture/exported_assertions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tenon {
namespace {

using pt2::Argument;

// The functional ones give their last argument.
constexpr std::array<std::string_view, 5> kConditions = {
    "aten._assert_async.default", "aten._assert_async.msg", "aten._assert_scalar.default",
    "aten._functional_assert_async.msg", "aten._functional_assert_scalar.default"};
constexpr std::array<std::string_view, 4> kRanges = {
    "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default",
    "aten._functional_sym_constrain_range.default", "aten._functional_sym_constrain_range_for_size.default"};
constexpr std::string_view kFactorized = "aten._linalg_check_errors.default";

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

AtenArg value_of(const ExportedValues& values, const Argument& given) {
  ArgumentReading reading;
  return read_argument(values, given, reading);
}

const std::string* text_named(const pt2::ExportedNode& node, size_t position, std::string_view name) {
  const Argument* given = argument_named(node, position, name);
  return given != nullptr ? given->get<std::string>() : nullptr;
}

}  // namespace

bool ExportedAssertions::is_assertion(std::string_view target) {
  return contains(kConditions, target) || contains(kRanges, target) || target == kFactorized;
}

std::optional<AtenArg> ExportedAssertions::note(const pt2::ExportedNode& node, const std::string& target,
                                                const ExportedValues& values) {
  if (node.inputs.empty()) fail_at(node.location, "{} has no arguments", node.target);
  const AtenArg checked = value_of(values, node.inputs[0].value);
  if (target == kFactorized) {
    note_factorization(node, checked);
  } else if (contains(kRanges, target)) {
    note_range(node, checked, target.ends_with("_for_size.default"), values);
  } else {
    const std::string* text = text_named(node, 1, "assert_msg");
    add(node, checked,
        text != nullptr ? with_readable_names(*text, names_) : "an assertion of the model does not hold");
  }
  if (node.outputs.empty() || name_in(node.outputs[0]) == nullptr) return std::nullopt;
  const Argument* token = argument_named(node, node.inputs.size() - 1, "dep_token");
  if (token == nullptr) fail_at(node.location, "{} gives a token, but takes none", node.target);
  return value_of(values, *token);
}

void ExportedAssertions::note_factorization(const pt2::ExportedNode& node, const AtenArg& info) {
  const std::string* name = text_named(node, 1, "api_name");
  const AtenArg is_zero = computed("aten.eq.Scalar", {info, 0}, node);
  add(node, computed("aten.all.default", {is_zero}, node),
      fmt::format("{}: a matrix is singular, or not what the factorization needs", name != nullptr ? *name : "linalg"));
}

void ExportedAssertions::note_range(const pt2::ExportedNode& node, const AtenArg& number, bool is_size,
                                    const ExportedValues& values) {
  const auto bound = [&](size_t position, std::string_view name) {
    const Argument* given = argument_named(node, position, name);
    return given == nullptr ? AtenArg() : value_of(values, *given);
  };
  const AtenArg least = bound(1, "min"), most = bound(2, "max");
  const AtenArg low = least.is_none() && is_size ? AtenArg(0) : least;
  for (const auto& [compare, sign, limit] :
       {std::tuple{"_operator.ge", ">=", low}, std::tuple{"_operator.le", "<=", most}}) {
    if (limit.is_none()) continue;
    add(node, computed(compare, {number, limit}, node),
        fmt::format("a number of the model must be {} {}", sign, to_string(limit)));
  }
}

void ExportedAssertions::add(const pt2::ExportedNode& node, const AtenArg& condition, std::string message) {
  const bool* flag = condition.get<bool>();
  const Expr* expr = condition.get<Expr>();
  if ((flag != nullptr && *flag) || (expr != nullptr && expr->is_constant(1))) return;
  all_.push_back({condition, {std::move(message), node.location}});
}

AtenArg ExportedAssertions::computed(std::string target, std::vector<AtenArg> arguments,
                                     const pt2::ExportedNode& node) {
  return importer_.call({.target = std::move(target), .positional = std::move(arguments), .location = node.location});
}

}  // namespace tenon
