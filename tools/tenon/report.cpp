#include "report.h"

#include <fmt/format.h>

#include <map>

#include "embedded/kExplorer.h"
#include "embedded/kPageStyle.h"
#include "html.h"
#include "json.h"
#include "profile.h"
#include "program/program.h"
#include "roofline.h"
#include "runtime/description.h"
#include "support/file.h"
#include "terminal.h"
#include "units.h"

namespace tenon::cli {
namespace {

// The page of a model. web/explorer.mjs draws the JSON.
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
<main id="report"></main>
{roofline}
<script id="data" type="application/json">{data}</script>
<script type="module">{explorer}
const view = showReport(document.getElementById("report"), JSON.parse(document.getElementById("data").textContent));
const follow = () => location.hash.startsWith("#task-") && view.select(Number(location.hash.slice(6)));
addEventListener("hashchange", follow);
follow();
</script>
</body>
</html>
)";

// For a script element, which "</script>" would end.
std::string without_markup(const std::string& text) {
  std::string safe;
  for (const char c : text) c == '<' ? safe += "\\u003c" : safe += c;
  return safe;
}

std::string fact(std::string_view what, const std::string& value) {
  return json::array({json::string(what), json::string(value)});
}

// Those that are parameters or buffers as they are, and not laid out for a kernel.
std::vector<std::string> names_of_constants(const Program& program) {
  std::map<const std::byte*, std::string> leaves;
  for (const Leaf& leaf : program.source->leaves()) {
    if (leaf.data.defined()) leaves.emplace(leaf.data.data(), leaf.name);
  }
  std::vector<std::string> names;
  for (const Tensor& constant : program.constants) names.push_back(leaves[constant.data()]);
  return names;
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
  }

  std::string html() const {
    return fmt::format(kPage, fmt::arg("model", escaped(model_)), fmt::arg("style", kPageStyle),
                       fmt::arg("version", TENON_VERSION), fmt::arg("sizes", escaped(sizes_text())),
                       fmt::arg("runs", profile_.runs), fmt::arg("warm_up", profile_.warm_up),
                       fmt::arg("roofline", roofline_section(layers_)), fmt::arg("data", without_markup(data())),
                       fmt::arg("explorer", kExplorer));
  }

 private:
  std::string sizes_text() const {
    std::string text;
    for (const auto& [symbol, value] : sizes_)
      text += fmt::format("{} {} = {}", text.empty() ? " with" : ",", symbol.name(), value);
    return text;
  }

  std::string data() const {
    const std::string description = runtime::describe_program(
        graph_, context_->frame(), [this](uint32_t task) { return loops_of(task); }, constant_names());
    return json::object({{"description", description},
                         {"profile", profile_json()},
                         {"facts", facts()},
                         {"text", json::string(graph_text())}});
  }

  std::string facts() const {
    int64_t weights = 0;
    for (const runtime::Blob& blob : graph_.constants) weights += static_cast<int64_t>(blob.size());
    if (runnable_.compiled()) weights = static_cast<int64_t>(runnable_.compiled()->constant_bytes());
    return json::array({fact("weights", bytes_text(weights)),
                        fact("time of a run", time_text(static_cast<double>(profile_.run_ns))),
                        fact("peak of the run", bytes_text(context_->allocator().peak()))});
  }

  std::string profile_json() const {
    const auto milliseconds = [](int64_t ns) { return fmt::format("{:.6f}", static_cast<double>(ns) / 1e6); };
    const std::string tasks = json::array_of(profile_.tasks, [&](const TaskTime& time) {
      return json::object({{"task", std::to_string(time.task)},
                           {"start", milliseconds(time.start_ns)},
                           {"end", milliseconds(time.end_ns)},
                           {"bytes", std::to_string(time.bytes)},
                           {"flops", std::to_string(time.flops)}});
    });
    return json::object({{"note", json::string(fmt::format("Medians of {} runs.", profile_.runs))}, {"tasks", tasks}});
  }

  std::vector<std::string> constant_names() const {
    if (runnable_.compiled()) return names_of_constants(*runnable_.compiled());
    const auto* section = runnable_.container()->find(format::SectionKind::kGraph, runnable_.entry());
    if (section == nullptr) section = runnable_.container()->find(format::SectionKind::kGraph);
    return section ? runtime::constant_names(graph_, section->bytes) : std::vector<std::string>();
  }

  std::string graph_text() const {
    const Program* const compiled = runnable_.compiled();
    return to_string(compiled ? compiled->graph : graph_of(model_, runnable_.container(), runnable_.entry()));
  }

  // As the compiler wrote them, where it made the program in this process.
  std::string loops_of(uint32_t task) const {
    const Program* const compiled = runnable_.compiled();
    if (compiled == nullptr) return runtime::loops_of_file(graph_)(task);
    const auto& tree = compiled->tasks[task].tree;
    return tree ? tree->dump() : "";
  }

  const std::string& model_;
  const Runnable& runnable_;
  const runtime::TaskGraph& graph_;
  const symbolic::Bindings& sizes_;
  const std::vector<LayerCost>& layers_;
  std::unique_ptr<runtime::Context> context_;
  Profile profile_;
};

}  // namespace

void write_report(const std::string& path, const std::string& model, const Runnable& runnable,
                  const symbolic::Bindings& sizes, const std::vector<LayerCost>& layers) {
  write_file(path, Report(model, runnable, sizes, layers).html()).value();
}

}  // namespace tenon::cli
