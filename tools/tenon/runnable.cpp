#include "runnable.h"

#include <fmt/format.h>

#include "driver/pipeline.h"
#include "driver/recompile.h"
#include "model.h"
#include "program/artifact.h"
#include "program/run.h"
#include "runtime/artifact.h"
#include "runtime/checkpoint.h"
#include "runtime/error.h"
#include "support/runtime_call.h"
#include "support/text.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

Location place_of(const runtime::TaskGraph& graph, uint32_t task) {
  const format::Task& from = *graph.source->tasks()->Get(task);
  return from.file() ? Location{from.file()->str(), from.line()} : Location{};
}

[[noreturn]] void fail_in(const runtime::TaskGraph& graph, uint32_t task, const runtime::StatusError& error) {
  check(error.status() != TENON_INTERNAL, "{}", error.message());
  if (task == runtime::kNone) fail("{}", error.message());
  fail_at(place_of(graph, task), "{}: {}", graph.tasks[task].name, error.message());
}

}  // namespace

bool is_artifact(const std::string& path) { return path.ends_with(".tenon"); }

std::shared_ptr<const runtime::Container> open_artifact(const std::string& path) {
  return call_runtime([&] { return std::make_shared<const runtime::Container>(runtime::Container::open(path)); });
}

Graph graph_of(const std::string& path, const std::shared_ptr<const runtime::Container>& container,
               std::string_view entry) {
  Result<Graph> read = read_artifact_graph(container, entry);
  if (!read.ok()) fail_at({path}, "its graph: {}", read.diagnostic().message);
  return std::move(read).value();
}

std::string device_of_file(const ModelOptions& options) {
  if (options.devices.size() > 1) fail_at({options.path}, "is compiled already: --device chooses one program of it");
  return options.devices.empty() ? "" : options.devices[0];
}

// Of its file, or where that has no code for this CPU, of one that is compiled anew.
template <class Load>
auto Runnable::load_or_recompile(const std::string& path, const FileOptions& options, Load load) {
  try {
    runtime::LoadOptions how{.native = options.native, .device = options.device};
    if (!options.runs) how.calls = {runtime::absent_call};
    return load(container_, how);
  } catch (const runtime::StatusError& error) {
    check(error.status() != TENON_INTERNAL, "{}", error.message());
    if (error.status() != TENON_UNSUPPORTED) fail_at({path}, "{}", error.message());
    print_error(fmt::format("{}: {}\n", path, error.message()));
  }
  print_error(fmt::format("{}: compiling its graph for this CPU\n", path));
  recompiled_ = std::make_shared<const std::vector<std::byte>>(recompiled_artifact(container_).value());
  return call_runtime([&] {
    return load(std::make_shared<const runtime::Container>(runtime::Container::of_memory(*recompiled_)),
                runtime::LoadOptions());
  });
}

Runnable Runnable::load(const std::string& path, const FileOptions& options) {
  Runnable result;
  result.container_ = open_artifact(path);
  result.loaded_ = result.load_or_recompile(path, options, [&](const auto& container, runtime::LoadOptions how) {
    result.entry_ = options.entry.empty() ? runtime::entry_names(*container)[0] : options.entry;
    how.entry = options.entry;
    return runtime::load_program(container, how);
  });
  return result;
}

std::vector<Runnable> Runnable::load_entries(const std::string& path, const FileOptions& options) {
  Runnable file;
  file.container_ = open_artifact(path);
  const auto loaded = file.load_or_recompile(path, options, [](const auto& container, const runtime::LoadOptions& how) {
    return runtime::load_entries(container, how);
  });
  std::vector<Runnable> entries(loaded.size(), file);
  for (size_t i = 0; i < loaded.size(); ++i) {
    entries[i].entry_ = loaded[i].name;
    entries[i].loaded_ = loaded[i].program;
  }
  return entries;
}

Runnable Runnable::compile(const Graph& graph, const ProgramOptions& options) {
  Runnable result;
  result.compiled_ = std::make_shared<const Program>(compile_program(graph, options).value());
  return result;
}

const runtime::LoadedProgram& Runnable::program() const { return compiled_ ? compiled_->runner->loaded() : *loaded_; }

size_t Runnable::input_count() const {
  return compiled_ ? compiled_->graph.inputs().size() : loaded_->graph().inputs.size();
}

std::vector<InputInfo> Runnable::inputs() const {
  std::vector<InputInfo> specs;
  for (size_t i = 0; i < input_count(); ++i) {
    const runtime::TensorInfo& info = graph().inputs[i];
    const runtime::TensorSlot& slot = graph().slots[info.slot];
    specs.push_back({std::string(info.name), static_cast<DType>(slot.dtype), static_cast<int64_t>(slot.shape.size()),
                     type_text(graph(), slot)});
  }
  return specs;
}

std::vector<Tensor> Runnable::load_inputs(const std::vector<std::string>& arguments, int64_t seed) const {
  std::map<std::string, Tensor> known;
  const EntryCall call = container_ ? read_entry_call(*container_, entry_, graph()).value() : EntryCall();
  if (call.key) known.emplace(graph().inputs[*call.key].name, random_key(seed));
  return cli::load_inputs(inputs(), arguments, known);
}

std::vector<int64_t> Runnable::symbol_values(const symbolic::Bindings& sizes) const {
  std::vector<int64_t> values;
  std::vector<std::string_view> names;
  for (size_t i = 0; i < graph().bindings.size(); ++i) {
    const runtime::SymbolInfo& symbol = graph().symbols[i];
    const auto given = sizes.find(Symbol(symbol.name));
    const std::string high = symbol.high == INT64_MAX ? "inf" : std::to_string(symbol.high);
    if (given == sizes.end())
      fail("the model has a size {} in [{}, {}]: say it with --size {}=...", symbol.name, symbol.low, high,
           symbol.name);
    if (given->second < symbol.low || given->second > symbol.high)
      fail("--size {}={}: it is in [{}, {}]", symbol.name, given->second, symbol.low, high);
    values.push_back(given->second);
    names.push_back(symbol.name);
  }
  for (const auto& [symbol, value] : sizes) {
    if (std::ranges::find(names, symbol.name()) != names.end()) continue;
    fail("the model has no size '{}'{}", symbol.name(), did_you_mean(symbol.name(), names));
  }
  return values;
}

std::vector<Tensor> Runnable::random_inputs(const symbolic::Bindings& sizes, int64_t seed) const {
  return call_runtime([&] {
    const std::vector<int64_t> symbols = symbol_values(sizes);
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < input_count(); ++i) {
      const runtime::TensorSlot& slot = graph().slots[graph().inputs[i].slot];
      Sizes shape;
      for (const runtime::Expr& size : slot.shape) shape.push_back(runtime::evaluate(size, graph().code, symbols));
      tensors.push_back(random_input(std::string(graph().inputs[i].name), static_cast<DType>(slot.dtype), shape, seed));
    }
    return tensors;
  });
}

std::unique_ptr<runtime::Context> Runnable::make_context(const runtime::ContextOptions& options,
                                                         std::shared_ptr<runtime::States> states) const {
  return call_runtime([&] {
    return compiled_ ? compiled_->runner->make_context(options)
                     : std::make_unique<runtime::Context>(loaded_, options, std::move(states));
  });
}

std::shared_ptr<runtime::States> make_states(const std::vector<Runnable>& entries) {
  runtime::Programs programs;
  for (const Runnable& entry : entries) programs.push_back(entry.loaded());
  return call_runtime(
      [&] { return std::make_shared<runtime::States>(programs, std::make_shared<runtime::Allocator>()); });
}

void load_checkpoint(runtime::States& states, const std::string& path) {
  call_runtime([&] { runtime::load_states(states, path); });
}

std::vector<Tensor> Runnable::run(runtime::Context& context, const std::vector<Tensor>& inputs) const {
  if (compiled_) return ProgramRunner::run_in(context, *compiled_, inputs);
  try {
    return run_context(context, loaded_->graph(), inputs);
  } catch (const runtime::StatusError& error) {
    fail_in(loaded_->graph(), context.failed_task(), error);
  }
}

}  // namespace tenon::cli
