// tenon compile and tenon inspect: what becomes of a model.
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>

#include "command.h"
#include "json.h"
#include "model.h"
#include "program/program.h"
#include "program/report.h"
#include "support/file.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

constexpr const char* kCompileFooter = R"(Compiles everything, and says what came out and how long each step took.

Examples:
  tenon compile bert.pt2
  tenon compile bert.pt2 --emit graph -o bert.tg      the graph that was captured
  tenon compile bert.pt2 --emit fused                 the graph that kernels are made of
  tenon compile bert.pt2 --emit tree                  the loops of every kernel)";

constexpr const char* kInspectFooter =
    R"(Prints the nodes of the model (placeholder, call_function, output), which of them Tenon
supports, and the segments: stretches of ops that run together, ours or the fallback of whoever has PyTorch.

Examples:
  tenon inspect model.pt2
  tenon inspect model.pt2 --json | jq .unsupported)";

struct Options {
  ModelOptions model;
  std::string output;
  std::string emit;
  bool json = false;
};

class Clock {
 public:
  double milliseconds() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::milli>(now - std::exchange(start_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The memory of this process that is in RAM, in bytes.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

int64_t weight_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const Leaf& leaf : graph.leaves()) {
    if (leaf.data.defined()) bytes += leaf.data.numel() * size_of(leaf.data.dtype());
  }
  return bytes;
}

std::string trees_of(const Program& program) {
  std::string text;
  for (const Task& task : program.tasks()) {
    if (task.tree) text += fmt::format("# {}\n{}\n", task.name, task.tree->dump());
  }
  return text;
}

void give(const std::string& text, const std::string& output) {
  if (output.empty()) return print(text);
  write_file(output, text).value();
}

void compile(const Options& options) {
  const int64_t resident = resident_bytes();
  Clock clock;
  const Model model = read_model(options.model);
  const double capture_ms = clock.milliseconds();
  const int64_t grown = resident_bytes() - resident, weights = weight_bytes(model.graph);
  if (options.emit == "graph") return give(to_string(model.graph), options.output);
  require_supported(model);
  const Program program = compile_program(model.graph).value();
  const double compile_ms = clock.milliseconds();
  if (options.emit == "fused") return give(to_string(program.graph()), options.output);
  if (options.emit == "tree") return give(trees_of(program), options.output);
  std::string text = describe(program);
  text += fmt::format("captured {} nodes in {:.1f} ms; resident memory grew by {:.1f} MiB, {:.1f}% of the weights\n",
                      model.graph.nodes().size(), capture_ms, static_cast<double>(grown) / (1 << 20),
                      100.0 * static_cast<double>(grown) / static_cast<double>(std::max<int64_t>(weights, 1)));
  text += fmt::format("compiled {} tasks in {:.1f} ms; weights {} bytes, arena {} bytes\n", program.tasks().size(),
                      compile_ms, program.constant_bytes(), program.arena_bytes());
  give(text, options.output);
}

// ---- inspect --------------------------------------------------------------------------------------------------------

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

std::vector<Row> rows_of(const pt2::Graph& graph) {
  const auto type_of = [&](const std::string& name) {
    const auto found = graph.tensors.find(name);
    return found == graph.tensors.end() ? std::string() : to_string(found->second);
  };
  std::vector<Row> rows;
  for (const pt2::Argument& input : graph.inputs) rows.push_back({"placeholder", to_string(input), "", ""});
  for (Row& row : rows) row.type = type_of(row.name.substr(1));
  for (const pt2::Node& node : graph.nodes) {
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

std::string json_of(const std::vector<Row>& rows, const Model& model, const std::string& segments) {
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
                       {"segments", segments}}) +
         "\n";
}

std::string segment_json(const Segment& segment) {
  return json::object(
      {{"side", json::string(segment.is_fallback ? "fallback" : "cpu")},
       {"ops", std::to_string(segment.op_count())},
       {"tasks", json::array_of(segment.tasks, [](const Task* task) { return json::string(task->name); })}});
}

void inspect(const Options& options) {
  const bool exported = is_pt2(options.model.path);
  const std::vector<Row> rows =
      exported ? rows_of(read_pt2(options.model.path).value().graph) : rows_of(read_graph(options.model.path));
  ModelOptions reading = options.model;
  if (!exported && !reading.seed) reading.seed = 0;  // of a text, what matters is the shape of things
  const Model model = read_model(reading);
  // Nothing is run: a host that is never called stands for whoever has PyTorch.
  const HostFn host = [](int64_t, std::span<const Tensor>) { return std::vector<Tensor>(); };
  const Program program = compile_program(model.graph, {.host = host}).value();
  if (options.json) {
    return print(json_of(rows, model, json::array_of(segments_of(program), segment_json)));
  }
  std::string text = table_of(rows) + "\n";
  if (!model.unsupported.empty()) text += "not supported\n" + to_string(model.unsupported) + "\n\n";
  text += describe(program);
  text += fmt::format("program length: {} tasks; weights {} bytes; arena {} bytes\n", program.tasks().size(),
                      program.constant_bytes(), program.arena_bytes());
  print(text);
}

}  // namespace

Command compile_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("compile", "Compile a model");
  app->add_option("MODEL", options->model.path, "A .pt2 file or a graph's text")->required()->type_name("");
  app->add_option("-p,--param", options->model.parameters, "A parameter or buffer of a graph; may be repeated")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  app->add_option("--random-params", options->model.seed, "Fill a graph's parameters that are not given")
      ->type_name("SEED");
  app->add_option("--emit", options->emit, "Print a stage instead: graph, fused, tree")
      ->check(CLI::IsMember({"graph", "fused", "tree"}));
  app->add_option("-o,--output", options->output, "Write there instead of standard output")->type_name("FILE");
  app->footer(kCompileFooter);
  return {app, [options] { compile(*options); }};
}

Command inspect_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("inspect", "Show what a model is made of, and what becomes of it");
  app->add_option("MODEL", options->model.path, "A .pt2 file or a graph's text")->required()->type_name("");
  app->add_flag("--json", options->json, "Print it as JSON");
  app->footer(kInspectFooter);
  return {app, [options] { inspect(*options); }};
}

}  // namespace tenon::cli
