#include "runtime/description.h"

#include <algorithm>
#include <map>

#include "format/graph_generated.h"
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
  Describer(const TaskGraph& graph, const Frame* frame, const LoopsOf& loops_of, const std::vector<std::string>& names)
      : graph_(graph), frame_(frame), loops_of_(loops_of), constants_(names) {}

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
    const bool is_named = slot.kind == SlotKind::Constant && slot.position < constants_.size();
    const std::string name = is_named ? constants_[slot.position] : "";
    return text_of("{\"name\": ", json_string(name), ", \"type\": ", json_string(type_text(graph_, slot)),
                   ", \"kind\": \"", kind_text(slot.kind), "\", \"root\": ", slot.root, ", \"bytes\": ", bytes,
                   ", \"offset\": ", offset, ", \"first\": ", first, ", \"last\": ", slot.last_task, "}");
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
  const std::vector<std::string>& constants_;           // their names
  std::vector<std::string> texts_;                      // of loops
  std::map<std::string, size_t, std::less<>> numbers_;  // in texts_
};

// Of the lines `%w: f32[4] = parameter "fc.weight"` of a graph's text; those of inputs stand in its first line.
std::vector<std::string> leaf_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view value = line.substr(std::min(line.find(" = "), line.size()));
    const bool is_leaf = value.starts_with(" = parameter \"") || value.starts_with(" = buffer \"");
    if (!is_leaf) continue;
    std::string& name = names.emplace_back();
    for (size_t at = value.find('"') + 1; at < value.size() && value[at] != '"'; ++at) {
      at += value[at] == '\\' && at + 1 < value.size() ? 1 : 0;
      name += value[at];
    }
  }
  return names;
}

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

std::string describe_program(const TaskGraph& graph, const Frame* frame, const LoopsOf& loops_of,
                             const std::vector<std::string>& names) {
  return Describer(graph, frame, loops_of, names).json();
}

std::vector<std::string> constant_names(const TaskGraph& graph, std::span<const std::byte> graph_section) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(graph_section.data());
  flatbuffers::Verifier verifier(bytes, graph_section.size());
  if (!format::VerifyGraphTextBuffer(verifier)) return {};
  const format::GraphText& from = *format::GetGraphText(bytes);
  const std::vector<std::string> leaves = leaf_names(from.text()->string_view());
  if (leaves.size() != from.leaves()->size()) return {};
  std::map<std::pair<uint64_t, uint64_t>, std::string> names;
  const auto add = [&](const format::Blob& place, const std::string& name) {
    const auto found = names.emplace(std::pair(place.offset(), place.size()), name).first;
    if (found->second != name) found->second.clear();
  };
  for (uint32_t i = 0; i < leaves.size(); ++i) add(*from.leaves()->Get(i), leaves[i]);
  for (uint32_t i = 0; from.packed() && i < from.packed()->size(); ++i) {
    const format::Packed& part = *from.packed()->Get(i);
    if (part.place() && part.leaf() < leaves.size()) add(*part.place(), leaves[part.leaf()]);
  }
  std::vector<std::string> found;
  for (const format::Blob& blob : graph.constants) found.push_back(names[{blob.offset(), blob.size()}]);
  return found;
}

}  // namespace tenon::runtime
