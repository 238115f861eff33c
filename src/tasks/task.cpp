#include "tasks/task.h"

#include <map>
#include <mutex>

#include "support/diagnostic.h"
#include "support/text.h"

namespace tenon::tasks {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, TaskDef, std::less<>> tasks;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

TaskDef task_of_op(const OpDef& op) {
  TaskSignature signature{.name = std::string(op.name.get())};
  for (const OperandDef& operand : op.operands.get()) {
    if (is_variadic(operand.arity))
      fail("op {} takes any number of operands, and a task has a fixed number", op.name.get());
    signature.tensors.push_back({std::string(operand.name), false, may_be_none(operand.arity)});
  }
  for (std::string_view result : op.results) signature.tensors.push_back({std::string(result), true, false});
  for (const AttrDef& attr : op.attrs) {
    signature.args.push_back({std::string(attr.name), attr.kind, !attr.fallback.required});
  }
  return {.signature = std::move(signature), .op = &op};
}

}  // namespace

void register_task(TaskSignature signature, TaskFn run) {
  if (signature.name.empty()) fail("a task needs a name");
  if (!run) fail("task '{}' has no function", signature.name);
  if (find_op(signature.name)) fail("task '{}' has the name of an op, which is a task itself", signature.name);
  const std::lock_guard lock(registry().mutex);
  const std::string name = signature.name;
  if (!registry().tasks.try_emplace(name, TaskDef{std::move(signature), std::move(run)}).second) {
    fail("a task '{}' is registered already", name);
  }
}

void unregister_task(const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  registry().tasks.erase(name);
}

TaskDef find_task(const std::string& name) {
  if (const OpDef* op = find_op(name)) return task_of_op(*op);
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().tasks.find(name);
  if (found != registry().tasks.end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [known, def] : registry().tasks) names.push_back(known);
  for (const OpDef* op : op_table()) names.push_back(op->name.get());
  fail("there is no task '{}'{}", name, did_you_mean(name, names));
}

}  // namespace tenon::tasks
