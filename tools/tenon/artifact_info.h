// What is in an artifact, for people: its sections, its CPU levels, its tensors, its plan of memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runnable.h"

namespace tenon::cli {

struct LevelInfo {
  std::string cpu;
  size_t kernels;
  size_t objects;  // of code, as some kernels share theirs
  int64_t bytes;
  std::vector<std::string> missing;  // what this machine lacks of it
};
std::vector<LevelInfo> levels_of(const runtime::Container& container, const std::string& entry);

// The programs of an entry with devices, and which of them this process takes, or why not.
std::string devices_text(const runtime::Container& container, const std::string& entry);
std::string devices_json(const runtime::Container& container, const std::string& entry);

std::string kind_text(format::SectionKind kind);  // "graph"
int64_t file_bytes(const std::string& path);

struct PlanInfo {
  int64_t planned;  // bytes of the arena
  int64_t least;    // that any plan needs
  double ratio() const { return least == 0 ? 1 : static_cast<double>(planned) / static_cast<double>(least); }
};
// For these sizes; none where the model has symbols and no size is given. Throws an Error for sizes that do not fit.
std::optional<PlanInfo> plan_of(const Runnable& runnable, const symbolic::Bindings& sizes);
std::string text_of(const std::optional<PlanInfo>& plan);  // a line
std::string json_of(const std::optional<PlanInfo>& plan);

std::string call_text(const Runnable& runnable);     // how the model is called: a CallForm; empty where nobody knows
std::string tensors_text(const Runnable& runnable);  // inputs, outputs, states and symbols, a line each
std::string tasks_text(const runtime::TaskGraph& graph);
std::string tensors_json(const runtime::TaskGraph& graph, std::span<const runtime::TensorInfo> tensors);
std::string states_json(const runtime::TaskGraph& graph);
std::string symbols_json(const runtime::TaskGraph& graph);
std::string tasks_json(const runtime::TaskGraph& graph);
std::string levels_json(const runtime::Container& container, const std::string& entry);

}  // namespace tenon::cli
