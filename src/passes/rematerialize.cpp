#include "passes/rematerialize.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/work.h"

namespace tenon {
namespace {

constexpr size_t kMostNodes = 64;        // of a group
constexpr size_t kMostRecomputed = 512;  // nodes, for one value
constexpr uint32_t kNoGroup = ~0u;
constexpr int64_t kSmallState = 4096;  // bytes that may as well be copied when all is over
constexpr int64_t kMuch = 8;           // times as large
constexpr double kNearPeak = 0.98;

bool contains(const FusedGroup& group, NodeRef node) { return std::ranges::binary_search(group.nodes, node); }

Shape core_of(const Shape& shape) {
  Shape core;
  std::ranges::copy_if(shape, std::back_inserter(core), [](const Expr& size) { return !size.is_constant(1); });
  return core;
}

FusedGroup group_of(const Graph& graph, GroupKind kind, const std::set<NodeRef>& nodes, std::vector<ValueRef> outputs) {
  FusedGroup group{kind, {nodes.begin(), nodes.end()}, {}, std::move(outputs)};
  std::set<ValueRef> inputs;
  for (NodeRef node : nodes) {
    for (ValueRef operand : graph.node(node).operands) {
      if (operand && !nodes.contains(graph.producer(operand))) inputs.insert(operand);
    }
  }
  group.inputs.assign(inputs.begin(), inputs.end());
  return group;
}

// The part of a group that some of its outputs need.
FusedGroup part_of(const Graph& graph, const FusedGroup& group, const std::vector<ValueRef>& outputs) {
  std::set<NodeRef> nodes;
  std::vector<ValueRef> open = outputs;
  while (!open.empty()) {
    const NodeRef producer = open.back() ? graph.producer(open.back()) : NodeRef();
    open.pop_back();
    if (!producer || !contains(group, producer) || !nodes.insert(producer).second) continue;
    const std::vector<ValueRef>& operands = graph.node(producer).operands;
    open.insert(open.end(), operands.begin(), operands.end());
  }
  return group_of(graph, group.kind, nodes, outputs);
}

bool runs_as_a_whole(const FusedGroup& group) {
  return group.kind == GroupKind::kLibrary || group.kind == GroupKind::kExternal;
}

// Without what nobody reads.
GroupList without_unused(const Graph& graph, const GroupList& groups) {
  std::vector<bool> needed(graph.value_count());
  for (ValueRef output : graph.outputs()) needed[output.id] = true;
  for (const Update& update : graph.updates()) needed[update.value.id] = true;
  GroupList kept;
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    std::vector<ValueRef> outputs;
    std::ranges::copy_if((*group)->outputs, std::back_inserter(outputs), [&](ValueRef v) { return needed[v.id]; });
    const bool stays = runs_as_a_whole(**group) || outputs.size() == (*group)->outputs.size();
    if (!stays && outputs.empty()) continue;
    kept.push_back(stays ? *group : std::make_shared<const FusedGroup>(part_of(graph, **group, outputs)));
    for (ValueRef output : kept.back()->outputs) needed[output.id] = false;
    for (ValueRef input : kept.back()->inputs) needed[input.id] = true;
  }
  std::ranges::reverse(kept);
  return kept;
}

// The groups as they were before anything was computed again, and who computes what.
struct Origin {
  const Graph& graph;
  const std::vector<FusedGroup>& groups;
  const MemoryModel& model;
  std::vector<uint32_t> home;              // of each value, the group that it is an output of
  std::map<ValueRef, ValueRef> new_value;  // of each large state that is updated in place

  Origin(const Graph& of, const std::vector<FusedGroup>& given, const MemoryModel& known)
      : graph(of), groups(given), model(known), home(of.value_count(), kNoGroup) {
    for (uint32_t i = 0; i < groups.size(); ++i) {
      for (ValueRef output : groups[i].outputs) home[output.id] = i;
    }
    for (const Update& update : graph.updates()) {
      const bool is_large = bytes_of(graph.type(update.target), model.sizes) > kSmallState;
      if (is_large && model.elsewhere[update.value.id]) new_value[update.target] = update.value;
    }
  }
};

// What to compute again, so that values of an instance are there at a place of the list without it.
class Recipe {
 public:
  Recipe(const Origin& origin, const LiveMemory& memory, uint32_t without, uint32_t place)
      : origin_(origin), memory_(memory), without_(without), place_(place) {}

  // False where that cannot be.
  bool add(ValueRef value) {
    const uint32_t home = origin_.home[value.id];
    if (home == kNoGroup || runs_as_a_whole(origin_.groups[home]) || is_known_before(value)) return false;
    Part& part = parts_[home];
    if (std::ranges::find(part.outputs, value) != part.outputs.end()) return true;
    part.outputs.push_back(value);
    return add_node(home, origin_.graph.producer(value));
  }

  std::vector<FusedGroup> groups() const {
    std::vector<FusedGroup> groups;
    for (const auto& [home, part] : parts_) {
      groups.push_back(group_of(origin_.graph, origin_.groups[home].kind, part.nodes, part.outputs));
    }
    return groups;
  }
  int64_t waiting_bytes() const { return waiting_bytes_; }  // of what must wait for this

 private:
  struct Part {
    std::set<NodeRef> nodes;
    std::vector<ValueRef> outputs;
  };

  bool is_known_before(ValueRef value) const {
    const std::optional<uint32_t> instance = memory_.instance_of(value, place_);
    return instance && memory_.instances()[*instance].bytes == 0;
  }

  bool add_node(uint32_t home, NodeRef node) {
    if (!parts_[home].nodes.insert(node).second) return true;
    if (++node_count_ > kMostRecomputed) return false;
    return std::ranges::all_of(origin_.graph.node(node).operands,
                               [&](ValueRef operand) { return !operand || add_operand(home, operand); });
  }

  bool add_operand(uint32_t home, ValueRef operand) {
    const NodeRef producer = origin_.graph.producer(operand);
    if (!producer) return is_as_it_was(operand);
    if (is_there(operand)) return true;
    if (contains(origin_.groups[home], producer)) return add_node(home, producer);
    return waits(operand) || add(operand);
  }

  // A state that has its new value by then is not.
  bool is_as_it_was(ValueRef leaf) const {
    const auto update = origin_.new_value.find(leaf);
    return update == origin_.new_value.end() || !memory_.instance_of(update->second, place_);
  }

  bool is_there(ValueRef value) const {
    const std::optional<uint32_t> instance = memory_.instance_of(value, place_);
    return instance && *instance != without_ && memory_.instances()[*instance].last >= place_;
  }

  // Whether it is better kept for longer than computed again.
  bool waits(ValueRef value) {
    const std::optional<uint32_t> id = memory_.instance_of(value, place_);
    if (!id || *id == without_) return false;
    const LiveMemory::Instance& instance = memory_.instances()[*id];
    const bool waits_anyway = instance.last >= memory_.peak_group();
    if (!waits_anyway && instance.bytes * kMuch > memory_.instances()[without_].bytes) return false;
    if (!waits_anyway && waiting_.insert(*id).second) waiting_bytes_ += instance.bytes;
    return true;
  }

  const Origin& origin_;
  const LiveMemory& memory_;
  uint32_t without_;
  uint32_t place_;
  std::map<uint32_t, Part> parts_;  // by group: in an order in which they can run
  std::set<uint32_t> waiting_;
  int64_t waiting_bytes_ = 0;
  size_t node_count_ = 0;
};

class Rematerializer {
 public:
  Rematerializer(const Graph& graph, const std::vector<FusedGroup>& groups, const MemoryModel& model, int64_t most)
      : graph_(graph), origin_(graph, groups, model), model_(model), most_(most) {
    for (const FusedGroup& group : groups) now_.groups.push_back(std::make_shared<const FusedGroup>(group));
    now_.memory = std::make_unique<LiveMemory>(graph, now_.groups, model);
    work_ = total_work(now_.groups);
  }

  Rematerialized run() {
    Rematerialized best = result();
    while (now_.memory->peak() > most_ && improve()) {
      if (now_.memory->peak() < best.bytes) best = result();
    }
    return best;
  }

 private:
  struct State {
    GroupList groups;
    std::unique_ptr<LiveMemory> memory;
  };

  // One value that is computed again, for who needs it after the peak.
  struct Candidate {
    uint32_t instance;
    std::vector<FusedGroup> again;  // listed before the first of them, or part of each
    std::vector<uint32_t> readers;
    bool is_part_of_readers;
    double work;
    int64_t saved;
    double price() const { return work / static_cast<double>(saved); }
  };

  double total_work(const GroupList& groups) const {
    double work = 0;
    for (const auto& group : groups) work += work_of(graph_, *group, model_.sizes);
    return work;
  }

  Rematerialized result() const {
    Rematerialized result{{}, recomputed_, now_.memory->peak(), total_work(now_.groups) / work_};
    for (const auto& group : now_.groups) result.groups.push_back(*group);
    return result;
  }

  // ---- the search ----

  bool improve() {
    std::vector<Candidate> candidates = candidates_at_peak();
    std::ranges::sort(candidates, {}, [](const Candidate& each) { return std::pair(each.price(), each.instance); });
    for (const Candidate& candidate : candidates) {
      State next = with(candidate);
      if (!is_better(*next.memory)) continue;
      note(candidate);
      now_ = std::move(next);
      return true;
    }
    return false;
  }

  // No higher peak, and less of what is about as high.
  bool is_better(const LiveMemory& next) const {
    const int64_t peak = now_.memory->peak();
    const int64_t high = std::max(most_, static_cast<int64_t>(kNearPeak * static_cast<double>(peak)));
    return next.peak() <= peak && next.area_above(high) < now_.memory->area_above(high);
  }

  void note(const Candidate& candidate) {
    const LiveMemory::Instance& instance = now_.memory->instances()[candidate.instance];
    const ValueRef value = instance.uses.back().value;
    Recomputation entry{{}, {}, graph_.type(value), instance.bytes, candidate.work / work_};
    for (const FusedGroup& group : candidate.again) {
      for (NodeRef node : group.nodes) {
        if (work_of(graph_, graph_.node(node), model_.sizes) > 0)
          entry.ops.emplace_back(graph_.node(node).op->name.get());
        if (graph_.node(node).location.known()) entry.location = graph_.node(node).location;
      }
    }
    if (entry.ops.empty()) entry.ops.emplace_back(graph_.node(graph_.producer(value)).op->name.get());
    recomputed_.push_back(std::move(entry));
  }

  // ---- candidates ----

  std::vector<Candidate> candidates_at_peak() const {
    std::vector<Candidate> candidates;
    for (uint32_t i = 0; i < now_.memory->instances().size(); ++i) {
      std::optional<Candidate> candidate = candidate_of(i);
      if (candidate && candidate->saved > 0) candidates.push_back(std::move(*candidate));
    }
    return candidates;
  }

  // An instance that only waits while the peak happens.
  std::optional<Candidate> candidate_of(uint32_t id) const {
    const LiveMemory& memory = *now_.memory;
    const uint32_t peak = memory.peak_group();
    const LiveMemory::Instance& instance = memory.instances()[id];
    const bool waits = instance.writer < peak && instance.last > peak && !memory.is_used_at(instance, peak);
    if (!waits || instance.is_kept || instance.bytes == 0) return {};
    std::set<ValueRef> values;
    Candidate candidate{id, {}, {}, false, 0, instance.bytes};
    for (const LiveMemory::Use& use : instance.uses) {
      if (use.group <= peak) continue;
      values.insert(use.value);
      if (candidate.readers.empty() || candidate.readers.back() != use.group) candidate.readers.push_back(use.group);
    }
    Recipe recipe(origin_, memory, id, candidate.readers[0]);
    if (!std::ranges::all_of(values, [&](ValueRef value) { return recipe.add(value); })) return {};
    candidate.again = recipe.groups();
    candidate.saved -= recipe.waiting_bytes();
    decide_where(candidate, values);
    return candidate;
  }

  void decide_where(Candidate& candidate, const std::set<ValueRef>& values) const {
    const bool is_one = candidate.again.size() == 1 && values.size() == 1;
    candidate.is_part_of_readers = is_one && std::ranges::all_of(candidate.readers, [&](uint32_t reader) {
                                     return can_be_part(candidate.again[0], *values.begin(), *now_.groups[reader]);
                                   });
    for (const FusedGroup& group : candidate.again) {
      candidate.work += candidate.is_part_of_readers
                            ? work_inside(group) * static_cast<double>(candidate.readers.size())
                            : work_of(graph_, group, model_.sizes);
    }
  }

  double work_inside(const FusedGroup& group) const {
    double work = 0;
    for (NodeRef node : group.nodes) work += work_of(graph_, graph_.node(node), model_.sizes);
    return work;
  }

  // Whether all of it, and all who read its result there, is element by element in one shape.
  bool can_be_part(const FusedGroup& again, ValueRef value, const FusedGroup& reader) const {
    if (again.kind != GroupKind::kKernel || reader.kind != GroupKind::kKernel) return false;
    if (again.nodes.size() + reader.nodes.size() > kMostNodes) return false;
    const Shape core = core_of(graph_.type(value).shape);
    const auto is_of_shape = [&](NodeRef ref) {
      const Node& node = graph_.node(ref);
      return is_pointwise(node) && core_of(graph_.type(node.results[0]).shape) == core;
    };
    const auto reads = [&](NodeRef ref) {
      const std::vector<ValueRef>& operands = graph_.node(ref).operands;
      return std::ranges::find(operands, value) != operands.end();
    };
    const auto fits = [&](NodeRef ref) { return only_moves(graph_.node(ref)) || is_of_shape(ref); };
    return std::ranges::all_of(again.nodes, fits) && is_of_shape(graph_.producer(value)) &&
           std::ranges::all_of(reader.nodes, [&](NodeRef ref) { return !reads(ref) || is_of_shape(ref); });
  }

  // ---- lists ----

  State with(const Candidate& candidate) const {
    GroupList groups = now_.groups;
    if (candidate.is_part_of_readers) {
      for (uint32_t reader : candidate.readers) {
        std::set<NodeRef> nodes(groups[reader]->nodes.begin(), groups[reader]->nodes.end());
        nodes.insert(candidate.again[0].nodes.begin(), candidate.again[0].nodes.end());
        groups[reader] =
            std::make_shared<const FusedGroup>(group_of(graph_, GroupKind::kKernel, nodes, groups[reader]->outputs));
      }
    } else {
      GroupList again;
      for (const FusedGroup& group : candidate.again) again.push_back(std::make_shared<const FusedGroup>(group));
      groups.insert(groups.begin() + candidate.readers[0], again.begin(), again.end());
    }
    State state{without_unused(graph_, groups), nullptr};
    state.memory = std::make_unique<LiveMemory>(graph_, state.groups, model_);
    return state;
  }

  const Graph& graph_;
  Origin origin_;
  const MemoryModel& model_;
  int64_t most_;
  State now_;
  double work_;
  std::vector<Recomputation> recomputed_;
};

}  // namespace

Rematerialized rematerialize(const Graph& graph, const std::vector<FusedGroup>& groups, const MemoryModel& model,
                             int64_t most) {
  return Rematerializer(graph, groups, model, most).run();
}

}  // namespace tenon
