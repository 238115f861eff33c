// A program as tasks over tensor slots: flat tables, read from the artifact once and checked on the way.
//
// Tasks run in order. Each tensor that one reads is the caller's, the model's, or what an earlier task wrote: that
// (task, slot) is its dependency. How many times a tensor is read, and which task does so last, gives its lifetime.
// What a task writes may take the place of what nobody reads from then on.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/program_generated.h"
#include "runtime/expr.h"
#include "tenon/tenon.h"

namespace tenon::runtime {

using format::Blob;
using format::SlotKind;
using format::TaskKind;

inline constexpr uint32_t kNone = ~0u;

// A tensor that a task writes: output number `slot` of task `task`; kNone where no task does.
struct TaskSlot {
  uint32_t task = kNone;
  uint32_t slot = kNone;
};

struct TensorSlot {
  tenon_dtype dtype;
  SlotKind kind;
  uint32_t root;
  uint32_t position;
  std::span<const Expr> shape;
  uint32_t over = kNone;    // of a root: whose place it takes when it is written
  uint32_t home = 0;        // the root in whose memory it lies: its own, or what it takes the place of, and so on
  TaskSlot source = {};     // of a root: who writes it
  uint32_t last_task = 0;   // of a root: who needs it last; the number of tasks where that is the caller. Of a home,
                            // also what lies in it
  uint32_t references = 0;  // of a root: how many times it is read
  bool is_late = false;     // its size, or its place, is known when its task has run
  bool is_overwritten = false;  // of an input or a state: its new value is computed in its memory
};

struct TaskNode {
  TaskKind kind;
  std::string_view name;
  std::span<const uint32_t> inputs;  // tensor slots
  std::span<const uint32_t> outputs;
  std::vector<TaskSlot> dependencies;  // of each input
  uint32_t kernel = kNone;
  std::span<const uint32_t> sizes;  // argument slots of a kernel: symbols
  std::string_view function;
  std::string_view text;
  std::span<const Expr> numbers;  // argument slots of a library task
  std::optional<Expr> flops;
  std::optional<Expr> bytes;
  bool is_late = false;  // something of it is known only when it comes
};

struct SymbolInfo {
  std::string_view name;
  int64_t low;
  int64_t high;
};

struct TensorInfo {
  std::string_view name;
  uint32_t slot;
  bool is_copied = false;  // of a result
};

// What the model promises of its data: a tensor without a zero, or an expression of the sizes of inputs that is not
// zero.
struct Check {
  std::string_view message;
  std::string_view file;
  int32_t line;
  uint32_t slot = kNone;
  std::optional<Expr> guard = {};
};

// What is kept from run to run.
struct StateTensor {
  std::string name;
  uint32_t slot;
};

struct TaskGraph {
  std::string_view name;
  std::span<const Instruction> code;
  std::vector<SymbolInfo> symbols;
  std::span<const format::Binding> bindings;  // of the first symbols
  std::vector<TensorSlot> slots;
  std::vector<TaskNode> tasks;
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  uint32_t key = kNone;                                // the input that random numbers come from
  std::vector<std::pair<uint32_t, uint32_t>> updates;  // target and value
  std::vector<Check> checks;
  std::vector<StateTensor> states;
  std::span<const Blob> initial;  // of the states
  std::span<const Blob> constants;
  const format::Program* source = nullptr;

  bool is_bound(const Expr& expr) const;  // names symbols that inputs tell, and no others
  const TensorSlot& root_of(uint32_t slot) const { return slots[slots[slot].root]; }
};

// Of verified FlatBuffers, which must outlive the graph. Throws a StatusError for whatever breaks the rules of the
// format.
TaskGraph read_task_graph(const format::Program& program);

// How a type is written: "f32[N, 4]".
std::string type_text(const TaskGraph& graph, const TensorSlot& slot);
std::string shape_text(std::span<const int64_t> shape);
std::string expr_text(const TaskGraph& graph, const Expr& expr);

}  // namespace tenon::runtime
