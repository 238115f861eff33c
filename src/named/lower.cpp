#include "named/lower.h"

#include <fmt/format.h>

#include <algorithm>

#include "loops/schedule.h"
#include "named/fingerprint.h"
#include "named/sizes.h"

namespace tenon::named {
namespace {

using loops::NodeRef;
using loops::VarRef;

class Lowering {
 public:
  Lowering(const TermPtr& output, const std::set<const Storage*>& open)
      : output_(*output), sizes_(solve_sizes(*output, open)), ir_(kernel_name(*output)) {}

  LoweredTensor run() {
    const std::vector<const Term*> order = in_order(output_);
    for (const Term* node : order) {
      for (const Symbol& dim : node->dims) name(dim.index_symbol(), dim.name());
    }
    for (const Term* node : order) {
      for (const Symbol& dim : node->dims) add_var(dim);
    }
    for (const Term* node : order)
      refs_.emplace(node, std::visit([&](const auto& a) { return add(*node, a); }, node->action));
    ir_.add_write(refs_.at(&output_), vars_of(output_), "out");
    for (const auto& [expr, bound, origin] : sizes_.conditions) {
      conditions_.push_back({over_ir(expr), over_ir(bound), origin});
    }
    return {initial_schedule(std::move(ir_)), std::move(inputs_), std::move(conditions_)};
  }

 private:
  // ---- names ----

  // Names of the kernel: those of the Symbols, made unique.
  symbolic::Symbol name(symbolic::Symbol part, const std::string& wanted) {
    const auto found = names_.find(part);
    if (found != names_.end()) return found->second;
    std::string unique = wanted;
    for (int i = 1; !taken_.insert(unique).second; ++i) unique = fmt::format("{}_{}", wanted, i);
    return names_.emplace(part, symbolic::Symbol(unique)).first->second;
  }

  // Sizes replaced, and symbols by the kernel's.
  Expr over_ir(const Expr& expr) { return renamed(sizes_.substituted(expr)); }

  Expr renamed(const Expr& expr) {
    symbolic::Substitution substitution;
    for (symbolic::Symbol part : symbols_of(expr)) {
      const std::optional<Symbol> symbol = symbol_in(part);
      if (symbol && part == symbol->size_symbol()) name(part, symbol->name() + "_size");
      if (const auto found = names_.find(part); found != names_.end()) substitution.emplace(part, found->second);
    }
    return substitute(expr, substitution);
  }

  // An index along an empty dimension is never computed; its expression must not divide by that size.
  Expr index_over_ir(const Expr& expr) {
    symbolic::Substitution sizes = sizes_.values;
    for (auto& [symbol, size] : sizes) {
      if (size.is_constant(0)) size = 1;
    }
    return renamed(substitute(expr, sizes));
  }

  void add_var(const Symbol& dim) {
    if (vars_.contains(dim.index_symbol())) return;
    const std::string& unique = names_.at(dim.index_symbol()).name();
    vars_.emplace(dim.index_symbol(), ir_.add_var(unique, over_ir(dim.size())));
  }

  std::vector<VarRef> vars_of(const Term& node) const {
    std::vector<VarRef> vars;
    for (const Symbol& dim : node.dims) vars.push_back(vars_.at(dim.index_symbol()));
    return vars;
  }

  NodeRef input_of(const Term& node, size_t i) const { return refs_.at(node.inputs[i].get()); }

  std::vector<NodeRef> inputs_of(const Term& node) const {
    std::vector<NodeRef> inputs;
    for (const TermPtr& input : node.inputs) inputs.push_back(refs_.at(input.get()));
    return inputs;
  }

  // ---- nodes ----

  // The same data under the same Symbols is read once.
  NodeRef add(const Term& node, const InputTerm& input) {
    const auto key = std::make_pair(input.storage.get(), vars_of(node));
    const auto found = reads_.find(key);
    if (found != reads_.end()) return found->second;
    inputs_.push_back(input.storage);
    return reads_.emplace(key, ir_.add_read(node.dtype, vars_of(node))).first->second;
  }

  NodeRef add(const Term& node, const ConstantTerm& constant) { return ir_.add_constant(node.dtype, constant.value); }

  NodeRef add(const Term& node, const IndexTerm& index) {
    const bool is_always_computed = node.dims.empty();
    return ir_.add_index(is_always_computed ? over_ir(index.value) : index_over_ir(index.value), vars_of(node));
  }

  NodeRef add(const Term& node, const ComputeTerm& compute) {
    const bool is_cast = compute.op->attr_named("dtype") != nullptr;
    const std::optional<DType> dtype = is_cast ? std::optional(node.dtype) : std::nullopt;
    return ir_.add_compute(*compute.op, inputs_of(node), vars_of(node), dtype);
  }

  NodeRef add(const Term& node, const ReduceTerm& reduce) {
    return ir_.add_reduce(*reduce.op, input_of(node, 0), vars_of(node));
  }

  NodeRef add(const Term& node, const AliasTerm&) { return input_of(node, 0); }

  NodeRef add(const Term& node, const ViewTerm& view) {
    loops::View lowered{{}, view.fill, {}};
    for (const ViewLookup& lookup : view.lookups) {
      lowered.lookups.push_back({name(lookup.symbol, "at"), input_of(node, lookup.indices), over_ir(lookup.bound)});
    }
    for (const ViewPiece& piece : view.pieces) lowered.pieces.push_back(lower(node, piece, lowered.lookups));
    return ir_.add_view(std::move(lowered), vars_of(node));
  }

  loops::Piece lower(const Term& node, const ViewPiece& piece, const std::vector<loops::Lookup>& lookups) {
    const Term& source = *node.inputs[piece.input];
    loops::Piece lowered{input_of(node, piece.input), {}, {}};
    for (const loops::Constraint& where : piece.where) {
      lowered.where.push_back({index_over_ir(where.expr), over_ir(where.bound)});
    }
    for (VarRef var : ir_.node(lowered.input).vars) {
      const auto is_var = [&](const Symbol& dim) { return vars_.at(dim.index_symbol()) == var; };
      const auto position = std::ranges::find_if(source.dims, is_var) - source.dims.begin();
      lowered.index.push_back(index_over_ir(piece.index[static_cast<size_t>(position)]));
      require_within({lowered.index.back(), ir_.var(var).size}, lookups, lowered.where);
    }
    return lowered;
  }

  // The sizes say that an index fits; where that cannot be proven from the loops alone, it is a guard.
  void require_within(const loops::Constraint& needed, const std::vector<loops::Lookup>& lookups,
                      std::vector<loops::Constraint>& where) const {
    const auto is_lookup = [&](const loops::Lookup& lookup) { return needed.expr == Expr(lookup.symbol); };
    const bool holds = std::ranges::any_of(lookups, is_lookup) || provably_within(needed.expr, needed.bound, ir_);
    if (!holds && std::ranges::find(where, needed) == where.end()) where.push_back(needed);
  }

  const Term& output_;
  Sizes sizes_;
  loops::IR ir_;
  std::map<symbolic::Symbol, symbolic::Symbol> names_;
  std::set<std::string> taken_;
  std::map<symbolic::Symbol, VarRef> vars_;
  std::map<const Term*, NodeRef> refs_;
  std::map<std::pair<const Storage*, std::vector<VarRef>>, NodeRef> reads_;
  std::vector<std::shared_ptr<Storage>> inputs_;
  std::vector<Condition> conditions_;
};

}  // namespace

LoweredTensor lower(const TermPtr& output, const std::set<const Storage*>& open) {
  return Lowering(output, open).run();
}

}  // namespace tenon::named
