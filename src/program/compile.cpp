#include <algorithm>
#include <map>
#include <set>

#include "backends/bound.h"
#include "backends/cpu/cpu.h"
#include "fusion/fuse.h"
#include "graph/library_call.h"
#include "graph/node_symbols.h"
#include "loops/lower.h"
#include "passes/passes.h"
#include "program/budget.h"
#include "program/cache.h"
#include "program/constant_budget.h"
#include "program/fold_ahead.h"
#include "program/history.h"
#include "program/in_place.h"
#include "program/program.h"
#include "program/run.h"
#include "program/tables.h"
#include "runtime/thread_pool.h"
#include "schedule/ahead.h"

namespace tenon {
namespace {

bool is_one_number(const Tensor& tensor) { return tensor.numel() == 1; }

Graph ready_for_fusion(const Graph& graph, bool freeze) {
  const Graph reworded = rewrite_convolutions(canonicalize(graph), freeze);
  const Graph expanded = canonicalize(expand_for_fusion(reworded));
  return eliminate_dead_code(canonicalize(arrange_views(eliminate_common_subexpressions(expanded))));
}

std::shared_ptr<const Backend> backend_of(const ProgramOptions& options) {
  if (options.backend == "cpu" && options.cpu != "native") return cpu_backend(options.cpu);
  if (options.cpu != "native") fail("backend {} does not compile for another CPU, {}", options.backend, options.cpu);
  return find_backend(options.backend).value();
}

// Names that say nothing about what a kernel computes.
bool is_plumbing(std::string_view op) {
  static const std::set<std::string_view> kPlumbing = {"permute", "expand", "reshape", "slice", "full", "cast"};
  return kPlumbing.contains(op);
}

std::string kernel_name(const std::vector<std::string>& ops) {
  constexpr size_t kLongest = 48;
  std::string name;
  for (const std::string& op : ops) {
    if (is_plumbing(op) && ops.size() > 1) continue;
    if (name.size() + op.size() > kLongest) return name + "_etc";
    name += (name.empty() ? "" : "_") + op;
  }
  return name.empty() ? ops.front() : name;
}

}  // namespace

class ProgramBuilder {
 public:
  // `ready` is the graph that the groups are of.
  ProgramBuilder(const Graph& graph, Graph ready, const ProgramOptions& options)
      : options_(options),
        backend_(backend_of(options)),
        program_(graph, std::move(ready), options),
        graph_(program_.graph_),
        slot_of_(graph_.value_count()) {
    program_.history_ = std::make_shared<ConstantHistory>();
  }

  // In this order. What several groups compute has a slot of each: those that follow read the last.
  Program run(const std::vector<FusedGroup>& groups) {
    check_host();
    add_symbols();
    add_leaves();
    for (uint32_t i = 0; i < groups.size(); ++i) add_group(groups[i], i);
    compile_kernels_and_constants();
    add_results();
    drop_unused_slots();
    compute_in_place(program_);
    program_.inputs_ = graph_.inputs();
    program_.runner_ = std::make_shared<const ProgramRunner>(program_);
    return std::move(program_);
  }

 private:
  std::vector<Slot>& slots() { return program_.slots_; }
  ConstantHistory& history() { return *program_.history_; }

  // A kernel on its way: what is compiled, and where its inputs come from.
  struct Pending {
    size_t task;
    AheadOfTime ahead;
    std::vector<uint32_t> inputs;  // slots, of the reads of the kernel that was split
  };

  // ---- what there is from the start ----

  void check_host() const {
    if (options_.host) return;
    std::string calls;
    for (const Node& node : graph_.nodes()) {
      if (node.op->name.get() != "external") continue;
      const OpView view = view_of(graph_, *node.op, node.operands, node.attrs);
      const std::string where = node.location.known() ? to_string(node.location) + ": " : "";
      calls += "\n  " + where + view.string("target");
    }
    if (!calls.empty())
      fail("graph {} has calls that Tenon does not support, and no host runs them:{}", graph_.name(), calls);
  }

  void add_symbols() {
    program_.bindings_ = bind_symbols(graph_);
    std::set<Symbol> bound;
    for (const SymbolBinding& binding : program_.bindings_) {
      program_.symbols_.push_back(binding.symbol);
      bound.insert(binding.symbol);
    }
    for (const auto& [symbol, range] : graph_.ranges()) {
      if (!bound.contains(symbol)) program_.symbols_.push_back(symbol);
    }
    for (size_t i = 0; i < program_.symbols_.size(); ++i)
      symbol_index_[program_.symbols_[i]] = static_cast<uint32_t>(i);
  }

  uint32_t add_slot(TensorType type, SlotKind kind, size_t position = 0) {
    const auto id = static_cast<uint32_t>(slots().size());
    slots().push_back({.type = std::move(type), .kind = kind, .root = id, .position = static_cast<uint32_t>(position)});
    return id;
  }

  // Its data is set when it is known.
  uint32_t new_constant() {
    program_.constants_.emplace_back();
    return static_cast<uint32_t>(program_.constants_.size() - 1);
  }

  uint32_t add_frozen(const Leaf& leaf) {
    const uint32_t constant = new_constant();
    program_.constants_[constant] = leaf.data.contiguous();
    history().leaves.push_back({constant, static_cast<uint32_t>(&leaf - graph_.leaves().data())});
    return add_slot(graph_.type(leaf.value), SlotKind::kConstant, constant);
  }

  void add_leaves() {
    for (const Leaf& leaf : graph_.leaves()) {
      const TensorType& type = graph_.type(leaf.value);
      if (leaf.kind == LeafKind::kInput) {
        slot_of_[leaf.value.id] = add_slot(type, SlotKind::kInput, leaf.ordinal);
        continue;
      }
      if (!leaf.data.defined()) fail("{} '{}' has no data: bind it before compilation", name_of(leaf.kind), leaf.name);
      const bool is_frozen = leaf.kind == LeafKind::kConstant ||
                             (options_.freeze && !is_updated(graph_, leaf) && !options_.states.contains(leaf.name));
      if (is_frozen) {
        slot_of_[leaf.value.id] = add_frozen(leaf);
      } else {
        program_.leaves_.push_back(leaf.data);
        program_.leaf_names_.push_back(leaf.name);
        slot_of_[leaf.value.id] = add_slot(type, SlotKind::kLeaf, program_.leaves_.size() - 1);
      }
    }
  }

  // ---- tasks ----

  void add_group(const FusedGroup& group, uint32_t number) {
    if (group.kind == GroupKind::kAlias) return add_alias(group);
    Task task{.kind = TaskKind::kKernel, .name = {}, .group = number};
    for (NodeRef node : group.nodes) {
      task.ops.emplace_back(graph_.node(node).op->name.get());
      if (!task.location.known()) task.location = graph_.node(node).location;
    }
    task.name = kernel_name(task.ops);
    auto body = std::make_shared<Graph>(body_of(group, task.name));
    for (ValueRef input : read_by(group)) task.inputs.push_back(slot_of_[input.id]);
    if (group.kind == GroupKind::kKernel) {
      add_kernel(group, std::move(task), *body);
      return;
    }
    const Node& node = graph_.node(group.nodes.back());
    if (group.kind == GroupKind::kLibrary && has_library_function(*node.op))
      return add_library(group, std::move(task), node);
    task.kind = TaskKind::kReference;
    if (group.kind == GroupKind::kExternal) make_external(task, node);
    add_whole(group, std::move(task), std::move(body));
  }

  // A function of the runtime takes every operand and gives every result.
  void add_library(const FusedGroup& group, Task task, const Node& node) {
    task.kind = TaskKind::kLibrary;
    task.inputs.clear();
    Graph body(task.name);
    declare_symbols(body, graph_, symbols_of(group));
    std::vector<ValueRef> operands;
    for (ValueRef operand : node.operands) {
      task.inputs.push_back(slot_of_[operand.id]);
      operands.push_back(body.add_input(fmt::format("in{}", operands.size()), graph_.type(operand)));
    }
    const NodeRef copy = body.add_node(*node.op, std::move(operands), node.attrs, node.location);
    body.set_outputs(body.node(copy).results);
    FusedGroup whole = group;
    whole.outputs = node.results;
    add_whole(whole, std::move(task), std::make_shared<const Graph>(std::move(body)));
  }

  // The host gets every operand, in order.
  void make_external(Task& task, const Node& node) const {
    const OpView view = view_of(graph_, *node.op, node.operands, node.attrs);
    task.kind = TaskKind::kExternal;
    task.call = view.integer("call");
    task.name = view.string("target");
    task.inputs.clear();
    for (ValueRef operand : node.operands) task.inputs.push_back(slot_of_[operand.id]);
  }

  void add_alias(const FusedGroup& group) {
    const Node& node = graph_.node(group.nodes[0]);
    const uint32_t operand = slot_of_[node.operands[0].id];
    const uint32_t id = add_slot(graph_.type(node.results[0]), slots()[operand].kind, slots()[operand].position);
    slots()[id].root = slots()[operand].root;
    slot_of_[node.results[0].id] = id;
  }

  // Constants of one number are part of the kernel.
  bool is_part_of_kernel(ValueRef value) const {
    const Leaf* leaf = graph_.leaf(value);
    return leaf != nullptr && leaf->kind == LeafKind::kConstant && is_one_number(leaf->data);
  }

  std::vector<ValueRef> read_by(const FusedGroup& group) const {
    std::vector<ValueRef> values;
    std::ranges::copy_if(group.inputs, std::back_inserter(values), [&](ValueRef v) { return !is_part_of_kernel(v); });
    return values;
  }

  std::set<Symbol> symbols_of(const FusedGroup& group) const {
    std::set<Symbol> symbols;
    for (ValueRef input : group.inputs) tenon::add_symbols(graph_.type(input), symbols);
    for (NodeRef node : group.nodes) symbols.merge(tenon::symbols_of(graph_, graph_.node(node)));
    return symbols;
  }

  Graph body_of(const FusedGroup& group, const std::string& name) const {
    Graph body(name);
    declare_symbols(body, graph_, symbols_of(group));
    std::map<ValueRef, ValueRef> inside;
    for (ValueRef input : group.inputs) {
      inside[input] = is_part_of_kernel(input) ? body.copy_leaf(*graph_.leaf(input), graph_.type(input))
                                               : body.add_input(fmt::format("in{}", inside.size()), graph_.type(input));
    }
    for (NodeRef ref : group.nodes) {
      const Node& node = graph_.node(ref);
      std::vector<ValueRef> operands;
      for (ValueRef operand : node.operands) operands.push_back(operand ? inside.at(operand) : ValueRef());
      const NodeRef copy = body.add_node(*node.op, std::move(operands), node.attrs, node.location);
      for (size_t i = 0; i < node.results.size(); ++i) inside[node.results[i]] = body.node(copy).results[i];
    }
    std::vector<ValueRef> outputs;
    for (ValueRef output : group.outputs) outputs.push_back(inside.at(output));
    body.set_outputs(std::move(outputs));
    return body;
  }

  bool is_constant(uint32_t slot) const {
    return program_.slots_[program_.slots_[slot].root].kind == SlotKind::kConstant;
  }

  // Such a task is computed once, unless that takes too much. Asked when the outputs are added; then they say it.
  bool needs_only_constants(const Task& task, const FusedGroup& group) const {
    if (task.kind == TaskKind::kExternal) return false;
    return std::ranges::all_of(task.inputs, [&](uint32_t slot) { return is_constant(slot); }) &&
           std::ranges::all_of(group.nodes,
                               [&](NodeRef node) { return tenon::symbols_of(graph_, graph_.node(node)).empty(); });
  }
  bool is_known_now(const Task& task) const { return !task.outputs.empty() && is_constant(task.outputs[0]); }

  void add_outputs(const FusedGroup& group, Task& task) {
    for (ValueRef output : group.outputs) {
      slot_of_[output.id] = add_slot(graph_.type(output), SlotKind::kTemporary);
      task.outputs.push_back(slot_of_[output.id]);
    }
    const bool runs_reference = task.kind == TaskKind::kReference;
    if (!needs_only_constants(task, group) || !constant_budget_.covers(graph_, group, runs_reference)) return;
    for (uint32_t slot : task.outputs) {
      slots()[slot].kind = SlotKind::kConstant;
      slots()[slot].position = new_constant();
    }
  }

  void add_whole(const FusedGroup& group, Task task, std::shared_ptr<const Graph> body) {
    task.body = std::move(body);
    add_outputs(group, task);
    program_.tasks_.push_back(std::move(task));
  }

  struct Scheduled {
    loops::LoopTree tree;
    std::vector<Symbol> sizes;  // of the kernel's size arguments
  };

  // Layers repeat: kernels of the same text are lowered and scheduled once. Null for what loops cannot say.
  const Scheduled* scheduled(const Graph& body) {
    const auto [found, is_new] = scheduled_.try_emplace(to_string(body));
    if (!is_new) return found->second.get();
    const Result<loops::IR> ir = lower(body);
    if (ir.ok()) found->second.reset(new Scheduled{backend_->schedule(*ir), ir->size_symbols()});
    return found->second.get();
  }

  void add_kernel(const FusedGroup& group, Task task, const Graph& body) {
    const Scheduled* const kernel = scheduled(body);
    if (!kernel) {
      task.kind = TaskKind::kReference;
      return add_whole(group, std::move(task), std::make_shared<const Graph>(body));
    }
    for (Symbol symbol : kernel->sizes) task.sizes.push_back(symbol_index_.at(symbol));
    add_outputs(group, task);
    std::set<int64_t> constants;
    for (size_t i = 0; i < task.inputs.size(); ++i) {
      if (is_constant(task.inputs[i])) constants.insert(static_cast<int64_t>(i));
    }
    // What runs once needs no preparation.
    Pending pending{
        program_.tasks_.size(), split_ahead(kernel->tree, is_known_now(task) ? std::set<int64_t>() : constants), {}};
    pending.inputs = task.inputs;
    program_.tasks_.push_back(std::move(task));
    pending_.push_back(std::move(pending));
  }

  // ---- compilation ----

  // What runs once runs here, whatever the others are for. The schedules are for as many threads as a run has;
  // compiling takes all that the process has.
  void compile_kernels_and_constants() {
    const ThreadCount all(0);
    compile_kernels(*backend_, false);
    compile_kernels(*here_, true);
    finish_constants();
  }

  void compile_kernels(const Backend& backend, bool known_now) {
    std::vector<const loops::LoopTree*> trees;
    std::vector<Task*> tasks;
    for (const Pending& pending : pending_) {
      Task& task = program_.tasks_[pending.task];
      if (is_known_now(task) != known_now) continue;
      trees.push_back(&pending.ahead.tree);
      tasks.push_back(&task);
    }
    std::vector<std::unique_ptr<Compiled>> kernels = backend.compile_all(trees).value();
    for (size_t i = 0; i < kernels.size(); ++i) {
      tasks[i]->kernel = std::move(kernels[i]);
      tasks[i]->tree = std::make_shared<const loops::LoopTree>(*trees[i]);
    }
  }

  // ---- constants ----

  // In the order of the tasks, so that each finds its constants known.
  void finish_constants() {
    std::vector<Task> kept;
    auto pending = pending_.begin();
    for (size_t i = 0; i < program_.tasks_.size(); ++i) {
      Task& task = program_.tasks_[i];
      if (pending != pending_.end() && pending->task == i) prepare_inputs(task, *pending++);
      if (is_known_now(task)) {
        run_once(std::move(task));
      } else {
        kept.push_back(std::move(task));
      }
    }
    program_.tasks_ = std::move(kept);
  }

  ConstantUse use_of(uint32_t slot) { return {slots()[slot].position, slots()[slot].type}; }

  void run_once(Task task) {
    ConstantStep step;
    for (uint32_t slot : task.inputs) step.inputs.push_back(use_of(slot));
    for (uint32_t slot : task.outputs) step.outputs.push_back(use_of(slot));
    step.task = std::move(task);
    run(std::move(step));
  }

  void run(ConstantStep step) {
    run_step(step, program_.constants_, preparer_);
    history().steps.push_back(std::move(step));
  }

  void prepare_inputs(Task& task, const Pending& pending) {
    std::vector<uint32_t> prepared;
    for (const Preparation& preparation : pending.ahead.preparations) {
      std::vector<ConstantUse> inputs;
      for (int64_t slot : preparation.inputs) inputs.push_back(use_of(pending.inputs[static_cast<size_t>(slot)]));
      prepared.push_back(prepared_slot(preparation.kernel, inputs));
    }
    task.inputs.clear();
    for (const AheadOfTime::Input& input : pending.ahead.inputs) {
      task.inputs.push_back(input.preparation < 0 ? pending.inputs[static_cast<size_t>(input.slot)]
                                                  : prepared[static_cast<size_t>(input.preparation)]);
    }
  }

  // Weights that several kernels read in one layout are prepared once.
  uint32_t prepared_slot(const loops::IR& kernel, const std::vector<ConstantUse>& inputs) {
    std::pair<std::string, std::vector<const void*>> key{to_string(kernel), {}};
    for (const ConstantUse& input : inputs) key.second.push_back(program_.constants_[input.constant].data());
    const auto found = prepared_.find(key);
    if (found != prepared_.end()) return found->second;
    const TensorType type = kernel.type(kernel.writes()[0]);
    const uint32_t constant = new_constant();
    run(ConstantStep{.inputs = inputs, .outputs = {{constant, type}}, .preparation = kernel});
    const uint32_t slot = add_slot(type, SlotKind::kConstant, constant);
    prepared_.emplace(std::move(key), slot);
    if (inputs.size() == 1) program_.packings_.push_back({constant_of(program_.constants_, inputs[0]), kernel, slot});
    return slot;
  }

  // ---- results ----

  void add_results() {
    for (ValueRef output : graph_.outputs()) {
      const uint32_t slot = slot_of_[output.id];
      Slot& root = slots()[slots()[slot].root];
      const bool is_copied = root.kind != SlotKind::kTemporary;  // taken, or somebody else's
      if (!is_copied) {
        root.kind = SlotKind::kOutput;
        root.position = static_cast<uint32_t>(program_.outputs_.size());
      }
      program_.outputs_.push_back({slot, is_copied});
    }
    for (const Update& update : graph_.updates()) {
      program_.updates_.push_back({slot_of_[update.target.id], slot_of_[update.value.id]});
    }
  }

  // Weights that were laid out anew are not needed as they were, nor what went into a kernel or was computed once.
  void drop_unused_slots() {
    std::vector<bool> used(slots().size());
    for_each_used([&](uint32_t& slot) { used[slot] = used[slots()[slot].root] = true; });
    std::vector<uint32_t> number(slots().size());
    std::vector<Slot> kept;
    std::vector<Tensor> constants;
    for (uint32_t i = 0; i < slots().size(); ++i) {
      number[i] = static_cast<uint32_t>(kept.size());
      if (!used[i] && slots()[i].kind != SlotKind::kInput && slots()[i].kind != SlotKind::kLeaf) continue;
      Slot slot = std::move(slots()[i]);
      if (slot.kind == SlotKind::kConstant && slot.root == i) {
        history().kept.push_back(slot.position);
        constants.push_back(program_.constants_[slot.position]);
        slot.position = static_cast<uint32_t>(constants.size() - 1);
      }
      slot.root = number[slot.root];
      if (slot.kind == SlotKind::kConstant)
        slot.position = slot.root == number[i] ? slot.position : kept[slot.root].position;
      kept.push_back(std::move(slot));
    }
    for_each_used([&](uint32_t& slot) { slot = number[slot]; });
    slots() = std::move(kept);
    history().constants = static_cast<uint32_t>(program_.constants_.size());
    program_.constants_ = std::move(constants);
  }

  template <class Body>
  void for_each_used(Body body) {
    for (Task& task : program_.tasks_) {
      std::ranges::for_each(task.inputs, body);
      std::ranges::for_each(task.outputs, body);
    }
    for (Packing& packing : program_.packings_) body(packing.slot);
    for (auto& output : program_.outputs_) body(output.slot);
    for (auto& update : program_.updates_) {
      body(update.target);
      body(update.value);
    }
  }

  const ProgramOptions& options_;
  std::shared_ptr<const Backend> backend_;
  std::shared_ptr<const Backend> here_ = find_backend(options_.backend).value();
  Program program_;
  const Graph& graph_;
  std::vector<uint32_t> slot_of_;  // of each value that is no part of a kernel
  std::map<Symbol, uint32_t> symbol_index_;
  std::map<std::string, std::unique_ptr<const Scheduled>, std::less<>> scheduled_;
  std::vector<Pending> pending_;
  std::map<std::pair<std::string, std::vector<const void*>>, uint32_t> prepared_;
  Preparer preparer_{*here_};
  ConstantBudget constant_budget_;
};

namespace {

Program compile_fused(const Graph& graph, const Graph& ready, const ProgramOptions& options,
                      std::shared_ptr<const MemoryReport>& report) {
  const std::vector<FusedGroup> groups = fuse(ready);
  const auto build = [&](const std::vector<FusedGroup>& list) {
    return ProgramBuilder(graph, ready, options).run(list);
  };
  if (!options.budget) return build(groups);
  MemoryReport found;
  Program program = build_within(*options.budget, groups, build, found);
  report = std::make_shared<const MemoryReport>(std::move(found));
  return program;
}

void check_assertion(const Graph& graph, const Assertion& assertion) {
  if (assertion.output && *assertion.output >= graph.outputs().size())
    fail("an assertion is about output {}, and graph {} has {}", *assertion.output, graph.name(),
         graph.outputs().size());
  if (!assertion.guard) return;
  std::set<Symbol> told;
  for (const SymbolBinding& binding : bind_symbols(graph)) told.insert(binding.symbol);
  for (Symbol symbol : symbols_of(*assertion.guard)) {
    if (!told.contains(symbol))
      fail("an assertion is about {}, which the sizes of graph {}'s inputs do not tell", symbol.name(), graph.name());
  }
}

}  // namespace

Result<Program> compile_program(const Graph& graph, const ProgramOptions& options) {
  return attempt([&] {
    for (const Assertion& assertion : options.assertions) check_assertion(graph, assertion);
    const std::shared_ptr<const Backend> backend = backend_of(options);
    const ProgramCache cache(graph, options, *backend);
    // What stays as it is can go into what it scales.
    const bool is_fixed = options.freeze && options.states.empty();
    const Graph source = is_fixed ? fold_norms_ahead(graph, options.backend) : graph;
    const Graph ready = ready_for_fusion(source, options.freeze);
    if (std::optional<Program> kept = cache.find(source, ready, options)) return *std::move(kept);
    std::shared_ptr<const MemoryReport> report;
    Program program = compile_fused(source, ready, options, report);
    program.memory_report_ = std::move(report);
    cache.store(program);
    program.history_ = nullptr;
    return program;
  });
}

}  // namespace tenon
