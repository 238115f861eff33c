#include "fusion/fuse.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/node_symbols.h"
#include "graph/rewrite.h"

namespace tenon {
namespace {

constexpr size_t kMostNodes = kMostNodesOfGroup;
constexpr size_t kMostAgain = 16;    // nodes that are computed again in place of one value that is read
constexpr size_t kMostInlined = 32;  // views one after the other: each group that reads the last has all of them
constexpr size_t kMostJoined = 64;   // operands of a concat that one kernel joins

// Composites that stay whole: their schedules know them, or a function of the runtime does.
bool stays_whole(const OpDef& op) {
  const Role role = role_of(op);
  return role == Role::kRows || role == Role::kAttention || role == Role::kLibrary;
}

class Fuser {
 public:
  explicit Fuser(const Graph& graph)
      : graph_(graph), definers_(definers_of(graph)), group_of_(graph.nodes().size(), kNoGroup) {}

  std::vector<FusedGroup> run() {
    find_users();
    find_inlined();
    for (uint32_t i = 0; i < graph_.nodes().size(); ++i) {
      if (!inlined_[i]) place(i);
    }
    for (uint32_t i = static_cast<uint32_t>(graph_.nodes().size()); i-- > 0;) {
      if (!inlined_[i]) leave_to_user(i);
    }
    for (uint32_t group = 0; group < groups_.size(); ++group) compute_again(group);
    return in_order();
  }

 private:
  static constexpr uint32_t kNoGroup = ~0u;

  struct Group {
    GroupKind kind = GroupKind::kKernel;
    bool is_stream = false;
    bool takes_pointwise = false;
    Shape domain;            // without sizes of 1
    size_t folded = 0;       // how many of its last dimensions are folded
    bool is_closed = false;  // its result is written in another order: nothing can follow
    std::set<uint32_t> nodes;
    std::set<uint32_t> needs;  // groups
    std::set<uint32_t> needed_by;
    uint32_t level = 0;  // above those of all that it needs
  };

  const Node& node(uint32_t id) const { return graph_.nodes()[id]; }
  Role role(uint32_t id) const { return role_of(*node(id).op); }
  const Shape& shape_of(uint32_t id) const { return graph_.type(node(id).results[0]).shape; }

  // ---- what is inlined ----

  void find_users() {
    users_ = users_of(graph_);
    is_kept_.resize(graph_.value_count());
    is_read_again_.resize(graph_.value_count());
    for (ValueRef kept : kept_values(graph_)) is_kept_[kept.id] = true;
  }

  bool is_trivial_reshape(uint32_t id) const {
    return role(id) == Role::kReshape && core_of(graph_.type(node(id).operands[0]).shape) == core_of(shape_of(id));
  }

  // A cast that gives each element more bits (bf16 to f32, u8 to i32). Every reader repeats it while it loads the
  // element: so only the narrow tensor is in memory, and a contraction sees the dtype that the instructions for narrow
  // products take.
  bool is_widening(uint32_t id) const {
    if (node(id).op->name.get() != "cast") return false;
    const DType from = graph_.type(node(id).operands[0]).dtype;
    const DType to = graph_.type(node(id).results[0]).dtype;
    if (is_narrow_float(from)) return to == DType::kF32;
    return (from == DType::kI8 || from == DType::kU8) && (to == DType::kF32 || to == DType::kI32);
  }

  bool is_inlinable_view(uint32_t id) const { return is_view(role(id)) || is_trivial_reshape(id) || is_widening(id); }

  // Whether the view only gives other strides to the dimensions of its operand, or more bits to its elements.
  bool is_strided(uint32_t view) const {
    return role(view) == Role::kPermutation || role(view) == Role::kBroadcast || is_trivial_reshape(view) ||
           is_widening(view);
  }

  // Whether `user` can read its operand through the view.
  bool reads_through(uint32_t view, uint32_t user) const {
    if (role(view) == Role::kBorder) return takes_border(view, user);
    switch (role(user)) {
      case Role::kPointwise:
      case Role::kFold:
      case Role::kRows:
      case Role::kAlone:
      case Role::kGather:
        return true;
      case Role::kContraction:
      case Role::kAttention:
        return is_strided(view);
      default:
        return is_inlinable_view(user) && (inlined_[user] || is_strided(view));
    }
  }

  bool takes_border(uint32_t border, uint32_t user) const {
    if (is_widening(user)) {
      return inlined_[user] && std::ranges::all_of(users_[node(user).results[0].id],
                                                   [&](uint32_t reader) { return takes_border(user, reader); });
    }
    const auto& operands = node(user).operands;
    const ValueRef result = node(border).results[0];
    return node(user).op->takes_border && operands[0] == result && std::ranges::count(operands, result) == 1 &&
           (inlined_[user] || !is_view(role(user)));
  }

  void find_inlined() {
    inlined_.resize(graph_.nodes().size());
    std::vector<size_t> length(graph_.nodes().size());  // of the longest chain of inlined nodes that begins here
    for (uint32_t i = static_cast<uint32_t>(graph_.nodes().size()); i-- > 0;) {
      const ValueRef result = node(i).results[0];
      if (is_kept_[result.id]) continue;
      const auto& users = users_[result.id];
      const bool is_fill = role(i) == Role::kFill;
      if (!is_fill && !is_inlinable_view(i)) continue;
      for (uint32_t user : users) length[i] = std::max(length[i], length[user] + 1);
      inlined_[i] = length[i] <= kMostInlined && std::ranges::all_of(users, [&](uint32_t user) {
                      return is_fill ? computes(user) : reads_through(i, user);
                    });
      if (!inlined_[i]) length[i] = 0;
    }
  }

  // Whether a fill can be part of its kernel.
  bool computes(uint32_t user) const {
    const Role by = role(user);
    return by != Role::kReshape && by != Role::kLibrary && by != Role::kExternal && by != Role::kSegment;
  }

  // The groups that find out the sizes which a node mentions.
  void add_definers(uint32_t id, std::set<uint32_t>& groups) const {
    if (definers_.empty()) return;
    for (Symbol symbol : symbols_of(graph_, node(id))) {
      const auto found = definers_.find(symbol);
      if (found != definers_.end() && found->second.id < id) groups.insert(group_of_[found->second.id]);
    }
  }

  // Whether the node of this result defines one of its sizes.
  bool defines_size(ValueRef value) const {
    return std::ranges::any_of(graph_.type(value).shape, [&](const Expr& size) {
      if (size.kind() != symbolic::Kind::kSymbol) return false;
      const auto found = definers_.find(size.symbol());
      return found != definers_.end() && found->second == graph_.producer(value);
    });
  }

  // The groups whose results a node needs, also through what is inlined.
  std::set<uint32_t> producers_of(uint32_t id) const {
    std::set<uint32_t> groups;
    add_definers(id, groups);
    for (ValueRef operand : node(id).operands) {
      const NodeRef producer = operand ? graph_.producer(operand) : NodeRef();
      if (!producer) continue;
      if (inlined_[producer.id]) {
        groups.merge(producers_of(producer.id));
      } else {
        groups.insert(group_of_[producer.id]);
      }
    }
    return groups;
  }

  // ---- groups ----

  void place(uint32_t id) {
    const std::set<uint32_t> producers = producers_of(id);
    for (bool is_stream : {false, true}) {  // what a contraction computes is best used before it is written
      for (auto candidate = producers.rbegin(); candidate != producers.rend(); ++candidate) {
        if (groups_[*candidate].is_stream != is_stream || !can_join(*candidate, id, producers)) continue;
        join(*candidate, id, producers);
        return;
      }
    }
    group_of_[id] = static_cast<uint32_t>(groups_.size());
    groups_.push_back(new_group(id));
    for (uint32_t other : producers) add_need(group_of_[id], other);
  }

  void add_need(uint32_t id, uint32_t needed) {
    groups_[id].needs.insert(needed);
    groups_[needed].needed_by.insert(id);
    lift(id, groups_[needed].level + 1);
  }

  // Keeps what needs a group above it.
  void lift(uint32_t lowest, uint32_t level) {
    std::vector<std::pair<uint32_t, uint32_t>> open = {{lowest, level}};
    while (!open.empty()) {
      const auto [id, least] = open.back();
      open.pop_back();
      if (groups_[id].level >= least) continue;
      groups_[id].level = least;
      for (uint32_t user : groups_[id].needed_by) open.emplace_back(user, least + 1);
    }
  }

  Group new_group(uint32_t id) const {
    Group group{.nodes = {id}};
    const Role by = role(id);
    if (by == Role::kLibrary) group.kind = GroupKind::kLibrary;
    if (by == Role::kExternal) group.kind = GroupKind::kExternal;
    if (by == Role::kSegment) group.kind = GroupKind::kSegment;
    if (by == Role::kReshape && !is_trivial_reshape(id)) group.kind = GroupKind::kAlias;
    group.is_stream = by == Role::kPointwise || by == Role::kGather || by == Role::kFold || by == Role::kRows;
    group.takes_pointwise = group.is_stream || by == Role::kContraction;
    group.domain = core_of(by == Role::kFold ? graph_.type(node(id).operands[0]).shape : shape_of(id));
    group.folded = folded_of(id).value_or(0);
    if ((by == Role::kFold || by == Role::kRows) && !folded_of(id)) group.is_stream = group.takes_pointwise = false;
    return group;
  }

  // How many of the last dimensions a node folds; none where it folds others.
  std::optional<size_t> folded_of(uint32_t id) const {
    if (role(id) != Role::kFold && role(id) != Role::kRows) return 0;
    const OpView view = view_of(graph_, *node(id).op, node(id).operands, node(id).attrs);
    const Shape& shape = view.type(0).shape;
    std::vector<int64_t> dims;
    if (view.op().attr_named("dims") != nullptr) {
      dims = view.dims("dims");
    } else if (view.given("dim")) {
      dims = {view.dim("dim")};
    } else {
      dims = normalize_dims({}, view.type(0).rank());
    }
    size_t folded = 0;
    for (auto dim = static_cast<int64_t>(shape.size()); dim-- > 0;) {
      if (shape[static_cast<size_t>(dim)].is_constant(1)) continue;
      const bool is_folded = std::ranges::find(dims, dim) != dims.end();
      const bool is_last = folded == core_of({shape.begin() + dim + 1, shape.end()}).size();
      if (is_folded && !is_last) return std::nullopt;
      folded += is_folded ? 1 : 0;
    }
    return folded;
  }

  bool can_join(uint32_t into, uint32_t id, const std::set<uint32_t>& producers) const {
    const Group& group = groups_[into];
    if (group.kind != GroupKind::kKernel || group.nodes.size() >= kMostNodes) return false;
    if (!fits(group, id)) return false;
    return std::ranges::none_of(producers, [&](uint32_t other) { return other != into && reaches(into, other); });
  }

  bool fits(const Group& group, uint32_t id) const {
    switch (role(id)) {
      case Role::kPointwise:
        return group.takes_pointwise && has_shape_of(group, core_of(shape_of(id)));
      case Role::kPermutation:
      case Role::kReshape:
        return joins_as_view(group, id);
      case Role::kFold:
      case Role::kRows:
        return joins_as_fold(group, id);
      default:
        return false;
    }
  }

  static bool has_shape_of(const Group& group, const Shape& core) {
    if (core == group.domain) return true;
    const Shape folded(group.domain.begin(), group.domain.end() - static_cast<std::ptrdiff_t>(group.folded));
    return group.folded > 0 && core == folded;
  }

  bool joins_as_fold(const Group& group, uint32_t id) const {
    const std::optional<size_t> folded = folded_of(id);
    if (!group.is_stream || !folded || core_of(graph_.type(node(id).operands[0]).shape) != group.domain) return false;
    return group.folded == 0 || *folded == group.folded;
  }

  // The last step of a group: its result is only needed in another order.
  bool joins_as_view(const Group& group, uint32_t id) const {
    if (role(id) == Role::kReshape && !is_trivial_reshape(id)) return false;
    const ValueRef operand = node(id).operands[0];
    const bool is_only_user = users_[operand.id].size() == 1 && !is_kept_[operand.id];
    return is_only_user && group.folded == 0 && core_of(graph_.type(operand).shape) == group.domain && !group.is_closed;
  }

  void join(uint32_t into, uint32_t id, const std::set<uint32_t>& producers) {
    Group& group = groups_[into];
    group.nodes.insert(id);
    group_of_[id] = into;
    for (uint32_t other : producers) {
      if (other != into) add_need(into, other);
    }
    if (role(id) == Role::kPermutation) {
      group.is_closed = true;
      group.takes_pointwise = group.is_stream = false;
    }
    if (role(id) == Role::kFold || role(id) == Role::kRows) group.folded = std::max(group.folded, *folded_of(id));
    for (uint32_t other : producers) {
      if (other != into && (can_merge(other, into) || can_absorb(other, into))) merge(other, into);
    }
  }

  // Whether a contraction can compute what only its own epilogue needs: v * 0.9 in v * 0.9 + a @ b.
  bool can_absorb(uint32_t from, uint32_t into) const {
    const Group& a = groups_[from];
    const Group& b = groups_[into];
    if (!a.is_stream || b.is_stream || !b.takes_pointwise || a.folded > 0 || a.domain != b.domain) return false;
    if (a.nodes.size() + b.nodes.size() > kMostNodes || b.nodes.empty()) return false;
    const auto is_local = [&](uint32_t user) {
      return !inlined_[user] && role(user) == Role::kPointwise && (a.nodes.contains(user) || b.nodes.contains(user));
    };
    const bool is_private = std::ranges::all_of(a.nodes, [&](uint32_t id) {
      const ValueRef result = node(id).results[0];
      return role(id) == Role::kPointwise && !is_kept_[result.id] && std::ranges::all_of(users_[result.id], is_local);
    });
    return is_private && std::ranges::none_of(a.needs, [&](uint32_t needed) { return reaches(into, needed); });
  }

  bool can_merge(uint32_t from, uint32_t into) const {
    const Group& a = groups_[from];
    const Group& b = groups_[into];
    const bool alike = a.is_stream && b.is_stream && a.domain == b.domain &&
                       (a.folded == b.folded || a.folded == 0 || b.folded == 0) &&
                       a.nodes.size() + b.nodes.size() <= kMostNodes;
    if (!alike || reaches(into, from)) return false;
    return std::ranges::none_of(b.needs, [&](uint32_t between) { return between != from && reaches(from, between); });
  }

  void merge(uint32_t from, uint32_t into) {
    Group& a = groups_[from];
    Group& b = groups_[into];
    for (uint32_t id : a.nodes) group_of_[id] = into;
    b.nodes.merge(a.nodes);
    b.folded = std::max(a.folded, b.folded);
    a.nodes.clear();
    for (uint32_t needed : std::exchange(a.needs, {})) {
      groups_[needed].needed_by.erase(from);
      add_need(into, needed);
    }
    for (uint32_t user : std::exchange(a.needed_by, {})) {
      groups_[user].needs.erase(from);
      if (user != into) add_need(user, into);
    }
  }

  // A contraction would write a value (x * x) beside the value that it follows from (x). Its user computes it instead:
  // x is in memory anyway.
  void leave_to_user(uint32_t id) {
    Group& group = groups_[group_of_[id]];
    const ValueRef result = node(id).results[0];
    if (role(id) != Role::kPointwise || group.is_stream || is_kept_[result.id] || users_[result.id].empty()) return;
    if (inlined_[users_[result.id][0]]) return;
    const uint32_t user = group_of_[users_[result.id][0]];
    const auto is_there = [&](uint32_t other) { return !inlined_[other] && group_of_[other] == user; };
    if (user == group_of_[id] || !groups_[user].is_stream || groups_[user].nodes.size() >= kMostNodes) return;
    if (!has_shape_of(groups_[user], core_of(shape_of(id))) || !std::ranges::all_of(users_[result.id], is_there))
      return;
    if (!std::ranges::all_of(node(id).operands, [&](ValueRef operand) { return is_written_anyway(operand, id); }))
      return;
    group.nodes.erase(id);
    group_of_[id] = user;
    groups_[user].nodes.insert(id);
    for (uint32_t needed : producers_of(id)) add_need(user, needed);
  }

  bool is_written_anyway(ValueRef operand, uint32_t besides) const {
    const NodeRef producer = operand ? graph_.producer(operand) : NodeRef();
    if (!producer || inlined_[producer.id] || group_of_[producer.id] != group_of_[besides]) return true;
    return is_kept_[operand.id] || std::ranges::any_of(users_[operand.id], [&](uint32_t user) {
             return user != besides && is_needed_outside(user, groups_[group_of_[besides]], producer.id);
           });
  }

  // ---- what is computed twice ----

  // How values follow, element by element, from others.
  struct Derivation {
    std::set<uint32_t> nodes;
    std::set<ValueRef> anchors;
  };

  // The values that a group reads may follow from fewer bytes: what a backward pass reads of a GELU follows from the
  // GELU's argument, and a dequantized tensor from the quantized one. Then the group computes them again, which is
  // cheaper than writing and reading them.
  void compute_again(uint32_t into) {
    Group& group = groups_[into];
    if (group.kind != GroupKind::kKernel || !group.takes_pointwise) return;
    const std::set<ValueRef> read = read_by(group);
    Derivation all;
    int64_t spared = 0, added = 0;  // bytes, for each element of the domain
    for (ValueRef value : read) {
      Derivation own;
      if (!derive(value, group, own)) continue;
      all.nodes.merge(own.nodes);
      all.anchors.merge(own.anchors);
      spared += element_bytes(value);
    }
    for (ValueRef anchor : all.anchors) {
      if (!read.contains(anchor) && is_large(anchor, group)) added += element_bytes(anchor);
    }
    if (spared <= added) return;
    if (group.nodes.size() + all.nodes.size() > kMostNodes) return;
    for (ValueRef anchor : all.anchors) {
      is_read_again_[anchor.id] = true;
      if (const NodeRef producer = graph_.producer(anchor)) add_need(into, group_of_[producer.id]);
    }
    group.nodes.merge(all.nodes);
  }

  int64_t element_bytes(ValueRef value) const { return size_of(graph_.type(value).dtype); }
  bool is_large(ValueRef value, const Group& group) const { return core_of(graph_.type(value).shape) == group.domain; }

  std::set<ValueRef> read_by(const Group& group) const {
    std::set<ValueRef> read;
    for (uint32_t id : group.nodes) {
      for (ValueRef operand : node(id).operands) {
        const NodeRef producer = operand ? graph_.producer(operand) : NodeRef();
        const bool is_inside = producer && (inlined_[producer.id] || group.nodes.contains(producer.id));
        if (operand && !is_inside) read.insert(operand);
      }
    }
    return read;
  }

  bool derive(ValueRef value, const Group& group, Derivation& found) const {
    const NodeRef producer = graph_.producer(value);
    if (!producer || !is_cheap(producer.id) || is_kept_[value.id] || !is_large(value, group)) return false;
    found.nodes.insert(producer.id);
    if (found.nodes.size() > kMostAgain) return false;
    return std::ranges::all_of(node(producer.id).operands, [&](ValueRef operand) {
      const NodeRef before = graph_.producer(operand);
      if (before && (group.nodes.contains(before.id) || found.nodes.contains(before.id))) return true;
      if (before && !inlined_[before.id] && is_cheap(before.id) && is_large(operand, group) && !is_kept_[operand.id])
        return derive(operand, group, found);
      add_anchors(operand, found);
      return true;
    });
  }

  // Adds the values that must be in memory: the value, or the operands of an inlined node.
  void add_anchors(ValueRef value, Derivation& found) const {
    const NodeRef producer = graph_.producer(value);
    if (!producer || !inlined_[producer.id]) {
      found.anchors.insert(value);
      return;
    }
    for (ValueRef operand : node(producer.id).operands) {
      if (operand) add_anchors(operand, found);
    }
  }

  bool is_cheap(uint32_t id) const {
    return !inlined_[id] && role(id) == Role::kPointwise && cost_of(*node(id).op) != Cost::kExpensive;
  }

  // Whether `to` needs `from`, perhaps through others: those between them in level are all there is to look at.
  bool reaches(uint32_t from, uint32_t to) const {
    std::set<uint32_t> seen;
    std::vector<uint32_t> open = {to};
    while (!open.empty()) {
      const uint32_t next = open.back();
      open.pop_back();
      if (next == from) return true;
      if (groups_[next].level <= groups_[from].level) continue;
      for (uint32_t needed : groups_[next].needs) {
        if (seen.insert(needed).second) open.push_back(needed);
      }
    }
    return false;
  }

  // ---- the result ----

  // Takes the first ready group of the side that ran last, so that Tenon and PyTorch take turns as seldom as possible.
  std::vector<FusedGroup> in_order() {
    std::vector<std::vector<uint32_t>> needed_by(groups_.size());
    std::vector<size_t> missing(groups_.size());
    std::set<uint32_t> ready[2];  // ours, and PyTorch's
    const auto side = [&](uint32_t id) { return groups_[id].kind == GroupKind::kExternal ? 1 : 0; };
    for (uint32_t id = 0; id < groups_.size(); ++id) {
      missing[id] = groups_[id].needs.size();
      for (uint32_t needed : groups_[id].needs) needed_by[needed].push_back(id);
      if (missing[id] == 0) ready[side(id)].insert(id);
    }
    std::vector<FusedGroup> result;
    for (int now = 0; !ready[0].empty() || !ready[1].empty();) {
      if (ready[now].empty()) now = 1 - now;
      const uint32_t id = *ready[now].begin();
      ready[now].erase(ready[now].begin());
      FusedGroup group = finished(id);
      if (!group.nodes.empty()) result.push_back(std::move(group));
      for (uint32_t user : needed_by[id]) {
        if (--missing[user] == 0) ready[side(user)].insert(user);
      }
    }
    return result;
  }

  FusedGroup finished(uint32_t number) const {
    const Group& group = groups_[number];
    FusedGroup result{group.kind, {}, {}, outputs_of(number)};
    std::set<uint32_t> nodes;
    std::set<ValueRef> inputs;
    if (group.kind == GroupKind::kKernel) {  // what others compute anew is not needed here
      for (ValueRef output : result.outputs) collect(graph_.producer(output).id, group, nodes, inputs);
    } else {
      for (uint32_t id : group.nodes) collect(id, group, nodes, inputs);
    }
    for (uint32_t id : nodes) result.nodes.push_back({id});
    result.inputs.assign(inputs.begin(), inputs.end());
    return result;
  }

  std::vector<ValueRef> outputs_of(uint32_t number) const {
    const Group& group = groups_[number];
    std::vector<ValueRef> outputs;
    for (uint32_t id : group.nodes) {
      if (group_of_[id] != number) continue;  // computed again: the group that has it writes it
      for (ValueRef value : node(id).results) {
        const auto is_outside = [&](uint32_t user) { return is_needed_outside(user, group, id); };
        const bool is_needed = is_kept_[value.id] || is_read_again_[value.id] || defines_size(value);
        if (is_needed || std::ranges::any_of(users_[value.id], is_outside)) outputs.push_back(value);
      }
    }
    return outputs;
  }

  void collect(uint32_t id, const Group& group, std::set<uint32_t>& nodes, std::set<ValueRef>& inputs) const {
    if (!nodes.insert(id).second) return;
    for (ValueRef operand : node(id).operands) {
      if (!operand) continue;
      const NodeRef producer = graph_.producer(operand);
      if (producer && (inlined_[producer.id] || group.nodes.contains(producer.id))) {
        collect(producer.id, group, nodes, inputs);
      } else {
        inputs.insert(operand);
      }
    }
  }

  // Also through views that are inlined into other groups.
  bool is_needed_outside(uint32_t user, const Group& group, uint32_t producer) const {
    if (!inlined_[user]) return !group.nodes.contains(user) && !groups_[group_of_[user]].nodes.contains(producer);
    return std::ranges::any_of(node(user).results, [&](ValueRef value) {
      return std::ranges::any_of(users_[value.id],
                                 [&](uint32_t next) { return is_needed_outside(next, group, producer); });
    });
  }

  const Graph& graph_;
  std::vector<std::vector<uint32_t>> users_;  // of each value
  std::vector<bool> is_kept_;                 // outputs, and what updates leave
  std::vector<bool> is_read_again_;           // by groups that compute anew what they need
  std::vector<bool> inlined_;                 // of each node
  std::map<Symbol, NodeRef> definers_;        // of sizes that depend on data
  std::vector<uint32_t> group_of_;
  std::vector<Group> groups_;
};

// ---- joins ----------------------------------------------------------------------------------------------------------

bool is_wide_join(const Node& node) { return node.op->name.get() == "concat" && node.operands.size() > kMostJoined; }

// Joins neighbours first, then their results: a kernel with thousands of operands takes minutes to compile, and runs
// slowly.
std::vector<ValueRef> joined_in_steps(Graph& graph, const Node& node, std::vector<ValueRef> parts) {
  while (true) {
    std::vector<ValueRef> joined;
    for (size_t first = 0; first < parts.size(); first += kMostJoined) {
      const auto begin = parts.begin() + static_cast<std::ptrdiff_t>(first);
      const auto count = static_cast<std::ptrdiff_t>(std::min(kMostJoined, parts.size() - first));
      joined.push_back(Builder(graph).repeat(node, {begin, begin + count}).ref());
    }
    if (joined.size() == 1) return joined;
    parts = std::move(joined);
  }
}

// The operands with the dtype of the result: dtypes are promoted once, of all of them.
std::vector<ValueRef> cast_operands(Graph& graph, std::vector<ValueRef> operands, DType dtype) {
  Builder builder(graph);
  for (ValueRef& operand : operands) operand = builder.cast({graph, operand}, dtype).ref();
  return operands;
}

Graph split_wide_joins(Graph graph) {
  if (std::ranges::none_of(graph.nodes(), is_wide_join)) return graph;
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    if (!is_wide_join(node)) {
      rewriter.copy(node);
      continue;
    }
    const DType dtype = graph.type(node.results[0]).dtype;
    std::vector<ValueRef> parts = cast_operands(rewriter.target(), rewriter.map(node.operands), dtype);
    rewriter.replace(node, joined_in_steps(rewriter.target(), node, std::move(parts)));
  }
  return rewriter.finish();
}

}  // namespace

Graph expand_for_fusion(const Graph& graph) {
  return split_wide_joins(expand_where(graph, [](const OpDef& op) { return op.is_composite() && !stays_whole(op); }));
}

Shape core_of(const Shape& shape) {
  Shape core;
  std::ranges::copy_if(shape, std::back_inserter(core), [](const Expr& size) { return !size.is_constant(1); });
  return core;
}

std::vector<FusedGroup> fuse(const Graph& graph) { return Fuser(graph).run(); }

}  // namespace tenon
