// A Program runs a graph: kernels, library functions and external calls, in order, over planned memory.
//
//     Program program = compile_program(graph).value();
//     std::vector<Tensor> outputs = program.run(inputs);
//
// Compilation canonicalizes the graph, fuses it into groups (fusion/fuse.h), compiles the kernels on all threads, and
// prepares the weights: what depends on parameters and constants alone is computed once, and weights are laid out as
// the kernels read them. Others are read where they are. So whoever changes weights after compilation must compile
// again, or compile with `freeze` off: then, and for buffers that the graph updates, memory is read anew in each run.
//
// Where the cache on disk has the same program (driver/program_cache.h), only its weights are prepared.
//
// A program is immutable and safe to run from several threads at once: each run takes a context of the runtime
// (runtime/context.h) from a pool. An output is fresh memory that belongs to the caller.
//
// What the graph updates is computed in its own memory where that can be (program/in_place.h), else copied there at the
// end. Either way the memory is one, however many run the program: runs that update a buffer or the same input at the
// same time see some elements of it old and some new. Let one run after the other there.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>

#include "backends/backend.h"
#include "graph/assertion.h"
#include "graph/graph.h"
#include "partition/placement.h"
#include "program/memory_report.h"
#include "program/slot.h"

namespace tenon {

// Runs external call number `call` of the graph. The operands are the program's memory: they must not be kept.
// Its results are the program's from then on.
using FallbackFn = std::function<std::vector<Tensor>(int64_t call, std::span<const Tensor> operands)>;

using DeviceBudgets = std::vector<std::pair<std::string, int64_t>>;

struct ProgramOptions {
  std::string backend = "cpu";
  // Other backends that take the nodes they claim, in order of preference; `backend` runs the rest.
  std::vector<std::string> devices = {};
  std::string cpu = "native";                      // of the cpu backend: what it compiles for (codegen/target.h)
  bool freeze = true;                              // parameters keep the values that they have now
  std::set<std::string, std::less<>> states = {};  // but not these leaves, which others change
  FallbackFn fallback = {};                        // empty: a graph with external calls is an error that lists them
  // Bytes that a run may take for temporaries and scratch, together with what is `kept` meanwhile. Values are computed
  // twice where that needs less; too little is an error that names the least. It holds for the largest sizes that there
  // are, and for as many threads as the caller has now. A run keeps it, too, for what is not known before: sizes that
  // depend on data, copies of strided inputs.
  std::optional<int64_t> budget = {};
  std::vector<KeptMemory> kept = {};
  // Bytes of the memory of a device, by its name or spec, that a run may take with the program's constants and states.
  DeviceBudgets device_budgets = {};
  // Whether leaves are states of the runtime (runtime/states.h), which devices keep from run to run. Whoever reads or
  // writes their memory does so through those. Off: their memory has their values before and after each run.
  bool keeps_states = false;
  // What a file of the program checks. The outputs that they name are no results of the file; a run in this process
  // gives them as any other, and whoever runs it looks at them.
  std::vector<Assertion> assertions = {};
};

enum class TaskKind : uint8_t {
  kKernel,     // compiled loops
  kLibrary,    // a function of the runtime
  kReference,  // the reference backend, for what loops cannot say
  kExternal,   // a call that PyTorch runs
  kDevice,     // code of a device, over the device's memory
  kTransfer,   // copies its input to its output, between the host and a device
};
std::string_view name_of(TaskKind kind);

struct Task {
  TaskKind kind;
  std::string name;
  std::vector<std::string> ops = {};  // what it computes
  Location location = {};             // of its first op that has one
  std::string device = {};            // that runs it, or that a transfer leads to or from; empty: the host
  std::vector<uint32_t> inputs = {};  // slots
  std::vector<uint32_t> outputs = {};
  uint32_t group = 0;                                // that it runs, of the list that was compiled
  std::shared_ptr<const Compiled> kernel = {};       // of a kernel, or of a device
  std::vector<uint32_t> sizes = {};                  // of a kernel: which symbols its size arguments are
  std::shared_ptr<const loops::LoopTree> tree = {};  // of a kernel: what was compiled
  std::shared_ptr<const Graph> body = {};            // of all others: the node, with its inputs
  int64_t call = 0;                                  // of an external call
  std::vector<Expr> launch_sizes = {};               // of a device: the sizes that a launch is given
  std::optional<uint32_t> segment = {};              // of a device that compiles graphs: the segment's number,
  std::shared_ptr<const Graph> segment_graph = {};   // and what it compiled
};

// The memory of a device.
struct ProgramSpace {
  std::string device;                       // its spec: "npu", "npu:rate=2"
  std::shared_ptr<runtime::Device> handle;  // open
};

// How the size of an input's dimension tells a symbol: it is factor * symbol + rest, of symbols before it.
struct SymbolBinding {
  Symbol symbol;
  uint32_t input;
  uint32_t dim;
  int64_t factor;
  Expr rest;
};

// Weights that are kept as a kernel laid them out.
struct Packing {
  Tensor original;
  loops::IR kernel;
  uint32_t slot;  // of the result
  // What the original was taken out of, and the kernel that did: of weights of which several tasks read a part each.
  struct Part {
    Tensor whole;
    loops::IR kernel;
  };
  std::optional<Part> part = {};
};

// A result of a program.
struct ProgramOutput {
  uint32_t slot;
  bool is_copied;  // The slot is also another output, an input or a constant: the caller gets a copy.
};

// After all tasks, `target` (an input or a leaf) takes the value of `value`.
struct SlotUpdate {
  uint32_t target;
  uint32_t value;
};

// How long a stage of the compiler took (driver/pipeline.h).
struct StageTime {
  std::string stage;
  double milliseconds;
};

class ProgramRunner;  // program/run.h

// A plain value: stages of the compiler fill it in, and nobody changes it after `runner` is set.
struct Program {
  // Throws an Error for inputs that do not fit, for memory that is not there, and for a task that fails. Only after a
  // failed task may an input or a leaf have changed: a task before it updated its target in place. Such a task runs
  // after the external calls that do not need its result, and after the tasks that can fail because of their data
  // (an index out of range, a division by zero) unless waiting for them needs more memory.
  std::vector<Tensor> run(std::span<const Tensor> arguments) const;

  bool uses_devices() const;                      // whether ProgramOptions::devices run some of it
  std::vector<std::string> output_names() const;  // of values in the source, or "out0"; unique
  size_t constant_bytes() const;                  // of prepared weights and other constants
  int64_t arena_bytes() const;                    // for the sizes of the last run
  void free_memory() const;                       // drops the memory that runs keep for the next run

  std::shared_ptr<const Graph> source;  // as given, but for norms that were folded into weights
  Graph graph = Graph("");              // as fused
  std::string cpu = {};
  FallbackFn fallback = {};
  std::vector<Assertion> assertions = {};
  std::optional<int64_t> budget = {};  // of a run, without what is kept meanwhile
  DeviceBudgets device_budgets = {};
  bool keeps_states = false;

  std::vector<Symbol> symbols = {};
  std::vector<ProgramSpace> spaces = {};     // of devices
  std::vector<SymbolBinding> bindings = {};  // of the first symbols; tasks find out the others
  std::vector<Slot> slots = {};
  std::vector<Task> tasks = {};
  std::vector<ValueRef> inputs = {};  // of `graph`
  std::vector<ProgramOutput> outputs = {};
  std::vector<SlotUpdate> updates = {};
  std::vector<Tensor> constants = {};
  std::vector<Packing> packings = {};
  std::vector<Tensor> leaves = {};
  std::vector<std::string> leaf_names = {};

  std::shared_ptr<const Placement> placement = {};         // who runs which node; null without devices
  std::shared_ptr<const MemoryReport> memory_report = {};  // null without a budget
  std::vector<StageTime> stage_times = {};
  bool is_from_cache = false;  // another process had compiled the same program (driver/program_cache.h)
  std::shared_ptr<const ProgramRunner> runner = {};
};

// A program without slots and tasks: its graphs, and what the options say of it.
Program new_program(std::shared_ptr<const Graph> source, Graph graph, const ProgramOptions& options);

}  // namespace tenon
