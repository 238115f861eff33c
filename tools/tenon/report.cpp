#include "report.h"

#include <fmt/format.h>

#include <algorithm>

#include "artifact_info.h"
#include "kernel_text.h"
#include "pictures.h"
#include "profile.h"
#include "roofline.h"
#include "support/file.h"
#include "terminal.h"
#include "units.h"

namespace tenon::cli {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2430; --soft: #5a6675; --line: #d5dbe3; --panel: #f5f7fa;
  --accent: #2563b8; --kernel: #dbe8fa; --library: #fbe6cc; --fallback: #f6d7dc; --tensor: #e6eaf0; --live: #1c2430;
  --c0: #7fb0e8; --c1: #f0b36b; --c2: #86c7a0; --c3: #c9a0dc; --c4: #e79a9a; --c5: #b8c46a; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14181f; --ink: #e4e9f0; --soft: #9aa6b5; --line: #343d4a; --panel: #1c222b; --accent: #7db4f5;
    --kernel: #1f3a5f; --library: #573f1d; --fallback: #5a2932; --tensor: #2b333f; --live: #e4e9f0;
    --c0: #3f75b5; --c1: #a8722d; --c2: #45855f; --c3: #855a99; --c4: #a35555; --c5: #767f34; } }
body { margin: 0 auto; max-width: 1180px; padding: 24px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 32px 0 8px; }
.soft { color: var(--soft); } a { color: var(--accent); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 12px; margin: 16px 0; }
.facts div { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.facts b { display: block; font-size: 18px; font-variant-numeric: tabular-nums; }
.scroll { overflow: auto; max-height: 720px; border: 1px solid var(--line); border-radius: 8px; background: var(--panel); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 4px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; position: sticky; top: 0; background: var(--panel); }
td.number, th.number { text-align: right; }
.bar { display: inline-block; height: 10px; min-width: 1px; background: var(--accent); border-radius: 2px; }
pre { font: 13px/1.45 ui-monospace, monospace; margin: 0; padding: 12px; overflow: auto; background: var(--panel);
  border: 1px solid var(--line); border-radius: 8px; }
details { margin: 6px 0; } summary { cursor: pointer; padding: 4px 0; }
svg { display: block; margin: 0 auto; } svg text { fill: var(--ink); font-size: 13px; } svg text.small { fill: var(--soft); font-size: 11px; }
.edge { fill: none; stroke: var(--soft); stroke-width: 1.2; opacity: .6; }
.box rect { stroke: var(--line); } .kernel rect { fill: var(--kernel); } .library rect { fill: var(--library); }
.fallback rect { fill: var(--fallback); } .tensor rect { fill: var(--tensor); }
.lifetime { stroke: var(--panel); stroke-width: 1; } .lifetime:hover { opacity: .7; }
.c0 { fill: var(--c0); } .c1 { fill: var(--c1); } .c2 { fill: var(--c2); } .c3 { fill: var(--c3); }
.c4 { fill: var(--c4); } .c5 { fill: var(--c5); }
.roof { fill: none; stroke: var(--ink); stroke-width: 1.5; } .layer { fill: var(--c0); stroke: var(--accent); }
.axis { stroke: var(--soft); } .grid { stroke: var(--line); } .live { fill: none; stroke: var(--live); stroke-width: 1.5; }
)";

constexpr std::string_view kPage = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{model}</title>
<style>{style}</style>
</head>
<body>
<h1>{model}</h1>
<p class="soft">A report of tenon {version}: runs{sizes} with random inputs. Times are medians of {runs} runs after
{warm_up} that warm up caches and threads; bytes are what a task reads and writes.</p>
{facts}
{times}
{roofline}
{graph}
{segments}
{memory}
{kernels}
<script>{script}</script>
</body>
</html>
)";

// A link to a kernel opens it.
constexpr std::string_view kScript = R"(
function reveal() {
  const target = document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
}
addEventListener("hashchange", reveal);
reveal();
)";

std::string fact(std::string_view what, const std::string& value) {
  return fmt::format("<div><b>{}</b><span class=\"soft\">{}</span></div>", escaped(value), escaped(what));
}

class Report {
 public:
  Report(const std::string& model, const Runnable& runnable, const symbolic::Bindings& sizes,
         const std::vector<LayerCost>& layers)
      : model_(model), runnable_(runnable), graph_(runnable.graph()), sizes_(sizes), layers_(layers) {
    const std::vector<Tensor> inputs = runnable.random_inputs(sizes, 0);
    context_ = runnable.make_context({.telemetry = true});
    Progress progress(1);
    progress.begin("running");
    profile_ = profile(graph_, *context_, [&] { runnable.run(*context_, inputs); });
    for (const TaskTime& time : profile_.tasks) total_ns_ += time.duration_ns();
  }

  std::string html() const {
    return fmt::format(kPage, fmt::arg("model", escaped(model_)), fmt::arg("style", kStyle),
                       fmt::arg("version", TENON_VERSION), fmt::arg("sizes", escaped(sizes_text())),
                       fmt::arg("runs", profile_.runs), fmt::arg("warm_up", profile_.warm_up),
                       fmt::arg("facts", facts()), fmt::arg("times", time_section()),
                       fmt::arg("roofline", roofline_section(layers_)), fmt::arg("graph", graph_section()),
                       fmt::arg("segments", segment_section()), fmt::arg("memory", memory_section()),
                       fmt::arg("kernels", kernel_section()), fmt::arg("script", kScript));
  }

 private:
  std::string sizes_text() const {
    std::string text;
    for (const auto& [symbol, value] : sizes_)
      text += fmt::format("{} {} = {}", text.empty() ? " with" : ",", symbol.name(), value);
    return text;
  }

  std::string facts() const {
    const runtime::Frame& frame = *context_->frame();
    const PlanInfo plan{frame.arena_bytes, frame.least_bytes};
    int64_t weights = 0;
    for (const runtime::Blob& blob : graph_.constants) weights += static_cast<int64_t>(blob.size());
    if (runnable_.compiled()) weights = static_cast<int64_t>(runnable_.compiled()->constant_bytes());
    std::string text = fact("tasks", std::to_string(graph_.tasks.size())) +
                       fact("time of a run", time_text(static_cast<double>(profile_.run_ns))) +
                       fact("time of all tasks", time_text(static_cast<double>(total_ns_))) +
                       fact("weights", bytes_text(weights)) + fact("temporaries, planned", bytes_text(plan.planned)) +
                       fact("of the least possible", fmt::format("{:.3f}x", plan.ratio())) +
                       fact("peak of the run", bytes_text(context_->allocator().peak()));
    return "<div class=\"facts\" id=\"facts\">" + text + "</div>";
  }

  std::string time_section() const {
    std::string rows;
    for (const TaskTime& time : profile_.tasks) rows += row(time);
    return "<h2>Time, work and bytes of each task</h2><div class=\"scroll\"><table id=\"tasks\"><thead><tr>"
           "<th class=\"number\">#</th><th>task</th><th>kind</th><th class=\"number\">time</th><th>part</th>"
           "<th class=\"number\">flops</th><th class=\"number\">GFLOP/s</th><th class=\"number\">bytes</th>"
           "<th class=\"number\">GB/s</th></tr></thead><tbody>" +
           rows + "</tbody></table></div>";
  }

  std::string row(const TaskTime& time) const {
    const double part = total_ns_ == 0 ? 0 : static_cast<double>(time.duration_ns()) / static_cast<double>(total_ns_);
    const auto number = [](int64_t value) { return value < 0 ? std::string("?") : std::to_string(value); };
    return fmt::format(
        "<tr id=\"task-{0}\"><td class=\"number\">{0}</td><td><a href=\"#kernel-{0}\">{1}</a></td><td>{2}</td>"
        "<td class=\"number\">{3}</td><td><span class=\"bar\" style=\"width:{4:.0f}px\"></span> {5:.1f}%</td>"
        "<td class=\"number\">{6}</td><td class=\"number\">{7:.2f}</td><td class=\"number\">{8}</td>"
        "<td class=\"number\">{9:.2f}</td></tr>\n",
        time.task, escaped(time.name), time.kind, time_text(static_cast<double>(time.duration_ns())), 140 * part,
        100 * part, number(time.flops), time.gigaflops(), number(time.bytes), time.gigabytes_per_second());
  }

  std::string graph_section() const {
    const Program* const compiled = runnable_.compiled();
    const std::string text =
        to_string(compiled ? compiled->graph : graph_of(model_, runnable_.container(), runnable_.entry()));
    const std::string details =
        fmt::format("<details id=\"graph-text\"><summary>As text</summary><pre>{}</pre></details>", escaped(text));
    return "<h2>Graph</h2><div class=\"scroll\">" + graph_picture(graph_) + "</div>" + details;
  }

  // Tasks one after the other that one side runs.
  std::string segment_section() const {
    std::string items;
    for (size_t first = 0; first < graph_.tasks.size();) {
      size_t end = first;
      while (end < graph_.tasks.size() && side_of(end) == side_of(first)) ++end;
      items += fmt::format("<li>{}: tasks {} to {}</li>", escaped(side_of(first)), first, end - 1);
      first = end;
    }
    return "<h2>Segments</h2><ol id=\"segments\" start=\"0\">" + items + "</ol>";
  }

  std::string_view side_of(size_t number) const {
    const runtime::TaskNode& task = graph_.tasks[number];
    if (is_device_task(task)) return graph_.spaces[task.space - 1].device;
    return task.kind == runtime::TaskKind::Fallback ? "this process" : "cpu";
  }

  std::string memory_section() const {
    return "<h2>Memory over time</h2><p class=\"soft\">Each block is a temporary: from the task that writes it to the "
           "last that reads it, at its place in the arena. The line is the sum of what lives.</p><div "
           "class=\"scroll\">" +
           memory_picture(graph_, *context_->frame()) + "</div>";
  }

  std::string kernel_section() const {
    std::string text = "<h2>Kernels</h2>";
    for (size_t i = 0; i < graph_.tasks.size(); ++i) text += kernel(i);
    return "<div id=\"kernels\">" + text + "</div>";
  }

  std::string kernel(size_t number) const {
    const runtime::TaskNode& task = graph_.tasks[number];
    return fmt::format(
        "<details id=\"kernel-{}\"><summary>{} <span class=\"soft\">{}</span></summary><pre>{}</pre></details>\n",
        number, escaped(task.name), escaped(task_place(number)), escaped(task_body(number)));
  }

  std::string task_place(size_t number) const {
    const format::Task& task = *graph_.source->tasks()->Get(static_cast<flatbuffers::uoffset_t>(number));
    return task.file() && task.file()->size() > 0 ? fmt::format("{}:{}", task.file()->string_view(), task.line()) : "";
  }

  std::string task_body(size_t number) const {
    if (runnable_.compiled() && runnable_.compiled()->tasks[number].tree) {
      return runnable_.compiled()->tasks[number].tree->dump();
    }
    const runtime::TaskNode& task = graph_.tasks[number];
    std::string text = fmt::format("ops: {}\n", fmt::join(ops_of(graph_, number), ", "));
    for (uint32_t slot : task.inputs) text += fmt::format("reads  {}\n", type_text(graph_, graph_.slots[slot]));
    for (uint32_t slot : task.outputs) text += fmt::format("writes {}\n", type_text(graph_, graph_.slots[slot]));
    const bool is_of_file = !runnable_.compiled() && task.kind == runtime::TaskKind::Kernel;
    return is_of_file ? text + loops_text(graph_, task) : text;
  }

  const std::string& model_;
  const Runnable& runnable_;
  const runtime::TaskGraph& graph_;
  const symbolic::Bindings& sizes_;
  const std::vector<LayerCost>& layers_;
  std::unique_ptr<runtime::Context> context_;
  Profile profile_;
  int64_t total_ns_ = 0;
};

}  // namespace

void write_report(const std::string& path, const std::string& model, const Runnable& runnable,
                  const symbolic::Bindings& sizes, const std::vector<LayerCost>& layers) {
  write_file(path, Report(model, runnable, sizes, layers).html()).value();
}

}  // namespace tenon::cli
