#include "program/in_place.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/node_symbols.h"
#include "loops/in_place.h"
#include "runtime/arena_plan.h"
#include "support/runtime_call.h"
#include "symbolic/typical_size.h"

namespace tenon {
namespace {

// Tasks that must come before others.
class Precedence {
 public:
  explicit Precedence(size_t tasks) : before_(tasks), after_(tasks) {}

  void add(uint32_t first, uint32_t then) {
    before_[then].insert(first);
    after_[first].insert(then);
  }

  std::vector<bool> all_before(uint32_t task) const { return reachable(task, before_); }
  std::vector<bool> all_after(uint32_t task) const { return reachable(task, after_); }

  // Each of the tasks that are given, in that order, and right before it what it needs; then the others. So nothing
  // comes before it is needed.
  std::vector<uint32_t> order(const std::vector<uint32_t>& wanted) const {
    std::vector<uint32_t> order;
    std::vector<bool> is_listed(before_.size()), is_open(before_.size());
    const auto list = [&](uint32_t task) {
      std::vector<uint32_t> open = {task};
      while (!open.empty()) {
        const uint32_t next = open.back();
        const auto first = std::ranges::find_if(before_[next], [&](uint32_t each) { return !is_listed[each]; });
        check(first == before_[next].end() || !is_open[*first], "tasks wait for each other");
        is_open[next] = first != before_[next].end();
        if (is_open[next]) {
          open.push_back(*first);
        } else {
          open.pop_back();
          if (!is_listed[next]) order.push_back(next);
          is_listed[next] = true;
        }
      }
    };
    for (uint32_t task : wanted) list(task);
    for (uint32_t task = 0; task < before_.size(); ++task) list(task);
    return order;
  }

 private:
  using Edges = std::vector<std::set<uint32_t>>;

  static std::vector<bool> reachable(uint32_t from, const Edges& edges) {
    std::vector<bool> seen(edges.size());
    std::vector<uint32_t> open = {from};
    while (!open.empty()) {
      const uint32_t task = open.back();
      open.pop_back();
      for (uint32_t next : edges[task]) {
        if (!seen[next]) open.push_back(next);
        seen[next] = true;
      }
    }
    return seen;
  }

  Edges before_, after_;
};

constexpr double kMostNominalBytes = int64_t{1} << 50;  // Of one tensor. Sums of it do not overflow.

bool is_fallback(const Task& task) { return task.kind == TaskKind::kExternal || task.kind == TaskKind::kReference; }

// Because of the data that it gets.
bool may_fail(const Task& task) {
  if (!task.tree) return true;
  const loops::IR& ir = task.tree->ir;
  return std::ranges::any_of(ir.nodes(), [&](const loops::Node& node) {
    const auto* compute = node.as<loops::Compute>();
    return !node.lookups().empty() || (compute && divides_integers(*compute->op, ir.node(node.inputs.back()).dtype));
  });
}

}  // namespace

class InPlacePlanner {
 public:
  explicit InPlacePlanner(Program& program)
      : program_(program),
        precedence_(program.tasks.size()),
        uses_(program.slots.size()),
        pairs_(program.tasks.size()) {
    for (const SymbolBinding& binding : program_.bindings) bound_.insert(binding.symbol);
    for (uint32_t task = 0; task < tasks().size(); ++task) note_task(task);
    keep_calls_in_order();
    for (const auto& output : program_.outputs) uses_[root_of(output.slot)].is_kept = true;
    for (const auto& update : program_.updates) uses_[root_of(update.value)].is_kept = true;
  }

  void run() {
    for (const auto& update : program_.updates) overwrite(update.target, root_of(update.value));
    if (!updating_.empty()) put_in_order();
    overlay_temporaries();
  }

 private:
  // Of a root.
  struct Uses {
    uint32_t writer = kNoSlot;
    size_t output = 0;              // of the writer
    std::vector<uint32_t> readers;  // each once
    bool is_kept = false;           // needed when all tasks are over
    bool is_taken = false;          // something lies over it
  };

  std::vector<Task>& tasks() { return program_.tasks; }
  Slot& slot(uint32_t id) { return program_.slots[id]; }
  uint32_t root_of(uint32_t id) const { return program_.slots[id].root; }

  void note_task(uint32_t task) {
    for (uint32_t input : tasks()[task].inputs) {
      Uses& uses = uses_[root_of(input)];
      if (uses.readers.empty() || uses.readers.back() != task) uses.readers.push_back(task);
      if (uses.writer != kNoSlot) precedence_.add(uses.writer, task);
    }
    for (size_t i = 0; i < tasks()[task].outputs.size(); ++i) {
      Uses& uses = uses_[tasks()[task].outputs[i]];
      uses.writer = task;
      uses.output = i;
    }
    note_sizes(task);
  }

  // A fallback call may have an effect, and may draw random numbers.
  void keep_calls_in_order() {
    uint32_t last = kNoSlot;
    for (uint32_t task = 0; task < tasks().size(); ++task) {
      if (tasks()[task].kind != TaskKind::kExternal) continue;
      if (last != kNoSlot) precedence_.add(last, task);
      last = task;
    }
  }

  // The task that finds out a size comes before the tasks that need the size.
  void note_sizes(uint32_t task) {
    const auto late_symbols = [&](uint32_t id, const auto& visit) {
      for (const Expr& size : slot(id).type.shape) {
        for (Symbol symbol : symbols_of(size)) {
          if (!is_bound(symbol)) visit(symbol);
        }
      }
    };
    const auto need = [&](Symbol symbol) {
      const auto found = finders_.find(symbol);
      if (found != finders_.end() && found->second != task) precedence_.add(found->second, task);
    };
    for (uint32_t id : tasks()[task].inputs) late_symbols(id, need);
    for (uint32_t id : tasks()[task].outputs) {
      late_symbols(id, need);
      late_symbols(id, [&](Symbol symbol) { finders_.try_emplace(symbol, task); });
    }
    for (uint32_t symbol : tasks()[task].sizes) need(program_.symbols[symbol]);
    if (tasks()[task].body) {
      for (const Node& node : tasks()[task].body->nodes()) {
        for (Symbol symbol : symbols_of(*tasks()[task].body, node)) need(symbol);
      }
    }
  }

  bool is_bound(Symbol symbol) const { return bound_.contains(symbol); }

  // Its place is known before the run.
  bool has_a_place(uint32_t root) {
    const uint32_t writer = uses_[root].writer;
    if (writer != kNoSlot && is_fallback(tasks()[writer])) return false;
    return std::ranges::all_of(slot(root).type.shape, [&](const Expr& size) {
      return std::ranges::all_of(symbols_of(size), [&](Symbol symbol) { return is_bound(symbol); });
    });
  }

  // Whether a task may write that output over that root: as one that it does not read, or reads as it writes.
  bool may_write_over(uint32_t task, size_t output, uint32_t root) {
    std::vector<int64_t> reads;
    for (size_t i = 0; i < tasks()[task].inputs.size(); ++i) {
      if (root_of(tasks()[task].inputs[i]) == root) reads.push_back(static_cast<int64_t>(i));
    }
    if (reads.empty()) return true;
    if (reads.size() > 1 || tasks()[task].kind != TaskKind::kKernel) return false;
    const loops::InPlacePair wanted{reads[0], static_cast<int64_t>(output)};
    return std::ranges::find(pairs_of(task), wanted) != pairs_of(task).end();
  }

  const std::vector<loops::InPlacePair>& pairs_of(uint32_t task) {
    if (!pairs_[task]) pairs_[task] = loops::in_place_pairs(*tasks()[task].tree);
    return *pairs_[task];
  }

  // ---- updates ----

  void overwrite(uint32_t target, uint32_t value) {
    const uint32_t writer = uses_[value].writer;
    if (slot(value).kind != SlotKind::kTemporary || slot(value).over != kNoSlot || writer == kNoSlot) return;
    if (uses_[target].is_kept || uses_[target].is_taken || shares_memory(target)) return;
    if (!has_a_place(value) || !may_write_over(writer, uses_[value].output, target)) return;
    const std::vector<bool> later = precedence_.all_after(writer);
    const std::vector<uint32_t>& readers = uses_[target].readers;
    if (std::ranges::any_of(readers, [&](uint32_t reader) { return later[reader]; })) return;
    for (uint32_t reader : readers) {
      if (reader != writer) precedence_.add(reader, writer);
    }
    slot(value).over = target;
    uses_[target].is_taken = true;
    updating_.insert(writer);
  }

  // A leaf whose memory is another leaf's as well. Of inputs the runtime finds out.
  bool shares_memory(uint32_t target) {
    if (slot(target).kind != SlotKind::kLeaf) return false;
    const size_t own = slot(target).position;
    for (size_t i = 0; i < program_.leaves.size(); ++i) {
      if (i != own && program_.leaves[i].shares_memory_with(program_.leaves[own])) return true;
    }
    return false;
  }

  // ---- order ----

  // Of orders that need the same memory, the first.
  void put_in_order() {
    Precedence after_fallback = precedence_;
    make_updates_wait(after_fallback, is_fallback);
    Precedence after_failures = after_fallback;
    make_updates_wait(after_failures, may_fail);
    std::vector<uint32_t> best;
    int64_t least = 0;
    for (const Precedence* precedence : {&after_failures, &after_fallback}) {
      for (const std::vector<uint32_t>& wanted : {std::vector<uint32_t>(), finals(*precedence)}) {
        std::vector<uint32_t> order = precedence->order(wanted);
        const int64_t bytes = arena_bytes(order);
        if (!best.empty() && bytes >= least) continue;
        best = std::move(order);
        least = bytes;
      }
    }
    move_tasks(best);
  }

  // The tasks whose results are kept; those first that need the fewest others. An update of the last layer's weights
  // needs less than one of the first layer's.
  std::vector<uint32_t> finals(const Precedence& precedence) {
    std::vector<std::pair<int64_t, uint32_t>> finals;
    for (uint32_t task = 0; task < tasks().size(); ++task) {
      const auto is_kept = [&](uint32_t output) { return uses_[output].is_kept; };
      if (!std::ranges::any_of(tasks()[task].outputs, is_kept)) continue;
      finals.emplace_back(std::ranges::count(precedence.all_before(task), true), task);
    }
    std::ranges::sort(finals);
    std::vector<uint32_t> wanted;
    for (const auto& [needed, task] : finals) wanted.push_back(task);
    return wanted;
  }

  template <class Kind>
  void make_updates_wait(Precedence& precedence, Kind is_waited_for) {
    std::vector<uint32_t> waited_for;
    for (uint32_t task = 0; task < tasks().size(); ++task) {
      if (!updating_.contains(task) && is_waited_for(tasks()[task])) waited_for.push_back(task);
    }
    if (waited_for.empty()) return;
    for (uint32_t updating : updating_) {
      const std::vector<bool> later = precedence.all_after(updating);
      for (uint32_t task : waited_for) {
        if (!later[task]) precedence.add(task, updating);
      }
    }
  }

  void move_tasks(const std::vector<uint32_t>& order) {
    std::vector<Task> moved;
    std::vector<std::optional<std::vector<loops::InPlacePair>>> pairs;
    std::vector<uint32_t> position(order.size());
    for (uint32_t task : order) {
      position[task] = static_cast<uint32_t>(moved.size());
      moved.push_back(std::move(tasks()[task]));
      pairs.push_back(std::move(pairs_[task]));
    }
    tasks() = std::move(moved);
    pairs_ = std::move(pairs);
    for (Uses& uses : uses_) {
      if (uses.writer != kNoSlot) uses.writer = position[uses.writer];
      for (uint32_t& reader : uses.readers) reader = position[reader];
      std::ranges::sort(uses.readers);
    }
  }

  // ---- temporaries ----

  // Which may cost more than it saves: two that are one live longer together.
  void overlay_temporaries() {
    std::vector<uint32_t> order(tasks().size());
    for (uint32_t task = 0; task < order.size(); ++task) order[task] = task;
    const int64_t apart = arena_bytes(order);
    std::vector<uint32_t> overlaid;
    for (uint32_t task : order) {
      if (tasks()[task].kind == TaskKind::kKernel) overlay_outputs(task, overlaid);
    }
    if (arena_bytes(order) <= apart) return;
    for (uint32_t id : overlaid) slot(id).over = kNoSlot;
  }

  void overlay_outputs(uint32_t task, std::vector<uint32_t>& overlaid) {
    for (const loops::InPlacePair& pair : pairs_of(task)) {
      const uint32_t output = tasks()[task].outputs[static_cast<size_t>(pair.output)];
      const uint32_t input = root_of(tasks()[task].inputs[static_cast<size_t>(pair.input)]);
      const bool is_free = slot(input).kind == SlotKind::kTemporary && !uses_[input].is_kept &&
                           !uses_[input].is_taken && uses_[input].readers.back() == task;
      if (!is_free || slot(output).kind != SlotKind::kTemporary || slot(output).over != kNoSlot) continue;
      if (!has_a_place(input) || !has_a_place(output)) continue;
      if (!may_write_over(task, static_cast<size_t>(pair.output), input)) continue;
      slot(output).over = input;
      uses_[input].is_taken = true;
      overlaid.push_back(output);
    }
  }

  // ---- what an order needs ----

  int64_t arena_bytes(const std::vector<uint32_t>& order) {
    std::vector<int64_t> position(order.size());
    for (size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int64_t>(i);
    std::vector<runtime::Lifetime> lifetimes;
    std::map<uint32_t, size_t> homes;  // the lifetime that a root is part of
    for (uint32_t task : order) {
      for (uint32_t output : tasks()[task].outputs) {
        if (slot(output).kind != SlotKind::kTemporary || slot(output).space != 0) continue;
        if (slot(output).over != kNoSlot && !homes.contains(slot(output).over)) continue;
        if (slot(output).over == kNoSlot) lifetimes.push_back({nominal_bytes(output), position[task], position[task]});
        const size_t home = slot(output).over == kNoSlot ? lifetimes.size() - 1 : homes.at(slot(output).over);
        homes[output] = home;
        lifetimes[home].last = std::max(lifetimes[home].last, last_use(output, position));
      }
    }
    return call_runtime([&] { return runtime::plan_arena(lifetimes).bytes; });
  }

  int64_t last_use(uint32_t root, const std::vector<int64_t>& position) const {
    if (uses_[root].is_kept) return static_cast<int64_t>(position.size());
    int64_t last = position[uses_[root].writer];
    for (uint32_t reader : uses_[root].readers) last = std::max(last, position[reader]);
    return last;
  }

  int64_t nominal_bytes(uint32_t id) {
    if (nominal_.empty()) {
      for (const auto& [symbol, range] : program_.graph.ranges())
        nominal_[symbol] = std::clamp(symbolic::kTypicalBatch, range.low, range.high);
    }
    auto bytes = static_cast<double>(size_of(slot(id).type.dtype));
    for (const Expr& size : slot(id).type.shape) {
      bytes *= static_cast<double>(std::max<int64_t>(estimate(size, nominal_), 0));
    }
    return static_cast<int64_t>(std::min(bytes, kMostNominalBytes));
  }

  Program& program_;
  Precedence precedence_;
  std::vector<Uses> uses_;                                             // by root
  std::vector<std::optional<std::vector<loops::InPlacePair>>> pairs_;  // of each kernel, once it is asked for
  std::set<Symbol> bound_;
  std::map<Symbol, uint32_t> finders_;
  std::set<uint32_t> updating_;  // tasks that overwrite something
  symbolic::Bindings nominal_;
};

void compute_in_place(Program& program) { InPlacePlanner(program).run(); }

}  // namespace tenon
