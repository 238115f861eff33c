// tenon inspect: what a model is made of, and what becomes of it.
#include <fmt/format.h>

#include <memory>

#include "artifact_info.h"
#include "checkpoints.h"
#include "command.h"
#include "json.h"
#include "layer_costs.h"
#include "model.h"
#include "output_files.h"
#include "placement.h"
#include "program/program.h"
#include "program/report.h"
#include "report.h"
#include "runnable.h"
#include "runtime/artifact.h"
#include "support/file.h"
#include "terminal.h"
#include "units.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(Of a .pt2 file or a graph's text: the nodes (placeholder, call_function, output), which of them Tenon supports, and the
segments: ops that run together, in compiled code, on a device or in PyTorch (the fallback). Of a .tenon file: inputs,
outputs, states, sizes, tasks, weights, CPU levels and devices; where it has several programs, of the first or of
--entry. Of both, how much memory temporaries take, as planned and at least; for a model with symbolic sizes that needs
--size.
--html runs the model as well, with random inputs, and draws it all; of a device that is a tile machine, it runs each layer
alone, and compares its cycles with the limits of the array and the DMA (a roofline). Of a checkpoint: names and types of its states, and
its notes: which step it is of.

Examples:
  tenon inspect model.pt2
  tenon inspect model.tenon --size N=64
  tenon inspect model.pt2 --html report.html
  tenon inspect checkpoints/step-00000120.states
  tenon inspect model.pt2 --json | jq .unsupported)";

struct Options {
  ModelOptions model;
  std::vector<std::string> sizes;
  std::string html;
  std::string entry;
  bool json = false;
};

// ---- a model --------------------------------------------------------------------------------------------------------

struct Row {
  std::string kind;
  std::string name;
  std::string target;
  std::string type;
};

std::string types_of(const Graph& graph, const std::vector<ValueRef>& values) {
  std::string text;
  for (ValueRef value : values) text += (text.empty() ? "" : ", ") + to_string(graph.type(value));
  return text;
}

std::vector<Row> rows_of(const pt2::ExportedGraph& graph) {
  const auto type_of = [&](const std::string& name) {
    const auto found = graph.tensors.find(name);
    return found == graph.tensors.end() ? std::string() : to_string(found->second);
  };
  std::vector<Row> rows;
  for (const pt2::Argument& input : graph.inputs) rows.push_back({"placeholder", to_string(input), "", ""});
  for (Row& row : rows) row.type = type_of(row.name.substr(1));
  for (const pt2::ExportedNode& node : graph.nodes) {
    Row row{"call_function", "", registry_name(node.target), ""};
    for (const pt2::Argument& output : node.outputs) {
      const std::string name = to_string(output);
      row.name += (row.name.empty() ? "" : ", ") + name;
      if (name.starts_with('%')) row.type += (row.type.empty() ? "" : ", ") + type_of(name.substr(1));
    }
    rows.push_back(std::move(row));
  }
  for (const pt2::Argument& output : graph.outputs) rows.push_back({"output", to_string(output), "", ""});
  return rows;
}

std::vector<Row> rows_of(const Graph& graph) {
  std::vector<Row> rows;
  for (const Leaf& leaf : graph.leaves()) {
    if (leaf.kind == LeafKind::kConstant) continue;
    rows.push_back({"placeholder", leaf.name, std::string(name_of(leaf.kind)), to_string(graph.type(leaf.value))});
  }
  for (const Node& node : graph.nodes()) {
    rows.push_back({"call_function", graph.value_name(node.results[0]), std::string(node.op->name.get()),
                    types_of(graph, node.results)});
  }
  rows.push_back({"output", "", "", types_of(graph, graph.outputs())});
  return rows;
}

std::string table_of(const std::vector<Row>& rows) {
  size_t name_width = 4, target_width = 6;
  for (const Row& row : rows) {
    name_width = std::max(name_width, row.name.size());
    target_width = std::max(target_width, row.target.size());
  }
  std::string text =
      fmt::format("{:<14} {:<{}} {:<{}} {}\n", "opcode", "name", name_width, "target", target_width, "type");
  for (const Row& row : rows) {
    text +=
        fmt::format("{:<14} {:<{}} {:<{}} {}\n", row.kind, row.name, name_width, row.target, target_width, row.type);
  }
  return text;
}

std::string segment_json(const TaskStretch& segment) {
  return json::object(
      {{"side", json::string(segment.side)},
       {"ops", std::to_string(segment.op_count())},
       {"tasks", json::array_of(segment.tasks, [](const Task* task) { return json::string(task->name); })}});
}

std::string json_of(const std::vector<Row>& rows, const Model& model, const Program& program,
                    const std::optional<PlanInfo>& plan) {
  const auto row_json = [](const Row& row) {
    return json::object({{"opcode", json::string(row.kind)},
                         {"name", json::string(row.name)},
                         {"target", json::string(row.target)},
                         {"type", json::string(row.type)}});
  };
  const auto call_json = [](const UnsupportedCall& call) {
    return json::object({{"target", json::string(call.target)},
                         {"reason", json::string(call.reason)},
                         {"where", json::string(call.location.known() ? to_string(call.location) : "")}});
  };
  return json::object({{"nodes", json::array_of(rows, row_json)},
                       {"unsupported", json::array_of(model.unsupported, call_json)},
                       {"segments", json::array_of(segments_of(program), segment_json)},
                       {"placement", placement_json(program.placement.get())},
                       {"plan", cli::json_of(plan)}}) +
         "\n";
}

// Nothing is run, so a fallback that is never called is enough.
Runnable compile_to_look_at(const Model& model, const std::vector<std::string>& devices) {
  const FallbackFn fallback = [](int64_t, std::span<const Tensor>) { return std::vector<Tensor>(); };
  return Runnable::compile(model.graph, {.devices = devices, .fallback = fallback});
}

void inspect_model(const Options& options) {
  const bool exported = is_pt2(options.model.path);
  const std::vector<Row> rows =
      exported ? rows_of(read_pt2(options.model.path).value().graph) : rows_of(read_graph(options.model.path));
  ModelOptions reading = options.model;
  if (!exported && !reading.seed) reading.seed = 0;  // of a text, what matters is the shape of things
  const Model model = read_model(reading);
  const Runnable runnable = compile_to_look_at(model, options.model.devices);
  const Program& program = *runnable.compiled();
  const symbolic::Bindings sizes = parse_sizes(options.sizes);
  const std::optional<PlanInfo> plan = plan_of(runnable, sizes);
  if (!options.html.empty()) {
    require_supported(model);
    const std::vector<LayerCost> layers = layer_costs(model.graph, options.model.devices, LayerTimes::kMeasured);
    return write_report(options.html, options.model.path, runnable, sizes, layers);
  }
  if (options.json) return print(json_of(rows, model, program, plan));
  std::string text = table_of(rows) + "\n";
  if (!model.unsupported.empty()) text += "not supported\n" + to_string(model.unsupported) + "\n\n";
  text += describe(program);
  text += fmt::format("program length: {} tasks; weights {} bytes\n", program.tasks.size(), program.constant_bytes());
  print(text + text_of(plan));
}

// ---- an artifact ----------------------------------------------------------------------------------------------------

std::string artifact_json(const std::string& path, const Runnable& runnable, const std::optional<PlanInfo>& plan) {
  const runtime::TaskGraph& graph = runnable.graph();
  const runtime::Container& container = *runnable.container();
  const auto* const weights = container.find(format::SectionKind::kWeights);
  return json::object({{"name", json::string(graph.name)},
                       {"entry", json::string(runnable.entry())},
                       {"entries", json::array_of(runtime::entry_names(container), json::string)},
                       {"inputs", tensors_json(graph, graph.inputs)},
                       {"outputs", tensors_json(graph, graph.outputs)},
                       {"call", json::string(call_text(runnable))},
                       {"states", states_json(graph)},
                       {"symbols", symbols_json(graph)},
                       {"tasks", tasks_json(graph)},
                       {"plan", json_of(plan)},
                       {"weight_bytes", std::to_string(weights ? weights->bytes.size() : 0)},
                       {"file_bytes", std::to_string(file_bytes(path))},
                       {"levels", levels_json(container, runnable.entry())},
                       {"devices", devices_json(container, runnable.entry())}}) +
         "\n";
}

std::string level_text(const LevelInfo& level) {
  const std::string here =
      level.missing.empty() ? "runs here" : fmt::format("this machine lacks {}", fmt::join(level.missing, ", "));
  return fmt::format("code for {}: {} kernels in {} objects, {}; {}\n", level.cpu, level.kernels, level.objects,
                     bytes_text(level.bytes), here);
}

std::string artifact_text(const std::string& path, const Runnable& runnable, const std::optional<PlanInfo>& plan) {
  const runtime::TaskGraph& graph = runnable.graph();
  const runtime::Container& container = *runnable.container();
  const auto* const weights = container.find(format::SectionKind::kWeights);
  std::string text = fmt::format("program {}\n", graph.name);
  const std::vector<std::string> entries = runtime::entry_names(container);
  if (entries.size() > 1) text += fmt::format("this is entry {} of {}\n", runnable.entry(), fmt::join(entries, ", "));
  text += tensors_text(runnable);
  text += fmt::format("Segment 0: cpu ({} tasks)\n{}", graph.tasks.size(), tasks_text(graph));
  for (const LevelInfo& level : levels_of(container, runnable.entry())) text += level_text(level);
  text += devices_text(container, runnable.entry());
  text += text_of(plan);
  text += fmt::format("weights: {} bytes; the file: {} bytes\n", weights ? weights->bytes.size() : 0, file_bytes(path));
  return text;
}

void inspect_artifact(const Options& options) {
  const symbolic::Bindings sizes = parse_sizes(options.sizes);
  // A report runs the model, so it takes what this machine can run; to look at a file, none of its code is needed.
  const std::string device = device_of_file(options.model);
  const bool runs = !options.html.empty() || !device.empty();
  const Runnable runnable = Runnable::load(
      options.model.path, {.native = runs, .entry = options.entry, .runs = !options.html.empty(), .device = device});
  if (!options.html.empty()) return write_report(options.html, options.model.path, runnable, sizes);
  const std::optional<PlanInfo> plan = plan_of(runnable, sizes);
  print(options.json ? artifact_json(options.model.path, runnable, plan)
                     : artifact_text(options.model.path, runnable, plan));
}

// ---- a checkpoint ---------------------------------------------------------------------------------------------------

int64_t bytes_of(const runtime::Checkpoint& checkpoint) {
  int64_t bytes = 0;
  for (const runtime::StateInfo& info : checkpoint.states) bytes += info.bytes;
  return bytes;
}

void inspect_checkpoint(const Options& options) {
  const std::string& path = options.model.path;
  if (!options.html.empty() || !options.entry.empty() || !options.sizes.empty())
    fail_at({path}, "is a checkpoint: it has no program that --html, --entry or --size could be about");
  const auto container = open_artifact(path);
  const runtime::Checkpoint checkpoint = open_checkpoint(path, *container);
  if (options.json) {
    return print(json::object({{"states", states_json(checkpoint)},
                               {"notes", notes_json(checkpoint)},
                               {"state_bytes", std::to_string(bytes_of(checkpoint))},
                               {"file_bytes", std::to_string(file_bytes(path))}}) +
                 "\n");
  }
  const auto step = checkpoint.notes.find(kStepNote);
  const std::string which = step == checkpoint.notes.end() ? "" : " of step " + step->second;
  print(fmt::format("checkpoint{}: {} states, {} bytes; the file: {} bytes\n", which, checkpoint.states.size(),
                    bytes_of(checkpoint), file_bytes(path)) +
        states_text(checkpoint));
}

void inspect(const Options& options) {
  require_writable_file(options.html);
  const std::string& path = options.model.path;
  if (is_checkpoint(path)) return inspect_checkpoint(options);
  is_artifact(path) ? inspect_artifact(options) : inspect_model(options);
}

}  // namespace

Command inspect_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("inspect", "Show what a model is made of, and what becomes of it");
  app->add_option("MODEL", options->model.path, "A .tenon or .pt2 file, a graph's text, or a checkpoint")
      ->required()
      ->type_name("");
  app->add_option("--size", options->sizes, "The value of a symbolic size; repeat it for more")
      ->type_name("N=64")
      ->allow_extra_args(false);
  app->add_option("--entry", options->entry, "Which program of a .tenon file that has several")->type_name("NAME");
  app->add_option("--html", options->html, "Write a page with pictures of the graph, the memory and the time")
      ->type_name("FILE");
  app->add_flag("--json", options->json, "Print it as JSON");
  add_device_option(*app, options->model);
  app->footer(kFooter);
  return {app, [options] { inspect(*options); }};
}

}  // namespace tenon::cli
