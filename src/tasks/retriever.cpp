#include "tasks/retriever.h"

#include "support/diagnostic.h"

namespace tenon::tasks {

SlotRef Retriever::source_of(SlotRef slot) const {
  const auto found = tensor_sources_.find(slot);
  return found == tensor_sources_.end() ? slot : found->second;
}

const Tensor& Retriever::get_tensor(SlotRef slot) const {
  const auto found = tensors_.find(source_of(slot));
  if (found == tensors_.end())
    fail("tensor {} of task {} is not there: nobody set it, or it was cleaned up", slot.slot, slot.task);
  return found->second;
}

// The first slot with a value on the way to the end of its dependencies.
SlotRef Retriever::arg_source_of(SlotRef slot) const {
  for (auto next = arg_sources_.find(slot); next != arg_sources_.end() && !args_.contains(slot);
       next = arg_sources_.find(slot))
    slot = next->second;
  return slot;
}

const Attr& Retriever::get_arg(SlotRef slot) const {
  const auto found = args_.find(arg_source_of(slot));
  if (found == args_.end()) fail("argument {} of task {} has no value", slot.slot, slot.task);
  return found->second;
}

const Attr& Retriever::given_arg(SlotRef slot) const {
  const auto source = arg_sources_.find(slot);
  return get_arg(source == arg_sources_.end() ? slot : source->second);
}

void Retriever::set_tensor_dependency(SlotRef slot, SlotRef source) {
  const SlotRef end = source_of(source);
  tensor_sources_[slot] = end;
  ++ref_counts_[end];
}

int64_t Retriever::ref_count(SlotRef source) const {
  const auto found = ref_counts_.find(source_of(source));
  return found == ref_counts_.end() ? 0 : found->second;
}

void Retriever::drop_unread(SlotRef source) {
  if (released_.contains(source.task) && ref_count(source) == 0) tensors_.erase(source);
}

void Retriever::release(TaskId task) {
  released_.insert(task);
  const SlotRef first{task, 0}, end{task + 1, 0};
  for (auto each = tensor_sources_.lower_bound(first); each != tensor_sources_.end() && each->first < end;) {
    const SlotRef source = each->second;
    each = tensor_sources_.erase(each);
    --ref_counts_[source];
    drop_unread(source);
  }
  std::vector<SlotRef> own;
  for (auto each = tensors_.lower_bound(first); each != tensors_.end() && each->first < end; ++each) {
    own.push_back(each->first);
  }
  for (SlotRef slot : own) drop_unread(slot);
}

}  // namespace tenon::tasks
