#include "runtime/description.h"

#include <algorithm>
#include <map>

#include "runtime/error.h"
#include "runtime/kernel_text.h"

namespace tenon::runtime {
namespace {

template <class Items, class Print>
std::string list(const Items& items, Print print) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + print(item);
  return "[" + text + "]";
}

std::string numbers(std::span<const uint32_t> values) {
  return list(values, [](uint32_t value) { return text_of(value); });
}

const char* kind_text(SlotKind kind) {
  static constexpr char kNames[][10] = {"input", "state", "constant", "temporary", "output"};
  return kNames[static_cast<int>(kind)];
}

class Describer {
 public:
  Describer(const TaskGraph& graph, const Frame* frame, const LoopsOf& loops_of)
      : graph_(graph), frame_(frame), loops_of_(loops_of) {}

  std::string json() {
    uint32_t slot = 0, task = 0;
    const std::string slots = list(graph_.slots, [&](const TensorSlot&) { return slot_json(slot++); });
    const std::string tasks = list(graph_.tasks, [&](const TaskNode&) { return task_json(task++); });
    return text_of("{\"name\": ", json_string(graph_.name), ", \"inputs\": ", list(graph_.inputs, tensor_json),
                   ", \"outputs\": ", list(graph_.outputs, tensor_json),
                   ", \"states\": ", list(graph_.states, state_json),
                   ", \"symbols\": ", list(graph_.symbols, symbol_json), ", \"slots\": ", slots, ", \"tasks\": ", tasks,
                   ", \"loops\": ", list(texts_, json_string), ", \"plan\": ", plan_json(), "}");
  }

 private:
  static std::string tensor_json(const TensorInfo& info) {
    return text_of("{\"name\": ", json_string(info.name), ", \"slot\": ", info.slot, "}");
  }

  static std::string state_json(const StateTensor& state) {
    return tensor_json({.name = state.name, .slot = state.slot});
  }

  static std::string symbol_json(const SymbolInfo& symbol) {
    const std::string high = symbol.high == INT64_MAX ? "null" : text_of(symbol.high);
    return text_of("{\"name\": ", json_string(symbol.name), ", \"low\": ", symbol.low, ", \"high\": ", high, "}");
  }

  std::string plan_json() const {
    if (frame_ == nullptr) return "null";
    return text_of("{\"bytes\": ", frame_->arena_bytes, ", \"least\": ", frame_->least_bytes, "}");
  }

  std::string slot_json(uint32_t number) const {
    const TensorSlot& slot = graph_.slots[number];
    const int64_t elements = frame_ == nullptr ? -1 : frame_->elements[number];
    const int64_t bytes = elements < 0 ? -1 : elements * static_cast<int64_t>(tenon_dtype_size(slot.dtype));
    const int64_t offset = frame_ == nullptr ? -1 : frame_->offsets[number];
    const int64_t first = slot.source.task == kNone ? -1 : int64_t{slot.source.task};
    return text_of("{\"type\": ", json_string(type_text(graph_, slot)), ", \"kind\": \"", kind_text(slot.kind),
                   "\", \"root\": ", slot.root, ", \"bytes\": ", bytes, ", \"offset\": ", offset,
                   ", \"first\": ", first, ", \"last\": ", slot.last_task, "}");
  }

  std::string task_json(uint32_t number) {
    const TaskNode& task = graph_.tasks[number];
    const std::string_view device = is_device_task(task) ? graph_.spaces[task.space - 1].device : "";
    return text_of("{\"name\": ", json_string(task.name), ", \"kind\": \"", name_of(task.kind),
                   "\", \"ops\": ", list(ops_of(graph_, number), json_string),
                   ", \"place\": ", json_string(place_of(graph_, number)), ", \"inputs\": ", numbers(task.inputs),
                   ", \"outputs\": ", numbers(task.outputs), ", \"device\": ", json_string(device),
                   ", \"loops\": ", loops_number(number), "}");
  }

  // -1: the task has no loops.
  int64_t loops_number(uint32_t task) {
    std::string text = loops_of_(task);
    if (text.empty()) return -1;
    const auto [place, is_new] = numbers_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(std::move(text));
    return static_cast<int64_t>(place->second);
  }

  const TaskGraph& graph_;
  const Frame* frame_;
  const LoopsOf& loops_of_;
  std::vector<std::string> texts_;                      // of loops
  std::map<std::string, size_t, std::less<>> numbers_;  // in texts_
};

}  // namespace

std::string json_string(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::vector<std::string> ops_of(const TaskGraph& graph, uint32_t task) {
  std::vector<std::string> ops;
  const auto* const from = graph.source->tasks()->Get(task)->ops();
  for (uint32_t i = 0; from && i < from->size(); ++i) ops.push_back(from->Get(i)->str());
  return ops;
}

std::string place_of(const TaskGraph& graph, uint32_t task) {
  const format::Task& source = *graph.source->tasks()->Get(task);
  if (source.file() == nullptr || source.file()->size() == 0) return "";
  return text_of(source.file()->string_view(), ":", source.line());
}

LoopsOf loops_of_file(const TaskGraph& graph) {
  return [&graph](uint32_t task) {
    const TaskNode& node = graph.tasks[task];
    return node.kind == TaskKind::Kernel ? loops_text(graph, node) : std::string();
  };
}

std::string describe_program(const TaskGraph& graph, const Frame* frame, const LoopsOf& loops_of) {
  return Describer(graph, frame, loops_of).json();
}

}  // namespace tenon::runtime
