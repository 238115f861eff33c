#include "driver/tasks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "backends/bound.h"
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
        slot_of_(graph_.value_count()),
        preparer_(*target.here) {}

  // A value that several groups compute has a slot of each: groups that follow read the last.
  void run() {
    const ThreadCount all(0);
    add_symbols();
    add_leaves();
    for (uint32_t i = 0; i < module_.groups.size(); ++i) add_group(i);
    add_results();
    drop_unused_slots();
    program_.inputs = graph_.inputs();
    module_.program = std::move(program_);
    module_.history = std::move(history_);
  }

 private:
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

  uint32_t add_frozen(const Leaf& leaf) {
    const uint32_t constant = new_constant();
    program_.constants[constant] = leaf.data.contiguous();
    history_.leaves.push_back({constant, static_cast<uint32_t>(&leaf - graph_.leaves().data())});
    return add_slot(graph_.type(leaf.value), SlotKind::kConstant, constant);
  }

  void add_leaves() {
    for (const Leaf& leaf : graph_.leaves()) {
      const TensorType& type = graph_.type(leaf.value);
      if (leaf.kind == LeafKind::kInput) {
        slot_of_[leaf.value.id] = add_slot(type, SlotKind::kInput, leaf.ordinal);
      } else if (is_frozen(graph_, leaf, options_)) {
        slot_of_[leaf.value.id] = add_frozen(leaf);
      } else {
        program_.leaves.push_back(leaf.data);
        program_.leaf_names.push_back(leaf.name);
        slot_of_[leaf.value.id] = add_slot(type, SlotKind::kLeaf, program_.leaves.size() - 1);
      }
    }
  }

  // ---- tasks ----

  void add_group(uint32_t number) {
    const FusedGroup& group = module_.groups[number];
    if (group.kind == GroupKind::kAlias) return add_alias(group);
    const GroupBody& body = *module_.bodies[number];
    Task task{.kind = body.kind, .name = body.name, .group = number};
    for (NodeRef node : group.nodes) {
      task.ops.emplace_back(graph_.node(node).op->name.get());
      if (!task.location.known()) task.location = graph_.node(node).location;
    }
    for (ValueRef input : body.inputs) task.inputs.push_back(slot_of_[input.id]);
    for (ValueRef output : body.outputs) task.outputs.push_back(add_output(output, body.runs_once));
    if (body.kind == TaskKind::kExternal) {
      const Node& node = graph_.node(group.nodes.back());
      task.call = view_of(graph_, *node.op, node.operands, node.attrs).integer("call");
    }
    if (body.kernel) {
      set_kernel(task, module_.kernels[*body.kernel]);
    } else {
      task.body = body.graph;
    }
    if (body.runs_once) {
      run_once(std::move(task));
    } else {
      program_.tasks.push_back(std::move(task));
    }
  }

  void add_alias(const FusedGroup& group) {
    const Node& node = graph_.node(group.nodes[0]);
    const uint32_t operand = slot_of_[node.operands[0].id];
    const uint32_t id = add_slot(graph_.type(node.results[0]), slots()[operand].kind, slots()[operand].position);
    slots()[id].root = slots()[operand].root;
    slot_of_[node.results[0].id] = id;
  }

  uint32_t add_output(ValueRef output, bool is_constant) {
    const uint32_t slot = is_constant ? add_slot(graph_.type(output), SlotKind::kConstant, new_constant())
                                      : add_slot(graph_.type(output), SlotKind::kTemporary);
    return slot_of_[output.id] = slot;
  }

  void set_kernel(Task& task, const GroupKernel& kernel) {
    for (Symbol symbol : kernel.loops.size_symbols()) task.sizes.push_back(symbol_index_.at(symbol));
    task.kernel = kernel.code;
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
    if (inputs.size() == 1) program_.packings.push_back({constant_of(program_.constants, inputs[0]), kernel, slot});
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
        root.position = static_cast<uint32_t>(program_.outputs.size());
      }
      program_.outputs.push_back({slot, is_copied});
    }
    for (const Update& update : graph_.updates()) {
      program_.updates.push_back({slot_of_[update.target.id], slot_of_[update.value.id]});
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
  std::vector<uint32_t> slot_of_;  // of each value that is in memory
  std::map<Symbol, uint32_t> symbol_index_;
  std::map<const GroupKernel*, std::shared_ptr<const loops::LoopTree>> trees_;
  std::map<std::pair<std::string, std::vector<const void*>>, uint32_t> prepared_;
  Preparer preparer_;
};

}  // namespace

void make_tasks(Module& module, const BuildTarget& target, const ProgramOptions& options) {
  TaskMaker(module, target, options).run();
}

}  // namespace tenon
