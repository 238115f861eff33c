#include "program/report.h"

#include <fmt/ranges.h>

namespace tenon {
namespace {

std::string task_line(const Program& program, const Task& task) {
  std::vector<std::string> results;
  for (uint32_t slot : task.outputs) results.push_back(to_string(program.slots[slot].type));
  const std::string where = task.location.known() ? "  " + to_string(task.location) : "";
  return fmt::format("  {:<10} {:<40} {}{}\n", name_of(task.kind), task.name, fmt::join(results, ", "), where);
}

std::string side_of(const Task& task) {
  if (!task.device.empty()) return task.device;
  return task.kind == TaskKind::kExternal ? "fallback" : "cpu";
}

}  // namespace

size_t TaskStretch::op_count() const {
  size_t count = 0;
  for (const Task* task : tasks) count += task->ops.size();
  return count;
}

std::vector<TaskStretch> segments_of(const Program& program) {
  std::vector<TaskStretch> segments;
  for (const Task& task : program.tasks) {
    std::string side = side_of(task);
    if (segments.empty() || segments.back().side != side) segments.push_back({std::move(side), {}});
    segments.back().tasks.push_back(&task);
  }
  return segments;
}

std::string describe(const Program& program) {
  std::string text;
  const std::vector<TaskStretch> segments = segments_of(program);
  for (size_t i = 0; i < segments.size(); ++i) {
    const size_t count = segments[i].op_count();
    text += fmt::format("Segment {}: {} ({} op{})\n", i, segments[i].side, count, count == 1 ? "" : "s");
    for (const Task* task : segments[i].tasks) text += task_line(program, *task);
  }
  return program.placement ? text + summary_of(*program.placement) : text;
}

}  // namespace tenon
