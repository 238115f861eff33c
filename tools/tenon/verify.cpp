// tenon verify: whether an artifact is whole, and what is in it.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "artifact_info.h"
#include "checkpoints.h"
#include "command.h"
#include "format/native_generated.h"
#include "json.h"
#include "program/artifact.h"
#include "runtime/artifact.h"
#include "runtime/checkpoint.h"
#include "runtime/checksum.h"
#include "runtime/device_variant.h"
#include "runtime/link_target.h"
#include "runtime/loader.h"
#include "support/runtime_call.h"
#include "terminal.h"
#include "units.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(Checks all that loading a file checks, for every CPU level in it and not just for this machine's: the checksums, the
tables, every size, slot and stretch of the weights, the kernels and their code (but for WebAssembly), how the model is
called; and that the graph can be compiled from.
Nothing of the file is run. A checkpoint is checked too, and its states and notes are listed. The exit code is 0 for a
file without fault and 1 for any other.

Examples:
  tenon verify model.tenon
  tenon verify model.tenon --json | jq .levels)";

struct Options {
  std::string path;
  bool json = false;
};

struct LoadedLevel {
  std::string name;  // of the section
  size_t tasks;
  size_t kernels;
};

using SharedContainer = std::shared_ptr<const runtime::Container>;

// The CPU features that code needs. Empty where the section is damaged: loading it says so.
std::string_view features_of(const runtime::Container::Section& native) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(native.bytes.data()), native.bytes.size());
  return format::VerifyNativeBuffer(verifier) ? format::GetNative(native.bytes.data())->features()->string_view() : "";
}

template <const runtime::LinkTarget& kTarget>
std::shared_ptr<const runtime::LoadedCode> link_for(std::string_view object) {
  return runtime::LoadedCode::link(object, kTarget);
}

// Code is linked for the architecture that it is of, which need not be this machine's. WebAssembly is linked in
// browsers alone: of its program the rest is checked.
void choose_linker(runtime::ProgramSections& sections) {
  if (sections.program == nullptr || sections.native == nullptr) return;
  const std::string_view features = features_of(*sections.native);
  if (features.starts_with("wasm32")) sections.native = nullptr;
  sections.link = features.starts_with("aarch64") ? link_for<runtime::kArm64Link> : link_for<runtime::kX86Link>;
}

// The program of a section, with its code, and without devices. Code alone is loaded too: it is an error.
std::shared_ptr<const runtime::LoadedProgram> load_section(const SharedContainer& container,
                                                           const runtime::Container::Section& section) {
  using format::SectionKind;
  const bool has_devices = section.kind == SectionKind::kDeviceProgram || section.kind == SectionKind::kDeviceNative;
  const bool is_program = section.kind == SectionKind::kProgram || section.kind == SectionKind::kDeviceProgram;
  if (!is_program && !has_devices && section.kind != SectionKind::kNative) return nullptr;
  runtime::ProgramSections sections{
      container->find(has_devices ? SectionKind::kDeviceProgram : SectionKind::kProgram, section.name),
      container->find(has_devices ? SectionKind::kDeviceNative : SectionKind::kNative, section.name)};
  if (!is_program && sections.program != nullptr) return nullptr;  // loaded with its program
  choose_linker(sections);
  if (has_devices && sections.program != nullptr) {
    const auto* const spaces = runtime::program_of(*sections.program).spaces();
    sections.devices.resize(spaces == nullptr ? 0 : spaces->size());
  }
  return runtime::load_sections(container, sections, {runtime::absent_call});
}

LoadedLevel described(std::string name, const runtime::TaskGraph& graph) {
  const auto is_kernel = [](const runtime::TaskNode& task) {
    return task.kind == runtime::TaskKind::Kernel || task.kind == runtime::TaskKind::Device;
  };
  for (const runtime::Space& space : graph.spaces) name += fmt::format(" {}", space.identity);
  return {std::move(name), graph.tasks.size(), static_cast<size_t>(std::ranges::count_if(graph.tasks, is_kernel))};
}

// The programs of each entry. Those of one level must agree about their states.
std::vector<LoadedLevel> load_all(const SharedContainer& container) {
  std::vector<LoadedLevel> levels;
  std::map<std::string_view, runtime::Programs> programs;  // of each level
  const bool is_named = container->find(format::SectionKind::kEntries) != nullptr;
  for (const std::string& entry : runtime::entry_names(*container)) {
    const std::string prefix = is_named ? entry + format::kEntrySeparator : "";
    size_t found = 0;
    for (const auto& section : container->sections()) {
      if (!section.name.starts_with(prefix)) continue;
      const auto program = load_section(container, section);
      if (!program) continue;
      found += section.kind == format::SectionKind::kProgram;
      read_entry_call(*container, entry, program->graph()).value();
      levels.push_back(described(std::string(section.name), program->graph()));
      programs[section.name.substr(prefix.size())].push_back(program);
    }
    if (found == 0) runtime::load_program(container, {.native = false, .entry = entry});  // the error of loading
  }
  for (const auto& [level, of_entries] : programs) runtime::states_of(of_entries);
  return levels;
}

std::vector<LoadedLevel> load_levels(const std::string& path, const SharedContainer& container) {
  try {
    return load_all(container);
  } catch (const Error& error) {
    fail_at({path}, "{}", error.diagnostic().message);
  } catch (const runtime::StatusError& error) {
    check(error.status() != TENON_INTERNAL, "{}", error.message());
    fail_at({path}, "{}", error.message());
  }
}

std::string section_text(const runtime::Container::Section& section) {
  return fmt::format("{:<8} {:<16} {:>14} bytes  checksum {:016x} ok\n", kind_text(section.kind), section.name,
                     section.bytes.size(), runtime::checksum(section.bytes));
}

std::string section_json(const runtime::Container::Section& section) {
  return json::object({{"kind", json::string(kind_text(section.kind))},
                       {"name", json::string(section.name)},
                       {"bytes", std::to_string(section.bytes.size())},
                       {"checksum", json::string(fmt::format("{:016x}", runtime::checksum(section.bytes)))}});
}

std::string level_json(const LoadedLevel& level) {
  return json::object({{"name", json::string(level.name)},
                       {"tasks", std::to_string(level.tasks)},
                       {"kernels", std::to_string(level.kernels)}});
}

void verify_checkpoint(const Options& options, const runtime::Container& container) {
  const runtime::Checkpoint checkpoint = open_checkpoint(options.path, container);
  if (options.json) {
    return print(json::object({{"file", json::string(options.path)},
                               {"ok", "true"},
                               {"sections", json::array_of(container.sections(), section_json)},
                               {"states", states_json(checkpoint)},
                               {"notes", notes_json(checkpoint)}}) +
                 "\n");
  }
  std::string text;
  for (const auto& section : container.sections()) text += section_text(section);
  print(text + states_text(checkpoint) + options.path + ": ok\n");
}

void verify(const Options& options) {
  const auto container = open_artifact(options.path);
  if (container->find(format::SectionKind::kCheckpoint)) return verify_checkpoint(options, *container);
  const std::vector<LoadedLevel> levels = load_levels(options.path, container);
  const std::vector<std::string> entries = runtime::entry_names(*container);
  size_t nodes = 0;
  for (const std::string& entry : entries) nodes += graph_of(options.path, container, entry).nodes().size();
  if (options.json) {
    return print(json::object({{"file", json::string(options.path)},
                               {"ok", "true"},
                               {"sections", json::array_of(container->sections(), section_json)},
                               {"nodes", std::to_string(nodes)},
                               {"programs", json::array_of(levels, level_json)},
                               {"levels", levels_json(*container, entries[0])}}) +
                 "\n");
  }
  std::string text;
  for (const auto& section : container->sections()) text += section_text(section);
  text += fmt::format("graph: {} nodes\n", nodes);
  for (const LoadedLevel& level : levels) {
    text += fmt::format("program for {}: {} tasks, {} kernels\n", level.name, level.tasks, level.kernels);
  }
  print(text + options.path + ": ok\n");
}

}  // namespace

Command verify_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("verify", "Check a compiled model, and list what is in the file");
  app->add_option("FILE", options->path, "A .tenon file")->required()->type_name("");
  app->add_flag("--json", options->json, "Print it as JSON");
  app->footer(kFooter);
  return {app, [options] { verify(*options); }};
}

}  // namespace tenon::cli
