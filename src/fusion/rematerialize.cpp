#include "fusion/rematerialize.h"

#include <algorithm>
#include <map>
#include <set>

#include "fusion/work.h"
#include "support/is_in.h"

namespace tenon {
namespace {

constexpr size_t kMostRecomputed = 512;  // nodes, for one value
constexpr uint32_t kNoGroup = ~0u;
constexpr int64_t kSmallState = 4096;  // Bytes of a state that is cheap to copy at the end.
constexpr int64_t kMuch = 8;           // times as large
constexpr double kNearPeak = 0.98;

bool contains(const FusedGroup& group, NodeRef node) { return std::ranges::binary_search(group.nodes, node); }

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

// A call that must happen once: its cost and its effects are unknown. Calls for random numbers may be repeated.
bool is_call(const Graph& graph, const FusedGroup& group) {
  const bool is_random = graph.node(group.nodes.back()).op->family.get() == "random";
  return group.kind == GroupKind::kExternal || group.kind == GroupKind::kSegment ||
         (group.kind == GroupKind::kLibrary && !is_random);
}

// Without what nobody reads.
GroupList without_unused(const Graph& graph, const GroupList& groups) {
  std::vector<bool> needed(graph.value_count());
  for (ValueRef kept : kept_values(graph)) needed[kept.id] = true;
  GroupList kept;
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    std::vector<ValueRef> outputs;
    std::ranges::copy_if((*group)->outputs, std::back_inserter(outputs), [&](ValueRef v) { return needed[v.id]; });
    const bool stays = is_call(graph, **group) || outputs.size() == (*group)->outputs.size();
    if (!stays && outputs.empty()) continue;
    kept.push_back(stays ? *group : std::make_shared<const FusedGroup>(part_of(graph, **group, outputs)));
    for (ValueRef output : kept.back()->outputs) needed[output.id] = false;
    for (ValueRef input : kept.back()->inputs) needed[input.id] = true;
  }
  std::ranges::reverse(kept);
  return kept;
}

// The groups before rematerialization, and which group computes each value.
struct Origin {
  const Graph& graph;
  const std::vector<FusedGroup>& groups;
  const MemoryModel& model;
  std::vector<uint32_t> home;              // of each value, the group that it is an output of, or a part of
  std::map<ValueRef, ValueRef> new_value;  // of each large state that is updated in place

  Origin(const Graph& of, const std::vector<FusedGroup>& given, const MemoryModel& known)
      : graph(of), groups(given), model(known), home(of.value_count(), kNoGroup) {
    for (uint32_t i = 0; i < groups.size(); ++i) {
      for (NodeRef node : groups[i].nodes) {
        for (ValueRef result : graph.node(node).results) home[result.id] = std::min(home[result.id], i);
      }
    }
    for (uint32_t i = 0; i < groups.size(); ++i) {
      for (ValueRef output : groups[i].outputs) home[output.id] = i;
    }
    for (const Update& update : graph.updates()) {
      const bool is_large = bytes_of(graph.type(update.target), model.sizes) > kSmallState;
      if (is_large && model.elsewhere[update.value.id]) new_value[update.target] = update.value;
    }
  }
};

// The groups to compute again, so that values are available at a place of the list without some instances.
class Recipe {
 public:
  struct Without {
    std::set<uint32_t> instances;
    int64_t bytes;  // of all of them
    ValueRef kept;  // a value that waits in their place; may be empty
  };

  Recipe(const Origin& origin, const LiveMemory& memory, const Without& without, uint32_t place)
      : origin_(origin), memory_(memory), without_(without), place_(place) {}

  // False where that cannot be.
  bool add(ValueRef value) {
    const uint32_t home = origin_.home[value.id];
    if (home == kNoGroup || is_call(origin_.graph, origin_.groups[home]) || is_known_before(value)) return false;
    Part& part = parts_[home];
    if (is_in(part.outputs, value)) return true;
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
    const Node& node = origin_.graph.node(producer);
    const bool is_cheap = is_pointwise(node) || only_moves(node);
    if (!contains(origin_.groups[home], producer)) return waits(operand) || add(operand);
    return (!is_cheap && waits(operand)) || add_node(home, producer);
  }

  // A state that has its new value by then is not.
  bool is_as_it_was(ValueRef leaf) const {
    const auto update = origin_.new_value.find(leaf);
    return update == origin_.new_value.end() || !memory_.instance_of(update->second, place_);
  }

  bool is_there(ValueRef value) const {
    if (value == without_.kept) return true;
    const std::optional<uint32_t> instance = memory_.instance_of(value, place_);
    return instance && !without_.instances.contains(*instance) && memory_.instances()[*instance].last >= place_;
  }

  // Whether it is better kept for longer than computed again.
  bool waits(ValueRef value) {
    const std::optional<uint32_t> id = memory_.instance_of(value, place_);
    if (!id || without_.instances.contains(*id)) return false;
    const LiveMemory::Instance& instance = memory_.instances()[*id];
    const bool waits_anyway = instance.last >= memory_.peak_group();
    if (!waits_anyway && instance.bytes * kMuch > without_.bytes) return false;
    if (!waits_anyway && waiting_.insert(*id).second) waiting_bytes_ += instance.bytes;
    return true;
  }

  const Origin& origin_;
  const LiveMemory& memory_;
  const Without& without_;
  uint32_t place_;
  std::map<uint32_t, Part> parts_;  // by group: in an order in which they can run
  std::set<uint32_t> waiting_;
  int64_t waiting_bytes_ = 0;
  size_t node_count_ = 0;
};

enum class First : uint8_t { kCheapest, kCheapAndLarge, kLargest };

class Rematerializer {
 public:
  Rematerializer(const Graph& graph, const std::vector<FusedGroup>& groups, const MemoryModel& model, int64_t most,
                 First first)
      : graph_(graph), origin_(graph, groups, model), model_(model), most_(most), first_(first) {
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

  // An instance that is computed again for its readers after the peak, or as a part of its readers at the peak.
  struct Piece {
    uint32_t instance;
    std::vector<FusedGroup> again;  // listed before the first of the readers, or part of each
    std::vector<uint32_t> readers;
    bool is_part_of_readers;
  };
  // One step of the search. All values of one group may be computed again from a value that the group keeps instead.
  struct Candidate {
    std::vector<Piece> pieces;
    uint32_t writer;
    ValueRef kept;  // empty, or what the writer gives besides
    double work;
    int64_t saved;
    double price() const { return work / static_cast<double>(saved); }
  };

  double total_work(const GroupList& groups) const {
    double work = 0;
    for (const auto& group : groups) work += tenon::work_of(graph_, *group, model_.sizes);
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
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < candidates.size(); ++i) order.emplace_back(rank_of(candidates[i]), i);
    std::ranges::sort(order);
    for (const auto& [price, i] : order) {
      State next = with(candidates[i]);
      if (!is_better(*next.memory)) continue;
      note(candidates[i], next);
      now_ = std::move(next);
      return true;
    }
    return false;
  }

  double rank_of(const Candidate& candidate) const {
    const auto saved = static_cast<double>(candidate.saved);
    if (first_ == First::kLargest) return -saved;
    return first_ == First::kCheapest ? candidate.price() : candidate.price() / saved;
  }

  // No higher peak, and less of what is about as high.
  bool is_better(const LiveMemory& next) const {
    const int64_t peak = now_.memory->peak();
    const int64_t high = std::max(most_, static_cast<int64_t>(kNearPeak * static_cast<double>(peak)));
    return next.peak() <= peak && next.area_above(high) < now_.memory->area_above(high);
  }

  void note(const Candidate& candidate, const State& next) {
    const double share = (total_work(next.groups) - total_work(now_.groups)) / work_;
    for (const Piece& piece : candidate.pieces) {
      const LiveMemory::Instance& instance = now_.memory->instances()[piece.instance];
      const ValueRef value = instance.uses.back().value;
      Recomputation entry{
          {}, {}, graph_.type(value), instance.bytes, share / static_cast<double>(candidate.pieces.size())};
      for (const FusedGroup& group : piece.again) describe(group, entry);
      if (entry.ops.empty()) entry.ops.emplace_back(graph_.node(graph_.producer(value)).op->name.get());
      recomputed_.push_back(std::move(entry));
    }
  }

  void describe(const FusedGroup& group, Recomputation& entry) const {
    for (NodeRef node : group.nodes) {
      if (!only_moves(graph_.node(node))) entry.ops.emplace_back(graph_.node(node).op->name.get());
      if (graph_.node(node).location.known()) entry.location = graph_.node(node).location;
    }
  }

  // ---- candidates ----

  std::vector<Candidate> candidates_at_peak() const {
    std::vector<Candidate> candidates;
    std::map<uint32_t, std::vector<uint32_t>> waiting;  // by writer
    for (uint32_t i = 0; i < now_.memory->instances().size(); ++i) {
      if (!waits(i)) continue;
      waiting[now_.memory->instances()[i].writer].push_back(i);
      add_candidate({i}, {}, candidates);
    }
    for (const auto& [writer, instances] : waiting) {
      for (ValueRef kept : worth_keeping(writer)) add_candidate(instances, kept, candidates);
    }
    return candidates;
  }

  // While the peak happens, or for it.
  bool waits(uint32_t id) const {
    const LiveMemory::Instance& instance = now_.memory->instances()[id];
    const uint32_t peak = now_.memory->peak_group();
    return instance.writer < peak && instance.last >= peak && !instance.is_kept && instance.bytes > 0;
  }

  // What a group computes with much work and does not give away.
  std::vector<ValueRef> worth_keeping(uint32_t writer) const {
    const FusedGroup& group = *now_.groups[writer];
    std::vector<ValueRef> values;
    if (group.kind != GroupKind::kKernel) return values;
    for (NodeRef ref : group.nodes) {
      const Node& node = graph_.node(ref);
      if (is_pointwise(node) || only_moves(node) || node.results.size() != 1) continue;
      if (!is_in(group.outputs, node.results[0])) values.push_back(node.results[0]);
    }
    return values;
  }

  void add_candidate(const std::vector<uint32_t>& instances, ValueRef kept, std::vector<Candidate>& to) const {
    Recipe::Without without{{instances.begin(), instances.end()}, 0, kept};
    for (uint32_t id : instances) without.bytes += now_.memory->instances()[id].bytes;
    Candidate candidate{{}, now_.memory->instances()[instances[0]].writer, kept, 0, without.bytes};
    if (kept) candidate.saved -= bytes_of(graph_.type(kept), model_.sizes);
    for (uint32_t id : instances) {
      if (candidate.saved <= 0 || !add_piece(id, without, candidate)) return;
    }
    if (candidate.saved > 0) to.push_back(std::move(candidate));
  }

  bool add_piece(uint32_t id, const Recipe::Without& without, Candidate& candidate) const {
    const LiveMemory::Instance& instance = now_.memory->instances()[id];
    std::set<ValueRef> values;
    Piece piece{id, {}, {}, false};
    for (const LiveMemory::Use& use : instance.uses) {
      if (use.group < now_.memory->peak_group()) continue;
      values.insert(use.value);
      if (piece.readers.empty() || piece.readers.back() != use.group) piece.readers.push_back(use.group);
    }
    Recipe recipe(origin_, *now_.memory, without, piece.readers[0]);
    if (!std::ranges::all_of(values, [&](ValueRef value) { return recipe.add(value); })) return false;
    piece.again = recipe.groups();
    candidate.saved -= recipe.waiting_bytes();
    decide_where(piece, values);
    if (piece.readers[0] == now_.memory->peak_group() && !piece.is_part_of_readers) return false;
    candidate.work += work_of(piece);
    candidate.pieces.push_back(std::move(piece));
    return true;
  }

  void decide_where(Piece& piece, const std::set<ValueRef>& values) const {
    const bool is_one = piece.again.size() == 1 && values.size() == 1;
    piece.is_part_of_readers = is_one && std::ranges::all_of(piece.readers, [&](uint32_t reader) {
                                 return can_be_part(piece.again[0], *values.begin(), *now_.groups[reader]);
                               });
  }

  double work_of(const Piece& piece) const {
    const LiveMemory::Instance& instance = now_.memory->instances()[piece.instance];
    const bool is_read_before = instance.uses.front().group < piece.readers.front();
    const bool just_comes_later =
        piece.again.size() == 1 && !is_read_before && now_.groups[instance.writer]->outputs.size() == 1;
    if (just_comes_later) return 0;
    double work = 0;
    for (const FusedGroup& group : piece.again) {
      work += piece.is_part_of_readers ? work_inside(group) * static_cast<double>(piece.readers.size())
                                       : tenon::work_of(graph_, group, model_.sizes);
    }
    return work;
  }

  double work_inside(const FusedGroup& group) const {
    double work = 0;
    for (NodeRef node : group.nodes) work += tenon::work_of(graph_, graph_.node(node), model_.sizes);
    return work;
  }

  // Whether every node of `again`, and every node of the reader that reads its result, works element by element in one
  // shape.
  bool can_be_part(const FusedGroup& again, ValueRef value, const FusedGroup& reader) const {
    if (again.kind != GroupKind::kKernel || reader.kind != GroupKind::kKernel) return false;
    if (again.nodes.size() + reader.nodes.size() > kMostNodesOfGroup) return false;
    const Shape core = core_of(graph_.type(value).shape);
    const auto is_of_shape = [&](NodeRef ref) {
      const Node& node = graph_.node(ref);
      return is_pointwise(node) && core_of(graph_.type(node.results[0]).shape) == core;
    };
    const auto reads = [&](NodeRef ref) { return is_in(graph_.node(ref).operands, value); };
    const auto fits = [&](NodeRef ref) { return only_moves(graph_.node(ref)) || is_of_shape(ref); };
    return std::ranges::all_of(again.nodes, fits) && is_of_shape(graph_.producer(value)) &&
           std::ranges::all_of(reader.nodes, [&](NodeRef ref) { return !reads(ref) || is_of_shape(ref); });
  }

  // ---- lists ----

  State with(const Candidate& candidate) const {
    GroupList groups = now_.groups;
    if (candidate.kept) {
      FusedGroup writer = *groups[candidate.writer];
      writer.outputs.push_back(candidate.kept);
      groups[candidate.writer] = std::make_shared<const FusedGroup>(std::move(writer));
    }
    std::vector<const Piece*> listed;
    for (const Piece& piece : candidate.pieces) {
      if (piece.is_part_of_readers) {
        make_part(piece, groups);
      } else {
        listed.push_back(&piece);
      }
    }
    std::ranges::sort(listed, std::greater<>(), [](const Piece* piece) { return piece->readers[0]; });
    for (const Piece* piece : listed) {
      GroupList again;
      for (const FusedGroup& group : piece->again) again.push_back(std::make_shared<const FusedGroup>(group));
      groups.insert(groups.begin() + piece->readers[0], again.begin(), again.end());
    }
    State state{without_unused(graph_, groups), nullptr};
    state.memory = std::make_unique<LiveMemory>(graph_, state.groups, model_);
    return state;
  }

  void make_part(const Piece& piece, GroupList& groups) const {
    for (uint32_t reader : piece.readers) {
      std::set<NodeRef> nodes(groups[reader]->nodes.begin(), groups[reader]->nodes.end());
      nodes.insert(piece.again[0].nodes.begin(), piece.again[0].nodes.end());
      groups[reader] =
          std::make_shared<const FusedGroup>(group_of(graph_, GroupKind::kKernel, nodes, groups[reader]->outputs));
    }
  }

  const Graph& graph_;
  Origin origin_;
  const MemoryModel& model_;
  int64_t most_;
  First first_;
  State now_;
  double work_;
  std::vector<Recomputation> recomputed_;
};

}  // namespace

Rematerialized rematerialize(const Graph& graph, const std::vector<FusedGroup>& groups, const MemoryModel& model,
                             int64_t most) {
  // Each choice rules others out: where one order gets stuck, another may get further.
  std::optional<Rematerialized> best;
  for (First first : {First::kCheapest, First::kCheapAndLarge, First::kLargest}) {
    Rematerialized found = Rematerializer(graph, groups, model, most, first).run();
    if (!best || found.bytes < best->bytes) best = std::move(found);
    if (best->bytes <= most) break;
  }
  return std::move(*best);
}

}  // namespace tenon
