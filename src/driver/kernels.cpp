#include "driver/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "backends/device_backend.h"
#include "driver/constant_budget.h"
#include "graph/library_call.h"
#include "graph/node_symbols.h"
#include "loops/lower.h"
#include "runtime/thread_pool.h"

namespace tenon {

Module new_module(const Graph& graph) { return {.source = std::make_shared<const Graph>(graph), .graph = graph}; }

bool is_frozen(const Graph& graph, const Leaf& leaf, const ProgramOptions& options) {
  if (leaf.kind == LeafKind::kInput) return false;
  return leaf.kind == LeafKind::kConstant ||
         (options.freeze && !is_updated(graph, leaf) && !options.states.contains(leaf.name));
}

namespace {

// ---- loops ----------------------------------------------------------------------------------------------------------

std::string kernel_name(const Graph& graph, const FusedGroup& group) {
  constexpr size_t kLongest = 48;
  std::string name;
  for (NodeRef node : group.nodes) {
    const OpDef& def = *graph.node(node).op;
    const std::string_view op = def.name.get();
    if (def.is_plumbing && group.nodes.size() > 1) continue;
    if (name.size() + op.size() > kLongest) return name + "_etc";
    name += (name.empty() ? "" : "_") + std::string(op);
  }
  return name.empty() ? std::string(graph.node(group.nodes[0]).op->name.get()) : name;
}

class Lowering {
 public:
  Lowering(Module& module, const ProgramOptions& options)
      : module_(module), graph_(module.graph), is_known_(graph_.value_count()) {
    for (const Leaf& leaf : graph_.leaves()) is_known_[leaf.value.id] = is_frozen(graph_, leaf, options);
  }

  void run() {
    module_.bodies.clear();
    module_.kernels.clear();
    for (const FusedGroup& group : module_.groups) module_.bodies.push_back(body_of(group));
    find_shared();
    for (size_t i = 0; i < module_.bodies.size(); ++i) {
      if (loops_of_[i] != nullptr) module_.bodies[i]->kernel = kernel_of(*module_.bodies[i], *loops_of_[i]);
    }
  }

 private:
  std::optional<GroupBody> body_of(const FusedGroup& group) {
    const Node& last = graph_.node(group.nodes.back());
    const loops::IR*& loops = loops_of_.emplace_back();
    if (group.kind == GroupKind::kAlias) {
      is_known_[last.results[0].id] = is_known_[last.operands[0].id];
      return {};
    }
    GroupBody body{.kind = kind_of(group, last), .name = kernel_name(graph_, group), .outputs = group.outputs};
    if (body.kind == TaskKind::kLibrary) {
      make_library(group, last, body);
    } else {
      body.graph = std::make_shared<const Graph>(graph_of(group, body.name));
      body.inputs = read_by(group);
    }
    if (body.kind == TaskKind::kDevice) body.inputs = last.operands;
    if (body.kind == TaskKind::kExternal) {
      body.name = view_of(graph_, *last.op, last.operands, last.attrs).string("target");
      body.inputs = last.operands;  // the fallback gets every operand, in order
    }
    if (body.kind == TaskKind::kKernel) loops = lowered(*body.graph);
    if (body.kind == TaskKind::kKernel && loops == nullptr) body.kind = TaskKind::kReference;
    body.runs_once =
        needs_only_constants(body, group) && constant_budget_.covers(graph_, group, body.kind == TaskKind::kReference);
    for (ValueRef output : body.outputs) is_known_[output.id] = body.runs_once;
    return body;
  }

  static TaskKind kind_of(const FusedGroup& group, const Node& last) {
    if (group.kind == GroupKind::kKernel) return TaskKind::kKernel;
    if (group.kind == GroupKind::kExternal) return TaskKind::kExternal;
    if (group.kind == GroupKind::kSegment) return TaskKind::kDevice;
    return has_library_function(*last.op) ? TaskKind::kLibrary : TaskKind::kReference;
  }

  // A function of the runtime takes every operand and gives every result.
  void make_library(const FusedGroup& group, const Node& node, GroupBody& body) const {
    Graph graph(body.name);
    declare_symbols(graph, graph_, symbols_of(group));
    std::vector<ValueRef> operands;
    for (ValueRef operand : node.operands) {
      body.inputs.push_back(operand);
      operands.push_back(graph.add_input(fmt::format("in{}", operands.size()), graph_.type(operand)));
    }
    const NodeRef copy = graph.add_node(*node.op, std::move(operands), node.attrs, node.location);
    graph.set_outputs(graph.node(copy).results);
    body.outputs = node.results;
    body.graph = std::make_shared<const Graph>(std::move(graph));
  }

  // A constant of one number is part of the kernel's code.
  bool is_part_of_kernel(ValueRef value) const {
    const Leaf* leaf = graph_.leaf(value);
    return leaf != nullptr && leaf->kind == LeafKind::kConstant && leaf->data.numel() == 1;
  }

  std::vector<ValueRef> read_by(const FusedGroup& group) const {
    std::vector<ValueRef> values;
    std::ranges::copy_if(group.inputs, std::back_inserter(values), [&](ValueRef v) { return !is_part_of_kernel(v); });
    return values;
  }

  std::set<Symbol> symbols_of(const FusedGroup& group) const {
    std::set<Symbol> symbols;
    for (ValueRef input : group.inputs) add_symbols(graph_.type(input), symbols);
    for (NodeRef node : group.nodes) symbols.merge(tenon::symbols_of(graph_, graph_.node(node)));
    return symbols;
  }

  Graph graph_of(const FusedGroup& group, const std::string& name) const {
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

  // Layers repeat: bodies of equal text are lowered once. Null for a body that loops cannot express.
  const loops::IR* lowered(const Graph& body) {
    const auto [found, is_new] = lowered_.try_emplace(to_string(body));
    if (is_new) {
      Result<loops::IR> loops = lower(body);
      if (loops.ok()) found->second = std::move(loops).value();
    }
    return found->second ? &*found->second : nullptr;
  }

  bool needs_only_constants(const GroupBody& body, const FusedGroup& group) const {
    if (body.kind == TaskKind::kExternal || body.kind == TaskKind::kDevice) return false;
    return std::ranges::all_of(body.inputs, [&](ValueRef input) { return is_known_[input.id]; }) &&
           std::ranges::all_of(group.nodes,
                               [&](NodeRef node) { return tenon::symbols_of(graph_, graph_.node(node)).empty(); });
  }

  uint32_t kernel_of(const GroupBody& body, const loops::IR& loops) {
    std::set<int64_t> constants;  // a kernel that runs once needs no preparation
    for (size_t i = 0; i < body.inputs.size() && !body.runs_once; ++i) {
      if (is_known_[body.inputs[i].id]) constants.insert(static_cast<int64_t>(i));
    }
    std::map<int64_t, uint32_t> shared;
    for (int64_t slot : constants) {
      const auto weight = shared_.find(weight_of(body.inputs[static_cast<size_t>(slot)]));
      if (weight != shared_.end()) shared[slot] = weight->second;
    }
    const auto next = static_cast<uint32_t>(module_.kernels.size());
    const auto [found, is_new] = kernels_.try_emplace({&loops, constants, shared, body.runs_once}, next);
    if (is_new) {
      module_.kernels.push_back(
          {.loops = loops, .constants = constants, .shared = shared, .runs_once = body.runs_once});
    }
    return found->second;
  }

  // ---- weights that several kernels read ----

  using Weight = std::pair<const void*, std::string>;  // data and type; tied weights are one

  // No data for a value that is not a known leaf.
  Weight weight_of(ValueRef value) const {
    const Leaf* const leaf = value && is_known_[value.id] ? graph_.leaf(value) : nullptr;
    if (leaf == nullptr || leaf->kind == LeafKind::kConstant || !leaf->data.defined()) return {};
    return {leaf->data.data(), to_string(graph_.type(value))};
  }

  // Numbers the weights that kernels of different loops read, and nothing else does.
  void find_shared() {
    std::map<Weight, std::set<std::pair<const loops::IR*, size_t>>> readers;
    std::set<Weight> others;
    for (size_t i = 0; i < module_.groups.size(); ++i) {
      const std::optional<GroupBody>& body = module_.bodies[i];
      if (body && body->runs_once) continue;
      const std::vector<ValueRef>& inputs = body ? body->inputs : graph_.node(module_.groups[i].nodes[0]).operands;
      for (size_t slot = 0; slot < inputs.size(); ++slot) {
        const Weight weight = weight_of(inputs[slot]);
        if (weight.first == nullptr) continue;
        loops_of_[i] != nullptr ? void(readers[weight].insert({loops_of_[i], slot})) : void(others.insert(weight));
      }
    }
    for (ValueRef output : graph_.outputs()) others.insert(weight_of(output));
    for (const auto& [weight, places] : readers) {
      if (places.size() > 1 && !others.contains(weight))
        shared_.try_emplace(weight, static_cast<uint32_t>(shared_.size()));
    }
  }

  Module& module_;
  const Graph& graph_;
  std::vector<bool> is_known_;  // values that are computed while the module is compiled
  ConstantBudget constant_budget_;
  std::map<std::string, std::optional<loops::IR>> lowered_;
  std::vector<const loops::IR*> loops_of_;  // of each group; null for one without a kernel
  std::map<Weight, uint32_t> shared_;
  std::map<std::tuple<const loops::IR*, std::set<int64_t>, std::map<int64_t, uint32_t>, bool>, uint32_t> kernels_;
};

// ---- schedules ------------------------------------------------------------------------------------------------------

// A preparation of the kernel that only moves the elements of this input. Null if there is none.
const Preparation* layout_of(const GroupKernel& kernel, int64_t slot) {
  for (const Preparation& each : kernel.schedule->preparations) {
    if (!each.positions.empty() && each.inputs == std::vector{slot}) return &each;
  }
  return nullptr;
}

bool reads_as_it_is(const GroupKernel& kernel, int64_t slot) {
  const auto prepares = [&](const Preparation& each) {
    return std::ranges::find(each.inputs, slot) != each.inputs.end();
  };
  return std::ranges::find(kernel.schedule->inputs, slot, &AheadOfTime::Input::slot) != kernel.schedule->inputs.end() &&
         std::ranges::none_of(kernel.schedule->preparations, prepares);
}

// Schedules a kernel that reads inputs in the layouts of other kernels.
AheadOfTime schedule_with(const Backend& backend, const GroupKernel& kernel,
                          const std::map<int64_t, Preparation>& layouts) {
  loops::IR loops = kernel.loops;
  std::set<int64_t> constants = kernel.constants;
  for (const auto& [slot, layout] : layouts) {
    loops = read_prepared(loops, slot, layout);
    constants.erase(slot);
  }
  AheadOfTime schedule = split_ahead(backend.schedule(loops), constants);
  for (const auto& [slot, layout] : layouts) {
    const auto input = std::ranges::find(schedule.inputs, slot, &AheadOfTime::Input::slot);
    if (input == schedule.inputs.end()) continue;
    *input = {.preparation = std::ssize(schedule.preparations)};
    schedule.preparations.push_back({layout.kernel, {slot}, layout.positions});
  }
  return schedule;
}

// A weight that one kernel lays out anew is in memory in that layout alone: kernels that would read it as it is (an
// embedding, where the other is a product) read it there.
void share_layouts(std::vector<GroupKernel>& kernels, const Backend& backend) {
  std::map<uint32_t, Preparation> layouts;
  for (const GroupKernel& kernel : kernels) {
    for (const auto& [slot, weight] : kernel.shared) {
      if (const Preparation* layout = layout_of(kernel, slot)) layouts.try_emplace(weight, *layout);
    }
  }
  for (GroupKernel& kernel : kernels) {
    std::map<int64_t, Preparation> own;
    for (const auto& [slot, weight] : kernel.shared) {
      const auto layout = layouts.find(weight);
      if (layout != layouts.end() && reads_as_it_is(kernel, slot)) own.insert({slot, layout->second});
    }
    if (!own.empty()) kernel.schedule = schedule_with(backend, kernel, own);
  }
}

// ---- code -----------------------------------------------------------------------------------------------------------

void compile_with(const Backend& backend, Module& module, bool run_once) {
  std::vector<const loops::LoopTree*> trees;
  std::vector<GroupKernel*> kernels;
  for (GroupKernel& kernel : module.kernels) {
    if (kernel.runs_once != run_once) continue;
    trees.push_back(&kernel.schedule->tree);
    kernels.push_back(&kernel);
  }
  std::vector<std::unique_ptr<Compiled>> code = backend.compile_all(trees).value();
  for (size_t i = 0; i < code.size(); ++i) kernels[i]->code = std::move(code[i]);
}

}  // namespace

void lower_groups(Module& module, const BuildTarget&, const ProgramOptions& options) {
  Lowering(module, options).run();
}

void schedule_kernels(Module& module, const BuildTarget& target, const ProgramOptions&) {
  for (GroupKernel& kernel : module.kernels) {
    kernel.schedule = split_ahead(target.backend->schedule(kernel.loops), kernel.constants);
  }
  share_layouts(module.kernels, *target.backend);
}

// Schedules are for as many threads as a run has; compilation takes all threads of the process.
void compile_kernels(Module& module, const BuildTarget& target, const ProgramOptions&) {
  const ThreadCount all(0);
  compile_with(*target.backend, module, false);
  compile_with(*target.here, module, true);
  for (ModuleSegment& segment : module.segments) {
    if (const DeviceBackend* backend = graph_compiler(*segment.backend))
      segment.code = backend->compile_graph(segment.module->graph);
  }
}

}  // namespace tenon
