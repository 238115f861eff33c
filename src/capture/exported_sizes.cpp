#include "capture/exported_sizes.h"

#include <algorithm>

namespace tenon {

using pt2::InputKind;
using pt2::InputSpec;
using pt2::TensorName;

namespace {

const Expr& stored_number(const pt2::ExportedProgram& program, const std::string& name) {
  return program.graph.sym_ints.find(name)->second.require();
}

void add_symbols(const Expr& expr, std::set<Symbol>& symbols) {
  for (Symbol symbol : symbolic::symbols_of(expr)) symbols.insert(symbol);
}

const std::string* integer_name(const InputSpec& input) {
  const auto* number = input.argument.get<pt2::SymInt>();
  return number != nullptr ? number->name() : nullptr;
}

}  // namespace

bool is_plain(const pt2::TensorMeta& meta) {
  return meta.dtype.dtype() && meta.layout == pt2::Layout::kStrided && meta.device.type == "cpu";
}

ExportedSizes::ExportedSizes(const pt2::ExportedProgram& program) : program_(program) {
  find_symbols();
  name_symbols();
}

void ExportedSizes::find_symbols() {
  std::set<Symbol> carried;
  for (const InputSpec& input : program_.inputs) {
    if (input.kind != InputKind::kUserInput) continue;
    if (const auto* tensor = input.argument.get<TensorName>()) {
      const pt2::TensorMeta& meta = program_.graph.tensors.find(tensor->name)->second;
      if (!is_plain(meta)) continue;
      for (const Expr& size : meta.shape()) add_symbols(size, carried);
    } else if (const std::string* name = integer_name(input)) {
      add_symbols(stored_number(program_, *name), known_);
    }
  }
  known_.insert(carried.begin(), carried.end());
  carried_ = std::move(carried);  // the file's symbols, until name_symbols() translates them
}

void ExportedSizes::name_symbols() {
  const std::vector<SizedInput> inputs = sized_inputs();
  std::set<Symbol> taken;
  for (const auto& [symbol, range] : program_.ranges) taken.insert(symbol);
  for (const SizedInput& input : inputs) {
    for (const Expr& size : input.sizes) {
      for (Symbol symbol : symbolic::symbols_of(size)) taken.erase(symbol);
    }
  }
  names_ = readable_names(inputs, {}, taken);
  for (Symbol symbol : known_) learned_.emplace(symbol, names_.at(symbol));
  std::set<Symbol> carried;
  for (Symbol symbol : carried_) carried.insert(names_.at(symbol));
  carried_ = std::move(carried);
}

std::vector<SizedInput> ExportedSizes::sized_inputs() const {
  std::vector<SizedInput> inputs;
  for (const InputSpec& input : program_.inputs) {
    if (input.kind != InputKind::kUserInput) continue;
    if (const auto* tensor = input.argument.get<TensorName>()) {
      SizedInput& sized = inputs.emplace_back(SizedInput{tensor->name, {}});
      const pt2::TensorMeta& meta = program_.graph.tensors.find(tensor->name)->second;
      for (const pt2::SymValue& size : meta.sizes) sized.sizes.push_back(size.expr);
    } else if (const std::string* name = integer_name(input)) {
      inputs.push_back({*name, {stored_number(program_, *name)}, true});
    }
  }
  return inputs;
}

void ExportedSizes::declare_in(Graph& graph) const {
  for (const auto& [symbol, range] : program_.ranges) {
    if (known_.contains(symbol)) graph.declare_symbol(names_.at(symbol), range);
  }
}

Expr ExportedSizes::number(const std::string& name) const {
  return symbolic::substitute(stored_number(program_, name), learned_);
}

bool ExportedSizes::is_known(const pt2::SymValue& value) const {
  return value.problem.empty() && std::ranges::all_of(symbolic::symbols_of(value.expr), [&](Symbol symbol) {
           return known_.contains(symbol) || learned_.contains(symbol);
         });
}

bool ExportedSizes::is_carried(const Expr& expr) const {
  return std::ranges::all_of(symbolic::symbols_of(expr), [&](Symbol symbol) { return carried_.contains(symbol); });
}

void ExportedSizes::learn(const pt2::TensorMeta& meta, const Value& result) {
  if (meta.sizes.size() != result.shape().size()) return;
  for (size_t dim = 0; dim < meta.sizes.size(); ++dim) {
    const pt2::SymValue& size = meta.sizes[dim];
    if (size.expr.kind() == symbolic::Kind::kSymbol && !is_known(size)) {
      learned_.emplace(size.expr.symbol(), result.shape()[dim]);
    }
  }
}

}  // namespace tenon
