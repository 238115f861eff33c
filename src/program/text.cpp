#include "program/text.h"

#include <fmt/ranges.h>

#include <map>

#include "backends/cpu/cpu.h"
#include "backends/device_backend.h"
#include "graph/text.h"
#include "program/run.h"
#include "program/tables.h"
#include "support/blocks.h"

namespace tenon {
namespace {

constexpr std::string_view kSlotKinds[] = {"input", "leaf", "constant", "temporary", "output"};
constexpr std::string_view kTaskKinds[] = {"kernel", "library", "reference", "external", "device", "transfer"};

// ---- printing -------------------------------------------------------------------------------------------------------

std::string place_text(const Location& location) {
  if (!location.known()) return {};
  return fmt::format(" at {} {} {}", quote(location.file), location.line, location.column);
}

class Printer {
 public:
  Printer(const Program& program, const ConstantHistory& history) : program_(program), history_(history) {}

  ProgramText run() {
    for (Symbol symbol : program_.symbols) add("symbol {}\n", symbol.name());
    for (const ProgramSpace& space : program_.spaces) add("space {}\n", quote(space.device));
    for (const Slot& slot : program_.slots) add_slot(slot);
    for (const Task& task : program_.tasks) tasks_ += task_text(task, false);
    add_constants();
    for (const std::string& name : program_.leaf_names) {
      add("state {}\n", program_.graph.leaf_named(name) - program_.graph.leaves().data());
    }
    for (const ProgramOutput& output : program_.outputs)
      add("output {}{}\n", output.slot, output.is_copied ? " copied" : "");
    for (const SlotUpdate& update : program_.updates) add("update {} {}\n", update.target, update.value);
    if (program_.memory_report) add_report(*program_.memory_report);
    result_.text = kernels_ + text_ + tasks_;
    return std::move(result_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
  }

  void add_slot(const Slot& slot) {
    const auto number = static_cast<uint32_t>(&slot - program_.slots.data());
    add("slot {} {} {}", to_string(slot.type), kSlotKinds[static_cast<size_t>(slot.kind)], slot.position);
    if (slot.root != number) add(" root {}", slot.root);
    if (slot.over != kNoSlot) add(" over {}", slot.over);
    if (slot.space != 0) add(" space {}", slot.space);
    text_ += "\n";
  }

  std::string task_text(const Task& task, bool runs_once) {
    std::string text =
        fmt::format("task {} {} group {}", kTaskKinds[static_cast<size_t>(task.kind)], quote(task.name), task.group);
    if (!task.tree) text += on(task);
    if (task.tree) text += fmt::format(" kernel {}", kernel_of(task, runs_once));
    if (task.segment) text += fmt::format(" segment {} object {}", *task.segment, number_of(code_of(*task.kernel)));
    if (task.kind == TaskKind::kExternal) text += fmt::format(" call {}", task.call);
    text += fmt::format(" ops {} in {} out {}", fmt::join(task.ops, " "), fmt::join(task.inputs, " "),
                        fmt::join(task.outputs, " "));
    if (!task.sizes.empty()) text += fmt::format(" sizes {}", fmt::join(task.sizes, " "));
    text += place_text(task.location) + "\n";
    return text + (task.body ? indented(to_string(*task.body)) : "");
  }

  static std::string on(const Task& task) { return task.device.empty() ? "" : " on " + quote(task.device); }

  uint32_t kernel_of(const Task& task, bool runs_once) {
    const std::string loops = to_string(task.tree->ir);
    const uint32_t object =
        number_of(task.device.empty() ? std::string(object_of(*task.kernel)) : code_of(*task.kernel));
    const auto next = static_cast<uint32_t>(kernel_numbers_.size());
    const std::string kind = (runs_once ? " once" : "") + on(task);
    const auto [found, is_new] = kernel_numbers_.try_emplace({loops, object, kind}, next);
    if (is_new) kernels_ += fmt::format("kernel object {}{}\n", object, kind) + indented(loops);
    return found->second;
  }

  uint32_t number_of(std::string object) {
    const auto next = static_cast<uint32_t>(result_.objects.size());
    const auto [found, is_new] = object_numbers_.try_emplace(object, next);
    if (is_new) result_.objects.push_back(std::move(object));
    return found->second;
  }

  static std::string uses_text(const std::vector<ConstantUse>& uses) {
    std::string text;
    for (const ConstantUse& use : uses) text += fmt::format(" {} {}", use.constant, to_string(use.type));
    return text;
  }

  void add_constants() {
    add("constants {}\n", history_.constants);
    for (const auto& [constant, leaf, segment] : history_.leaves)
      add("leaf {} of {}{}\n", constant, leaf, segment ? fmt::format(" in {}", *segment) : "");
    for (const ConstantStep& step : history_.steps) {
      add("step in{} out{}\n", uses_text(step.inputs), uses_text(step.outputs));
      text_ += indented(step.preparation ? "prepare\n" + indented(to_string(*step.preparation))
                                         : task_text(*step.task, true));
    }
    add("kept {}\n", fmt::join(history_.kept, " "));
    for (const Packing& packing : program_.packings) add("packing {}\n", packing.slot);
  }

  void add_report(const MemoryReport& report) {
    add("report {} {} {} {}\n", report.budget, report.natural_bytes, report.bytes, report.work);
    for (const auto& [symbol, size] : report.sizes) add("size {} {}\n", symbol.name(), size);
    for (const Recomputation& each : report.recomputed) {
      add("recomputed {} {} {} ops {}{}\n", to_string(each.type), each.bytes, each.share, fmt::join(each.ops, " "),
          place_text(each.location));
    }
  }

  const Program& program_;
  const ConstantHistory& history_;
  std::string kernels_, text_, tasks_;  // in this order
  ProgramText result_;
  std::map<std::string, uint32_t> object_numbers_;
  std::map<std::tuple<std::string, uint32_t, std::string>, uint32_t> kernel_numbers_;
};

// ---- parsing --------------------------------------------------------------------------------------------------------

bool is_number(char c) { return c >= '0' && c <= '9'; }

uint32_t parse_id(Cursor& cursor, std::string_view what) {
  const int64_t number = cursor.integer(what);
  if (number < 0 || number >= static_cast<int64_t>(kNoSlot)) cursor.fail("{} {} is out of range", what, number);
  return static_cast<uint32_t>(number);
}

std::vector<uint32_t> parse_ids(Cursor& cursor, std::string_view what) {
  std::vector<uint32_t> numbers;
  while (is_number(cursor.peek())) numbers.push_back(parse_id(cursor, what));
  return numbers;
}

TensorType parse_type_in(Cursor& cursor) { return parse_type(cursor.until(" \n")).value(); }

template <size_t N>
size_t parse_word(Cursor& cursor, const std::string_view (&words)[N], std::string_view what) {
  for (size_t i = 0; i < N; ++i) {
    if (cursor.accept_word(words[i])) return i;
  }
  cursor.expected(what);
}

Location parse_place(Cursor& cursor) {
  if (!cursor.accept_word("at")) return {};
  Location place;
  place.file = cursor.string("a file");
  place.line = static_cast<int>(cursor.integer("a line"));
  place.column = static_cast<int>(cursor.integer("a column"));
  return place;
}

std::vector<std::string> parse_ops(Cursor& cursor) {
  std::vector<std::string> ops;
  cursor.expect("ops");
  while (!cursor.at_end() && !cursor.accept_word("in")) {
    if (cursor.accept_word("at")) cursor.fail("an op cannot be called 'at'");
    ops.emplace_back(cursor.name("an op"));
  }
  return ops;
}

class Parser {
 public:
  Parser(const ProgramText& text, std::shared_ptr<const Graph> source, const Graph& ready,
         const ProgramOptions& options, std::span<const std::shared_ptr<const Graph>> segments)
      : text_(text),
        options_(options),
        segments_(segments.begin(), segments.end()),
        here_(find_backend(options.backend).value()),
        program_(new_program(std::move(source), ready, options)),
        preparer_(*here_) {}

  ParsedProgram run() {
    const std::vector<TextBlock> blocks = parse_blocks(text_.text);
    for (const TextBlock& block : blocks) note_kernel(block);
    load_kernels();
    program_.bindings = bind_symbols(graph());
    program_.inputs = graph().inputs();
    for (const TextBlock& block : blocks) add(block);
    for (uint32_t constant : history_.kept) program_.constants.push_back(at(constants_, constant));
    if (report_) program_.memory_report = std::make_shared<const MemoryReport>(std::move(*report_));
    return {std::move(program_), std::move(history_)};
  }

 private:
  const Graph& graph() const { return program_.graph; }

  template <class T>
  static T& at(std::vector<T>& list, size_t number) {
    return const_cast<T&>(at(std::as_const(list), number));
  }
  template <class T>
  static const T& at(const std::vector<T>& list, size_t number) {
    if (number >= list.size()) fail("a program's text names number {} of {}", number, list.size());
    return list[number];
  }

  static const Leaf& leaf_of(const Graph& graph, uint32_t number) { return at(graph.leaves(), number); }

  static std::string parse_device(Cursor& line) {
    return line.accept_word("on") ? line.string("the name of a device") : std::string();
  }

  // ---- kernels ----

  struct ParsedKernel {
    uint32_t object;
    bool runs_once;
    std::string device;
    std::shared_ptr<const loops::LoopTree> tree;
    std::shared_ptr<const Compiled> code = {};
  };

  void note_kernel(const TextBlock& block) {
    Cursor line(block.line, block.where);
    if (!line.accept_word("kernel")) return;
    line.expect("object");
    const uint32_t object = parse_id(line, "an object");
    const bool runs_once = line.accept_word("once");
    std::string device = parse_device(line);
    kernels_.push_back({object, runs_once, std::move(device),
                        std::make_shared<const loops::LoopTree>(loops::parse(block.body).value())});
  }

  void load_kernels() {
    if (text_.objects.empty()) return compile_kernels();
    for (const std::string& object : text_.objects) objects_.push_back(std::make_shared<const std::string>(object));
    load_kernels(options_.cpu, false);
    load_kernels("native", true);
    for (ParsedKernel& kernel : kernels_) {
      if (kernel.device.empty()) continue;
      const std::shared_ptr<const Backend> backend = find_backend(kernel.device).value();
      kernel.code = device_backend(*backend).load(*kernel.tree, *at(objects_, kernel.object));
    }
  }

  void load_kernels(const std::string& cpu, bool run_once) {
    std::vector<KernelObject> wanted;
    std::vector<ParsedKernel*> kernels;
    for (ParsedKernel& kernel : kernels_) {
      if (kernel.runs_once != run_once || !kernel.device.empty()) continue;
      wanted.push_back({kernel.tree.get(), at(objects_, kernel.object)});
      kernels.push_back(&kernel);
    }
    std::vector<std::unique_ptr<Compiled>> loaded = load_cpu(wanted, cpu);
    for (size_t i = 0; i < loaded.size(); ++i) kernels[i]->code = std::move(loaded[i]);
  }

  void compile_kernels() {
    for (ParsedKernel& kernel : kernels_) {
      kernel.code = backend_of(kernel)->compile(*kernel.tree).value();
    }
  }

  std::shared_ptr<const Backend> backend_of(const ParsedKernel& kernel) const {
    if (!kernel.device.empty()) return find_backend(kernel.device).value();
    return options_.cpu != "native" && !kernel.runs_once ? cpu_backend(options_.cpu) : here_;
  }

  // ---- statements ----

  void add(const TextBlock& block) {
    Cursor line(block.line, block.where);
    const std::string_view word = line.identifier("a statement");
    if (word == "kernel") return;
    if (word == "symbol") return program_.symbols.emplace_back(std::string(line.until("\n"))), void();
    if (word == "space") return add_space(line);
    if (word == "slot") return add_slot(line);
    if (word == "constants") return constants_.resize(history_.constants = parse_id(line, "a count"));
    if (word == "leaf") return add_leaf(line);
    if (word == "step") return add_step(line, block);
    if (word == "kept") return history_.kept = parse_ids(line, "a constant"), void();
    if (word == "packing") return add_packing(parse_id(line, "a slot"));
    if (word == "state") return add_state(leaf_of(graph(), parse_id(line, "a leaf")));
    if (word == "task") return program_.tasks.push_back(task_of(line, block)), void();
    if (word == "output") return add_output(line);
    if (word == "update") return add_update(line);
    if (word == "report") return add_report(line);
    if (word == "size") return add_size(line);
    if (word == "recomputed") return add_recomputed(line);
    fail_at(block.where, "a program's text has no statement '{}'", word);
  }

  void add_space(Cursor& line) {
    const std::string spec = line.string("the name of a device");
    const std::shared_ptr<runtime::Device> device = device_of(*find_backend(spec).value());
    if (!device) line.fail("backend {} has no memory of its own", spec);
    program_.spaces.push_back({spec, device});
  }

  void add_slot(Cursor& line) {
    Slot slot{.type = parse_type_in(line)};
    slot.kind = static_cast<SlotKind>(parse_word(line, kSlotKinds, "the kind of a slot"));
    slot.position = parse_id(line, "a position");
    slot.root = line.accept_word("root") ? parse_id(line, "a slot") : static_cast<uint32_t>(program_.slots.size());
    if (line.accept_word("over")) slot.over = parse_id(line, "a slot");
    if (line.accept_word("space")) slot.space = parse_id(line, "a space");
    if (slot.space > program_.spaces.size()) line.fail("there is no space {}", slot.space);
    program_.slots.push_back(std::move(slot));
  }

  Task task_of(Cursor& line, const TextBlock& block) const {
    Task task{.kind = static_cast<TaskKind>(parse_word(line, kTaskKinds, "the kind of a task")),
              .name = line.string("a name")};
    line.expect("group");
    task.group = parse_id(line, "a group");
    task.device = parse_device(line);
    if (line.accept_word("kernel")) {
      const ParsedKernel& kernel = at(kernels_, parse_id(line, "a kernel"));
      task.device = kernel.device;
      task.kernel = kernel.code;
      task.tree = kernel.tree;
    } else if (line.accept_word("segment")) {
      task.segment = parse_id(line, "a segment");
      line.expect("object");
      task.kernel = segment_code(task, parse_id(line, "an object"));
      task.segment_graph = at(segments_, *task.segment);
    } else if (task.kind != TaskKind::kTransfer) {
      task.body = std::make_shared<const Graph>(parse_graph(block.body).value());
    }
    if (task.kind == TaskKind::kDevice && task.kernel) task.launch_sizes = task.kernel->launch_sizes();
    if (line.accept_word("call")) task.call = line.integer("a call");
    task.ops = parse_ops(line);
    task.inputs = parse_ids(line, "a slot");
    line.expect("out");
    task.outputs = parse_ids(line, "a slot");
    if (line.accept_word("sizes")) task.sizes = parse_ids(line, "a symbol");
    task.location = parse_place(line);
    return task;
  }

  std::shared_ptr<const Compiled> segment_code(const Task& task, uint32_t object) const {
    const std::shared_ptr<const Backend> backend = find_backend(task.device).value();
    const DeviceBackend* const compiler = graph_compiler(*backend);
    if (compiler == nullptr) fail("backend {} does not compile graphs", task.device);
    const Graph& segment = *at(segments_, *task.segment);
    if (objects_.empty()) return compiler->compile_graph(segment);
    return compiler->load_graph(segment, *at(objects_, object));
  }

  void add_output(Cursor& line) {
    const uint32_t slot = parse_id(line, "a slot");
    program_.outputs.push_back({slot, line.accept_word("copied")});
  }

  void add_update(Cursor& line) {
    const uint32_t target = parse_id(line, "a slot");
    program_.updates.push_back({target, parse_id(line, "a slot")});
  }

  // ---- constants ----

  void add_leaf(Cursor& line) {
    const uint32_t constant = parse_id(line, "a constant");
    line.expect("of");
    const uint32_t number = parse_id(line, "a leaf");
    std::optional<uint32_t> segment;
    if (line.accept_word("in")) segment = parse_id(line, "a segment");
    at(constants_, constant) = leaf_of(segment ? *at(segments_, *segment) : graph(), number).data.contiguous();
    history_.leaves.push_back({constant, number, segment});
  }

  static std::vector<ConstantUse> parse_uses(Cursor& line) {
    std::vector<ConstantUse> uses;
    while (is_number(line.peek())) {
      const uint32_t constant = parse_id(line, "a constant");
      uses.push_back({constant, parse_type_in(line)});
    }
    return uses;
  }

  void add_step(Cursor& line, const TextBlock& block) {
    ConstantStep step;
    line.expect("in");
    step.inputs = parse_uses(line);
    line.expect("out");
    step.outputs = parse_uses(line);
    const std::vector<TextBlock> inside = parse_blocks(block.body, block.body_where);
    if (inside.size() != 1) fail_at(block.where, "a step has one preparation or one task, not {}", inside.size());
    Cursor what(inside[0].line, inside[0].where);
    if (what.accept_word("prepare")) {
      step.preparation = loops::parse(inside[0].body).value();
    } else {
      what.expect("task");
      step.task = task_of(what, inside[0]);
    }
    for (const auto* uses : {&step.inputs, &step.outputs}) {
      for (const ConstantUse& use : *uses) at(constants_, use.constant);
    }
    run_step(step, constants_, preparer_);
    if (step.preparation && step.inputs.size() == 1) {
      program_.packings.push_back({constant_of(constants_, step.inputs[0]), *step.preparation, kNoSlot,
                                   part_of(history_.steps, constants_, step.inputs[0])});
    }
    history_.steps.push_back(std::move(step));
  }

  void add_packing(uint32_t slot) { at(program_.packings, packings_++).slot = slot; }

  void add_state(const Leaf& leaf) {
    program_.leaves.push_back(leaf.data);
    program_.leaf_names.push_back(leaf.name);
  }

  // ---- the report ----

  static double parse_real(Cursor& line, std::string_view what) {
    const Location where = line.here();
    return parse_number<double>(line.number(what), where);
  }

  void add_report(Cursor& line) {
    report_.emplace();
    report_->budget = line.integer("bytes");
    report_->natural_bytes = line.integer("bytes");
    report_->bytes = line.integer("bytes");
    report_->work = parse_real(line, "work");
  }

  void add_size(Cursor& line) {
    const Symbol symbol(std::string(line.until(" ")));
    report_.value().sizes[symbol] = line.integer("a size");
  }

  void add_recomputed(Cursor& line) {
    Recomputation each{.type = parse_type_in(line)};
    each.bytes = line.integer("bytes");
    each.share = parse_real(line, "a share");
    line.expect("ops");
    while (!line.at_end() && line.peek() != '\0') {
      if (Location place = parse_place(line); place.known()) {
        each.location = std::move(place);
        break;
      }
      each.ops.emplace_back(line.name("an op"));
    }
    report_.value().recomputed.push_back(std::move(each));
  }

  const ProgramText& text_;
  const ProgramOptions& options_;
  std::vector<std::shared_ptr<const Graph>> segments_;
  std::shared_ptr<const Backend> here_;
  Program program_;
  Preparer preparer_;
  std::vector<std::shared_ptr<const std::string>> objects_;
  std::vector<ParsedKernel> kernels_;
  std::vector<Tensor> constants_;
  ConstantHistory history_;
  size_t packings_ = 0;
  std::optional<MemoryReport> report_;
};

}  // namespace

ProgramText text_of(const Program& program, const ConstantHistory& history) { return Printer(program, history).run(); }

ParsedProgram parse_program(const ProgramText& text, std::shared_ptr<const Graph> source, const Graph& ready,
                            const ProgramOptions& options, std::span<const std::shared_ptr<const Graph>> segments) {
  return Parser(text, std::move(source), ready, options, segments).run();
}

}  // namespace tenon
