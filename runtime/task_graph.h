// A TaskGraph is a program as tasks over tensor slots: flat tables, read from the artifact and verified once.
//
// Tasks run in order. A tensor that a task reads belongs to the caller or to the model, or an earlier task wrote it:
// that (task, slot) is the dependency. The number of reads and the last reader give the tensor's lifetime. A task may
// write over a tensor that no later task reads.
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
inline constexpr uint32_t kHost = 0;  // the space of the CPU; space s > 0 is TaskGraph::spaces[s - 1]

// A tensor that a task writes: output `slot` of task `task`; kNone if no task writes it.
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
  uint32_t over = kNone;    // of a root: the root whose memory it overwrites
  uint32_t home = 0;        // the root that owns the memory: itself, or the end of the chain of `over`
  TaskSlot source = {};     // of a root: the task that writes it
  uint32_t last_task = 0;   // of a root: who needs it last; the number of tasks where that is the caller. Of a home,
                            // also what lies in it
  uint32_t references = 0;  // of a root: the number of reads
  uint32_t space = kHost;   // whose memory
  bool is_late = false;     // its size or its address is known only after its task ran
  bool is_overwritten = false;  // of an input or a state: its new value is computed in its memory
  bool is_movable = false;      // of a device's memory: each run may place it anew (TaskGraph::arrivals, departures)
  bool stays = false;           // of a device's memory: a state or its next value, which have memory of their own
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
  bool is_late = false;       // a size or an address of it is known only when it runs
  uint32_t space = kHost;     // of a device's task or a transfer: the device's
  uint32_t wait_for = kNone;  // before it runs, tasks of devices up to this one must be done
};

// Memory of a device.
struct Space {
  std::string_view device;    // its spec (runtime/device.h)
  std::string_view identity;  // of the device that its code is for
};

inline bool is_device_task(const TaskNode& task) {
  return task.kind == TaskKind::Device || task.kind == TaskKind::Transfer;
}

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

// An assertion of the model: a tensor without zeros, or an expression of input sizes that is not zero.
struct Check {
  std::string_view message;
  std::string_view file;
  int32_t line;
  uint32_t slot = kNone;
  std::optional<Expr> guard = {};
};

// A tensor that is kept from run to run.
struct StateTensor {
  std::string name;
  uint32_t slot;
  bool is_on_host = true;       // tasks of the host, or results, read it or make its next value
  bool is_renewed = false;      // the program changes it,
  bool changes_on_host = true;  // in the host's memory
};

// A transfer that brings an input or a state to a device. There is nothing to do if the device has its value already.
struct Arrival {
  uint32_t task;
  uint32_t from;  // root
  uint32_t to;    // root
};

// A transfer that brings a result, or the next value of a state, back to the host. If nobody reads it there, the value
// may stay on the device.
struct Departure {
  uint32_t task;
  uint32_t from;            // root
  uint32_t state = kNone;   // whose next value it is,
  uint32_t output = kNone;  // or which result
  bool is_read_on_host = false;
};

struct TaskGraph {
  std::string_view name;
  std::span<const Instruction> code;
  std::vector<SymbolInfo> symbols;
  std::span<const format::Binding> bindings;  // for the first symbols
  std::vector<TensorSlot> slots;
  std::vector<TaskNode> tasks;
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  uint32_t key = kNone;                                // the input that is the key of random numbers
  std::vector<std::pair<uint32_t, uint32_t>> updates;  // (target, value)
  std::vector<Check> checks;
  std::vector<StateTensor> states;
  std::span<const Blob> initial;  // of the states
  std::span<const Blob> constants;
  std::vector<Space> spaces;  // of devices
  std::vector<Arrival> arrivals;
  std::vector<Departure> departures;
  const format::Program* source = nullptr;

  bool is_bound(const Expr& expr) const;  // uses only symbols that inputs determine
  const TensorSlot& root_of(uint32_t slot) const { return slots[slots[slot].root]; }
};

// Reads verified FlatBuffers, which must outlive the graph. Throws a StatusError if they break a rule of the format.
TaskGraph read_task_graph(const format::Program& program);

const char* name_of(TaskKind kind);  // "kernel"

// A type as text: "f32[N, 4]".
std::string type_text(const TaskGraph& graph, const TensorSlot& slot);
std::string expr_text(const TaskGraph& graph, const Expr& expr);

}  // namespace tenon::runtime
