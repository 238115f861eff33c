// Where the time of a run goes, task by task.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/context.h"

namespace tenon::cli {

struct TaskTime {
  uint32_t task;
  std::string name;
  std::string kind;  // "kernel", "library" or "fallback"
  int64_t start_ns;
  int64_t end_ns;
  int64_t bytes;                 // -1: known too late
  int64_t flops;                 // -1: not known
  std::string_view device = {};  // of a device's task: its name, which lives as long as the graph

  int64_t duration_ns() const { return end_ns - start_ns; }
  double gigabytes_per_second() const;  // 0 where it is not known
  double gigaflops() const;             // likewise
};

std::string kind_text(runtime::TaskKind kind);

// Of the last run of a context with telemetry.
std::vector<TaskTime> times_of(const runtime::Context& context, const runtime::TaskGraph& graph);

// What a task takes when caches are warm and threads awake.
struct Profile {
  std::vector<TaskTime> tasks;  // each with its median time; they start one after the other
  int64_t run_ns = 0;           // a whole run, likewise the median
  int runs = 0;                 // that were measured
  int warm_up = 0;              // that came before
};
// Runs a few times to warm up, then for some seconds, but at most 51 times.
Profile profile(const runtime::TaskGraph& graph, runtime::Context& context, const std::function<void()>& run);

// A bar of a trace. Bars of a track do not overlap.
struct TraceSlice {
  std::string track;
  std::string name;
  std::string category;
  double start_ns = 0;
  double duration_ns = 0;
  std::vector<std::pair<std::string_view, std::string>> args =
      {};  // values are JSON; names live as long as the program
};
TraceSlice slice_of(const TaskTime& time, int64_t origin_ns);

// As Chrome and Perfetto read it: https://ui.perfetto.dev opens the file. Tracks come in the order of their first
// slices.
std::string trace_text(const std::string& process, std::span<const TraceSlice> slices);

// Tasks as such a trace. Tasks run one after the other on the thread
// that runs the model, and share their work with the others: there is one track of them, and one for each device.
std::string trace_json(const std::string& model, std::span<const TaskTime> times);

// The tasks that took longest, as a table.
std::string slowest_tasks(std::span<const TaskTime> times, size_t count);

}  // namespace tenon::cli
