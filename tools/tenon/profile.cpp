#include "profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "json.h"
#include "units.h"

namespace tenon::cli {
namespace {

// Per nanosecond, so a billion per second.
double rate(int64_t count, int64_t nanoseconds) {
  return count < 0 || nanoseconds <= 0 ? 0 : static_cast<double>(count) / static_cast<double>(nanoseconds);
}

std::string metadata(std::string_view what, std::string_view name, size_t track = 1) {
  return json::object({{"name", json::string(what)},
                       {"ph", json::string("M")},
                       {"pid", "1"},
                       {"tid", std::to_string(track)},
                       {"args", json::object({{"name", json::string(name)}})}});
}

std::string event(const TraceSlice& slice, size_t track) {
  return json::object({{"name", json::string(slice.name)},
                       {"cat", json::string(slice.category)},
                       {"ph", json::string("X")},
                       {"ts", fmt::format("{:.3f}", slice.start_ns / 1e3)},
                       {"dur", fmt::format("{:.3f}", slice.duration_ns / 1e3)},
                       {"pid", "1"},
                       {"tid", std::to_string(track)},
                       {"args", json::object(slice.args)}});
}

}  // namespace

double TaskTime::gigabytes_per_second() const { return rate(bytes, duration_ns()); }
double TaskTime::gigaflops() const { return rate(flops, duration_ns()); }

std::string kind_text(runtime::TaskKind kind) { return runtime::name_of(kind); }

std::vector<TaskTime> times_of(const runtime::Context& context, const runtime::TaskGraph& graph) {
  std::vector<TaskTime> times;
  for (const runtime::Event& event : context.events()) {
    const runtime::TaskNode& task = graph.tasks[event.task];
    times.push_back({event.task, std::string(task.name), kind_text(task.kind), event.start_ns, event.end_ns,
                     context.bytes_of_task(event.task), context.flops_of_task(event.task),
                     is_device_task(task) ? graph.spaces[task.space - 1].device : ""});
  }
  return times;
}

namespace {

constexpr int kWarmUp = 3, kFewestRuns = 5, kMostRuns = 51;
constexpr std::chrono::seconds kLongestProfile(3);

int64_t median(std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

int64_t since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Profile profile(const runtime::TaskGraph& graph, runtime::Context& context, const std::function<void()>& run) {
  Profile result{.warm_up = kWarmUp};
  for (int i = 0; i < kWarmUp; ++i) run();
  std::vector<std::vector<int64_t>> durations(context.events().size());
  std::vector<int64_t> totals;
  const auto start = std::chrono::steady_clock::now();
  while (result.runs < kFewestRuns ||
         (result.runs < kMostRuns && std::chrono::steady_clock::now() - start < kLongestProfile)) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    totals.push_back(since(begin));
    for (size_t i = 0; i < durations.size(); ++i)
      durations[i].push_back(context.events()[i].end_ns - context.events()[i].start_ns);
    ++result.runs;
  }
  result.tasks = times_of(context, graph);
  result.run_ns = median(totals);
  int64_t at = 0;
  for (size_t i = 0; i < durations.size(); ++i) {
    result.tasks[i].start_ns = at;
    result.tasks[i].end_ns = at += median(durations[i]);
  }
  return result;
}

std::string trace_text(const std::string& process, std::span<const TraceSlice> slices) {
  std::vector<std::string> events = {metadata("process_name", process)};
  std::vector<std::string_view> tracks;
  for (const TraceSlice& slice : slices) {
    const auto track = static_cast<size_t>(std::ranges::find(tracks, slice.track) - tracks.begin()) + 1;
    if (track > tracks.size()) {
      tracks.push_back(slice.track);
      events.push_back(metadata("thread_name", slice.track, track));
    }
    events.push_back(event(slice, track));
  }
  return fmt::format("{{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n{}\n]}}\n", fmt::join(events, ",\n"));
}

TraceSlice slice_of(const TaskTime& time, int64_t origin_ns) {
  TraceSlice slice{.track = time.device.empty() ? "tasks" : std::string(time.device),
                   .name = time.name,
                   .category = time.kind,
                   .start_ns = static_cast<double>(time.start_ns - origin_ns),
                   .duration_ns = static_cast<double>(time.duration_ns()),
                   .args = {{"task", std::to_string(time.task)}, {"kind", json::string(time.kind)}}};
  if (time.bytes >= 0) {
    slice.args.emplace_back("bytes", std::to_string(time.bytes));
    slice.args.emplace_back("GB/s", fmt::format("{:.3f}", time.gigabytes_per_second()));
  }
  if (time.flops >= 0) {
    slice.args.emplace_back("flops", std::to_string(time.flops));
    slice.args.emplace_back("GFLOP/s", fmt::format("{:.3f}", time.gigaflops()));
  }
  return slice;
}

std::string trace_json(const std::string& model, std::span<const TaskTime> times) {
  std::vector<TraceSlice> slices;
  for (const TaskTime& time : times) slices.push_back(slice_of(time, times.front().start_ns));
  return trace_text("tenon " + model, slices);
}

std::string slowest_tasks(std::span<const TaskTime> times, size_t count) {
  std::vector<TaskTime> slowest(times.begin(), times.end());
  std::ranges::sort(slowest, std::greater(), [](const TaskTime& t) { return std::pair(t.duration_ns(), -t.start_ns); });
  slowest.resize(std::min(count, slowest.size()));
  const int64_t total = std::accumulate(times.begin(), times.end(), int64_t{0},
                                        [](int64_t sum, const TaskTime& time) { return sum + time.duration_ns(); });
  std::string text =
      fmt::format("{} tasks, {} in one run, with nothing warmed up\n{:>10} {:>6} {:>9} {:>9}  {:<8} {}\n", times.size(),
                  time_text(static_cast<double>(total)), "time", "part", "GFLOP/s", "GB/s", "kind", "task");
  for (const TaskTime& time : slowest) {
    text += fmt::format("{:>10} {:>5.1f}% {:>9.2f} {:>9.2f}  {:<8} {}\n",
                        time_text(static_cast<double>(time.duration_ns())), 100 * rate(time.duration_ns(), total),
                        time.gigaflops(), time.gigabytes_per_second(), time.kind, time.name);
  }
  return text;
}

}  // namespace tenon::cli
