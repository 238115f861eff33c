#include "driver/recompile.h"

#include "driver/pipeline.h"
#include "program/artifact.h"
#include "runtime/artifact.h"
#include "support/runtime_call.h"

namespace tenon {
namespace {

Program compiled_anew(const std::shared_ptr<const runtime::Container>& container, const std::string& entry) {
  EntrySource source = read_entry_source(container, entry).value();
  // The calls run in the file that is made of the program.
  const FallbackFn fallback = [](int64_t, std::span<const Tensor>) { return std::vector<Tensor>(); };
  return compile_program(
             source.graph,
             {.states = std::move(source.states), .fallback = fallback, .assertions = std::move(source.assertions)})
      .value();
}

}  // namespace

Result<std::vector<std::byte>> recompiled_artifact(const std::shared_ptr<const runtime::Container>& container) {
  return attempt([&] {
    const std::vector<std::string> names = call_runtime([&] { return runtime::entry_names(*container); });
    std::vector<Program> programs;
    for (const std::string& name : names) programs.push_back(compiled_anew(container, name));
    if (container->find(format::SectionKind::kEntries) == nullptr) {
      return artifact_bytes({&programs[0]}, read_notes(*container).value()).value();
    }
    std::vector<ProgramEntry> entries;
    for (size_t i = 0; i < names.size(); ++i)
      entries.push_back({names[i], {&programs[i]}, read_notes(*container, names[i]).value()});
    return artifact_bytes(entries).value();
  });
}

}  // namespace tenon
