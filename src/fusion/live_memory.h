// The memory that groups need over time, if they run in the order of a list.
//
// Several groups of a list may compute one value. A reader reads the result of the last of them before it. Each result
// is an instance; a reshape is another name for an instance.
#pragma once

#include <memory>
#include <optional>

#include "fusion/fuse.h"

namespace tenon {

// Cheap to copy, as a planner tries many of them.
using GroupList = std::vector<std::shared_ptr<const FusedGroup>>;

// Facts about a graph besides its groups.
struct MemoryModel {
  symbolic::Bindings sizes;     // of each symbol that occurs
  std::vector<bool> elsewhere;  // by value: not in this memory. States in place, results, values known before the run
};

class LiveMemory {
 public:
  struct Use {
    uint32_t group;
    ValueRef value;  // the name under which it is read
  };
  struct Instance {
    uint32_t writer;
    uint32_t last;  // group that needs it
    int64_t bytes;
    bool is_kept;           // until the end
    std::vector<Use> uses;  // in order
  };

  LiveMemory(const Graph& graph, const GroupList& groups, const MemoryModel& model);

  const std::vector<Instance>& instances() const { return instances_; }
  // The instance that a group at that place of the list would read.
  std::optional<uint32_t> instance_of(ValueRef value, uint32_t place) const;
  int64_t peak() const { return live_[peak_group_]; }
  uint32_t peak_group() const { return peak_group_; }
  double area_above(int64_t bytes) const;  // summed over groups

 private:
  struct Name {
    uint32_t group;
    uint32_t instance;
  };

  void add(const FusedGroup& group, uint32_t place);
  void write(ValueRef value, uint32_t place);
  bool is_read_elementwise(const FusedGroup& group, ValueRef value) const;
  void overlay(const FusedGroup& group, uint32_t place);
  void sum_up(size_t groups);

  const Graph& graph_;
  const MemoryModel& model_;
  std::vector<Instance> instances_;
  std::vector<std::vector<Name>> names_;  // of each value, in order
  std::vector<uint32_t> freed_at_;        // of each instance: the first group that does not find it in memory
  std::vector<bool> is_kept_;             // by value
  std::vector<int64_t> live_;             // by group
  uint32_t peak_group_ = 0;
};

int64_t bytes_of(const TensorType& type, const symbolic::Bindings& sizes);

}  // namespace tenon
