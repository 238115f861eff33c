#include "driver/pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "backends/cpu/cpu.h"
#include "backends/device_backend.h"
#include "driver/budget.h"
#include "driver/fold_ahead.h"
#include "driver/kernels.h"
#include "driver/program_cache.h"
#include "driver/segments.h"
#include "driver/tasks.h"
#include "driver/verify.h"
#include "graph/rewrite.h"
#include "passes/passes.h"
#include "program/in_place.h"
#include "program/run.h"
#include "program/tables.h"
#include "support/interrupt.h"
#include "support/text.h"

namespace tenon {
namespace {

// ---- the stages -----------------------------------------------------------------------------------------------------

template <Graph (*pass)(const Graph&)>
void over_graph(Module& module, const BuildTarget&, const ProgramOptions&) {
  module.graph = pass(module.graph);
}

// Weights that nobody changes can take up the norms behind them.
void fold_norms_of(Module& module, const BuildTarget&, const ProgramOptions& options) {
  if (!options.freeze || !options.states.empty()) return;
  module.graph = fold_norms_ahead(module.graph, options.backend);
  module.source = std::make_shared<const Graph>(module.graph);
}

void rewrite_convolutions_of(Module& module, const BuildTarget&, const ProgramOptions& options) {
  module.graph = rewrite_convolutions(module.graph, options.freeze);
}

void multiply_in_integers_of(Module& module, const BuildTarget&, const ProgramOptions& options) {
  const auto is_quantized = [](const Node& node) { return node.op->name.get() == "dequantize"; };
  if (std::ranges::none_of(module.graph.nodes(), is_quantized)) return;
  module.graph = canonicalize(multiply_in_integers(keep_bytes(module.graph), options.freeze));
}

void group_nodes(Module& module, const BuildTarget&, const ProgramOptions&) { module.groups = fuse(module.graph); }

void plan_memory(Module& module, const BuildTarget&, const ProgramOptions&) { compute_in_place(module.program); }

constexpr auto kGraph = StageForm::kGraph;
constexpr bool kInSegments = true;

constexpr Stage kPipeline[] = {
    {"norms", "fold batch norms into the weights of the convolutions before them", kGraph, fold_norms_of},
    {"canonicalize", "simplify nodes and fold constants", kGraph, over_graph<canonicalize>},
    {"quantized", "multiply quantized tensors as integers", kGraph, multiply_in_integers_of},
    {"layers", "form the layers of devices that are tile machines", kGraph, form_layers_of},
    {"partition", "give each node to a device that claims it, in segments", kGraph, partition_module},
    {"convolutions", "turn convolutions whose weights change into products of matrices", kGraph,
     rewrite_convolutions_of, kInSegments},
    {"expand", "expand the composite ops that fusion sees through", kGraph, over_graph<expand_for_fusion>, kInSegments},
    {"canonicalize-expanded", "simplify what the expansion left", kGraph, over_graph<canonicalize>, kInSegments},
    {"cse", "compute equal expressions once", kGraph, over_graph<eliminate_common_subexpressions>, kInSegments},
    {"arrange", "move reshapes and slices to where they cost nothing", kGraph, over_graph<arrange_views>, kInSegments},
    {"canonicalize-arranged", "simplify what the arrangement left", kGraph, over_graph<canonicalize>, kInSegments},
    {"dce", "drop nodes that no output or update needs", kGraph, over_graph<eliminate_dead_code>, kInSegments},
    {"groups", "decide which nodes run together as one kernel", StageForm::kGroups, group_nodes, kInSegments},
    {"loops", "lower each group to loops", StageForm::kLoops, lower_groups, kInSegments},
    {"schedules", "order, tile and vectorize the loops for the target", StageForm::kSchedules, schedule_kernels,
     kInSegments},
    {"code", "compile the scheduled loops to machine code", StageForm::kCode, compile_kernels, kInSegments},
    {"tasks", "make tasks over slots, and compute what depends on constants alone", StageForm::kProgram, make_tasks},
    {"memory", "order the tasks, and let results take the memory of dead values", StageForm::kProgram, plan_memory},
};

constexpr size_t kGraphStages =
    std::ranges::count_if(kPipeline, [](const Stage& stage) { return stage.form == kGraph; });

constexpr Stage kPasses[] = {
    {"decompose", "expand every composite op into the ops of its expansion", kGraph, over_graph<decompose>},
    {"canonicalize", "simplify nodes and fold constants", kGraph, over_graph<canonicalize>},
    {"cse", "compute equal expressions once", kGraph, over_graph<eliminate_common_subexpressions>},
    {"dce", "drop nodes that no output or update needs", kGraph, over_graph<eliminate_dead_code>},
    {"expand", "expand the composite ops that fusion sees through", kGraph, over_graph<expand_for_fusion>},
    {"arrange", "move reshapes and slices to where they cost nothing", kGraph, over_graph<arrange_views>},
    {"convolutions", "turn convolutions whose weights change into products of matrices", kGraph,
     rewrite_convolutions_of},
    {"norms", "fold batch norms into the weights of the convolutions before them", kGraph, over_graph<fold_norms>},
    {"bytes", "move, pad and pool quantized tensors as bytes", kGraph, over_graph<keep_bytes>},
    {"quantized", "multiply quantized tensors as integers", kGraph, multiply_in_integers_of},
};

const Stage& named(std::span<const Stage> stages, std::string_view name, std::string_view what) {
  const auto found = std::ranges::find(stages, name, &Stage::name);
  if (found != stages.end()) return *found;
  std::vector<std::string_view> names;
  for (const Stage& stage : stages) names.push_back(stage.name);
  fail("there is no {} '{}'{}", what, name, did_you_mean(name, names));
}

// ---- whole compilation ----------------------------------------------------------------------------------------------

void check_assertion(const Graph& graph, const Assertion& assertion) {
  if (assertion.output && *assertion.output >= graph.outputs().size())
    fail("an assertion is about output {}, and graph {} has {}", *assertion.output, graph.name(),
         graph.outputs().size());
  if (!assertion.guard) return;
  std::set<Symbol> told;
  for (const SymbolBinding& binding : bind_symbols(graph)) told.insert(binding.symbol);
  for (Symbol symbol : symbols_of(*assertion.guard)) {
    if (!told.contains(symbol))
      fail("an assertion is about {}, which the sizes of graph {}'s inputs do not tell", symbol.name(), graph.name());
  }
}

void check_fallback(const Graph& graph) {
  std::string calls;
  for (const Node& node : graph.nodes()) {
    if (node.op->name.get() != "external") continue;
    const OpView view = view_of(graph, *node.op, node.operands, node.attrs);
    const std::string where = node.location.known() ? to_string(node.location) + ": " : "";
    calls += "\n  " + where + view.string("target");
  }
  if (!calls.empty())
    fail("graph {} has calls that Tenon does not support, and there is no fallback to run them:{}", graph.name(),
         calls);
}

void check_data(const Graph& graph) {
  for (const Leaf& leaf : graph.leaves()) {
    if (leaf.kind != LeafKind::kInput && !leaf.data.defined())
      fail("{} '{}' has no data: bind it before compilation", name_of(leaf.kind), leaf.name);
  }
}

// Notes how long each stage takes, for Program::stage_times.
RunOptions timed(RunOptions run, std::vector<StageTime>& times) {
  run.after = [seen = std::move(run.after), &times](const Stage& stage, const StageRun& it, const Module& module) {
    times.push_back({std::string(stage.name), it.milliseconds});
    if (seen) seen(stage, it, module);
  };
  return run;
}

Program compile_groups(Module module, const BuildTarget& target, const ProgramOptions& options, const RunOptions& run,
                       ConstantHistory& history) {
  const auto finish = [&](Module& built) {
    run_stages(built, pipeline().subspan(kGraphStages + 1), target, options, run);
    built.program.runner = std::make_shared<const ProgramRunner>(built.program);
  };
  if (options.budget) {
    MemoryReport report;
    const auto build = [&](const std::vector<FusedGroup>& groups) {
      Module built{.source = module.source,
                   .graph = module.graph,
                   .segments = module.segments,
                   .placement = module.placement,
                   .groups = groups};
      finish(built);
      return built;
    };
    module = build_within(options, module.groups, build, report);
    module.program.memory_report = std::make_shared<const MemoryReport>(std::move(report));
  } else {
    finish(module);
  }
  history = std::move(module.history);
  return std::move(module.program);
}

}  // namespace

std::span<const Stage> pipeline() { return kPipeline; }
const Stage& stage_named(std::string_view name) { return named(kPipeline, name, "stage"); }

std::span<const Stage> all_passes() { return kPasses; }
const Stage& pass_named(std::string_view name) { return named(kPasses, name, "pass"); }

RunOptions default_run_options() {
  const char* const verify = std::getenv("TENON_VERIFY");
  return {.verify = verify != nullptr && std::string_view(verify) == "1"};
}

void run_stage(Module& module, const Stage& stage, const BuildTarget& target, const ProgramOptions& options) {
  stage.run(module, target, options);
  for (ModuleSegment& segment : module.segments) {
    if (stage.in_segments && graph_compiler(*segment.backend) == nullptr)
      stage.run(*segment.module, {segment.backend, target.here}, options);
  }
}

void run_stages(Module& module, std::span<const Stage> stages, const BuildTarget& target, const ProgramOptions& options,
                const RunOptions& run) {
  for (const Stage& stage : stages) {
    check_interrupt();
    StageRun it{.name = stage.name, .nodes_before = module.graph.nodes().size()};
    it.skipped = std::ranges::find(run.skip, stage.name) != run.skip.end();
    if (!it.skipped) {
      const std::optional<Graph> before =
          run.compare && stage.form == kGraph ? std::optional(module.graph) : std::nullopt;
      const auto start = std::chrono::steady_clock::now();
      run_stage(module, stage, target, options);
      it.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      it.changed = before && !(module.graph == *before);
      if (run.verify) verify_stage(module, stage);
    }
    it.nodes_after = module.graph.nodes().size();
    if (run.after) run.after(stage, it, module);
  }
}

BuildTarget target_of(const ProgramOptions& options) {
  const std::shared_ptr<const Backend> here = find_backend(options.backend).value();
  if (options.cpu == "native") return {here, here};
  if (options.backend != "cpu") fail("backend {} does not compile for another CPU, {}", options.backend, options.cpu);
  return {cpu_backend(options.cpu), here};
}

Result<Program> compile_program(const Graph& graph, const ProgramOptions& options) {
  return attempt([&] {
    for (const Assertion& assertion : options.assertions) check_assertion(graph, assertion);
    const BuildTarget target = target_of(options);
    const ProgramCache cache(graph, options, *target.backend);
    std::vector<StageTime> times;
    const RunOptions run = timed(default_run_options(), times);
    Module module = new_module(graph);
    run_stages(module, pipeline().first(kGraphStages), target, options, run);
    std::optional<Program> program = cache.find(module, options);
    if (!program) {
      if (!options.fallback) check_fallback(module.graph);
      check_data(module.graph);
      run_stages(module, pipeline().subspan(kGraphStages, 1), target, options, run);
      ConstantHistory history;
      program = compile_groups(std::move(module), target, options, run, history);
      cache.store(*program, history);
    }
    program->stage_times = std::move(times);
    return *std::move(program);
  });
}

Result<Program> finish_program(Module module, const Stage* done, const ProgramOptions& options, const RunOptions& run) {
  return attempt([&] {
    const size_t next = done == nullptr ? 0 : static_cast<size_t>(done - kPipeline) + 1;
    if (!options.fallback) check_fallback(module.graph);
    check_data(module.graph);
    std::vector<StageTime> times;
    run_stages(module, pipeline().subspan(next), target_of(options), options, timed(run, times));
    module.program.stage_times = std::move(times);
    module.program.runner = std::make_shared<const ProgramRunner>(module.program);
    return std::move(module.program);
  });
}

Result<Graph> run_passes(Graph graph, std::span<const std::string> names, const RunOptions& run,
                         const ProgramOptions& options) {
  return attempt([&] {
    for (const std::string& name : run.skip) pass_named(name);
    std::vector<Stage> passes;
    for (const std::string& name : names) passes.push_back(pass_named(name));
    Module module = new_module(graph);
    run_stages(module, passes, {}, options, run);
    return std::move(module.graph);
  });
}

}  // namespace tenon
