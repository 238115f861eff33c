// A Module is a model on its way to a Program. Each stage (driver/pipeline.h) reads the parts that earlier stages set,
// and sets its own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "fusion/fuse.h"
#include "graph/graph.h"
#include "partition/placement.h"
#include "program/history.h"
#include "program/program.h"
#include "schedule/ahead.h"

namespace tenon {

// Who compiles the kernels of a module.
struct BuildTarget {
  std::shared_ptr<const Backend> backend;  // kernels of the program
  std::shared_ptr<const Backend> here;     // kernels that run once, on this machine, while the module is compiled
};

// Loops of one or more groups: groups with equal bodies share a kernel.
struct GroupKernel {
  loops::IR loops;
  std::set<int64_t> constants = {};          // inputs whose values are known now
  std::map<int64_t, uint32_t> shared = {};   // inputs that other kernels read, too, to the number of the weight
  bool runs_once = false;                    // while the module is compiled
  std::optional<AheadOfTime> schedule = {};  // the scheduled loops; what depends on constants alone is split off
  std::shared_ptr<const Compiled> code = {};
};

// A fused group as a graph of its own. An alias group has none.
struct GroupBody {
  TaskKind kind;
  std::string name;
  std::shared_ptr<const Graph> graph;
  std::vector<ValueRef> inputs;         // values of the module's graph that the body reads
  std::vector<ValueRef> outputs;        // and computes
  std::optional<uint32_t> kernel = {};  // of kind kKernel: its number in Module::kernels
  bool runs_once = false;               // while the module is compiled: all inputs are known
};

struct Module;

// A part of the model that another backend than the target's runs. A node `segment` stands for it in the graph, by its
// number.
struct ModuleSegment {
  std::shared_ptr<const Backend> backend;
  std::shared_ptr<Module> module;             // its nodes
  std::shared_ptr<const Compiled> code = {};  // of a backend that compiles graphs
};

struct Module {
  std::shared_ptr<const Graph> source;                // as given, but for norms that were folded into weights
  Graph graph;                                        // as the last pass left it
  std::vector<ModuleSegment> segments = {};           // that nodes of the graph stand for
  std::shared_ptr<const Placement> placement = {};    // who runs which node; null without devices
  std::vector<FusedGroup> groups = {};                // which nodes run together
  std::vector<std::optional<GroupBody>> bodies = {};  // of each group
  std::vector<GroupKernel> kernels = {};
  Program program = {};          // tasks over slots
  ConstantHistory history = {};  // how the constants of the program were computed
};

Module new_module(const Graph& graph);

}  // namespace tenon
