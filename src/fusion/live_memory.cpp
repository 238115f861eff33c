#include "fusion/live_memory.h"

#include <algorithm>
#include <set>

#include "runtime/allocator.h"
#include "support/checked.h"
#include "support/is_in.h"

namespace tenon {

int64_t bytes_of(const TensorType& type, const symbolic::Bindings& sizes) {
  int64_t bytes = size_of(type.dtype);
  for (int64_t size : evaluate(type.shape, sizes)) bytes = checked_mul(bytes, std::max<int64_t>(size, 0));
  return bytes;
}

LiveMemory::LiveMemory(const Graph& graph, const GroupList& groups, const MemoryModel& model)
    : graph_(graph), model_(model), names_(graph.value_count()), is_kept_(graph.value_count()) {
  for (ValueRef kept : kept_values(graph)) is_kept_[kept.id] = true;
  for (uint32_t i = 0; i < groups.size(); ++i) add(*groups[i], i);
  for (Instance& instance : instances_) {
    if (instance.is_kept) instance.last = static_cast<uint32_t>(groups.size());
    freed_at_.push_back(instance.last + 1);
  }
  for (uint32_t i = 0; i < groups.size(); ++i) overlay(*groups[i], i);
  sum_up(groups.size());
}

void LiveMemory::add(const FusedGroup& group, uint32_t place) {
  if (group.kind == GroupKind::kAlias) {
    const ValueRef operand = group.inputs[0], result = group.outputs[0];
    if (names_[operand.id].empty()) return;  // of a leaf
    const uint32_t instance = names_[operand.id].back().instance;
    names_[result.id].push_back({place, instance});
    instances_[instance].is_kept = instances_[instance].is_kept || is_kept_[result.id];
    if (model_.elsewhere[result.id]) instances_[instance].bytes = 0;
    return;
  }
  for (ValueRef input : group.inputs) {
    if (names_[input.id].empty()) continue;
    Instance& instance = instances_[names_[input.id].back().instance];
    instance.uses.push_back({place, input});
    instance.last = place;
  }
  for (ValueRef output : group.outputs) write(output, place);
}

void LiveMemory::write(ValueRef value, uint32_t place) {
  const int64_t bytes =
      model_.elsewhere[value.id] ? 0 : runtime::aligned_size(bytes_of(graph_.type(value), model_.sizes));
  names_[value.id].push_back({place, static_cast<uint32_t>(instances_.size())});
  instances_.push_back({place, place, bytes, is_kept_[value.id], {}});
}

bool LiveMemory::is_read_elementwise(const FusedGroup& group, ValueRef value) const {
  return std::ranges::all_of(group.nodes, [&](NodeRef ref) {
    const Node& node = graph_.node(ref);
    return !is_in(node.operands, value) || is_pointwise(node);
  });
}

// A result takes the place of what is read element by element for the last time.
void LiveMemory::overlay(const FusedGroup& group, uint32_t place) {
  if (group.kind != GroupKind::kKernel) return;
  std::set<uint32_t> taken;
  for (ValueRef output : group.outputs) {
    if (model_.elsewhere[output.id]) continue;
    for (ValueRef input : group.inputs) {
      const std::optional<uint32_t> instance = instance_of(input, place);
      const bool is_free = instance && instances_[*instance].last == place && instances_[*instance].bytes > 0;
      if (!is_free || graph_.type(input) != graph_.type(output) || !is_read_elementwise(group, input)) continue;
      if (!taken.insert(*instance).second) continue;
      freed_at_[*instance] = place;
      break;
    }
  }
}

void LiveMemory::sum_up(size_t groups) {
  std::vector<int64_t> changes(groups + 2);
  for (size_t i = 0; i < instances_.size(); ++i) {
    changes[instances_[i].writer] += instances_[i].bytes;
    changes[freed_at_[i]] -= instances_[i].bytes;
  }
  int64_t now = 0;
  for (size_t i = 0; i < groups; ++i) live_.push_back(now += changes[i]);
  if (live_.empty()) live_.push_back(0);
  peak_group_ = static_cast<uint32_t>(std::ranges::max_element(live_) - live_.begin());
}

std::optional<uint32_t> LiveMemory::instance_of(ValueRef value, uint32_t place) const {
  const std::vector<Name>& names = names_[value.id];
  const auto after = std::ranges::lower_bound(names, place, {}, &Name::group);
  return after == names.begin() ? std::nullopt : std::optional(std::prev(after)->instance);
}

double LiveMemory::area_above(int64_t bytes) const {
  double area = 0;
  for (int64_t live : live_) area += static_cast<double>(std::max<int64_t>(live - bytes, 0));
  return area;
}

}  // namespace tenon
