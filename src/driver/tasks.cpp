#include "driver/tasks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "backends/bound.h"
#include "backends/device_backend.h"
#include "driver/kernels.h"
#include "program/tables.h"
#include "runtime/thread_pool.h"

namespace tenon {
namespace {

class TaskMaker {
 public:
  TaskMaker(Module& module, const BuildTarget& target, const ProgramOptions& options)
      : module_(module),
        graph_(module.graph),
        options_(options),
        program_(new_program(module.source, module.graph, options)),
        main_{module, {}, kHost, std::vector<uint32_t>(graph_.value_count())},
        preparer_(*target.here) {}

  // A value that several groups compute has a slot of each: groups that follow read the last.
  void run() {
    const ThreadCount all(0);
    add_symbols();
    add_leaves();
    for (uint32_t i = 0; i < module_.groups.size(); ++i) add_group(main_, i);
    add_results();
    drop_unused_slots();
    program_.inputs = graph_.inputs();
    program_.placement = module_.placement;
    module_.program = std::move(program_);
    module_.history = std::move(history_);
  }

 private:
  static constexpr uint32_t kHost = 0;

  // A module whose groups become tasks: the model, or a segment of it.
  struct Scope {
    const Module& module;
    std::string device;             // of a segment
    uint32_t space;                 // where its kernels run
    std::vector<uint32_t> slot_of;  // of each value that is in memory
  };

  std::vector<Slot>& slots() { return program_.slots; }

  // ---- symbols and leaves ----

  void add_symbols() {
    program_.bindings = bind_symbols(graph_);
    std::set<Symbol> bound;
    for (const SymbolBinding& binding : program_.bindings) {
      program_.symbols.push_back(binding.symbol);
      bound.insert(binding.symbol);
    }
    for (const auto& [symbol, range] : graph_.ranges()) {
      if (!bound.contains(symbol)) program_.symbols.push_back(symbol);
    }
    for (size_t i = 0; i < program_.symbols.size(); ++i) symbol_index_[program_.symbols[i]] = static_cast<uint32_t>(i);
  }

  uint32_t add_slot(TensorType type, SlotKind kind, size_t position = 0) {
    const auto id = static_cast<uint32_t>(slots().size());
    slots().push_back({.type = std::move(type), .kind = kind, .root = id, .position = static_cast<uint32_t>(position)});
    return id;
  }

  // Its data is set when it is known.
  uint32_t new_constant() {
    program_.constants.emplace_back();
    return static_cast<uint32_t>(program_.constants.size() - 1);
  }

  // Segments share weights: data that is there already is not added, so that a device gets it once.
  uint32_t add_frozen(const Graph& graph, const Leaf& leaf, std::optional<uint32_t> segment = {}) {
    Tensor data = leaf.data.contiguous();
    const TensorType& type = graph.type(leaf.value);
    const auto [known, is_new] = frozen_.try_emplace({data.data(), to_string(type)});
    if (!is_new) return known->second;
    const uint32_t constant = new_constant();
    program_.constants[constant] = std::move(data);
    history_.leaves.push_back({constant, static_cast<uint32_t>(&leaf - graph.leaves().data()), segment});
    return known->second = add_slot(type, SlotKind::kConstant, constant);
  }

  void add_leaves() {
    for (const Leaf& leaf : graph_.leaves()) {
      const TensorType& type = graph_.type(leaf.value);
      if (leaf.kind == LeafKind::kInput) {
        main_.slot_of[leaf.value.id] = add_slot(type, SlotKind::kInput, leaf.ordinal);
      } else if (is_frozen(graph_, leaf, options_)) {
        main_.slot_of[leaf.value.id] = add_frozen(graph_, leaf);
      } else {
        program_.leaves.push_back(leaf.data);
        program_.leaf_names.push_back(leaf.name);
        main_.slot_of[leaf.value.id] = add_slot(type, SlotKind::kLeaf, program_.leaves.size() - 1);
      }
    }
  }

  // ---- tasks ----

  void add_group(Scope& scope, uint32_t number) {
    const Graph& graph = scope.module.graph;
    const FusedGroup& group = scope.module.groups[number];
    if (group.kind == GroupKind::kAlias) return add_alias(scope, group);
    if (group.kind == GroupKind::kSegment) return add_segment(scope, graph.node(group.nodes[0]), number);
    const GroupBody& body = *scope.module.bodies[number];
    Task task{.kind = body.kind, .name = body.name, .group = number};
    describe(task, graph, group.nodes);
    const uint32_t space = body.kernel && !body.runs_once ? scope.space : kHost;
    for (ValueRef input : body.inputs) task.inputs.push_back(scope.slot_of[input.id]);
    for (ValueRef output : body.outputs) {
      const uint32_t slot = add_output(graph.type(output), body.runs_once);
      slots()[slot].space = space;
      task.outputs.push_back(scope.slot_of[output.id] = slot);
    }
    if (body.kind == TaskKind::kExternal) {
      const Node& node = graph.node(group.nodes.back());
      task.call = view_of(graph, *node.op, node.operands, node.attrs).integer("call");
    }
    if (body.kernel) {
      if (!body.runs_once) task.device = scope.device;
      set_kernel(task, scope.module.kernels[*body.kernel]);
    } else {
      task.body = body.graph;
    }
    if (body.runs_once) return run_once(std::move(task));
    for (uint32_t& input : task.inputs) input = in_space(input, space);
    program_.tasks.push_back(std::move(task));
  }

  static void describe(Task& task, const Graph& graph, std::span<const NodeRef> nodes) {
    for (NodeRef node : nodes) {
      task.ops.emplace_back(graph.node(node).op->name.get());
      if (!task.location.known()) task.location = graph.node(node).location;
    }
  }

  void add_alias(Scope& scope, const FusedGroup& group) {
    const Node& node = scope.module.graph.node(group.nodes[0]);
    const uint32_t operand = scope.slot_of[node.operands[0].id];
    scope.slot_of[node.results[0].id] = alias_of(operand, scope.module.graph.type(node.results[0]));
  }

  uint32_t alias_of(uint32_t operand, TensorType type) {
    const uint32_t id = add_slot(std::move(type), slots()[operand].kind, slots()[operand].position);
    slots()[id].root = slots()[operand].root;
    slots()[id].space = slots()[operand].space;
    return id;
  }

  uint32_t add_output(const TensorType& type, bool is_constant) {
    return is_constant ? add_slot(type, SlotKind::kConstant, new_constant()) : add_slot(type, SlotKind::kTemporary);
  }

  // ---- devices ----

  // The tasks of a segment, between those of the model.
  void add_segment(Scope& scope, const Node& node, uint32_t number) {
    const OpView view = view_of(scope.module.graph, *node.op, node.operands, node.attrs);
    const ModuleSegment& segment = scope.module.segments[static_cast<size_t>(view.integer("number"))];
    const Graph& graph = segment.module->graph;
    Scope inner{*segment.module, segment.backend->name(), space_of(*segment.backend),
                std::vector<uint32_t>(graph.value_count())};
    const auto which = static_cast<uint32_t>(&segment - scope.module.segments.data());
    for (const Leaf& leaf : graph.leaves()) {
      const bool is_given = leaf.kind == LeafKind::kInput;
      inner.slot_of[leaf.value.id] =
          is_given ? scope.slot_of[node.operands[leaf.ordinal].id] : add_frozen(graph, leaf, which);
    }
    if (segment.code) {
      add_whole(inner, segment, number, which);
    } else {
      for (uint32_t i = 0; i < segment.module->groups.size(); ++i) add_group(inner, i);
    }
    for (size_t i = 0; i < node.results.size(); ++i)
      scope.slot_of[node.results[i].id] = inner.slot_of[graph.outputs()[i].id];
  }

  // A segment that its backend compiled as a graph: one task, whose slots are its values that are not temporaries.
  void add_whole(Scope& inner, const ModuleSegment& segment, uint32_t number, uint32_t which) {
    const Graph& graph = segment.module->graph;
    Task task{.kind = TaskKind::kDevice, .name = graph.name(), .device = inner.device, .group = number};
    std::vector<NodeRef> nodes;
    for (uint32_t id = 0; id < graph.nodes().size(); ++id) nodes.push_back({id});
    describe(task, graph, nodes);
    for (uint32_t id = 0; id < graph.value_count(); ++id) {
      if (graph.leaf({id}) != nullptr) task.inputs.push_back(in_space(inner.slot_of[id], inner.space));
      if (graph.leaf({id}) != nullptr || !is_output(graph, {id})) continue;
      inner.slot_of[id] = add_output(graph.type({id}), false);
      slots()[inner.slot_of[id]].space = inner.space;
      task.outputs.push_back(inner.slot_of[id]);
    }
    task.kernel = segment.code;
    task.launch_sizes = segment.code->launch_sizes();
    task.segment = which;
    task.segment_graph = std::shared_ptr<const Graph>(segment.module, &segment.module->graph);
    program_.tasks.push_back(std::move(task));
  }

  static bool is_output(const Graph& graph, ValueRef value) {
    return std::ranges::find(graph.outputs(), value) != graph.outputs().end();
  }

  uint32_t space_of(const Backend& backend) {
    const std::shared_ptr<runtime::Device> device = device_of(backend);
    if (!device) return kHost;
    const auto found = std::ranges::find(program_.spaces, device, &ProgramSpace::handle);
    const auto number = static_cast<uint32_t>(found - program_.spaces.begin());
    if (found == program_.spaces.end()) program_.spaces.push_back({backend.name(), device});
    return number + 1;
  }

  // The tensor of a slot in another space: brought there once, however many tasks read it there.
  uint32_t in_space(uint32_t slot, uint32_t space) {
    const Slot from = slots()[slot];
    if (from.space == space) return slot;
    const auto known = moved_.find({slot, space});
    if (known != moved_.end()) return known->second;
    uint32_t moved = 0;
    if (from.root != slot) {
      moved = alias_of(in_space(from.root, space), from.type);
    } else if (from.kind == SlotKind::kConstant) {
      moved = add_slot(from.type, SlotKind::kConstant, from.position);
      slots()[moved].space = space;
    } else if (from.space != kHost && space != kHost) {
      moved = in_space(in_space(slot, kHost), space);
    } else {
      moved = add_slot(from.type, SlotKind::kTemporary);
      slots()[moved].space = space;
      const std::string& device = program_.spaces[std::max(from.space, space) - 1].device;
      program_.tasks.push_back({.kind = TaskKind::kTransfer,
                                .name = (space == kHost ? "from " : "to ") + device,
                                .device = device,
                                .inputs = {slot},
                                .outputs = {moved}});
    }
    return moved_[{slot, space}] = moved;
  }

  void set_kernel(Task& task, const GroupKernel& kernel) {
    for (Symbol symbol : kernel.loops.size_symbols()) task.sizes.push_back(symbol_index_.at(symbol));
    task.kernel = kernel.code;
    if (kernel.code->device_program()) {
      task.kind = TaskKind::kDevice;
      task.launch_sizes = kernel.code->launch_sizes();
      task.sizes.clear();
    }
    // The module keeps its kernels as long as the tasks are made; a task needs the tree alone, as long as it lives.
    task.tree = tree_of(kernel);
    prepare_inputs(task, *kernel.schedule);
  }

  std::shared_ptr<const loops::LoopTree> tree_of(const GroupKernel& kernel) {
    std::shared_ptr<const loops::LoopTree>& tree = trees_[&kernel];
    if (!tree) tree = std::make_shared<const loops::LoopTree>(kernel.schedule->tree);
    return tree;
  }

  // ---- constants ----

  ConstantUse use_of(uint32_t slot) { return {slots()[slot].position, slots()[slot].type}; }

  void run_once(Task task) {
    ConstantStep step;
    for (uint32_t slot : task.inputs) step.inputs.push_back(use_of(slot));
    for (uint32_t slot : task.outputs) step.outputs.push_back(use_of(slot));
    step.task = std::move(task);
    run(std::move(step));
  }

  void run(ConstantStep step) {
    run_step(step, program_.constants, preparer_);
    history_.steps.push_back(std::move(step));
  }

  void prepare_inputs(Task& task, const AheadOfTime& split) {
    const std::vector<uint32_t> given = std::move(task.inputs);
    std::vector<uint32_t> prepared;
    for (const Preparation& preparation : split.preparations) {
      std::vector<ConstantUse> inputs;
      for (int64_t slot : preparation.inputs) inputs.push_back(use_of(given[static_cast<size_t>(slot)]));
      prepared.push_back(prepared_slot(preparation.kernel, inputs));
    }
    task.inputs.clear();
    for (const AheadOfTime::Input& input : split.inputs) {
      task.inputs.push_back(input.preparation < 0 ? given[static_cast<size_t>(input.slot)]
                                                  : prepared[static_cast<size_t>(input.preparation)]);
    }
  }

  // Weights that several kernels read in one layout are prepared once.
  uint32_t prepared_slot(const loops::IR& kernel, const std::vector<ConstantUse>& inputs) {
    std::pair<std::string, std::vector<const void*>> key{to_string(kernel), {}};
    for (const ConstantUse& input : inputs) key.second.push_back(program_.constants[input.constant].data());
    const auto found = prepared_.find(key);
    if (found != prepared_.end()) return found->second;
    const TensorType type = kernel.type(kernel.writes()[0]);
    const uint32_t constant = new_constant();
    run(ConstantStep{.inputs = inputs, .outputs = {{constant, type}}, .preparation = kernel});
    const uint32_t slot = add_slot(type, SlotKind::kConstant, constant);
    prepared_.emplace(std::move(key), slot);
    if (inputs.size() == 1) {
      program_.packings.push_back({constant_of(program_.constants, inputs[0]), kernel, slot,
                                   part_of(history_.steps, program_.constants, inputs[0])});
    }
    return slot;
  }

  // ---- results ----

  void add_results() {
    for (ValueRef output : graph_.outputs()) {
      const uint32_t slot = in_space(main_.slot_of[output.id], kHost);
      Slot& root = slots()[slots()[slot].root];
      const bool is_copied = root.kind != SlotKind::kTemporary;  // taken, or somebody else's
      if (!is_copied) {
        root.kind = SlotKind::kOutput;
        root.position = static_cast<uint32_t>(program_.outputs.size());
      }
      program_.outputs.push_back({slot, is_copied});
    }
    for (const Update& update : graph_.updates()) {
      program_.updates.push_back({main_.slot_of[update.target.id], in_space(main_.slot_of[update.value.id], kHost)});
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
        history_.kept.push_back(slot.position);
        constants.push_back(program_.constants[slot.position]);
        slot.position = static_cast<uint32_t>(constants.size() - 1);
      }
      slot.root = number[slot.root];
      if (slot.kind == SlotKind::kConstant)
        slot.position = slot.root == number[i] ? slot.position : kept[slot.root].position;
      kept.push_back(std::move(slot));
    }
    for_each_used([&](uint32_t& slot) { slot = number[slot]; });
    slots() = std::move(kept);
    history_.constants = static_cast<uint32_t>(program_.constants.size());
    program_.constants = std::move(constants);
  }

  template <class Body>
  void for_each_used(Body body) {
    for (Task& task : program_.tasks) {
      std::ranges::for_each(task.inputs, body);
      std::ranges::for_each(task.outputs, body);
    }
    for (Packing& packing : program_.packings) body(packing.slot);
    for (auto& output : program_.outputs) body(output.slot);
    for (auto& update : program_.updates) {
      body(update.target);
      body(update.value);
    }
  }

  Module& module_;
  const Graph& graph_;
  const ProgramOptions& options_;
  Program program_;
  ConstantHistory history_;
  Scope main_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> moved_;  // (slot, space) to the slot there
  std::map<Symbol, uint32_t> symbol_index_;
  std::map<std::pair<const void*, std::string>, uint32_t> frozen_;  // (data, type) to its slot
  std::map<const GroupKernel*, std::shared_ptr<const loops::LoopTree>> trees_;
  std::map<std::pair<std::string, std::vector<const void*>>, uint32_t> prepared_;
  Preparer preparer_;
};

}  // namespace

void make_tasks(Module& module, const BuildTarget& target, const ProgramOptions& options) {
  TaskMaker(module, target, options).run();
}

}  // namespace tenon
