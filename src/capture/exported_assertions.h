// The calls of an exported program that only check something: they become assertions of the imported program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/exported_values.h"
#include "capture/importer.h"
#include "capture/symbol_names.h"
#include "graph/assertion.h"

namespace tenon {

class ExportedAssertions {
 public:
  // A condition of the model, and what to say when it does not hold.
  using Checked = std::pair<AtenArg, Assertion>;

  ExportedAssertions(Importer& importer, const SymbolNames& names) : importer_(importer), names_(names) {}

  static bool is_assertion(std::string_view target);

  // Notes the conditions of a call that is_assertion(), with the values of the names in its graph. Some of these calls
  // give their last argument as a result, which is returned; else nothing is.
  std::optional<AtenArg> note(const pt2::ExportedNode& node, const std::string& target, const ExportedValues& values);

  // In the order of the calls. Conditions that always hold are not there.
  const std::vector<Checked>& all() const { return all_; }

 private:
  void note_factorization(const pt2::ExportedNode& node, const AtenArg& info);
  void note_range(const pt2::ExportedNode& node, const AtenArg& number, bool is_size, const ExportedValues& values);
  void add(const pt2::ExportedNode& node, const AtenArg& condition, std::string message);
  AtenArg computed(std::string target, std::vector<AtenArg> arguments, const pt2::ExportedNode& node);

  Importer& importer_;
  const SymbolNames& names_;
  std::vector<Checked> all_;
};

}  // namespace tenon
