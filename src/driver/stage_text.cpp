#include "driver/stage_text.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "backends/cpu/cpu.h"
#include "codegen/codegen.h"
#include "codegen/objects.h"
#include "driver/kernels.h"
#include "fusion/groups_text.h"
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

std::string assembly_of(const GroupKernel& kernel, const ProgramOptions& options) {
  if (object_of(*kernel.code).empty()) return kernel.code->dump();
  const codegen::KernelSource source{&kernel.schedule->tree, codegen::kObjectFunction};
  return codegen::emit_asm({&source, 1}, codegen::find_target(cpu_of(kernel, options)));
}

std::string kernels_text(const Module& module, StageForm form, const ProgramOptions& options) {
  std::string text;
  for (const GroupKernel& kernel : module.kernels) {
    if (form == StageForm::kLoops) {
      text += block("kernel", to_string(kernel.loops));
      continue;
    }
    std::string body = schedule_text(*kernel.schedule);
    if (form == StageForm::kCode) body += block("assembly", assembly_of(kernel, options));
    text += block("kernel", body);
  }
  return text;
}

}  // namespace

std::string stage_text(const Module& module, const Stage& stage, const ProgramOptions& options) {
  std::string text = fmt::format("stage {}\n", stage.name);
  text += block("graph", to_string(module.graph));
  if (stage.form == StageForm::kGraph) return text;
  if (stage.form == StageForm::kProgram) {
    return text + block("program", text_of(module.program, module.history).text);
  }
  text += block("groups", to_string(module.graph, module.groups));
  return stage.form == StageForm::kGroups ? text : text + kernels_text(module, stage.form, options);
}

// ---- parsing --------------------------------------------------------------------------------------------------------

namespace {

class StageParser {
  // The line of the next block, which begins with this word.
  Cursor next(std::string_view word) {
    if (position_ == blocks_.size()) fail_at({file_}, "a stage's text lacks '{}'", word);
    Cursor line(blocks_[position_].line, blocks_[position_].where);
    line.expect(word);
    ++position_;
    return line;
  }
  const std::string& body() const { return blocks_[position_ - 1].body; }

  // Places in the body of a block as places in the file.
  template <class Body>
  auto located(Body parse) const {
    try {
      return parse();
    } catch (const Error& error) {
      Location where = error.diagnostic().where;
      const Location& start = blocks_[position_ - 1].body_where;
      throw Error({error.diagnostic().message, {file_, start.line + std::max(where.line, 1) - 1, where.column + 2}});
    }
  }

 public:
  StageParser(std::string_view text, const Graph& model, const ProgramOptions& options, const std::string& file)
      : options_(options), target_(target_of(options)), blocks_(parse_blocks(text, {file, 1, 1})), file_(file) {
    Cursor head = next("stage");
    stage_ = &stage_named(head.until(" \n"));
    run_passes_of(model);
  }

  ParsedStage run() {
    parse_module_graph();
    if (stage_->form == StageForm::kProgram) {
      parse_program_block();
    } else if (stage_->form != StageForm::kGraph) {
      next("groups");
      module_->groups = located([&] { return parse_groups(module_->graph, body()).value(); });
      if (stage_->form != StageForm::kGroups) parse_kernels();
    }
    if (position_ != blocks_.size()) fail_at(blocks_[position_].where, "the text of stage {} ends here", stage_->name);
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
  }

  void parse_module_graph() {
    next("graph");
    Graph graph = located([&] { return parse_graph(body()).value(); });
    for (const Leaf& leaf : graph.leaves()) {
      const bool needs_data = leaf.kind != LeafKind::kInput && !leaf.data.defined();
      const Leaf* const from = needs_data ? module_->graph.leaf_named(leaf.name) : nullptr;
      if (from != nullptr && from->data.defined()) graph.bind(leaf.name, from->data);
    }
    module_->graph = std::move(graph);
  }

  void parse_kernels() {
    lower_groups(*module_, target_, options_);
    for (GroupKernel& kernel : module_->kernels) {
      next("kernel");
      if (stage_->form == StageForm::kLoops) {
        kernel.loops = located([&] { return loops::parse(body()).value(); });
      } else {
        parse_kernel(kernel);
      }
    }
  }

  void parse_kernel(GroupKernel& kernel) {
    const std::vector<TextBlock> parts = parse_blocks(body(), blocks_[position_ - 1].body_where);
    if (parts.size() < 2) fail_at(blocks_[position_ - 1].where, "a scheduled kernel has inputs and loops");
    AheadOfTime schedule{.tree = loops::LoopTree(loops::parse(parts[1].body).value())};
    Cursor inputs(parts[0].line, parts[0].where);
    inputs.expect("inputs");
    while (!inputs.at_end()) {
      if (inputs.accept("p")) {
        schedule.inputs.push_back({.preparation = inputs.integer("a preparation")});
      } else {
        schedule.inputs.push_back({.slot = inputs.integer("an input")});
      }
    }
    for (const TextBlock& part : std::span(parts).subspan(2)) {
      Cursor line(part.line, part.where);
      if (line.accept_word("assembly")) {
        kernel.schedule = std::move(schedule);
        return assemble(kernel, part);
      }
      line.expect("prepare");
      Preparation preparation{loops::parse(part.body).value(), {}};
      while (!line.at_end()) preparation.inputs.push_back(line.integer("an input"));
      schedule.preparations.push_back(std::move(preparation));
    }
    kernel.schedule = std::move(schedule);
  }

  void assemble(GroupKernel& kernel, const TextBlock& part) const {
    const std::string cpu = cpu_of(kernel, options_);
    if (options_.backend != "cpu") fail_at(part.where, "the code of backend {} cannot be parsed", options_.backend);
    const auto object = std::make_shared<const std::string>(codegen::assemble(part.body, codegen::find_target(cpu)));
    const KernelObject with_tree{&kernel.schedule->tree, object};
    kernel.code = std::move(load_cpu({&with_tree, 1}, cpu)[0]);
  }

  void parse_program_block() {
    next("program");
    ProgramText text{.text = body(), .objects = {}};
    module_->program = located([&] { return parse_program(text, module_->source, module_->graph, options_); });
  }

  const ProgramOptions& options_;
  BuildTarget target_;
  std::vector<TextBlock> blocks_;
  const std::string& file_;
  size_t position_ = 0;
  const Stage* stage_ = nullptr;
  std::optional<Module> module_;
};

}  // namespace

Result<ParsedStage> parse_stage(std::string_view text, const Graph& model, const ProgramOptions& options,
                                const std::string& file) {
  return attempt([&] { return StageParser(text, model, options, file).run(); });
}

}  // namespace tenon
