#include "program/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "graph/evaluate.h"
#include "graph/library_call.h"
#include "graph/reference.h"
#include "graph/runtime_dtype.h"
#include "program/tables.h"
#include "runtime/context.h"
#include "runtime/error.h"
#include "runtime/out_of_range.h"
#include "support/checked.h"
#include "support/position_error.h"
#include "support/runtime_call.h"

namespace tenon {

using runtime::kAlignment;

Tensor new_tensor(DType dtype, Sizes shape) {
  const int64_t bytes = checked_mul(element_count(shape), size_of(dtype));
  const int64_t whole = checked_mul(checked_add(bytes, kAlignment) / kAlignment, kAlignment);
  void* memory = std::aligned_alloc(kAlignment, static_cast<size_t>(whole));
  if (memory == nullptr) fail("there is no memory for a tensor of {} bytes", bytes);
  Sizes strides = contiguous_strides(shape);
  return Tensor::borrow(dtype, std::move(shape), std::move(strides), memory, std::shared_ptr<void>(memory, std::free));
}

tenon_tensor described(const Tensor& tensor) {
  return {tensor.data(), static_cast<tenon_dtype>(tensor.dtype()), static_cast<int32_t>(tensor.rank()),
          tensor.shape().data(), tensor.strides().data()};
}

// ---- whole nodes ----------------------------------------------------------------------------------------------------

namespace {

// The sizes of a node's operands, in what its attributes and results say.
struct ConcreteNode {
  std::vector<TensorType> types;
  std::vector<const TensorType*> pointers;
  std::vector<Attr> attrs;
  std::vector<Tensor> operands;
  std::vector<Tensor> outputs;
};

Expr concrete(const Expr& expr, const symbolic::Bindings& bindings) {
  symbolic::Substitution known;
  for (Symbol symbol : symbols_of(expr)) {
    if (const auto found = bindings.find(symbol); found != bindings.end()) known.emplace(symbol, found->second);
  }
  return known.empty() ? expr : substitute(expr, known);
}

void make_concrete(std::vector<Attr>& attrs, const symbolic::Bindings& bindings) {
  for (Attr& attr : attrs) {
    if (auto* expr = std::get_if<Expr>(&attr)) *expr = concrete(*expr, bindings);
    if (auto* exprs = std::get_if<std::vector<Expr>>(&attr)) {
      for (Expr& expr : *exprs) expr = concrete(expr, bindings);
    }
  }
}

// With the sizes that are known: the shapes of its inputs may not tell them.
Graph concrete_graph(const Graph& body, const symbolic::Bindings& bindings) {
  Graph result(body.name());
  std::map<ValueRef, ValueRef> moved = {{ValueRef(), ValueRef()}};
  for (const Leaf& leaf : body.leaves()) {
    TensorType type = body.type(leaf.value);
    for (Expr& size : type.shape) size = concrete(size, bindings);
    moved[leaf.value] = result.copy_leaf(leaf, type);
  }
  for (const Node& node : body.nodes()) {
    std::vector<ValueRef> operands;
    for (ValueRef operand : node.operands) operands.push_back(moved.at(operand));
    std::vector<Attr> attrs = node.attrs;
    make_concrete(attrs, bindings);
    const NodeRef copy = result.add_node(*node.op, std::move(operands), std::move(attrs), node.location);
    for (size_t i = 0; i < node.results.size(); ++i) moved[node.results[i]] = result.node(copy).results[i];
  }
  std::vector<ValueRef> outputs;
  for (ValueRef output : body.outputs()) outputs.push_back(moved.at(output));
  result.set_outputs(std::move(outputs));
  return result;
}

ConcreteNode concrete_node(const Graph& body, const Node& node, const std::vector<Tensor>& inputs,
                           const symbolic::Bindings& bindings) {
  ConcreteNode result;
  result.types.reserve(node.operands.size());
  for (ValueRef operand : node.operands) {
    const Leaf* leaf = operand ? body.leaf(operand) : nullptr;
    const bool is_input = leaf != nullptr && leaf->kind == LeafKind::kInput;
    result.operands.push_back(leaf == nullptr ? Tensor() : is_input ? inputs[leaf->ordinal] : leaf->data);
    result.types.push_back(operand ? type_of(result.operands.back()) : TensorType());
    result.pointers.push_back(operand ? &result.types.back() : nullptr);
  }
  result.attrs = node.attrs;
  make_concrete(result.attrs, bindings);
  for (ValueRef output : node.results) {
    Shape shape;
    for (const Expr& size : body.type(output).shape) shape.push_back(concrete(size, bindings));
    const bool is_known = is_static(shape);
    result.outputs.push_back(is_known ? Tensor::zeros(body.type(output).dtype, evaluate(shape, {})) : Tensor());
  }
  return result;
}

}  // namespace

std::vector<Tensor> run_whole(const Graph& body, const std::vector<Tensor>& inputs, const symbolic::Bindings& sizes) {
  const Node& node = body.nodes()[0];
  if (body.nodes().size() != 1 || !has_library_function(*node.op))
    return evaluate(concrete_graph(body, sizes), inputs).value();
  ConcreteNode concrete = concrete_node(body, node, inputs, sizes);
  ReferenceContext context(*node.op, concrete.pointers, concrete.attrs, std::move(concrete.operands),
                           std::move(concrete.outputs));
  run_library_function(context);
  std::vector<Tensor> results = std::move(context).take_outputs();
  std::vector<Tensor> wanted;
  for (ValueRef output : body.outputs()) {
    const auto position = std::ranges::find(node.results, output) - node.results.begin();
    wanted.push_back(results[static_cast<size_t>(position)]);
  }
  return wanted;
}

std::vector<Tensor> run_task_once(const Task& task, const std::vector<TensorType>& results,
                                  const std::vector<Tensor>& inputs) {
  if (task.kind != TaskKind::kKernel) return run_whole(*task.body, inputs, {});
  std::vector<Tensor> outputs;
  std::vector<void*> memory;
  for (const Tensor& input : inputs) memory.push_back(input.data());
  for (const TensorType& type : results) {
    memory.push_back(outputs.emplace_back(new_tensor(type.dtype, evaluate(type.shape, {}))).data());
  }
  task.kernel->run(memory);
  return outputs;
}

// ---- a run ----------------------------------------------------------------------------------------------------------

namespace {

constexpr size_t kMostFreeContexts = 4;

// Tasks that the runtime cannot run by itself.
class FallbackTasks {
 public:
  FallbackTasks(std::vector<Task> tasks, std::vector<Symbol> symbols, FallbackFn fallback)
      : tasks_(std::move(tasks)), symbols_(std::move(symbols)), fallback_(std::move(fallback)) {}

  std::vector<runtime::FallbackResult> operator()(uint32_t number, std::span<const runtime::TensorView> views,
                                                  std::span<const int64_t> sizes) const {
    const Task& task = tasks_[number];
    std::vector<Tensor> operands;
    for (const runtime::TensorView& view : views) operands.push_back(borrowed(view));
    std::vector<Tensor> results = task.kind == TaskKind::kExternal
                                      ? wanted_of(task, fallback_(task.call, operands))
                                      : run_whole(*task.body, operands, known_sizes(sizes));
    std::vector<runtime::FallbackResult> given;
    for (size_t i = 0; i < results.size(); ++i) {
      given.push_back(result_of(results[i], task.body->type(task.body->outputs()[i]), operands));
      operands.push_back(results[i]);  // nor may a later result share its memory
    }
    return given;
  }

 private:
  static Tensor borrowed(const runtime::TensorView& view) {
    Sizes shape(view.shape.begin(), view.shape.end());
    Sizes strides = contiguous_strides(shape);
    return Tensor::borrow(static_cast<DType>(view.dtype), std::move(shape), std::move(strides), view.data, nullptr);
  }

  symbolic::Bindings known_sizes(std::span<const int64_t> sizes) const {
    symbolic::Bindings bindings;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] != runtime::kUnknown) bindings[symbols_[i]] = sizes[i];
    }
    return bindings;
  }

  // The fallback gives all results of the call; those that nothing needs have no slot.
  static std::vector<Tensor> wanted_of(const Task& task, const std::vector<Tensor>& results) {
    const Node& node = task.body->nodes().back();
    if (results.size() != node.results.size())
      fail("the call gave {} results, where {} were promised", results.size(), node.results.size());
    std::vector<Tensor> wanted;
    for (ValueRef output : task.body->outputs()) {
      wanted.push_back(results[static_cast<size_t>(std::ranges::find(node.results, output) - node.results.begin())]);
    }
    return wanted;
  }

  static runtime::FallbackResult result_of(const Tensor& result, const TensorType& type,
                                           const std::vector<Tensor>& others) {
    if (!result.defined() || result.dtype() != type.dtype || result.rank() != type.rank()) {
      fail("a result must be {}, got {}", to_string(type), result.defined() ? to_string(type_of(result)) : "nothing");
    }
    const bool shares = std::ranges::any_of(others, [&](const Tensor& x) { return x.shares_memory_with(result); });
    const Tensor own = shares ? result.copy() : result.contiguous();
    return {own.shape(), own.data(), own.owner()};
  }

  std::vector<Task> tasks_;
  std::vector<Symbol> symbols_;
  FallbackFn fallback_;
};

runtime::KernelEntry entry_of(const Program& program, const Task& task) {
  const std::shared_ptr<const Compiled>& kernel = task.kernel;
  if (task.kind == TaskKind::kDevice)
    return {.device = kernel->device_program(), .space = program.slots[task.outputs[0]].space};
  if (tenon_kernel native = kernel->native()) {
    return {.native = native,
            .node_name = [tree = task.tree](int64_t node) { return tree->ir.nodes()[static_cast<size_t>(node)].name; }};
  }
  return {
      .call = [kernel](std::span<void* const> memory, std::span<const int64_t> sizes) { kernel->run(memory, sizes); }};
}

}  // namespace

ProgramRunner::ProgramRunner(const Program& program)
    : tables_(program_tables(program)),
      budget_(program.budget.value_or(runtime::kNoBudget)),
      device_budgets_(program.device_budgets) {
  runtime::LoadedProgram::Parts parts{.tables = std::as_bytes(std::span(tables_))};
  for (const Tensor& constant : program.constants) parts.constants.push_back(constant.data());
  for (const Tensor& leaf : program.leaves) {
    if (program.keeps_states) parts.states.push_back(leaf.data());
  }
  for (const Task& task : program.tasks) {
    if (task.kernel) parts.kernels.push_back(entry_of(program, task));
  }
  for (const ProgramSpace& space : program.spaces) parts.devices.push_back(space.handle);
  parts.fallback = FallbackTasks(program.tasks, program.symbols, program.fallback);
  program_ = call_runtime([&] { return std::make_shared<const runtime::LoadedProgram>(std::move(parts)); });
  if (const std::shared_ptr<const runtime::Frame> frame = program_->last_frame()) {  // of static sizes
    call_runtime([&] { runtime::check_device_budgets(program_->graph(), *frame, device_budgets_); });
  }
  if (program.keeps_states) states_ = std::make_shared<runtime::States>(runtime::states_of({program_}));
}

std::unique_ptr<runtime::Context> ProgramRunner::take() const {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<runtime::Context> context = std::move(free_.back());
      free_.pop_back();
      return context;
    }
  }
  return make_context({.budget = budget_, .device_budgets = device_budgets_});
}

std::unique_ptr<runtime::Context> ProgramRunner::make_context(const runtime::ContextOptions& options,
                                                              std::shared_ptr<runtime::States> states) const {
  return call_runtime(
      [&] { return std::make_unique<runtime::Context>(program_, options, states ? std::move(states) : states_); });
}

void ProgramRunner::give_back(std::unique_ptr<runtime::Context> context) const {
  context->forget_results();
  const std::lock_guard lock(mutex_);
  if (free_.size() < kMostFreeContexts) free_.push_back(std::move(context));
}

void ProgramRunner::free_memory() const {
  const std::lock_guard lock(mutex_);
  free_.clear();
}

std::vector<Tensor> ProgramRunner::run(const Program& program, std::span<const Tensor> inputs,
                                       DevicePlaces* places) const {
  std::unique_ptr<runtime::Context> context = take();
  std::vector<Tensor> outputs = run_in(*context, program, inputs, places);
  give_back(std::move(context));
  return outputs;
}

std::vector<Tensor> ProgramRunner::run_in(runtime::Context& context, const Program& program,
                                          std::span<const Tensor> inputs, DevicePlaces* places) {
  DevicePlaces nowhere;
  if (places == nullptr) places = &nowhere;
  check_inputs(program, inputs, *places);
  try {
    const std::span<const Tensor> leaves = program.keeps_states ? std::span<const Tensor>() : program.leaves;
    return run_context(context, program.runner->program_->graph(), inputs, leaves, *places);
  } catch (const runtime::OutOfRange& error) {
    throw PositionError(located(program, context.failed_task(), error.message(), {}));
  } catch (const runtime::StatusError& error) {
    throw Error(located(program, context.failed_task(), error.message(), {}));
  } catch (const Error& error) {
    throw Error(located(program, context.failed_task(), error.diagnostic().message, error.diagnostic().where));
  }
}

Diagnostic ProgramRunner::located(const Program& program, uint32_t task, const std::string& message, Location where) {
  if (task == runtime::kNone) return {message, std::move(where)};
  const Task& failed = program.tasks[task];
  return {fmt::format("{}: {}", failed.name, message), where.known() ? where : failed.location};
}

// ---- tensors on devices ----

namespace {

tenon_tensor type_of(const TensorOnDevice& tensor) {
  return {nullptr, static_cast<tenon_dtype>(tensor.dtype), static_cast<int32_t>(tensor.shape.size()),
          tensor.shape.data(), nullptr};
}

TensorOnDevice new_on_device(DType dtype, Sizes shape, const std::shared_ptr<runtime::Device>& device) {
  const int64_t bytes = checked_mul(element_count(shape), size_of(dtype));
  return {dtype, std::move(shape), std::make_shared<runtime::DeviceTensor>(runtime::DeviceBlock(device, bytes))};
}

}  // namespace

namespace {

TensorOnDevice filled(TensorOnDevice made, const Tensor& tensor) {
  const std::shared_ptr<runtime::Device>& device = made.memory->device();
  const Tensor whole = tensor.contiguous();
  device->wait(device->copy_in(made.memory->memory_on(device), whole.data(), made.memory->bytes()));
  return made;
}

}  // namespace

TensorOnDevice to_device(const Tensor& tensor, const std::shared_ptr<runtime::Device>& device) {
  return filled(new_on_device(tensor.dtype(), tensor.shape(), device), tensor);
}

TensorOnDevice DevicePlaces::new_output(size_t output, DType dtype, Sizes shape) const {
  return allocate ? allocate(output, dtype, shape) : new_on_device(dtype, std::move(shape), device);
}

TensorOnDevice DevicePlaces::moved_output(size_t output, const Tensor& value) const {
  return filled(new_output(output, value.dtype(), value.shape()), value);
}

Tensor to_host(const TensorOnDevice& tensor) {
  Sizes strides = contiguous_strides(tensor.shape);
  return Tensor::borrow(tensor.dtype, tensor.shape, std::move(strides), tensor.memory->on_host(), nullptr).copy();
}

void set_inputs(runtime::Context& context, std::span<const Tensor> inputs, const DevicePlaces& places) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto there = places.inputs.find(i);
    if (there == places.inputs.end()) {
      context.set_input(i, described(inputs[i]));
    } else {
      context.set_input(i, type_of(there->second), there->second.memory);
    }
  }
}

// A size that a task computes is known after the run only: such a result is moved then.
void keep_outputs(runtime::Context& context, const runtime::TaskGraph& graph, DevicePlaces& places) {
  for (size_t i : places.kept) {
    if (context.is_late(i)) continue;
    const std::span<const int64_t> shape = context.shape_of_output(i);
    const auto dtype = static_cast<DType>(graph.slots[graph.outputs[i].slot].dtype);
    TensorOnDevice tensor = places.new_output(i, dtype, {shape.begin(), shape.end()});
    context.set_output(i, type_of(tensor), tensor.memory);
    places.outputs.emplace(i, std::move(tensor));
  }
}

// ---- a run ----

std::vector<Tensor> run_context(runtime::Context& context, const runtime::TaskGraph& graph,
                                std::span<const Tensor> inputs, std::span<const Tensor> leaves) {
  DevicePlaces nowhere;
  return run_context(context, graph, inputs, leaves, nowhere);
}

std::vector<Tensor> run_context(runtime::Context& context, const runtime::TaskGraph& graph,
                                std::span<const Tensor> inputs, std::span<const Tensor> leaves, DevicePlaces& places) {
  set_inputs(context, inputs, places);
  for (size_t i = 0; i < leaves.size(); ++i) context.set_input(inputs.size() + i, described(leaves[i]));
  context.prepare();
  keep_outputs(context, graph, places);
  std::vector<Tensor> outputs(graph.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (context.is_late(i) || places.kept.contains(i)) continue;
    const std::span<const int64_t> shape = context.shape_of_output(i);
    const auto dtype = static_cast<DType>(graph.slots[graph.outputs[i].slot].dtype);
    outputs[i] = new_tensor(dtype, {shape.begin(), shape.end()});
    context.set_output(i, described(outputs[i]));
  }
  context.run();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].defined() || places.outputs.contains(i)) continue;
    const runtime::Output late = context.output(i);
    Sizes shape(late.view.shape.begin(), late.view.shape.end());
    Sizes strides = contiguous_strides(shape);
    const Tensor result = Tensor::borrow(static_cast<DType>(late.view.dtype), std::move(shape), std::move(strides),
                                         late.view.data, late.owner);
    outputs[i] = late.owner ? result : result.copy();
    if (!places.kept.contains(i)) continue;
    places.outputs.emplace(i, places.moved_output(i, outputs[i]));
    outputs[i] = {};
  }
  return outputs;
}

// ---- what the runtime does not look at ----

void ProgramRunner::check_inputs(const Program& program, std::span<const Tensor> inputs, const DevicePlaces& places) {
  const Graph& graph = program.graph;
  if (inputs.size() != program.inputs.size()) {
    fail("program {} takes {} inputs, got {}", graph.name(), program.inputs.size(), inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() || places.inputs.contains(i)) continue;
    fail("input '{}' must be {}, got nothing", graph.leaf(program.inputs[i])->name,
         to_string(graph.type(program.inputs[i])));
  }
  const ProgramRunner& runner = *program.runner;
  for (size_t i = 0; i < program.updates.size(); ++i) {
    const Slot& target = program.slots[program.updates[i].target];
    if (target.kind == SlotKind::kInput && places.inputs.contains(target.position)) continue;  // has memory of its own
    check_update(program, inputs, i, runner.leaves_are_checked_);
  }
  runner.leaves_are_checked_ = true;
}

// Leaves stay where they are: of what only they can do wrong, one check is enough. A model has thousands to update.
void ProgramRunner::check_update(const Program& program, std::span<const Tensor> inputs, size_t number,
                                 bool leaves_are_checked) {
  const auto slot_of = [&](size_t i) -> const Slot& { return program.slots[program.updates[i].target]; };
  const auto target_of = [&](size_t i) -> const Tensor& {
    return slot_of(i).kind == SlotKind::kInput ? inputs[slot_of(i).position] : program.leaves[slot_of(i).position];
  };
  if (leaves_are_checked && slot_of(number).kind == SlotKind::kLeaf) return;
  const auto name_of_target = [&](size_t i) { return program.graph.leaf(program.graph.updates()[i].target)->name; };
  const Tensor& target = target_of(number);
  if (target.access() == Access::kReadOnly)
    fail("'{}' is updated, but its memory is read-only", name_of_target(number));
  if (target.overlaps_itself())
    fail("'{}' is updated, but its elements share memory: give a copy", name_of_target(number));
  const size_t others = leaves_are_checked ? program.updates.size() : number;
  for (size_t j = 0; j < others; ++j) {
    if (j == number || !target_of(j).defined() || !target.shares_memory_with(target_of(j))) continue;
    fail("'{}' and '{}' are both updated, but share memory: give copies", name_of_target(number), name_of_target(j));
  }
}

int64_t ProgramRunner::arena_bytes() const {
  const std::shared_ptr<const runtime::Frame> frame = program_->last_frame();
  return frame ? frame->arena_bytes : 0;
}

std::string_view name_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::kKernel:
      return "kernel";
    case TaskKind::kLibrary:
      return "library";
    case TaskKind::kReference:
      return "reference";
    case TaskKind::kExternal:
      return "external";
    case TaskKind::kDevice:
      return "device";
    case TaskKind::kTransfer:
      return "transfer";
  }
  return "";
}

Program new_program(std::shared_ptr<const Graph> source, Graph graph, const ProgramOptions& options) {
  return {.source = std::move(source),
          .graph = std::move(graph),
          .cpu = options.cpu,
          .fallback = options.fallback,
          .assertions = options.assertions,
          .budget = options.budget ? std::optional(*options.budget - bytes_of(options.kept)) : std::nullopt,
          .device_budgets = options.device_budgets,
          .keeps_states = options.keeps_states};
}

std::vector<Tensor> Program::run(std::span<const Tensor> arguments) const { return runner->run(*this, arguments); }

bool Program::uses_devices() const {
  const auto is_foreign = [](const Task& task) { return !task.device.empty(); };
  return std::ranges::any_of(tasks, is_foreign);
}

size_t Program::constant_bytes() const {
  size_t bytes = 0;
  for (const Tensor& constant : constants) bytes += static_cast<size_t>(constant.numel() * size_of(constant.dtype()));
  return bytes;
}

int64_t Program::arena_bytes() const { return runner->arena_bytes(); }

void Program::free_memory() const { runner->free_memory(); }

}  // namespace tenon
