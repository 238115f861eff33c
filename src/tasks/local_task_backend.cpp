#include "tasks/local_task_backend.h"

#include <algorithm>
#include <set>

#include "driver/pipeline.h"
#include "program/run.h"
#include "runtime/context.h"
#include "support/checked.h"
#include "support/runtime_call.h"

namespace tenon::tasks {

struct LocalTaskBackend::Inserted {
  TaskDef def;
  bool is_launched = false;
  std::optional<TaskId> fused_into = {};
  std::vector<TaskId> members = {};  // of a fused task
  // Of an op, or of several. The tensors are those of the sources.
  Graph body = Graph("");
  std::vector<SlotRef> reads = {};   // inputs of the body
  std::vector<SlotRef> writes = {};  // outputs of the body
  std::unique_ptr<Program> program = {};
  std::unique_ptr<runtime::Context> context = {};

  bool is_program() const { return !def.run; }
};

LocalTaskBackend::LocalTaskBackend(int64_t budget) : allocator_(std::make_shared<runtime::Allocator>(budget)) {
  if (budget <= 0) fail("a backend needs a budget of at least one byte, got {}", budget);
}

LocalTaskBackend::~LocalTaskBackend() = default;

LocalTaskBackend::Inserted& LocalTaskBackend::task_at(TaskId task) const {
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) fail("there is no task {}: it was not inserted, or it was cleaned up", task);
  return *found->second;
}

std::string LocalTaskBackend::describe(TaskId task) const {
  return fill_in("task {} ({})", task, task_at(task).def.signature.name);
}

const TaskSignature& LocalTaskBackend::signature(TaskId task) const { return task_at(task).def.signature; }
std::vector<TaskId> LocalTaskBackend::order() const { return order_; }

SlotRef LocalTaskBackend::checked(SlotRef slot) const {
  const size_t count = signature(slot.task).tensors.size();
  if (slot.slot >= count) fail("{} has {} tensors, and no tensor {}", describe(slot.task), count, slot.slot);
  return slot;
}

// ---- inserting ------------------------------------------------------------------------------------------------------

std::vector<TaskId> LocalTaskBackend::insert_graph(const TaskGraph& graph) {
  std::vector<TaskId> inserted;
  const auto number_of = [&](SlotRef source) -> SlotRef {
    if (source.task >= inserted.size())
      fail("node {} depends on node {}, which is not before it", inserted.size(), source.task);
    return {inserted[source.task], source.slot};
  };
  try {
    for (TaskNode node : graph.nodes) {
      for (auto& [slot, source] : node.tensor_dependencies) source = number_of(source);
      for (auto& [slot, source] : node.arg_dependencies) source = number_of(source);
      inserted.push_back(insert_task(node));
    }
  } catch (...) {
    for (auto task = inserted.rbegin(); task != inserted.rend(); ++task) cleanup(*task);
    throw;
  }
  return inserted;
}

TaskId LocalTaskBackend::insert_task(const TaskNode& node) {
  const TaskId id = next_++;
  tasks_[id] = std::make_unique<Inserted>(Inserted{.def = find_task(node.task)});
  order_.push_back(id);
  try {
    insert_tensors(id, node);
    insert_args(id, node);
    if (task_at(id).is_program()) make_body(id);
  } catch (...) {
    cleanup(id);
    throw;
  }
  return id;
}

void LocalTaskBackend::insert_tensors(TaskId task, const TaskNode& node) {
  for (const auto& [slot, source] : node.tensor_dependencies) {
    if (node.tensor_slots.contains(slot))
      fail("tensor {} of {} has memory of its own and depends on another", slot, describe(task));
    retriever_.set_tensor_dependency(checked({task, slot}), checked(source));
  }
  for (const auto& [slot, type] : node.tensor_slots) {
    checked({task, slot});
    retriever_.set_tensor({task, slot}, allocate(task, signature(task).tensors[slot].name, type));
  }
}

void LocalTaskBackend::insert_args(TaskId task, const TaskNode& node) {
  const std::vector<TaskArg>& args = signature(task).args;
  const auto check_slot = [&](SlotId slot) {
    if (slot >= args.size()) fail("{} has {} arguments, and no argument {}", describe(task), args.size(), slot);
  };
  for (const auto& [slot, value] : node.arg_slots) {
    check_slot(slot);
    if (node.arg_dependencies.contains(slot))
      fail("argument '{}' of {} has a value of its own and depends on another", args[slot].name, describe(task));
    set_arg({task, slot}, value);
  }
  for (const auto& [slot, source] : node.arg_dependencies) {
    check_slot(slot);
    if (task_at(task).is_program())
      fail("argument '{}' of {} is an attribute, which is known before it is compiled", args[slot].name,
           describe(task));
    const std::vector<TaskArg>& others = signature(source.task).args;
    if (source.slot >= others.size() || others[source.slot].kind != args[slot].kind) {
      fail("argument '{}' of {} depends on argument {} of {}, which is not of its kind", args[slot].name,
           describe(task), source.slot, describe(source.task));
    }
    retriever_.set_arg_dependency({task, slot}, source);
  }
}

Tensor LocalTaskBackend::allocate(TaskId task, const std::string& slot, const TensorType& type) {
  if (!is_static(type.shape))
    fail("tensor '{}' of {} is {}, and its size must be known", slot, describe(task), to_string(type));
  const Sizes shape = evaluate(type.shape, {});
  const int64_t bytes = std::max<int64_t>(checked_mul(element_count(shape), size_of(type.dtype)), 1);
  auto block = std::make_shared<runtime::Block>(allocator_, bytes);
  if (block->data() == nullptr) {
    fail("{} needs {} bytes for its tensor '{}', and {} of {} are in use", describe(task), bytes, slot,
         allocator_->used(), allocator_->budget());
  }
  std::fill_n(block->data(), bytes, std::byte{0});
  std::byte* const data = block->data();
  return Tensor::borrow(type.dtype, shape, contiguous_strides(shape), data,
                        std::shared_ptr<void>(std::move(block), data));
}

void LocalTaskBackend::make_body(TaskId id) {
  Inserted& task = task_at(id);
  const OpDef& op = *task.def.op;
  const std::vector<TaskTensor>& tensors = task.def.signature.tensors;
  task.body = Graph(task.def.signature.name);
  std::vector<ValueRef> operands;
  SlotId slot = 0;
  for (; slot < op.operands.get().size(); ++slot) {
    const SlotRef source = retriever_.source_of({id, slot});
    if (!retriever_.has_tensor(source)) {
      if (!tensors[slot].is_optional)
        fail("tensor '{}' of {} has no memory, and depends on no other task", tensors[slot].name, describe(id));
      operands.emplace_back();
      continue;
    }
    task.reads.push_back(source);
    operands.push_back(task.body.add_input(tensors[slot].name, type_of(retriever_.get_tensor(source))));
  }
  NamedAttrs attrs;
  for (SlotId i = 0; i < op.attrs.size(); ++i) {
    if (retriever_.has_arg({id, i})) attrs.emplace_back(op.attrs[i].name, retriever_.get_arg({id, i}));
  }
  const NodeRef node = task.body.add_node(op, operands, complete_attrs(op, attrs));
  task.body.set_outputs(task.body.node(node).results);
  for (ValueRef result : task.body.outputs()) {
    const SlotRef written{id, slot++};
    const TensorType& type = task.body.type(result);
    if (!retriever_.has_tensor(written)) retriever_.set_tensor(written, allocate(id, tensors[written.slot].name, type));
    const TensorType given = type_of(retriever_.get_tensor(written));
    if (given != type)
      fail("tensor '{}' of {} is {}, and the op gives {}", tensors[written.slot].name, describe(id), to_string(given),
           to_string(type));
    if (retriever_.depends(written))
      fail("tensor '{}' of {} is a result of an op, which has memory of its own", tensors[written.slot].name,
           describe(id));
    task.writes.push_back(written);
  }
  compile(task);
}

void LocalTaskBackend::compile(Inserted& task) const {
  task.program = std::make_unique<Program>(compile_program(task.body).value());
}

// ---- tensors and arguments ------------------------------------------------------------------------------------------

const Tensor& LocalTaskBackend::get_tensor(SlotRef slot) const {
  const std::string& name = signature(checked(slot).task).tensors[slot.slot].name;
  const std::optional<TaskId> fused = task_at(slot.task).fused_into;
  if (!retriever_.has_tensor(slot) && fused)
    fail("tensor '{}' of {} has no memory: task {} computes it on the way", name, describe(slot.task), *fused);
  if (!retriever_.has_tensor(slot))
    fail("tensor '{}' of {} is not there: give it memory, or set_tensor", name, describe(slot.task));
  return retriever_.get_tensor(slot);
}

const Attr& LocalTaskBackend::get_arg(SlotRef slot) const {
  task_at(slot.task);
  return retriever_.get_arg(slot);
}

void LocalTaskBackend::set_tensor(SlotRef slot, const Tensor& tensor) {
  const std::string& name = signature(checked(slot).task).tensors[slot.slot].name;
  if (retriever_.depends(slot)) fail("tensor '{}' of {} depends on another task", name, describe(slot.task));
  if (retriever_.has_tensor(slot) && type_of(retriever_.get_tensor(slot)) != type_of(tensor)) {
    fail("tensor '{}' of {} is {}, got {}", name, describe(slot.task), to_string(type_of(retriever_.get_tensor(slot))),
         to_string(type_of(tensor)));
  }
  if (signature(slot.task).tensors[slot.slot].is_written && tensor.access() == Access::kReadOnly)
    fail("{} writes its tensor '{}', and the memory that it is given is read-only", describe(slot.task), name);
  retriever_.set_tensor(slot, tensor);
}

void LocalTaskBackend::set_arg(SlotRef slot, Attr value) {
  const Inserted& task = task_at(slot.task);
  const std::vector<TaskArg>& args = task.def.signature.args;
  if (slot.slot >= args.size())
    fail("{} has {} arguments, and no argument {}", describe(slot.task), args.size(), slot.slot);
  const TaskArg& arg = args[slot.slot];
  if (task.program) fail("argument '{}' of {} is an attribute of its compiled code", arg.name, describe(slot.task));
  if (retriever_.arg_depends(slot)) fail("argument '{}' of {} depends on another task", arg.name, describe(slot.task));
  if (!has_kind(value, arg.kind))
    fail("argument '{}' of {} is of kind {}, got {}", arg.name, describe(slot.task), name_of(arg.kind),
         to_string(value));
  retriever_.set_arg(slot, std::move(value));
}

// ---- launching ------------------------------------------------------------------------------------------------------

void LocalTaskBackend::launch() {
  for (TaskId task : order_) launch(task);
}

void LocalTaskBackend::launch(TaskId id) {
  Inserted& task = task_at(id);
  if (task.fused_into) fail("{} was fused into task {}: launch that one", describe(id), *task.fused_into);
  if (task.is_program()) {
    launch_program(id);
  } else {
    launch_function(id);
  }
  task.is_launched = true;
  for (TaskId member : task.members) task_at(member).is_launched = true;
}

void LocalTaskBackend::require_launched(TaskId reader, SlotRef source) const {
  const auto owner = tasks_.find(source.task);  // gone, if it was cleaned up after its launch
  if (source.task == reader || owner == tasks_.end() || owner->second->is_launched) return;
  if (!owner->second->def.signature.tensors[source.slot].is_written) return;
  fail("{} reads what {} writes, which was not launched", describe(reader), describe(source.task));
}

void LocalTaskBackend::launch_program(TaskId id) {
  Inserted& task = task_at(id);
  for (SlotRef read : task.reads) require_launched(id, read);
  if (!task.context) {  // Memory of the caller may overlap.
    const int64_t left = allocator_->budget() - allocator_->used();
    task.context = task.program->runner->make_context({.budget = left, .checks_memory = true});
  }
  call_runtime([&] {
    for (size_t i = 0; i < task.reads.size(); ++i)
      task.context->set_input(i, described(retriever_.get_tensor(task.reads[i])));
    task.context->prepare();
    for (size_t i = 0; i < task.writes.size(); ++i)
      task.context->set_output(i, described(retriever_.get_tensor(task.writes[i])));
    task.context->run();
  });
  if (allocator_->budget() != runtime::kNoBudget) task.context.reset();  // Its memory counts for this launch alone.
}

std::vector<Tensor> LocalTaskBackend::tensors_for(TaskId task) const {
  std::vector<Tensor> tensors;
  for (SlotId slot = 0; slot < signature(task).tensors.size(); ++slot) {
    const bool is_absent = signature(task).tensors[slot].is_optional && !retriever_.has_tensor({task, slot});
    tensors.push_back(is_absent ? Tensor() : get_tensor({task, slot}));
    require_launched(task, retriever_.source_of({task, slot}));
  }
  return tensors;
}

std::vector<Attr> LocalTaskBackend::args_for(TaskId task) const {
  std::vector<Attr> args;
  for (SlotId slot = 0; slot < signature(task).args.size(); ++slot) {
    const auto& [name, kind, is_optional] = signature(task).args[slot];
    const bool is_there = retriever_.has_arg({task, slot});
    if (!is_there && !is_optional)
      fail("argument '{}' of {} has no value: give it one, or set_arg", name, describe(task));
    args.push_back(is_there ? retriever_.given_arg({task, slot}) : Attr(None()));
  }
  return args;
}

void LocalTaskBackend::launch_function(TaskId id) {
  const std::vector<Attr> args = args_for(id);
  TaskCall call(tensors_for(id), args);
  task_at(id).def.run(call);
  for (SlotId slot = 0; slot < args.size(); ++slot) {
    if (retriever_.arg_depends({id, slot}) && call.arg(slot) == args[slot]) {
      retriever_.drop_arg({id, slot});  // It follows the argument that it depends on.
    } else {
      retriever_.set_arg({id, slot}, call.arg(slot));
    }
  }
}

// ---- fusing and cleaning up -----------------------------------------------------------------------------------------

Graph LocalTaskBackend::join(std::span<const TaskId> members, Inserted& fused) const {
  Graph graph(fused.def.signature.name);
  std::map<SlotRef, ValueRef> values;
  std::map<SlotRef, int64_t> reads;  // by the members
  std::vector<SlotRef> written;
  for (TaskId member : members) {
    const Inserted& task = task_at(member);
    std::vector<ValueRef> mapped(task.body.value_count());
    for (size_t i = 0; i < task.reads.size(); ++i) {
      const SlotRef read = task.reads[i];
      const ValueRef input = task.body.inputs()[i];
      auto [value, is_new] = values.try_emplace(read);
      if (is_new) {
        value->second = graph.add_input(fill_in("t{}_{}", read.task, read.slot), task.body.type(input));
        fused.reads.push_back(read);
      }
      mapped[input.id] = value->second;
      ++reads[read];
    }
    for (const Node& node : task.body.nodes()) {
      std::vector<ValueRef> operands;
      for (ValueRef operand : node.operands) operands.push_back(operand ? mapped[operand.id] : operand);
      const NodeRef copy = graph.add_node(*node.op, operands, node.attrs, node.location);
      for (size_t i = 0; i < node.results.size(); ++i) mapped[node.results[i].id] = graph.node(copy).results[i];
    }
    for (size_t i = 0; i < task.writes.size(); ++i) {
      values[task.writes[i]] = mapped[task.body.outputs()[i].id];
      written.push_back(task.writes[i]);
    }
  }
  std::vector<ValueRef> outputs;
  for (SlotRef slot : written) {
    const int64_t count = retriever_.ref_count(slot);
    if (count > 0 && count == reads[slot]) continue;  // Nobody else reads it.
    fused.writes.push_back(slot);
    outputs.push_back(values[slot]);
  }
  graph.set_outputs(std::move(outputs));
  return graph;
}

TaskId LocalTaskBackend::fuse(std::span<const TaskId> tasks) {
  if (tasks.empty()) fail("there are no tasks to fuse");
  std::vector<TaskId> members;
  for (TaskId task : order_) {
    if (std::ranges::find(tasks, task) != tasks.end()) members.push_back(task);
  }
  for (TaskId task : tasks) {
    if (!task_at(task).is_program()) fail("{} is a function, and only ops can be fused", describe(task));
    if (std::ranges::find(members, task) == members.end())
      fail("{} was fused into another task before", describe(task));
  }
  auto fused = std::make_unique<Inserted>();
  for (TaskId member : members)
    fused->def.signature.name += (fused->def.signature.name.empty() ? "" : "+") + signature(member).name;
  fused->body = join(members, *fused);
  fused->members = members;
  compile(*fused);
  const TaskId id = next_++;
  replace_in_order(members, id);
  const std::set<SlotRef> kept(fused->writes.begin(), fused->writes.end());
  for (TaskId member : members) {
    Inserted& task = task_at(member);
    task.fused_into = id;
    task.context.reset();
    for (SlotRef slot : task.writes) {
      if (!kept.contains(slot)) retriever_.drop_tensor(slot);
    }
  }
  tasks_[id] = std::move(fused);
  return id;
}

// The fused task takes the place of its last member. Tasks between the members go behind it if they need a member, or
// write what a member or such a task reads.
void LocalTaskBackend::replace_in_order(std::span<const TaskId> members, TaskId fused) {
  const std::set<TaskId> is_member(members.begin(), members.end());
  std::vector<TaskId> before, behind;
  std::set<TaskId> late;      // members and tasks behind them
  std::set<SlotRef> touched;  // by those
  const auto sources_of = [&](TaskId task) {
    std::vector<SlotRef> sources;
    for (SlotId slot = 0; slot < signature(task).tensors.size(); ++slot)
      sources.push_back(retriever_.source_of({task, slot}));
    return sources;
  };
  const auto goes_behind = [&](TaskId task) {
    const std::vector<SlotRef> sources = sources_of(task);
    for (SlotId slot = 0; slot < sources.size(); ++slot) {
      if (late.contains(sources[slot].task)) return true;
      if (signature(task).tensors[slot].is_written && touched.contains(sources[slot])) return true;
    }
    return false;
  };
  bool is_done = false;  // with the members: the others follow in order
  for (TaskId task : order_) {
    const std::vector<SlotRef> sources = sources_of(task);
    const bool is_behind = !is_member.contains(task) && (is_done || goes_behind(task));
    if (!is_member.contains(task) && !is_behind) {
      before.push_back(task);
      continue;
    }
    is_done |= task == members.back();
    if (is_behind) behind.push_back(task);
    for (SlotRef source : is_member.contains(task) ? sources : std::vector<SlotRef>()) {
      if (std::ranges::find(behind, source.task) == behind.end()) continue;
      fail("{} needs {}, which needs other tasks that are to be fused with it", describe(task), describe(source.task));
    }
    late.insert(task);
    touched.insert(sources.begin(), sources.end());
  }
  before.push_back(fused);
  before.insert(before.end(), behind.begin(), behind.end());
  order_ = std::move(before);
}

void LocalTaskBackend::cleanup(TaskId id) {
  Inserted& task = task_at(id);
  if (task.fused_into) fail("{} was fused into task {}: clean up that one", describe(id), *task.fused_into);
  std::erase(order_, id);
  for (TaskId member : task.members) {
    task_at(member).fused_into.reset();
    cleanup(member);
  }
  retriever_.release(id);
  tasks_.erase(id);
}

}  // namespace tenon::tasks
