#include "artifact_info.h"

#include <fmt/format.h>

#include <filesystem>

#include "format/native_generated.h"
#include "json.h"
#include "profile.h"
#include "program/artifact.h"
#include "runtime/cpu_features.h"
#include "runtime/description.h"
#include "runtime/device_variant.h"
#include "support/runtime_call.h"
#include "units.h"

namespace tenon::cli {
namespace {

LevelInfo level_of(const runtime::Container::Section& section) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(section.bytes.data()), section.bytes.size());
  if (!format::VerifyNativeBuffer(verifier)) fail("the code for {} is not well-formed", section.name);
  const format::Native& native = *format::GetNative(section.bytes.data());
  return {native.cpu()->str(), native.kernels()->size(), native.objects()->size(),
          static_cast<int64_t>(section.bytes.size()), runtime::missing_features(native.features()->string_view())};
}

std::string tensor_line(const runtime::TaskGraph& graph, std::string_view what, const runtime::TensorInfo& info) {
  return fmt::format("{:<8} {:<24} {}\n", what, info.name, type_text(graph, graph.slots[info.slot]));
}

std::string high_text(const runtime::SymbolInfo& symbol) {
  return symbol.high == INT64_MAX ? "inf" : std::to_string(symbol.high);
}

std::string types_of(const runtime::TaskGraph& graph, std::span<const uint32_t> slots) {
  std::vector<std::string> types;
  for (uint32_t slot : slots) types.push_back(type_text(graph, graph.slots[slot]));
  return fmt::format("{}", fmt::join(types, ", "));
}

}  // namespace

std::string kind_text(format::SectionKind kind) {
  switch (kind) {
    case format::SectionKind::kGraph:
      return "graph";
    case format::SectionKind::kProgram:
      return "program";
    case format::SectionKind::kWeights:
      return "weights";
    case format::SectionKind::kNative:
      return "native";
    case format::SectionKind::kEntries:
      return "entries";
    case format::SectionKind::kCheckpoint:
      return "states";
    case format::SectionKind::kDeviceProgram:
      return "device";
    case format::SectionKind::kDeviceNative:
      return "devcode";
  }
  return "unknown";
}

int64_t file_bytes(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

std::vector<LevelInfo> levels_of(const runtime::Container& container, const std::string& entry) {
  const bool is_named = container.find(format::SectionKind::kEntries) != nullptr;
  const std::string prefix = is_named ? entry + format::kEntrySeparator : "";
  std::vector<LevelInfo> levels;
  for (const auto& section : container.sections()) {
    if (section.kind == format::SectionKind::kNative && section.name.starts_with(prefix))
      levels.push_back(level_of(section));
  }
  return levels;
}

namespace {

std::vector<runtime::DeviceVariant> device_variants_of(const runtime::Container& container, const std::string& entry) {
  const bool is_named = container.find(format::SectionKind::kEntries) != nullptr;
  const std::string prefix = is_named ? entry + format::kEntrySeparator : "";
  std::vector<runtime::DeviceVariant> variants;
  for (const auto& section : container.sections()) {
    if (section.kind != format::SectionKind::kDeviceProgram || !section.name.starts_with(prefix)) continue;
    variants.push_back(call_runtime([&] { return runtime::find_devices(container, section); }));
  }
  return variants;
}

std::string cpu_of(const runtime::Container& container, const runtime::DeviceVariant& variant) {
  const auto* const native = container.find(format::SectionKind::kDeviceNative, variant.section->name);
  return native == nullptr ? "any CPU" : level_of(*native).cpu;
}

bool runs_here(const runtime::DeviceVariant& variant) { return variant.problem.empty(); }

}  // namespace

std::string devices_text(const runtime::Container& container, const std::string& entry) {
  const std::vector<runtime::DeviceVariant> variants = device_variants_of(container, entry);
  const auto taken = std::ranges::find_if(variants, runs_here);
  std::string text;
  for (auto it = variants.begin(); it != variants.end(); ++it) {
    const std::string here = it == taken ? "taken here" : runs_here(*it) ? "runs here" : "not here: " + it->problem;
    text += fmt::format("code for {} and {}: {}; {}\n", it->needs, cpu_of(container, *it),
                        bytes_text(static_cast<int64_t>(it->section->bytes.size())), here);
  }
  return text;
}

std::string devices_json(const runtime::Container& container, const std::string& entry) {
  const std::vector<runtime::DeviceVariant> variants = device_variants_of(container, entry);
  const auto taken = std::ranges::find_if(variants, runs_here);
  return json::array_of(variants, [&](const runtime::DeviceVariant& variant) {
    return json::object({{"devices", json::string(variant.needs)},
                         {"cpu", json::string(cpu_of(container, variant))},
                         {"bytes", std::to_string(variant.section->bytes.size())},
                         {"taken", json::boolean(taken != variants.end() && &variant == &*taken)},
                         {"problem", json::string(variant.problem)}});
  });
}

std::optional<PlanInfo> plan_of(const Runnable& runnable, const symbolic::Bindings& sizes) {
  if (sizes.empty() && !runnable.graph().bindings.empty()) return {};
  const std::vector<int64_t> symbols = runnable.symbol_values(sizes);
  const auto frame = call_runtime([&] { return runnable.program().frame(symbols); });
  return PlanInfo{frame->arena_bytes, frame->least_bytes};
}

std::string text_of(const std::optional<PlanInfo>& plan) {
  if (!plan) return "temporaries: they depend on the sizes; say them with --size\n";
  return fmt::format("temporaries: {} bytes planned, {} at least, {:.3f}x\n", plan->planned, plan->least,
                     plan->ratio());
}

std::string json_of(const std::optional<PlanInfo>& plan) {
  if (!plan) return "null";
  return json::object({{"planned_bytes", std::to_string(plan->planned)},
                       {"least_bytes", std::to_string(plan->least)},
                       {"ratio", fmt::format("{:.6f}", plan->ratio())}});
}

std::string call_text(const Runnable& runnable) {
  if (!runnable.container()) return "";
  const EntryCall call = read_entry_call(*runnable.container(), runnable.entry(), runnable.graph()).value();
  return call.form ? to_string(*call.form) : "";
}

std::string tensors_text(const Runnable& runnable) {
  const runtime::TaskGraph& graph = runnable.graph();
  std::string text;
  for (size_t i = 0; i < runnable.inputs().size(); ++i) text += tensor_line(graph, "input", graph.inputs[i]);
  for (const runtime::TensorInfo& info : graph.outputs) text += tensor_line(graph, "output", info);
  if (const std::string call = call_text(runnable); !call.empty()) text += fmt::format("{:<8} {}\n", "call", call);
  for (const runtime::StateTensor& state : graph.states) text += tensor_line(graph, "state", {state.name, state.slot});
  for (const runtime::SymbolInfo& symbol : graph.symbols) {
    text += fmt::format("{:<8} {:<24} [{}, {}]\n", "size", symbol.name, symbol.low, high_text(symbol));
  }
  return text;
}

std::string tasks_text(const runtime::TaskGraph& graph) {
  std::string text;
  for (size_t i = 0; i < graph.tasks.size(); ++i) {
    const runtime::TaskNode& task = graph.tasks[i];
    text += fmt::format("  {:<8} {:<40} {}\n", kind_text(task.kind), task.name, types_of(graph, task.outputs));
  }
  return text;
}

std::string tensors_json(const runtime::TaskGraph& graph, std::span<const runtime::TensorInfo> tensors) {
  return json::array_of(tensors, [&](const runtime::TensorInfo& info) {
    return json::object(
        {{"name", json::string(info.name)}, {"type", json::string(type_text(graph, graph.slots[info.slot]))}});
  });
}

std::string states_json(const runtime::TaskGraph& graph) {
  std::vector<runtime::TensorInfo> states;
  for (const runtime::StateTensor& state : graph.states) states.push_back({state.name, state.slot});
  return tensors_json(graph, states);
}

std::string symbols_json(const runtime::TaskGraph& graph) {
  return json::array_of(graph.symbols, [](const runtime::SymbolInfo& symbol) {
    return json::object({{"name", json::string(symbol.name)},
                         {"low", std::to_string(symbol.low)},
                         {"high", symbol.high == INT64_MAX ? "null" : std::to_string(symbol.high)}});
  });
}

std::string tasks_json(const runtime::TaskGraph& graph) {
  uint32_t number = 0;
  return json::array_of(graph.tasks, [&](const runtime::TaskNode& task) {
    return json::object({{"name", json::string(task.name)},
                         {"kind", json::string(kind_text(task.kind))},
                         {"ops", json::array_of(ops_of(graph, number++), json::string)},
                         {"outputs", json::string(types_of(graph, task.outputs))}});
  });
}

std::string levels_json(const runtime::Container& container, const std::string& entry) {
  return json::array_of(levels_of(container, entry), [](const LevelInfo& level) {
    return json::object({{"cpu", json::string(level.cpu)},
                         {"kernels", std::to_string(level.kernels)},
                         {"objects", std::to_string(level.objects)},
                         {"bytes", std::to_string(level.bytes)},
                         {"runs_here", json::boolean(level.missing.empty())}});
  });
}

}  // namespace tenon::cli
