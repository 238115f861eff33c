#include "program/plan.h"

#include <map>
#include <set>

#include "backends/cpu/cpu.h"
#include "format/plan_generated.h"
#include "program/history.h"
#include "program/run.h"
#include "program/tables.h"

namespace tenon {
namespace {

using format::PlanT;
using format::PlanTaskT;

template <class T>
std::unique_ptr<T> boxed(T value) {
  return std::make_unique<T>(std::move(value));
}

// Numbers what is the same alike.
template <class Key>
class Numbers {
 public:
  // Whether it is new, too.
  std::pair<uint32_t, bool> add(const Key& key) {
    const auto [found, is_new] = numbers_.try_emplace(key, static_cast<uint32_t>(numbers_.size()));
    return {found->second, is_new};
  }

 private:
  std::map<Key, uint32_t> numbers_;
};

std::unique_ptr<format::PlanPlaceT> place_of(const Location& location) {
  format::PlanPlaceT place;
  place.file = location.file;
  place.line = location.line;
  place.column = location.column;
  return boxed(std::move(place));
}

Location location_of(const format::PlanPlaceT& place) { return {place.file, place.line, place.column}; }

}  // namespace

// ---- writing --------------------------------------------------------------------------------------------------------

class PlanWriter {
 public:
  explicit PlanWriter(const Program& program) : program_(program), history_(*program.history_) {}

  std::string run() {
    for (Symbol symbol : program_.symbols_) plan_.symbols.push_back(symbol.name());
    for (const Slot& slot : program_.slots_) {
      plan_.slots.emplace_back(number_of(slot.type), slot.root, slot.position, slot.over,
                               static_cast<uint32_t>(slot.kind));
    }
    for (const Task& task : program_.tasks_) plan_.tasks.push_back(task_of(task, false));
    add_constants();
    add_states();
    for (const auto& output : program_.outputs_) plan_.outputs.emplace_back(output.slot, output.is_copied);
    for (const auto& update : program_.updates_) plan_.updates.emplace_back(update.target, update.value);
    if (program_.memory_report_) add_report(*program_.memory_report_);
    flatbuffers::FlatBufferBuilder b;
    format::FinishPlanBuffer(b, format::Plan::Pack(b, &plan_));
    return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
  }

 private:
  uint32_t number_of(const TensorType& type) {
    const std::string text = to_string(type);
    const auto [number, is_new] = types_.add(text);
    if (is_new) plan_.types.push_back(text);
    return number;
  }

  uint32_t object_of(const Compiled& kernel) {
    const std::string_view object = tenon::object_of(kernel);
    check(!object.empty(), "a kernel without an object in a plan");
    const auto [number, is_new] = objects_.add(object);
    if (!is_new) return number;
    format::PlanObjectT entry;
    entry.bytes.assign(object.begin(), object.end());
    plan_.objects.push_back(boxed(std::move(entry)));
    return number;
  }

  uint32_t kernel_of(const Task& task, bool runs_once) {
    format::PlanKernelT entry;
    entry.loops = to_string(task.tree->ir);
    entry.object = object_of(*task.kernel);
    entry.runs_once = runs_once;
    const auto [number, is_new] = kernels_.add({entry.loops, entry.object, runs_once});
    if (is_new) plan_.kernels.push_back(boxed(std::move(entry)));
    return number;
  }

  std::unique_ptr<PlanTaskT> task_of(const Task& task, bool runs_once) {
    PlanTaskT entry;
    entry.kind = static_cast<uint32_t>(task.kind);
    entry.name = task.name;
    entry.ops = task.ops;
    entry.place = place_of(task.location);
    entry.inputs = task.inputs;
    entry.outputs = task.outputs;
    entry.group = task.group;
    entry.sizes = task.sizes;
    if (task.kind == TaskKind::kKernel) entry.kernel = kernel_of(task, runs_once);
    if (task.body) entry.body = to_string(*task.body);
    entry.call = task.call;
    return boxed(std::move(entry));
  }

  std::vector<format::PlanUse> uses_of(const std::vector<ConstantUse>& uses) {
    std::vector<format::PlanUse> result;
    for (const ConstantUse& use : uses) result.emplace_back(use.constant, number_of(use.type));
    return result;
  }

  void add_constants() {
    plan_.constants = history_.constants;
    plan_.kept = history_.kept;
    for (const auto& [constant, leaf] : history_.leaves) plan_.leaves.emplace_back(constant, leaf);
    for (const ConstantStep& step : history_.steps) {
      format::PlanStepT entry;
      entry.inputs = uses_of(step.inputs);
      entry.outputs = uses_of(step.outputs);
      if (step.preparation) entry.preparation = to_string(*step.preparation);
      if (step.task) entry.task = task_of(*step.task, true);
      plan_.steps.push_back(boxed(std::move(entry)));
    }
    for (const Packing& packing : program_.packings_) plan_.packings.push_back(packing.slot);
  }

  void add_states() {
    for (const std::string& name : program_.leaf_names_) {
      plan_.states.push_back(static_cast<uint32_t>(program_.graph_.leaf_named(name) - program_.graph_.leaves().data()));
    }
  }

  void add_report(const MemoryReport& report) {
    format::PlanReportT entry;
    entry.budget = report.budget;
    entry.natural_bytes = report.natural_bytes;
    entry.bytes = report.bytes;
    entry.work = report.work;
    for (const Recomputation& each : report.recomputed) {
      format::PlanRecomputationT part;
      part.ops = each.ops;
      part.place = place_of(each.location);
      part.type = number_of(each.type);
      part.bytes = each.bytes;
      part.share = each.share;
      entry.recomputed.push_back(boxed(std::move(part)));
    }
    for (const auto& [symbol, size] : report.sizes) {
      entry.symbols.push_back(symbol.name());
      entry.sizes.push_back(size);
    }
    plan_.report = boxed(std::move(entry));
  }

  const Program& program_;
  const ConstantHistory& history_;
  PlanT plan_;
  Numbers<std::string> types_;
  Numbers<std::string_view> objects_;
  Numbers<std::tuple<std::string, uint32_t, bool>> kernels_;
};

std::string plan_of(const Program& program) { return PlanWriter(program).run(); }

// ---- reading --------------------------------------------------------------------------------------------------------

namespace {

std::unique_ptr<PlanT> unpacked(std::string_view bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (!format::VerifyPlanBuffer(verifier)) fail("a plan is not well-formed");
  return format::UnPackPlan(bytes.data());
}

}  // namespace

class PlanReader {
 public:
  PlanReader(std::string_view bytes, const Graph& source, const Graph& ready, const ProgramOptions& options)
      : plan_(unpacked(bytes)),
        here_(find_backend(options.backend).value()),
        options_(options),
        program_(source, ready, options) {}

  Program run() {
    for (const std::string& text : plan_->types) types_.push_back(parse_type(text).value());
    load_kernels();
    for (const std::string& name : plan_->symbols) program_.symbols_.emplace_back(name);
    program_.bindings_ = bind_symbols(graph());
    program_.inputs_ = graph().inputs();
    for (const format::PlanSlot& slot : plan_->slots) {
      program_.slots_.push_back({.type = types_.at(slot.type()),
                                 .kind = static_cast<SlotKind>(slot.kind()),
                                 .root = slot.root(),
                                 .position = slot.position(),
                                 .over = slot.over()});
    }
    for (const auto& task : plan_->tasks) program_.tasks_.push_back(task_of(*task));
    make_constants();
    for (uint32_t leaf : plan_->states) add_state(graph().leaves().at(leaf));
    for (const format::PlanOutput& output : plan_->outputs)
      program_.outputs_.push_back({output.slot(), output.is_copied()});
    for (const format::PlanUpdate& update : plan_->updates)
      program_.updates_.push_back({update.target(), update.value()});
    if (plan_->report) add_report(*plan_->report);
    program_.runner_ = std::make_shared<const ProgramRunner>(program_);
    program_.is_from_cache_ = true;
    return std::move(program_);
  }

 private:
  const Graph& graph() const { return program_.graph_; }

  void load_kernels() {
    for (const auto& object : plan_->objects)
      objects_.push_back(std::make_shared<const std::string>(object->bytes.begin(), object->bytes.end()));
    for (const auto& kernel : plan_->kernels) {
      trees_.push_back(std::make_shared<const loops::LoopTree>(loops::parse(kernel->loops).value()));
    }
    kernels_.resize(plan_->kernels.size());
    load_kernels(options_.cpu, false);
    load_kernels("native", true);
  }

  void load_kernels(const std::string& cpu, bool run_once) {
    std::vector<KernelObject> wanted;
    std::vector<size_t> numbers;
    for (size_t i = 0; i < plan_->kernels.size(); ++i) {
      const format::PlanKernelT& kernel = *plan_->kernels[i];
      if (kernel.runs_once != run_once) continue;
      wanted.push_back({trees_[i].get(), objects_.at(kernel.object)});
      numbers.push_back(i);
    }
    std::vector<std::unique_ptr<Compiled>> loaded = load_cpu(wanted, cpu);
    for (size_t i = 0; i < loaded.size(); ++i) kernels_[numbers[i]] = std::move(loaded[i]);
  }

  Task task_of(const PlanTaskT& from) const {
    Task task{.kind = static_cast<TaskKind>(from.kind),
              .name = from.name,
              .ops = from.ops,
              .location = location_of(*from.place),
              .inputs = from.inputs,
              .outputs = from.outputs,
              .group = from.group,
              .sizes = from.sizes,
              .call = from.call};
    if (task.kind == TaskKind::kKernel) {
      task.kernel = kernels_.at(from.kernel);
      task.tree = trees_.at(from.kernel);
    } else {
      task.body = std::make_shared<const Graph>(parse_graph(from.body).value());
    }
    return task;
  }

  std::vector<ConstantUse> uses_of(const std::vector<format::PlanUse>& from) const {
    std::vector<ConstantUse> uses;
    for (const format::PlanUse& use : from) uses.push_back({use.constant(), types_.at(use.type())});
    return uses;
  }

  void make_constants() {
    std::vector<Tensor> constants(plan_->constants);
    for (const format::PlanLeaf& from : plan_->leaves)
      constants.at(from.constant()) = graph().leaves().at(from.leaf()).data.contiguous();
    Preparer preparer(*here_);
    for (const auto& from : plan_->steps) {
      ConstantStep step{.inputs = uses_of(from->inputs), .outputs = uses_of(from->outputs)};
      if (from->task) {
        step.task = task_of(*from->task);
      } else {
        step.preparation = loops::parse(from->preparation).value();
      }
      run_step(step, constants, preparer);
      if (step.preparation && step.inputs.size() == 1) add_packing(step, constants);
    }
    for (uint32_t constant : plan_->kept) program_.constants_.push_back(constants.at(constant));
  }

  void add_packing(const ConstantStep& step, const std::vector<Tensor>& constants) {
    const uint32_t slot = plan_->packings.at(program_.packings_.size());
    program_.packings_.push_back({constant_of(constants, step.inputs[0]), *step.preparation, slot});
  }

  void add_state(const Leaf& leaf) {
    program_.leaves_.push_back(leaf.data);
    program_.leaf_names_.push_back(leaf.name);
  }

  void add_report(const format::PlanReportT& from) {
    MemoryReport report{
        .budget = from.budget, .natural_bytes = from.natural_bytes, .bytes = from.bytes, .work = from.work};
    for (const auto& part : from.recomputed) {
      report.recomputed.push_back(
          {part->ops, location_of(*part->place), types_.at(part->type), part->bytes, part->share});
    }
    for (size_t i = 0; i < from.symbols.size(); ++i) report.sizes[Symbol(from.symbols[i])] = from.sizes.at(i);
    program_.memory_report_ = std::make_shared<const MemoryReport>(std::move(report));
  }

  std::unique_ptr<PlanT> plan_;
  std::shared_ptr<const Backend> here_;
  const ProgramOptions& options_;
  Program program_;
  std::vector<TensorType> types_;
  std::vector<std::shared_ptr<const std::string>> objects_;
  std::vector<std::shared_ptr<const loops::LoopTree>> trees_;
  std::vector<std::shared_ptr<const Compiled>> kernels_;
};

Program program_of(std::string_view plan, const Graph& source, const Graph& ready, const ProgramOptions& options) {
  return PlanReader(plan, source, ready, options).run();
}

}  // namespace tenon
