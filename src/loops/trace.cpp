#include "loops/trace.h"

#include <algorithm>

#include "loops/compiler.h"

namespace tenon::loops {
namespace {

using Access = Compiler::Access;
using Allocation = Compiler::Allocation;

// An access to memory, over the counters of the loops around it.
struct Planned {
  uint32_t array;
  Expr position;
  std::vector<Constraint> where;
  bool writes;
};

// What a point of the tree does: loops over `inside` from `begin` to `end`, or the accesses of a leaf.
struct Part {
  Symbol counter;
  Expr begin = 0, end = 1;
  std::vector<Part> inside = {};
  // The first of each list whose conditions hold happens, the pieces of a view.
  std::vector<std::vector<Planned>> accesses = {};
};

// ---- what happens at each point of the tree -------------------------------------------------------------------------

class Planner {
 public:
  explicit Planner(const LoopTree& tree) : tree_(tree), ir_(tree.ir), compiler_(tree) {
    if (!ir_.size_symbols().empty())
      fail("kernel {}: the size {} is not known", ir_.name(), ir_.size_symbols()[0].name());
    for (const std::vector<NodeRef>& refs : {ir_.reads(), ir_.order()}) {
      for (NodeRef ref : refs) add_array(ref);
    }
  }

  std::vector<Trace::Array> arrays() const { return arrays_; }
  std::vector<Part> plan() const { return body(tree_.roots(), compiler_.root()); }

 private:
  void add_array(NodeRef ref) {
    const auto found = compiler_.allocations.find(ref);
    if (found == compiler_.allocations.end() || array_of_.contains(found->second.mem_idx)) return;
    const Allocation& memory = found->second;
    const int64_t elements = evaluate(memory.size(), {});
    if (memory.scratch && elements == 1) return;
    const bool is_input = ir_.node(ref).as<Read>() != nullptr;
    array_of_.emplace(memory.mem_idx, static_cast<uint32_t>(arrays_.size()));
    arrays_.push_back({ir_.node(ref).name,
                       memory.scratch ? Trace::kScratch
                       : is_input     ? Trace::kInput
                                      : Trace::kOutput,
                       elements});
  }

  std::vector<Part> body(const std::vector<TreeRef>& children, const Compiler::Scope& scope) const {
    std::vector<Part> parts;
    for (TreeRef child : children) {
      if (tree_.kind(child) == LoopTree::NODE) {
        parts.push_back(leaf(child));
        continue;
      }
      for (const Compiler::Stretch& stretch : compiler_.stretches(child, scope)) {
        parts.push_back({.counter = compiler_.counter(child),
                         .begin = stretch.begin,
                         .end = stretch.end,
                         .inside = body(tree_.children(child), stretch.scope)});
      }
    }
    return parts;
  }

  Part leaf(TreeRef ref) const {
    const NodeRef self = tree_.node(ref);
    const Node& node = ir_.node(self);
    Part part{.counter = Symbol("leaf")};
    if (compiler_.is_fused(self)) return part;
    const auto add = [&](const Access& access, bool writes) { part.accesses.push_back(planned(access, writes)); };
    for (const Lookup& lookup : node.lookups()) add(compiler_.gen_lookup(lookup, ref), false);
    if (const auto* view = node.as<View>()) part.accesses.push_back(pieces(*view, ref));
    if (!node.as<View>()) add_inputs(node, ref, part);
    const Access own = compiler_.gen_access(self, ref);
    if (node.as<Reduce>() || node.as<Scatter>()) add(own, false);
    add(own, true);
    return part;
  }

  // A sum reads the factors of a product that is part of it.
  void add_inputs(const Node& node, TreeRef ref, Part& part) const {
    for (size_t i = node.as<Scatter>() ? 1 : 0; i < node.inputs.size(); ++i) {
      const NodeRef input = node.inputs[i];
      const bool is_part = compiler_.is_fused(input);
      for (NodeRef each : is_part ? ir_.node(input).inputs : std::vector{input}) {
        part.accesses.push_back(planned(compiler_.gen_access(each, is_part ? tree_.find(input) : ref), false));
      }
    }
  }

  std::vector<Planned> pieces(const View& view, TreeRef ref) const {
    std::vector<Planned> all;
    for (const Piece& piece : view.pieces) {
      const std::vector<Planned> one = planned(compiler_.gen_access(piece, ref), false);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  // Nothing for what is in no array, and where the position depends on data.
  std::vector<Planned> planned(const Access& access, bool writes) const {
    if (access.memory == nullptr) return {};
    const auto array = array_of_.find(access.memory->mem_idx);
    if (array == array_of_.end()) return {};
    Planned result{array->second, compiler_.get_scoped_expr(access), compiler_.get_constraints(access), writes};
    for (const Lookup& lookup : ir_.node(tree_.node(access.at)).lookups()) {
      if (depends_on(result.position, lookup.symbol)) return {};
    }
    return {std::move(result)};
  }

  const LoopTree& tree_;
  const IR& ir_;
  Compiler compiler_;
  std::map<int64_t, uint32_t> array_of_;  // by place in the list of memory
  std::vector<Trace::Array> arrays_;
};

// ---- a run ----------------------------------------------------------------------------------------------------------

class Run {
 public:
  Run(Trace& trace, size_t limit) : trace_(trace), limit_(limit) {}

  void go(const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      if (!trace_.is_whole) return;
      part.inside.empty() ? leaf(part) : loop(part);
    }
  }

 private:
  void loop(const Part& part) {
    const int64_t end = evaluate(part.end, counters_);
    for (int64_t i = evaluate(part.begin, counters_); i < end && trace_.is_whole; ++i) {
      counters_[part.counter] = i;
      go(part.inside);
    }
    counters_.erase(part.counter);
  }

  void leaf(const Part& part) {
    for (const std::vector<Planned>& choices : part.accesses) {
      const auto found = std::ranges::find_if(choices, [&](const Planned& each) { return exists(each); });
      if (found == choices.end()) continue;
      if (trace_.steps.size() == limit_) {
        trace_.is_whole = false;
        return;
      }
      trace_.steps.push_back({found->array, evaluate(found->position, counters_), found->writes});
    }
  }

  bool exists(const Planned& access) const {
    return std::ranges::all_of(access.where, [&](const Constraint& constraint) {
      const int64_t value = evaluate(constraint.expr, counters_);
      return value >= 0 && value < evaluate(constraint.bound, counters_);
    });
  }

  Trace& trace_;
  size_t limit_;
  symbolic::Bindings counters_;  // of the open loops
};

}  // namespace

Trace trace(const LoopTree& tree, size_t limit) {
  const Planner planner(tree);
  Trace trace{.arrays = planner.arrays()};
  Run(trace, limit).go(planner.plan());
  return trace;
}

}  // namespace tenon::loops
