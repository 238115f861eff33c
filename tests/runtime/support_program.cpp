#include "tests/runtime/support_program.h"

#include "runtime/error.h"

namespace tenon::runtime::test {

Expr ProgramTables::code(std::initializer_list<Instruction> instructions) {
  const Expr expr(static_cast<uint32_t>(program.code.size()), static_cast<uint32_t>(instructions.size()));
  program.code.insert(program.code.end(), instructions);
  return expr;
}

uint32_t ProgramTables::slot(SlotKind kind, size_t position, std::vector<Expr> shape) {
  auto slot = std::make_unique<format::SlotT>();
  slot->dtype = format::DType::F32;
  slot->kind = kind;
  slot->root = static_cast<uint32_t>(program.slots.size());
  slot->position = static_cast<uint32_t>(position);
  slot->shape = std::move(shape);
  program.slots.push_back(std::move(slot));
  return program.slots.back()->root;
}

uint32_t ProgramTables::input(std::vector<Expr> shape) {
  const uint32_t id = slot(SlotKind::Input, program.inputs.size(), std::move(shape));
  auto input = std::make_unique<format::ArgumentT>();
  input->name = "x" + std::to_string(program.inputs.size());
  input->slot = id;
  program.inputs.push_back(std::move(input));
  return id;
}

uint32_t ProgramTables::state(std::vector<Expr> shape) {
  program.states.emplace_back(0, 0);
  return slot(SlotKind::State, program.states.size() - 1, std::move(shape));
}

uint32_t ProgramTables::constant(std::vector<Expr> shape) {
  program.constants.emplace_back(0, 0);
  return slot(SlotKind::Constant, program.constants.size() - 1, std::move(shape));
}

uint32_t ProgramTables::output(std::vector<Expr> shape) {
  const uint32_t id = slot(SlotKind::Output, program.outputs.size(), std::move(shape));
  result(id);
  return id;
}

uint32_t ProgramTables::alias(uint32_t root, std::vector<Expr> shape) {
  const uint32_t id = slot(program.slots[root]->kind, program.slots[root]->position, std::move(shape));
  program.slots[id]->root = root;
  return id;
}

void ProgramTables::result(uint32_t slot, bool is_copied) {
  auto result = std::make_unique<format::ResultT>();
  result->name = "y" + std::to_string(program.outputs.size());
  result->slot = slot;
  result->is_copied = is_copied;
  program.outputs.push_back(std::move(result));
}

void ProgramTables::bind(std::string name, uint32_t input, uint32_t dim) {
  find(std::move(name));
  program.bindings.emplace_back(input, dim, 1, number(0));
}

void ProgramTables::find(std::string name) {
  auto symbol = std::make_unique<format::SymbolT>();
  symbol->name = std::move(name);
  symbol->low = 1;
  symbol->high = 64;
  program.symbols.push_back(std::move(symbol));
}

uint32_t ProgramTables::task(TaskKind kind, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs) {
  auto task = std::make_unique<format::TaskT>();
  task->kind = kind;
  task->name = "task" + std::to_string(program.tasks.size());
  task->inputs = std::move(inputs);
  task->outputs = std::move(outputs);
  program.tasks.push_back(std::move(task));
  return static_cast<uint32_t>(program.tasks.size() - 1);
}

uint32_t ProgramTables::kernel(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs,
                               std::vector<uint32_t> sizes) {
  const uint32_t id = task(TaskKind::Kernel, std::move(inputs), std::move(outputs));
  program.tasks[id]->kernel = static_cast<uint32_t>(program.kernels.size());
  program.tasks[id]->sizes = std::move(sizes);
  program.kernels.push_back(std::make_unique<format::KernelCodeT>());
  return id;
}

uint32_t ProgramTables::library(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs,
                                std::vector<Expr> numbers) {
  const uint32_t id = task(TaskKind::Library, std::move(inputs), std::move(outputs));
  program.tasks[id]->function = "sort";
  program.tasks[id]->numbers = std::move(numbers);
  return id;
}

uint32_t ProgramTables::fallback(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs) {
  return task(TaskKind::Fallback, std::move(inputs), std::move(outputs));
}

uint32_t ProgramTables::device(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs) {
  const uint32_t id = kernel(std::move(inputs), std::move(outputs));
  program.tasks[id]->kind = TaskKind::Device;
  return id;
}

uint32_t ProgramTables::transfer(uint32_t from, uint32_t to) { return task(TaskKind::Transfer, {from}, {to}); }

uint16_t ProgramTables::space(std::string device) {
  auto space = std::make_unique<format::SpaceT>();
  space->identity = device + " 1";
  space->device = std::move(device);
  program.spaces.push_back(std::move(space));
  return static_cast<uint16_t>(program.spaces.size());
}

uint32_t ProgramTables::put(uint32_t slot, uint16_t space) {
  program.slots[slot]->space = space;
  return slot;
}

void ProgramTables::update(uint32_t target, uint32_t value) {
  auto update = std::make_unique<format::UpdateT>();
  update->target = target;
  update->value = value;
  program.updates.push_back(std::move(update));
}

TaskGraph ProgramTables::read() {
  packed_.Clear();
  packed_.Finish(format::Program::Pack(packed_, &program), format::ProgramIdentifier());
  return read_task_graph(*format::GetProgram(packed_.GetBufferPointer()));
}

std::string ProgramTables::error() {
  try {
    read();
    return "";
  } catch (const StatusError& error) {
    return error.message();
  }
}

}  // namespace tenon::runtime::test
