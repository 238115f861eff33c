#include "runtime/task_graph.h"

#include <algorithm>
#include <map>
#include <string>

#include "runtime/structs.h"

namespace tenon::runtime {
namespace {

constexpr size_t kHighestRank = 64;

std::string_view view(const flatbuffers::String* text) { return text ? text->string_view() : std::string_view(); }

template <class... Parts>
[[gnu::always_inline]] inline void demand(bool condition, const Parts&... parts) {
  if (!condition) fail(TENON_BAD_FILE, parts...);
}

class Reader {
 public:
  explicit Reader(const format::Program& program) : program_(program) {}

  TaskGraph run() {
    graph_.source = &program_;
    graph_.name = view(program_.name());
    graph_.code = span_of(program_.code());
    graph_.initial = span_of(program_.states());
    graph_.constants = span_of(program_.constants());
    for (const format::Argument* input : *program_.inputs())
      graph_.inputs.push_back({view(input->name()), input->slot()});
    for (const format::Result* output : *program_.outputs()) {
      graph_.outputs.push_back({view(output->name()), output->slot(), output->is_copied()});
    }
    read_symbols();
    read_spaces();
    for (const format::Slot* slot : *program_.slots()) read_slot(*slot);
    check_arguments();
    read_key();
    read_states();
    check_bindings();
    for (const format::Task* task : *program_.tasks()) read_task(*task);
    for (uint32_t i = 0; i < graph_.outputs.size(); ++i) read_output(i);
    if (program_.checks() != nullptr) {
      for (const format::Check* check : *program_.checks()) read_check(*check);
    }
    for (uint32_t id = 0; id < graph_.slots.size(); ++id) check_place(id);
    for (const format::Update* update : *program_.updates()) read_update(*update);
    for (const TaskNode& task : graph_.tasks) {
      for (uint32_t slot : task.outputs) overlay(slot, task.kind);
    }
    for (TensorSlot& slot : graph_.slots) slot.home = graph_.root_of(slot.root).home;
    add_waits();
    for (uint32_t i = 0; i < end(); ++i) {
      if (graph_.tasks[i].kind == TaskKind::Transfer && !graph_.tasks[i].is_late) add_move(i);
    }
    for (StateTensor& state : graph_.states) place_state(state);
    return std::move(graph_);
  }

 private:
  void read_symbols() {
    for (const format::Symbol* symbol : *program_.symbols()) {
      demand(symbol->low() <= symbol->high(), "symbol ", view(symbol->name()), " has no value: it lies in [",
             symbol->low(), ", ", symbol->high(), "]");
      graph_.symbols.push_back({view(symbol->name()), symbol->low(), symbol->high()});
    }
    graph_.bindings = span_of(program_.bindings());
    demand(graph_.bindings.size() <= graph_.symbols.size(), "there are more bindings than symbols");
  }

  void read_spaces() {
    if (program_.spaces() == nullptr) return;
    for (const format::Space* space : *program_.spaces())
      graph_.spaces.push_back({view(space->device()), view(space->identity())});
  }

  // ---- slots ----

  size_t count_of(SlotKind kind) const {
    switch (kind) {
      case SlotKind::Input:
        return graph_.inputs.size();
      case SlotKind::State:
        return graph_.initial.size();
      case SlotKind::Constant:
        return graph_.constants.size();
      case SlotKind::Output:
        return graph_.outputs.size();
      case SlotKind::Temporary:
        break;
    }
    return 0;
  }

  void read_slot(const format::Slot& from) {
    const auto id = static_cast<uint32_t>(graph_.slots.size());
    TensorSlot slot{static_cast<tenon_dtype>(from.dtype()),
                    from.kind(),
                    from.root(),
                    from.position(),
                    span_of(from.shape()),
                    from.over(),
                    id};
    slot.space = from.space();
    demand(from.dtype() <= format::DType::MAX, "slot ", id, " has an unknown dtype ", static_cast<int>(from.dtype()));
    demand(from.kind() <= SlotKind::MAX, "slot ", id, " is of an unknown kind ", static_cast<int>(from.kind()));
    demand(slot.shape.size() <= kHighestRank, "slot ", id, " has ", slot.shape.size(), " dimensions");
    for (const Expr& size : slot.shape) {
      verify(size, graph_.code, graph_.symbols.size());
      if (!graph_.is_bound(size)) slot.is_late = true;
    }
    demand(slot.root <= id, "slot ", id, " lies in a slot after it, ", slot.root);
    demand(slot.kind == SlotKind::Temporary || slot.position < count_of(slot.kind), "slot ", id, " has position ",
           slot.position, ", but there are ", count_of(slot.kind));
    if (slot.root != id) check_alias(id, slot);
    demand(!slot.is_late || slot.kind == SlotKind::Temporary || slot.kind == SlotKind::Output, "the size of slot ", id,
           " is known too late");
    if (slot.space != kHost) check_space(id, slot);
    graph_.slots.push_back(slot);
  }

  void check_space(uint32_t id, const TensorSlot& slot) const {
    demand(slot.space <= graph_.spaces.size(), "slot ", id, " is in space ", slot.space, ", but there are ",
           graph_.spaces.size());
    demand(slot.kind == SlotKind::Constant || slot.kind == SlotKind::Temporary, "slot ", id,
           " of a device is neither a constant nor a temporary");
    demand(!slot.is_late, "the size of slot ", id, " of a device is known too late");
  }

  void check_alias(uint32_t id, const TensorSlot& slot) const {
    const TensorSlot& root = graph_.slots[slot.root];
    demand(root.root == slot.root && root.kind == slot.kind && root.position == slot.position &&
               root.dtype == slot.dtype && root.space == slot.space,
           "slot ", id, " lies in slot ", slot.root, ", which is of another kind");
  }

  // Each input refers to its slot, and no other slot claims the same input.
  void check_arguments() const {
    std::vector<uint8_t> seen[5];
    for (const SlotKind kind : format::EnumValuesSlotKind()) seen[static_cast<int>(kind)].resize(count_of(kind));
    for (uint32_t id = 0; id < graph_.slots.size(); ++id) {
      const TensorSlot& slot = graph_.slots[id];
      if (slot.root != id || slot.kind == SlotKind::Temporary) continue;
      std::vector<uint8_t>& own = seen[static_cast<int>(slot.kind)];
      demand(own[slot.position] == 0, "two slots have position ", slot.position);
      own[slot.position] = 1;
      if (slot.kind == SlotKind::Input) {
        demand(graph_.inputs[slot.position].slot == id, "input ", slot.position, " is not slot ", id);
      }
    }
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const uint32_t slot = graph_.inputs[i].slot;
      demand(slot < graph_.slots.size() && graph_.slots[slot].kind == SlotKind::Input &&
                 graph_.slots[slot].root == slot && graph_.slots[slot].position == i,
             "input ", i, " has no slot of its own");
    }
  }

  void read_key() {
    graph_.key = program_.key();
    if (graph_.key == kNone) return;
    demand(graph_.key < graph_.inputs.size(), "random numbers come from input ", graph_.key, ", which is not there");
    const TensorSlot& slot = graph_.slots[graph_.inputs[graph_.key].slot];
    demand(slot.dtype == TENON_I64 && slot.shape.size() == 1 && is_constant(slot.shape[0], 2),
           "random numbers come from input ", graph_.key, ", which is not i64[2]");
  }

  bool is_constant(const Expr& expr, int64_t value) const {
    if (expr.count() != 1) return false;
    const Instruction& instruction = graph_.code[expr.first()];
    return instruction.op() == format::ExprOp::Constant && instruction.value() == value;
  }

  void read_states() {
    const auto* const given = program_.state_names();
    demand(given == nullptr || given->size() == graph_.initial.size(), "there are names for another number of states");
    for (uint32_t i = 0; i < graph_.initial.size(); ++i) {
      graph_.states.push_back({given ? given->Get(i)->str() : text_of("state", i), kNone});
      demand(!graph_.states[i].name.empty(), "state ", i, " has an empty name");
    }
    for (uint32_t id = 0; id < graph_.slots.size(); ++id) {
      const TensorSlot& slot = graph_.slots[id];
      if (slot.kind == SlotKind::State && slot.root == id) graph_.states[slot.position].slot = id;
    }
    std::map<std::string, size_t, std::less<>> numbers;
    for (const StateTensor& state : graph_.states) {
      demand(state.slot != kNone, "state '", state.name, "' has no slot");
      demand(numbers.try_emplace(state.name, numbers.size()).second, "two states have the name '", state.name, "'");
    }
  }

  void check_bindings() const {
    for (size_t i = 0; i < graph_.bindings.size(); ++i) {
      const format::Binding& binding = graph_.bindings[i];
      demand(binding.input() < graph_.inputs.size(), "symbol ", i, " is bound by input ", binding.input());
      const TensorSlot& slot = graph_.slots[graph_.inputs[binding.input()].slot];
      demand(binding.dim() < slot.shape.size(), "symbol ", i, " is bound by dimension ", binding.dim());
      demand(binding.factor() != 0, "symbol ", i, " is bound by nothing");
      verify(binding.rest(), graph_.code, i);
    }
  }

  // ---- tasks ----

  void read_task(const format::Task& from) {
    const auto id = static_cast<uint32_t>(graph_.tasks.size());
    TaskNode task{from.kind(), view(from.name()), span_of(from.inputs()), span_of(from.outputs())};
    demand(task.kind <= TaskKind::MAX, "task ", id, " is of an unknown kind ", static_cast<int>(task.kind));
    for (uint32_t slot : task.inputs) {
      need(slot, id, task.name);
      task.dependencies.push_back(graph_.root_of(slot).source);
      if (graph_.slots[slot].is_late || graph_.root_of(slot).is_late) task.is_late = true;
    }
    for (uint32_t i = 0; i < task.outputs.size(); ++i) write(task.outputs[i], {id, i}, task);
    read_arguments(from, task);
    read_task_spaces(task);
    task.flops = optional_expr(from.flops());
    task.bytes = optional_expr(from.bytes());
    graph_.tasks.push_back(std::move(task));
  }

  std::optional<Expr> optional_expr(const Expr* expr) const {
    if (expr == nullptr || expr->count() == 0) return {};
    verify(*expr, graph_.code, graph_.symbols.size());
    return *expr;
  }

  void read_arguments(const format::Task& from, TaskNode& task) const {
    task.kernel = from.kernel();
    task.function = view(from.function());
    task.text = view(from.text());
    if (task.kind == TaskKind::Kernel || task.kind == TaskKind::Device) {
      demand(task.kernel < program_.kernels()->size(), "task ", task.name, " runs kernel ", task.kernel,
             ", but there are ", program_.kernels()->size());
      task.sizes = span_of(from.sizes());
    }
    for (uint32_t symbol : task.sizes) {
      demand(symbol < graph_.symbols.size(), "task ", task.name, " names symbol ", symbol);
      if (symbol >= graph_.bindings.size()) task.is_late = true;
    }
    task.numbers = span_of(from.numbers());
    for (const Expr& number : task.numbers) {
      verify(number, graph_.code, graph_.symbols.size());
      if (!graph_.is_bound(number)) task.is_late = true;
    }
  }

  // ---- devices ----

  void read_task_spaces(TaskNode& task) const {
    for (const auto& slots : {task.inputs, task.outputs}) {
      for (uint32_t slot : slots) task.space = std::max(task.space, graph_.slots[slot].space);
    }
    const auto is_in = [&](uint32_t space) {
      return [this, space](uint32_t slot) { return graph_.slots[slot].space == space; };
    };
    if (task.kind == TaskKind::Transfer) return check_transfer(task);
    const bool is_device = task.kind == TaskKind::Device;
    demand(std::ranges::all_of(task.inputs, is_in(task.space)) &&
               std::ranges::all_of(task.outputs, is_in(task.space)) && is_device == (task.space != kHost),
           "task ", task.name, " reads or writes memory that is not its device's");
    demand(!is_device || !task.is_late, "task ", task.name, " of a device has a size that is known too late");
  }

  void check_transfer(const TaskNode& task) const {
    demand(task.inputs.size() == 1 && task.outputs.size() == 1, "transfer ", task.name, " is not of one tensor");
    const TensorSlot &from = graph_.slots[task.inputs[0]], &to = graph_.slots[task.outputs[0]];
    demand((from.space == kHost) != (to.space == kHost), "transfer ", task.name, " is not between host and device");
    demand(from.dtype == to.dtype && !to.is_late, "transfer ", task.name, " changes the type of its tensor");
  }

  // Tasks of devices may return before they are done. A task of the host waits for transfers that write what it reads,
  // and for transfers that read what it writes over. Memory of the host that a transfer uses is free when a later task
  // has waited for it.
  void add_waits() {
    if (graph_.spaces.empty()) return;
    std::vector<uint32_t> readers(graph_.slots.size(), kNone);  // of a home: the last transfer that reads it
    std::vector<uint32_t> pending;
    for (uint32_t i = 0; i < end(); ++i) {
      TaskNode& task = graph_.tasks[i];
      find_wait(task, readers);
      const auto is_over = [&](uint32_t earlier) { return task.wait_for != kNone && earlier <= task.wait_for; };
      for (uint32_t earlier : pending) {
        if (is_over(earlier)) keep_until(earlier, i);
      }
      std::erase_if(pending, is_over);
      if (!is_device_task(task)) continue;
      pending.push_back(i);
      if (task.kind == TaskKind::Transfer) readers[graph_.slots[task.inputs[0]].home] = i;
    }
    for (uint32_t earlier : pending) keep_until(earlier, end());
  }

  void find_wait(TaskNode& task, const std::vector<uint32_t>& readers) const {
    const auto wait_for = [&](uint32_t earlier) {
      if (task.wait_for == kNone || earlier > task.wait_for) task.wait_for = earlier;
    };
    for (uint32_t slot : task.inputs) {
      const TensorSlot& root = graph_.root_of(slot);
      const bool is_brought = root.source.task != kNone && graph_.tasks[root.source.task].kind == TaskKind::Transfer;
      if (root.space == kHost && is_brought) wait_for(root.source.task);
    }
    for (uint32_t slot : task.outputs) {
      const TensorSlot& home = graph_.slots[graph_.slots[slot].home];
      const uint32_t reader = readers[graph_.slots[slot].home];
      if (home.space == kHost && reader != kNone) wait_for(reader);
    }
  }

  void keep_until(uint32_t task, uint32_t when) {
    if (graph_.tasks[task].kind != TaskKind::Transfer) return;
    for (uint32_t slot : {graph_.tasks[task].inputs[0], graph_.tasks[task].outputs[0]}) {
      TensorSlot& home = graph_.slots[graph_.slots[slot].home];
      if (home.space == kHost) home.last_task = std::max(home.last_task, when);
    }
  }

  // ---- what need not be transferred in every run ----

  void add_move(uint32_t task) {
    const uint32_t from = graph_.slots[graph_.tasks[task].inputs[0]].root, to = graph_.tasks[task].outputs[0];
    const SlotKind kind = graph_.slots[from].kind;
    if (graph_.slots[from].space != kHost) return add_departure({task, from}, to);
    const bool is_callers = kind == SlotKind::Input || kind == SlotKind::State;
    if (!is_callers || graph_.slots[to].is_overwritten) return;
    graph_.arrivals.push_back({task, from, to});
    make_movable(to, kind == SlotKind::State);
  }

  void add_departure(Departure departure, uint32_t to) {
    const TensorSlot &from = graph_.slots[departure.from], &result = graph_.slots[to];
    const bool has_own_memory =
        from.kind == SlotKind::Temporary && from.home == departure.from && !from.is_overwritten && !from.is_movable;
    if (!has_own_memory) return;
    for (const auto& [target, value] : graph_.updates) {
      const TensorSlot& changed = graph_.slots[target];
      if (graph_.slots[value].root == to && changed.kind == SlotKind::State && departure.state == kNone)
        departure.state = changed.position;
    }
    if (departure.state == kNone && result.kind == SlotKind::Output) departure.output = result.position;
    if (departure.state == kNone && departure.output == kNone) return;
    departure.is_read_on_host = result.references > 1;
    graph_.departures.push_back(departure);
    make_movable(departure.from, departure.state != kNone);
  }

  void make_movable(uint32_t slot, bool stays) {
    graph_.slots[slot].is_movable = true;
    graph_.slots[slot].stays = stays;
  }

  void place_state(StateTensor& state) const {
    const TensorSlot& slot = graph_.slots[state.slot];
    const auto is_of_state = [&](const Departure& each) { return each.state == slot.position; };
    const auto arrivals = std::ranges::count(graph_.arrivals, state.slot, &Arrival::from);
    const auto departure = std::ranges::find_if(graph_.departures, is_of_state);
    const bool stays_away = departure != graph_.departures.end() && !departure->is_read_on_host;
    state.is_renewed = std::ranges::any_of(graph_.updates, [&](const auto& each) {
      return each.first == state.slot && graph_.slots[each.second].root != state.slot;  // not by itself
    });
    state.changes_on_host = state.is_renewed && !stays_away;
    state.is_on_host = slot.references > static_cast<uint32_t>(arrivals) || state.changes_on_host;
  }

  // A task cannot read a slot that nothing has written.
  void need(uint32_t slot, uint32_t task, std::string_view name) {
    demand(slot < graph_.slots.size(), name, " reads slot ", slot, ", but there are ", graph_.slots.size());
    TensorSlot& root = graph_.slots[graph_.slots[slot].root];
    const bool is_made = root.kind == SlotKind::Temporary || root.kind == SlotKind::Output;
    demand(!is_made || root.source.task != kNone, name, " reads slot ", slot, ", which no task before it writes");
    root.last_task = std::max(root.last_task, task);
    ++root.references;
  }

  void write(uint32_t slot, TaskSlot source, TaskNode& task) {
    demand(slot < graph_.slots.size(), "task ", task.name, " writes slot ", slot, ", but there are ",
           graph_.slots.size());
    TensorSlot& root = graph_.slots[slot];
    demand(root.root == slot && (root.kind == SlotKind::Temporary || root.kind == SlotKind::Output), "task ", task.name,
           " writes slot ", slot, ", which is not its to write");
    demand(root.source.task == kNone, "two tasks write slot ", slot);
    root.source = source;
    root.last_task = source.task;
    if (task.kind == TaskKind::Fallback) root.is_late = true;
    if (root.is_late) task.is_late = true;
  }

  // ---- results ----

  uint32_t end() const { return static_cast<uint32_t>(graph_.tasks.size()); }

  void read_output(uint32_t i) {
    const TensorInfo& output = graph_.outputs[i];
    need(output.slot, end(), text_of("output ", i));
    const TensorSlot& root = graph_.root_of(output.slot);
    demand(output.is_copied || root.is_late || (root.kind == SlotKind::Output && root.position == i), "output ", i,
           " is the memory of something else");
    demand(!graph_.slots[output.slot].is_late || root.is_late, "the shape of output ", i, " is known too late");
  }

  void read_check(const format::Check& from) {
    Check check{view(from.message()), view(from.file()), from.line(), from.slot()};
    if (from.guard() != nullptr && from.guard()->count() > 0) check.guard = *from.guard();
    demand(check.guard.has_value() == (check.slot == kNone), "a check is not of one thing");
    if (check.guard) {
      verify(*check.guard, graph_.code, graph_.bindings.size());
    } else {
      need(check.slot, end(), "a check");
      demand(!graph_.slots[check.slot].is_late || graph_.root_of(check.slot).is_late,
             "the shape of what a check reads is known too late");
    }
    graph_.checks.push_back(check);
  }

  // A tensor in the memory of a result is that result.
  void check_place(uint32_t id) const {
    const TensorSlot& slot = graph_.slots[id];
    if (slot.kind != SlotKind::Output || slot.root != id || slot.is_late) return;
    const TensorInfo& output = graph_.outputs[slot.position];
    demand(!output.is_copied && graph_.slots[output.slot].root == id, "slot ", id, " lies in output ", slot.position,
           ", which is something else");
  }

  void read_update(const format::Update& update) {
    need(update.value(), end(), "an update");
    demand(update.target() < graph_.slots.size() && is_changeable(update.target()), "an update changes slot ",
           update.target(), ", which is neither an input nor a state");
    const TensorSlot& target = graph_.slots[update.target()];
    demand(target.dtype == graph_.slots[update.value()].dtype, "an update of slot ", update.target(),
           " changes its dtype");
    graph_.updates.emplace_back(update.target(), update.value());
  }

  bool is_changeable(uint32_t slot) const {
    const TensorSlot& target = graph_.slots[slot];
    return target.root == slot && (target.kind == SlotKind::Input || target.kind == SlotKind::State);
  }

  // ---- places ----

  bool is_new_value(uint32_t slot, uint32_t target) const {
    return std::ranges::any_of(graph_.updates, [&](const auto& update) {
      return update.first == target && graph_.slots[update.second].root == slot;
    });
  }

  // In task order, so that the overwritten slot already has its home. Only a kernel may read a slot that it writes
  // over.
  void overlay(uint32_t id, TaskKind writer) {
    TensorSlot& slot = graph_.slots[id];
    if (slot.over == kNone) return;
    const bool is_there = slot.over < graph_.slots.size() && slot.kind == SlotKind::Temporary && !slot.is_late;
    TensorSlot& under = graph_.slots[is_there ? slot.over : id];
    const bool is_read_by_writer = under.references > 0 && under.last_task == slot.source.task;
    const bool is_free = under.root == slot.over && under.dtype == slot.dtype && under.space == slot.space &&
                         !under.is_late && !under.is_overwritten && under.last_task <= slot.source.task &&
                         (!is_read_by_writer || writer == TaskKind::Kernel);
    demand(is_there && is_free &&
               (is_changeable(slot.over) ? is_new_value(id, slot.over)
                                         : under.kind == SlotKind::Temporary && under.source.task < slot.source.task),
           "slot ", id, " cannot lie over slot ", slot.over);
    under.is_overwritten = true;
    slot.home = under.home;
    TensorSlot& home = graph_.slots[slot.home];
    home.last_task = std::max(home.last_task, slot.last_task);
  }

  const format::Program& program_;
  TaskGraph graph_;
};

}  // namespace

bool TaskGraph::is_bound(const Expr& expr) const {
  return std::ranges::all_of(code.subspan(expr.first(), expr.count()), [&](const Instruction& instruction) {
    return instruction.op() != format::ExprOp::Symbol || static_cast<uint64_t>(instruction.value()) < bindings.size();
  });
}

TaskGraph read_task_graph(const format::Program& program) { return Reader(program).run(); }

// ---- text -----------------------------------------------------------------------------------------------------------

const char* name_of(TaskKind kind) {
  static constexpr char kNames[][9] = {"kernel", "library", "fallback", "device", "transfer"};
  return kNames[static_cast<int>(kind)];
}

namespace {

const char* operator_text(format::ExprOp op) {
  static constexpr char kTexts[][5] = {"", "", " + ", "*", "//", "%", "min", "max", " == ", " != ", " < ", " <= "};
  return kTexts[static_cast<int>(op)];
}

std::string combined(format::ExprOp op, const std::string& a, const std::string& b) {
  if (op == format::ExprOp::Min || op == format::ExprOp::Max) return text_of(operator_text(op), "(", a, ", ", b, ")");
  return op == format::ExprOp::Add ? text_of(a, operator_text(op), b) : text_of("(", a, operator_text(op), b, ")");
}

}  // namespace

std::string expr_text(const TaskGraph& graph, const Expr& expr) {
  std::vector<std::string> stack;
  for (const Instruction& instruction : graph.code.subspan(expr.first(), expr.count())) {
    if (instruction.op() == format::ExprOp::Constant) {
      stack.push_back(text_of(instruction.value()));
    } else if (instruction.op() == format::ExprOp::Symbol) {
      stack.emplace_back(graph.symbols[static_cast<size_t>(instruction.value())].name);
    } else {
      const std::string b = std::move(stack.back());
      stack.pop_back();
      stack.back() = combined(instruction.op(), stack.back(), b);
    }
  }
  return stack.back();
}

std::string type_text(const TaskGraph& graph, const TensorSlot& slot) {
  std::string text = text_of(tenon_dtype_name(slot.dtype), "[");
  for (size_t i = 0; i < slot.shape.size(); ++i) text += (i > 0 ? ", " : "") + expr_text(graph, slot.shape[i]);
  return text + "]";
}

}  // namespace tenon::runtime
