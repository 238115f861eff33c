// A Program runs a graph: kernels, library functions and calls of the host, in order, over planned memory.
//
//     Program program = compile_program(graph).value();
//     std::vector<Tensor> outputs = program.run(inputs);
//
// Compilation canonicalizes the graph, fuses it into groups (fusion/fuse.h), compiles the kernels on all threads, and
// prepares the weights: what depends on parameters and constants alone is computed once, and weights are laid out as
// the kernels read them. Others are read where they are. So whoever changes weights after compilation must compile
// again, or compile with `freeze` off: then, and for buffers that the graph updates, memory is read anew in each run.
//
// Where the cache on disk has the same program (program/cache.h), only its weights are prepared.
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
#include "program/memory_report.h"
#include "program/slot.h"

namespace tenon {

// Runs external call number `call` of the graph. The operands are the program's memory: they must not be kept.
// Its results are the program's from then on.
using HostFn = std::function<std::vector<Tensor>(int64_t call, std::span<const Tensor> operands)>;

struct ProgramOptions {
  std::string backend = "cpu";
  std::string cpu = "native";                      // of the cpu backend: what it compiles for (codegen/target.h)
  bool freeze = true;                              // parameters keep the values that they have now
  std::set<std::string, std::less<>> states = {};  // but not these leaves, which others change
  HostFn host = {};                                // empty: a graph with external calls is an error that lists them
  // Bytes that a run may take besides inputs, states and results. Values are computed twice where that needs less; too
  // little is an error that names the least. It holds for the largest sizes that there are.
  std::optional<int64_t> budget = {};
  // What a file of the program checks. The outputs that they name are no results of the file; a run in this process
  // gives them as any other, and whoever runs it looks at them.
  std::vector<Assertion> assertions = {};
};

enum class TaskKind : uint8_t {
  kKernel,     // compiled loops
  kLibrary,    // a function of the runtime
  kReference,  // the reference backend, for what loops cannot say
  kExternal,   // a call of the host
};
std::string_view name_of(TaskKind kind);

struct Task {
  TaskKind kind;
  std::string name;
  std::vector<std::string> ops = {};  // what it computes
  Location location = {};             // of its first op that has one
  std::vector<uint32_t> inputs = {};  // slots
  std::vector<uint32_t> outputs = {};
  uint32_t group = 0;                                // that it runs, of the list that was compiled
  std::shared_ptr<const Compiled> kernel = {};       // of a kernel
  std::vector<uint32_t> sizes = {};                  // of a kernel: which symbols its size arguments are
  std::shared_ptr<const loops::LoopTree> tree = {};  // of a kernel: what was compiled
  std::shared_ptr<const Graph> body = {};            // of all others: the node, with its inputs
  int64_t call = 0;                                  // of an external call
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
};

class ProgramRunner;     // program/run.h
struct ConstantHistory;  // program/history.h

class Program {
 public:
  // Throws an Error for inputs that do not fit, for memory that is not there, and for what goes wrong on the way. Only
  // in the last case may something have been updated: what is computed in place, by a task before the one that failed.
  // No such task comes before a call of the host that does not need it; nor before one that fails because of its data
  // (an index out of range, a division by zero), unless more memory would be needed to wait for that.
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;

  const std::vector<Task>& tasks() const { return tasks_; }
  const std::vector<Slot>& slots() const { return slots_; }
  const Graph& graph() const { return graph_; }     // as it was fused
  const Graph& source() const { return *source_; }  // as it was given, but for norms that went into weights
  const std::string& cpu() const { return cpu_; }
  const std::vector<Tensor>& constants() const { return constants_; }
  const std::vector<Tensor>& leaves() const { return leaves_; }
  const std::vector<std::string>& leaf_names() const { return leaf_names_; }
  const std::vector<Packing>& packings() const { return packings_; }
  const std::vector<SymbolBinding>& bindings() const { return bindings_; }
  const std::vector<Assertion>& assertions() const { return assertions_; }
  const MemoryReport* memory_report() const { return memory_report_.get(); }  // null where no budget was given
  uint32_t output_slot(size_t output) const { return outputs_[output].slot; }
  std::vector<uint32_t> update_slots() const;  // of the values that states get
  size_t constant_bytes() const;               // prepared weights and other constants
  // What the arena takes: for the sizes of the last run, where they are not fixed.
  int64_t arena_bytes() const;
  // Whether nothing was compiled: another process had made the same program (program/cache.h).
  bool is_from_cache() const { return is_from_cache_; }
  void free_memory() const;  // that runs keep for the next one
  const ProgramRunner& runner() const { return *runner_; }

 private:
  friend class ProgramBuilder;
  friend Result<Program> compile_program(const Graph& graph, const ProgramOptions& options);
  friend class InPlacePlanner;
  friend class PlanWriter;
  friend class PlanReader;
  friend class TableWriter;
  friend class ProgramRunner;

  Program(const Graph& source, Graph graph, const ProgramOptions& options);
  std::vector<std::string> output_names() const;  // of values in the source, or "out0"; no two are the same

  std::shared_ptr<const Graph> source_;
  Graph graph_;
  std::string cpu_;
  HostFn host_;
  std::vector<Assertion> assertions_;
  std::vector<Slot> slots_;
  std::vector<Task> tasks_;
  std::vector<Tensor> constants_;
  std::vector<Packing> packings_;
  std::vector<Tensor> leaves_;
  std::vector<std::string> leaf_names_;
  std::vector<ValueRef> inputs_;  // of the graph
  std::vector<Symbol> symbols_;
  std::vector<SymbolBinding> bindings_;  // of the first symbols. The rest is found out by tasks.
  struct Output {
    uint32_t slot;
    bool is_copied;  // of something that another output, an input or a constant is too
  };
  std::vector<Output> outputs_;
  struct SlotUpdate {
    uint32_t target;
    uint32_t value;
  };
  std::vector<SlotUpdate> updates_;
  std::shared_ptr<const ProgramRunner> runner_;
  std::shared_ptr<const MemoryReport> memory_report_;
  std::shared_ptr<ConstantHistory> history_;  // until the program is in the cache
  bool is_from_cache_ = false;
};

Result<Program> compile_program(const Graph& graph, const ProgramOptions& options = {});

}  // namespace tenon
