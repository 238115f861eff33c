#include "driver/stage_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "backends/cpu/cpu.h"
#include "backends/device_backend.h"
#include "codegen/codegen.h"
#include "codegen/objects.h"
#include "driver/kernels.h"
#include "fusion/groups_text.h"
#include "graph/text.h"
#include "program/text.h"
#include "support/blocks.h"
#include "support/cursor.h"

namespace tenon {
namespace {

// ---- printing -------------------------------------------------------------------------------------------------------

std::string block(std::string_view head, std::string_view body) { return fmt::format("{}\n{}", head, indented(body)); }

// "2" is input 2 of the kernel before the split, "p0" the result of preparation 0.
std::string schedule_text(const AheadOfTime& schedule) {
  std::string inputs = "inputs";
  for (const AheadOfTime::Input& input : schedule.inputs) {
    inputs += input.preparation < 0 ? fmt::format(" {}", input.slot) : fmt::format(" p{}", input.preparation);
  }
  std::string text = inputs + "\n" + block("loops", to_string(schedule.tree.ir));
  for (const Preparation& preparation : schedule.preparations) {
    text += block(fmt::format("prepare {}", fmt::join(preparation.inputs, " ")), to_string(preparation.kernel));
  }
  return text;
}

std::string cpu_of(const GroupKernel& kernel, const ProgramOptions& options) {
  return kernel.runs_once ? "native" : options.cpu;
}

// Code that has no text of its own is compiled again when the stage is parsed.
std::string code_text(const GroupKernel& kernel, const ProgramOptions& options) {
  if (kernel.code->device_program()) return {};
  if (object_of(*kernel.code).empty()) return block("code", kernel.code->dump());
  const codegen::KernelSource source{&kernel.schedule->tree, codegen::kObjectFunction};
  return block("assembly", codegen::emit_asm({&source, 1}, codegen::find_target(cpu_of(kernel, options))));
}

std::string kernel_text(const GroupKernel& kernel, StageForm form, const ProgramOptions& options) {
  if (form == StageForm::kLoops) return block("kernel", to_string(kernel.loops));
  return block("kernel", schedule_text(*kernel.schedule) +
                             (form == StageForm::kCode ? code_text(kernel, options) : std::string()));
}

// What the text of a segment has, where that of the model has `form`.
StageForm segment_form(const ModuleSegment& segment, StageForm form) {
  const bool is_graph = form == StageForm::kProgram || graph_compiler(*segment.backend) != nullptr;
  return is_graph ? StageForm::kGraph : form;
}

std::string module_text(const Module& module, StageForm form, const ProgramOptions& options) {
  std::string text = block("graph", to_string(module.graph));
  if (form != StageForm::kGraph && form != StageForm::kProgram) {
    text += block("groups", to_string(module.graph, module.groups));
    if (form != StageForm::kGroups) {
      for (const GroupKernel& kernel : module.kernels) text += kernel_text(kernel, form, options);
    }
  }
  for (const ModuleSegment& segment : module.segments) {
    text += block(fmt::format("segment {}", quote(segment.backend->name())),
                  module_text(*segment.module, segment_form(segment, form), options));
  }
  if (form == StageForm::kProgram) text += block("program", text_of(module.program, module.history).text);
  return text;
}

}  // namespace

std::string stage_text(const Module& module, const Stage& stage, const ProgramOptions& options) {
  return fmt::format("stage {}\n", stage.name) + module_text(module, stage.form, options);
}

// ---- parsing --------------------------------------------------------------------------------------------------------

namespace {

// The blocks of a text, one after the other.
class BlockReader {
 public:
  BlockReader(std::string_view text, Location start)
      : blocks_(parse_blocks(text, start)), file_(std::move(start.file)) {}

  bool at(std::string_view word) const { return position_ < blocks_.size() && line_at(position_).accept_word(word); }

  // The line of the next block, behind the word that it begins with.
  Cursor next(std::string_view word) {
    if (position_ == blocks_.size()) fail_at({file_}, "a stage's text lacks '{}'", word);
    Cursor line = line_at(position_);
    line.expect(word);
    ++position_;
    return line;
  }
  const TextBlock& block() const { return blocks_[position_ - 1]; }
  BlockReader inside() const { return {block().body, block().body_where}; }
  void expect_end(std::string_view stage) const {
    if (position_ != blocks_.size()) fail_at(blocks_[position_].where, "the text of stage {} ends here", stage);
  }

  // Parses the body of the block, and gives places in it as places in the file.
  template <class Parse>
  auto parsed(Parse parse) const {
    try {
      return parse(block().body);
    } catch (const Error& error) {
      const Location& where = error.diagnostic().where;
      const Location& start = block().body_where;
      throw Error({error.diagnostic().message,
                   {file_, start.line + std::max(where.line, 1) - 1, start.column + std::max(where.column, 1) - 1}});
    }
  }

 private:
  Cursor line_at(size_t position) const { return Cursor(blocks_[position].line, blocks_[position].where); }

  std::vector<TextBlock> blocks_;
  std::string file_;
  size_t position_ = 0;
};

AheadOfTime parse_schedule(BlockReader& kernel) {
  Cursor inputs = kernel.next("inputs");
  kernel.next("loops");
  AheadOfTime schedule{.tree = loops::LoopTree(loops::parse(kernel.block().body).value())};
  while (!inputs.at_end()) {
    if (inputs.accept("p")) {
      schedule.inputs.push_back({.preparation = inputs.integer("a preparation")});
    } else {
      schedule.inputs.push_back({.slot = inputs.integer("an input")});
    }
  }
  while (kernel.at("prepare")) {
    Cursor line = kernel.next("prepare");
    Preparation preparation{loops::parse(kernel.block().body).value(), {}};
    while (!line.at_end()) preparation.inputs.push_back(line.integer("an input"));
    schedule.preparations.push_back(std::move(preparation));
  }
  return schedule;
}

class StageParser {
 public:
  StageParser(std::string_view text, const Graph& model, const ProgramOptions& options, const std::string& file)
      : options_(options), target_(target_of(options)), reader_(text, {file, 1, 1}) {
    Cursor head = reader_.next("stage");
    stage_ = &stage_named(head.until(" \n"));
    run_passes_of(model);
  }

  ParsedStage run() {
    module_->segments.clear();
    parse_module(*module_, reader_, target_, stage_->form);
    return {stage_, std::move(*module_)};
  }

 private:
  // The data of leaves that passes compute.
  void run_passes_of(const Graph& model) {
    module_ = new_module(model);
    for (const Stage& stage : pipeline()) {
      if (stage.form != StageForm::kGraph) break;
      run_stages(*module_, {&stage, 1}, target_, options_);
      if (&stage == stage_) break;
    }
    add_data(module_->graph);
    for (const ModuleSegment& segment : module_->segments) add_data(segment.module->graph);
  }

  void add_data(const Graph& graph) {
    for (const Leaf& leaf : graph.leaves()) {
      if (leaf.kind != LeafKind::kConstant && leaf.data.defined()) data_[leaf.name] = leaf.data;
    }
  }

  void parse_module(Module& module, BlockReader& reader, const BuildTarget& target, StageForm form) {
    reader.next("graph");
    module.graph = reader.parsed([](const std::string& body) { return parse_graph(body).value(); });
    bind_data(module.graph);
    if (form != StageForm::kGraph && form != StageForm::kProgram) {
      reader.next("groups");
      module.groups = reader.parsed([&](const std::string& body) { return parse_groups(module.graph, body).value(); });
      if (form != StageForm::kGroups) parse_kernels(module, reader, target, form);
    }
    while (reader.at("segment")) parse_segment(module, reader, form);
    if (form == StageForm::kProgram) parse_program_block(module, reader);
    reader.expect_end(stage_->name);
  }

  void bind_data(Graph& graph) const {
    std::vector<std::string> unbound;
    for (const Leaf& leaf : graph.leaves()) {
      if (leaf.kind != LeafKind::kInput && !leaf.data.defined() && data_.contains(leaf.name))
        unbound.push_back(leaf.name);
    }
    for (const std::string& name : unbound) graph.bind(name, data_.at(name));
  }

  void parse_segment(Module& module, BlockReader& reader, StageForm form) {
    Cursor line = reader.next("segment");
    ModuleSegment segment{find_backend(line.string("the name of a backend")).value(), std::make_shared<Module>()};
    BlockReader inside = reader.inside();
    parse_module(*segment.module, inside, {segment.backend, target_.here}, segment_form(segment, form));
    segment.module->source = std::make_shared<const Graph>(segment.module->graph);
    const DeviceBackend* const whole = graph_compiler(*segment.backend);
    if (form == StageForm::kCode && whole != nullptr) segment.code = whole->compile_graph(segment.module->graph);
    module.segments.push_back(std::move(segment));
  }

  void parse_kernels(Module& module, BlockReader& reader, const BuildTarget& target, StageForm form) {
    lower_groups(module, target, options_);
    for (GroupKernel& kernel : module.kernels) {
      reader.next("kernel");
      if (form == StageForm::kLoops) {
        kernel.loops = reader.parsed([](const std::string& body) { return loops::parse(body).value(); });
        continue;
      }
      BlockReader inside = reader.inside();
      kernel.schedule = parse_schedule(inside);
      if (form == StageForm::kCode) parse_code(kernel, inside, target);
      inside.expect_end(stage_->name);
    }
  }

  void parse_code(GroupKernel& kernel, BlockReader& reader, const BuildTarget& target) const {
    if (reader.at("assembly")) {
      reader.next("assembly");
      const std::string cpu = cpu_of(kernel, options_);
      const auto object =
          std::make_shared<const std::string>(codegen::assemble(reader.block().body, codegen::find_target(cpu)));
      const KernelObject with_tree{&kernel.schedule->tree, object};
      kernel.code = std::move(load_cpu({&with_tree, 1}, cpu)[0]);
      return;
    }
    if (reader.at("code")) reader.next("code");
    const Backend& backend = kernel.runs_once ? *target.here : *target.backend;
    kernel.code = backend.compile(kernel.schedule->tree).value();
  }

  void parse_program_block(Module& module, BlockReader& reader) const {
    reader.next("program");
    std::vector<std::shared_ptr<const Graph>> segments;
    for (const ModuleSegment& segment : module.segments) segments.push_back(segment.module->source);
    ParsedProgram parsed = reader.parsed([&](const std::string& body) {
      return parse_program({.text = body, .objects = {}}, module.source, module.graph, options_, segments);
    });
    module.program = std::move(parsed.program);
    module.history = std::move(parsed.history);
  }

  const ProgramOptions& options_;
  BuildTarget target_;
  BlockReader reader_;
  const Stage* stage_ = nullptr;
  std::optional<Module> module_;
  std::map<std::string, Tensor> data_;  // of leaves, by name
};

}  // namespace

Result<ParsedStage> parse_stage(std::string_view text, const Graph& model, const ProgramOptions& options,
                                const std::string& file) {
  return attempt([&] { return StageParser(text, model, options, file).run(); });
}

}  // namespace tenon
