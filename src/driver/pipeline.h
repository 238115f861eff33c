// The compiler, stage by stage: pipeline.cpp is the list of them, and the first file to read.
//
//     Program program = compile_program(graph).value();
//
// A stage changes a Module (driver/module.h). One runner runs them all: it times every stage, verifies the module after
// each (in tests, and where TENON_VERIFY is 1), and shows the module to an observer. Every stage has a text form, which
// parses back (driver/stage_text.h), so compilation can stop after any stage and go on from its text.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "driver/module.h"

namespace tenon {

// What a stage sets, and so what its text consists of.
enum class StageForm : uint8_t {
  kGraph,      // Module::graph
  kGroups,     // and Module::groups
  kLoops,      // and the loops of Module::kernels
  kSchedules,  // and their schedules
  kCode,       // and their code
  kProgram,    // Module::program
};

struct Stage {
  std::string_view name;
  std::string_view doc;
  StageForm form;
  void (*run)(Module&, const BuildTarget&, const ProgramOptions&);
  bool in_segments = false;  // It also runs on the module of each segment whose backend compiles loops.
};

// The stages that compile a model, in order.
std::span<const Stage> pipeline();
const Stage& stage_named(std::string_view name);  // of the pipeline; throws an Error that suggests the nearest name

struct StageRun {
  std::string_view name;
  bool skipped = false;
  bool changed = false;  // of a pass over graphs, with RunOptions::compare
  size_t nodes_before = 0;
  size_t nodes_after = 0;
  double milliseconds = 0;
};

struct RunOptions {
  std::vector<std::string> skip = {};  // names of stages not to run
  bool verify = false;                 // the module after each stage
  bool compare = false;                // find out whether a pass changed the graph
  // Sees the module after every stage.
  std::function<void(const Stage&, const StageRun&, const Module&)> after = {};
};
RunOptions default_run_options();  // verify where the environment says so

// Runs stages in order. A stage that leaves an invalid module is a bug: an InternalError that names the stage.
void run_stages(Module& module, std::span<const Stage> stages, const BuildTarget& target, const ProgramOptions& options,
                const RunOptions& run = default_run_options());

// Whole compilation: every stage, or what the cache on disk has (driver/program_cache.h).
Result<Program> compile_program(const Graph& graph, const ProgramOptions& options = {});
// Every stage of the pipeline after `done` (null: all of them), without the cache and without a budget.
Result<Program> finish_program(Module module, const Stage* done, const ProgramOptions& options,
                               const RunOptions& run = default_run_options());

BuildTarget target_of(const ProgramOptions& options);

// ---- passes: the stages that change nothing but the graph, and a few that the pipeline does not have ----

std::span<const Stage> all_passes();
const Stage& pass_named(std::string_view name);  // throws an Error that suggests the nearest name

// Runs passes by name, for tools and tests. `options` are those of the program that the graph would become.
Result<Graph> run_passes(Graph graph, std::span<const std::string> names,
                         const RunOptions& run = {.verify = true, .compare = true}, const ProgramOptions& options = {});

}  // namespace tenon
