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

}  // namespace

size_t TaskStretch::op_count() const {
  size_t count = 0;
  for (const Task* task : tasks) count += task->ops.size();
  return count;
}

std::vector<TaskStretch> segments_of(const Program& program) {
  std::vector<TaskStretch> segments;
  for (const Task& task : program.tasks) {
    const bool is_fallback = task.kind == TaskKind::kExternal;
    if (segments.empty() || segments.back().is_fallback != is_fallback) segments.push_back({is_fallback, {}});
    segments.back().tasks.push_back(&task);
  }
  return segments;
}

std::string describe(const Program& program) {
  std::string text;
  const std::vector<TaskStretch> segments = segments_of(program);
  for (size_t i = 0; i < segments.size(); ++i) {
    const size_t count = segments[i].op_count();
    text += fmt::format("Segment {}: {} ({} op{})\n", i, segments[i].is_fallback ? "fallback" : "cpu", count,
                        count == 1 ? "" : "s");
    for (const Task* task : segments[i].tasks) text += task_line(program, *task);
  }
  return text;
}

}  // namespace tenon
