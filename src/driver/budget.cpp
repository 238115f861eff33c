#include "driver/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "fusion/rematerialize.h"
#include "graph/library_call.h"
#include "graph/runtime_dtype.h"
#include "loops/compiler.h"
#include "loops/limits.h"
#include "program/run.h"
#include "program/tables.h"
#include "runtime/library.h"
#include "runtime/thread_pool.h"
#include "support/checked.h"
#include "support/runtime_call.h"

namespace tenon {
namespace {

constexpr int kMostAttempts = 8;
constexpr int64_t kLeastStep = 32;  // part of the estimate that a further attempt goes down by

// ---- what a program needs ----

int64_t bytes_at(const TensorType& type, const symbolic::Bindings& sizes) {
  return checked_mul(element_count(evaluate(type.shape, sizes)), size_of(type.dtype));
}

int64_t scratch_of(const loops::LoopTree& tree, const symbolic::Bindings& sizes) {
  const loops::Compiler compiler(tree);
  int64_t total = 0;
  const auto add = [&](const loops::Compiler::Allocation& memory) {
    const int64_t bytes = checked_mul(evaluate(memory.size(), sizes), size_of(memory.dtype));
    if (!memory.scratch || (bytes <= loops::kMostStackArrayBytes && memory.size().is_constant())) return;
    const std::vector<loops::TreeRef> around = memory.lca ? tree.path(memory.lca) : std::vector<loops::TreeRef>();
    const bool each_thread = std::ranges::any_of(
        around, [&](loops::TreeRef loop) { return tree.loop(loop).annotation.mark == loops::Mark::kParallel; });
    total = checked_add(total, checked_mul(bytes, each_thread ? thread_count() : 1));
  };
  for (const auto* allocations : {&compiler.allocations, &compiler.carries}) {
    for (const auto& [node, memory] : *allocations) add(memory);
  }
  return total;
}

// The types of a call of the runtime: views without memory.
class TypeViews {
 public:
  TypeViews(const Graph& body, std::span<const ValueRef> values, const symbolic::Bindings& sizes) {
    for (ValueRef value : values) shapes_.push_back(evaluate(body.type(value).shape, sizes));
    for (size_t i = 0; i < values.size(); ++i)
      views_.push_back({code_of(body.type(values[i]).dtype), shapes_[i], nullptr});
  }
  std::span<runtime::TensorView> get() { return views_; }

 private:
  std::vector<Sizes> shapes_;
  std::vector<runtime::TensorView> views_;
};

// Of a function of the runtime.
int64_t scratch_of(const Graph& body, const symbolic::Bindings& sizes) {
  const Node& node = body.nodes().front();
  TypeViews inputs(body, node.operands, sizes), outputs(body, node.results, sizes);
  const std::vector<int64_t> numbers = evaluate(library_numbers(*node.op, node.attrs), sizes);
  const runtime::LibraryCall call{inputs.get(), outputs.get(), numbers, {}, nullptr};
  const runtime::LibraryFunction* const function = runtime::find_library_function(node.op->name.get());
  return call_runtime([&] { return runtime::scratch_of(*function, call, thread_count()); });
}

struct Need {
  int64_t arena;
  int64_t scratch;
  int64_t total() const { return checked_add(arena, scratch); }
};

Need need_of(const Program& program, const symbolic::Bindings& sizes) {
  std::vector<int64_t> symbols;
  for (const SymbolBinding& binding : program.bindings) symbols.push_back(sizes.at(binding.symbol));
  Need need{program.runner->loaded().frame(symbols)->arena_bytes, 0};
  for (const Task& task : program.tasks) {
    if (task.tree) need.scratch = std::max(need.scratch, scratch_of(*task.tree, sizes));
    if (task.kind == TaskKind::kLibrary) need.scratch = std::max(need.scratch, scratch_of(*task.body, sizes));
  }
  return need;
}

// ---- what a planner must know ----

// Lists the groups in the order in which a program runs them. What is known before it runs comes first.
class Lister {
 public:
  Lister(const Program& program, const std::vector<FusedGroup>& groups) : program_(program), groups_(groups) {
    for (uint32_t i = 0; i < groups.size(); ++i) {
      if (groups[i].kind == GroupKind::kAlias) aliases_[groups[i].inputs[0]].push_back(i);
    }
  }

  std::vector<FusedGroup> run() {
    for (const Leaf& leaf : program_.graph.leaves()) add_aliases(leaf.value);
    for (uint32_t group : known_before(program_, groups_)) add(group);
    for (const Task& task : program_.tasks) add(task.group);
    return std::move(list_);
  }

  // Groups of constants alone: no task runs them.
  static std::vector<uint32_t> known_before(const Program& program, const std::vector<FusedGroup>& groups) {
    std::vector<bool> has_task(groups.size());
    for (const Task& task : program.tasks) has_task[task.group] = true;
    std::vector<uint32_t> known;
    for (uint32_t i = 0; i < groups.size(); ++i) {
      if (!has_task[i] && groups[i].kind != GroupKind::kAlias) known.push_back(i);
    }
    return known;
  }

 private:
  void add(uint32_t group) {
    list_.push_back(groups_[group]);
    for (ValueRef output : groups_[group].outputs) add_aliases(output);
  }

  void add_aliases(ValueRef value) {
    const auto found = aliases_.find(value);
    if (found == aliases_.end()) return;
    for (uint32_t alias : found->second) add(alias);
  }

  const Program& program_;
  const std::vector<FusedGroup>& groups_;
  std::map<ValueRef, std::vector<uint32_t>> aliases_;  // by what they are another name of
  std::vector<FusedGroup> list_;
};

MemoryModel model_of(const Program& program, const std::vector<FusedGroup>& groups, symbolic::Bindings sizes) {
  const Graph& graph = program.graph;
  MemoryModel model{std::move(sizes), std::vector<bool>(graph.value_count())};
  for (ValueRef output : graph.outputs()) model.elsewhere[output.id] = true;
  for (size_t i = 0; i < program.updates.size(); ++i) {
    const Slot& slot = program.slots[program.slots[program.updates[i].value].root];
    model.elsewhere[graph.updates()[i].value.id] = slot.kind != SlotKind::kTemporary || slot.over != kNoSlot;
  }
  for (uint32_t group : Lister::known_before(program, groups)) {
    for (ValueRef output : groups[group].outputs) model.elsewhere[output.id] = true;
  }
  return model;
}

// ---- what takes the memory ----

// "f32[16, 64] of relu 4096, ...": the largest temporaries.
std::string largest_temporaries(const Program& program, const symbolic::Bindings& sizes) {
  std::vector<KeptMemory> found;
  for (const Task& task : program.tasks) {
    for (uint32_t output : task.outputs) {
      const Slot& slot = program.slots[output];
      if (slot.kind != SlotKind::kTemporary || slot.over != kNoSlot) continue;
      found.push_back({fmt::format("{} of {}", to_string(slot.type), task.name), bytes_at(slot.type, sizes)});
    }
  }
  return list_largest(std::move(found));
}

std::string list_kept(std::span<const KeptMemory> kept) {
  std::string text;
  for (const KeptMemory& each : kept) text += fmt::format(", {} bytes of {}", each.bytes, each.what);
  return text;
}

// ---- the search ----

class Search {
 public:
  Search(const ProgramOptions& options, const std::vector<FusedGroup>& groups, const BuildFn& build,
         MemoryReport& report)
      : options_(options),
        budget_(*options.budget),
        kept_(bytes_of(options.kept)),
        groups_(groups),
        build_(build),
        report_(report) {}

  Module run() {
    Module natural = build_(groups_);
    report_ = {.budget = budget_, .sizes = largest_sizes(natural.program.graph)};
    const Need need = need_of(natural.program, report_.sizes);
    report_.natural_bytes = report_.bytes = with_kept(need);
    if (report_.bytes <= budget_) return natural;
    list_ = Lister(natural.program, groups_).run();
    model_ = model_of(natural.program, groups_, report_.sizes);
    if (std::optional<Module> found = tighten(natural.graph, need)) return std::move(*found);
    return smallest(natural.graph);
  }

 private:
  int64_t with_kept(const Need& need) const { return checked_add(need.total(), kept_); }
  int64_t needed_by(const Module& module) const { return with_kept(need_of(module.program, model_.sizes)); }

  // The estimate leaves out the gaps between temporaries, and scratch.
  std::optional<Module> tighten(const Graph& graph, const Need& natural) {
    const int64_t estimate = rematerialize(graph, list_, model_, INT64_MAX).bytes;
    int64_t most = budget_ - kept_ - natural.scratch - std::max<int64_t>(natural.arena - estimate, 0);
    for (int attempt = 0; attempt < kMostAttempts && most > 0; ++attempt) {
      const Rematerialized lists = rematerialize(graph, list_, model_, most);
      if (lists.bytes > most) return {};
      Module module = build_(lists.groups);
      const int64_t needed = needed_by(module);
      if (needed <= budget_) return noted(std::move(module), lists, needed);
      most -= std::max(needed - budget_, most / kLeastStep);
    }
    return {};
  }

  // The same for each budget, so that the budget that the message names works.
  Module smallest(const Graph& graph) {
    const Rematerialized lists = rematerialize(graph, list_, model_, 0);
    Module module = build_(lists.groups);
    const int64_t needed = needed_by(module);
    if (needed <= budget_) return noted(std::move(module), lists, needed);
    fail(
        "program {} needs {} bytes, and still {} when it computes values twice: {} bytes of temporaries and scratch "
        "({})"
        "{}; its budget is {}: the least is {}",
        graph.name(), report_.natural_bytes, needed, needed - kept_, largest_temporaries(module.program, model_.sizes),
        list_kept(options_.kept), budget_, std::min(needed, report_.natural_bytes));
  }

  Module noted(Module module, const Rematerialized& lists, int64_t needed) {
    report_.bytes = needed;
    report_.recomputed = lists.recomputed;
    report_.work = lists.work;
    return module;
  }

  const ProgramOptions& options_;
  int64_t budget_;
  int64_t kept_;
  const std::vector<FusedGroup>& groups_;
  const BuildFn& build_;
  MemoryReport& report_;
  std::vector<FusedGroup> list_;  // as they run
  MemoryModel model_;
};

}  // namespace

Module build_within(const ProgramOptions& options, const std::vector<FusedGroup>& groups, const BuildFn& build,
                    MemoryReport& report) {
  return Search(options, groups, build, report).run();
}

symbolic::Bindings largest_sizes(const Graph& graph) {
  std::set<Symbol> bound;
  for (const SymbolBinding& binding : bind_symbols(graph)) bound.insert(binding.symbol);
  symbolic::Bindings sizes;
  for (const auto& [symbol, range] : graph.ranges()) {
    if (bound.contains(symbol) && range.high == kInt64Max) {
      fail("size {} of graph {} has no upper end, and a budget must hold for all sizes: say how large it can be",
           symbol.name(), graph.name());
    }
    sizes[symbol] = bound.contains(symbol) ? range.high : range.low;
  }
  return sizes;
}

int64_t largest_bytes(const Graph& graph, std::span<const ValueRef> values) {
  const symbolic::Bindings sizes = largest_sizes(graph);
  int64_t total = 0;
  for (ValueRef value : values) total = checked_add(total, bytes_at(graph.type(value), sizes));
  return total;
}

// ---- the report ----

namespace {

std::string in_mib(int64_t bytes) { return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20)); }

std::string summary(const MemoryReport& report) {
  std::string text = fmt::format("{} of a budget of {}", in_mib(report.bytes), in_mib(report.budget));
  text += fmt::format("; {} if nothing was computed twice", in_mib(report.natural_bytes));
  if (!report.sizes.empty()) text += ", for";
  for (const auto& [symbol, size] : report.sizes) text += fmt::format(" {}={}", symbol.name(), size);
  if (report.recomputed.empty()) return text + "\nnothing is computed twice\n";
  return text + fmt::format("\n{} values are computed again, or later: about {:.1f}% more work\n",
                            report.recomputed.size(), 100 * (report.work - 1));
}

std::string row(const Recomputation& each) {
  constexpr size_t kMostOps = 5;
  std::string ops;
  for (size_t i = 0; i < std::min(kMostOps, each.ops.size()); ++i) ops += (i ? " " : "") + each.ops[i];
  if (each.ops.size() > kMostOps) ops += fmt::format(" and {} more", each.ops.size() - kMostOps);
  const std::string where = each.location.known() ? "  " + to_string(each.location) : "";
  return fmt::format("{:>12}  {:5.2f}%  {:<20} {}{}\n", in_mib(each.bytes), 100 * each.share, to_string(each.type), ops,
                     where);
}

}  // namespace

std::string to_string(const MemoryReport& report) {
  std::string text = summary(report);
  if (!report.recomputed.empty()) text += "       saved    work  what\n";
  std::vector<const Recomputation*> entries;
  for (const Recomputation& each : report.recomputed) entries.push_back(&each);
  std::ranges::sort(entries, {}, [](const Recomputation* each) { return std::pair(-each->bytes, each); });
  for (const Recomputation* each : entries) text += row(*each);
  return text;
}

}  // namespace tenon
