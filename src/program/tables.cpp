#include "program/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "format/program_generated.h"
#include "graph/library_call.h"
#include "loops/work.h"

namespace tenon {

// ---- symbols --------------------------------------------------------------------------------------------------------

namespace {

// size = factor * symbol + rest, where it is so.
std::optional<std::pair<int64_t, Expr>> linear_in(const Expr& size, Symbol symbol) {
  const Expr rest = substitute(size, {{symbol, Expr(0)}});
  const Expr factor = substitute(size, {{symbol, Expr(1)}}) - rest;
  if (!factor.is_constant() || factor.is_constant(0) || !(size == factor * symbol + rest)) return {};
  return std::pair(factor.constant(), rest);
}

class SymbolBinder {
 public:
  explicit SymbolBinder(const Graph& graph) : graph_(graph), inputs_(graph.inputs()) {
    for (uint32_t input = 0; input < inputs_.size(); ++input) {
      const Shape& shape = graph.type(inputs_[input]).shape;
      for (uint32_t dim = 0; dim < shape.size(); ++dim) add_size(shape[dim], input, dim);
    }
  }

  // Sizes that are a symbol come first; then, again and again, the first size with one unknown symbol.
  std::vector<SymbolBinding> run() {
    for (uint32_t i = 0; i < sizes_.size(); ++i) {
      if (size(i).kind() == symbolic::Kind::kSymbol && unbound_.contains(size(i).symbol())) bind_by(i);
    }
    while (!ready_.empty()) bind_by(ready_.extract(ready_.begin()).value());
    if (!unbound_.empty()) {
      fail("the sizes of graph {}'s inputs do not tell {}", graph_.name(), unbound_.begin()->name());
    }
    return std::move(bindings_);
  }

 private:
  // A symbolic size of an input.
  struct InputSize {
    uint32_t input;
    uint32_t dim;
    size_t unknowns;  // how many of its symbols are not bound
  };

  const Expr& size(uint32_t id) const { return graph_.type(inputs_[sizes_[id].input]).shape[sizes_[id].dim]; }

  void add_size(const Expr& size, uint32_t input, uint32_t dim) {
    const std::vector<Symbol> symbols = symbols_of(size);
    if (symbols.empty()) return;
    const auto id = static_cast<uint32_t>(sizes_.size());
    sizes_.push_back({input, dim, symbols.size()});
    for (Symbol symbol : symbols) {
      unbound_.insert(symbol);
      sizes_with_[symbol].push_back(id);
    }
    if (symbols.size() == 1) ready_.insert(id);
  }

  void bind_by(uint32_t id) {
    const std::vector<Symbol> symbols = symbols_of(size(id));
    const auto unknown = std::ranges::find_if(symbols, [&](Symbol symbol) { return unbound_.contains(symbol); });
    if (unknown == symbols.end()) return;
    const auto linear = linear_in(size(id), *unknown);
    if (!linear) return;
    bindings_.push_back({*unknown, sizes_[id].input, sizes_[id].dim, linear->first, linear->second});
    unbound_.erase(*unknown);
    for (uint32_t other : sizes_with_[*unknown]) {
      if (--sizes_[other].unknowns == 1) ready_.insert(other);
    }
  }

  const Graph& graph_;
  std::vector<ValueRef> inputs_;
  std::vector<InputSize> sizes_;
  std::map<Symbol, std::vector<uint32_t>> sizes_with_;
  std::set<uint32_t> ready_;  // sizes with one unknown symbol
  std::set<Symbol> unbound_;
  std::vector<SymbolBinding> bindings_;
};

}  // namespace

std::vector<SymbolBinding> bind_symbols(const Graph& graph) { return SymbolBinder(graph).run(); }

// ---- tables ---------------------------------------------------------------------------------------------------------

namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <class T>
using Table = Offset<flatbuffers::Vector<Offset<T>>>;
template <class T>
using Structs = Offset<flatbuffers::Vector<const T*>>;

format::ExprOp op_of(symbolic::Kind kind) { return static_cast<format::ExprOp>(kind); }
static_assert(static_cast<int>(symbolic::Kind::kSymbol) == static_cast<int>(format::ExprOp::Symbol) &&
              static_cast<int>(symbolic::Kind::kMod) == static_cast<int>(format::ExprOp::Mod) &&
              static_cast<int>(symbolic::Kind::kLe) == static_cast<int>(format::ExprOp::Le));

// Expressions as code, each once.
class ExprTable {
 public:
  explicit ExprTable(const std::vector<Symbol>& symbols) {
    for (size_t i = 0; i < symbols.size(); ++i) numbers_.emplace(symbols[i], static_cast<int64_t>(i));
  }

  format::Expr add(const Expr& expr) {
    const std::string key = to_string(expr);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    const auto first = static_cast<uint32_t>(code_.size());
    emit(expr);
    return known_.emplace(key, format::Expr(first, static_cast<uint32_t>(code_.size()) - first)).first->second;
  }

  const std::vector<format::Instruction>& code() const { return code_; }

 private:
  void emit(const Expr& expr) {
    if (expr.is_constant()) {
      code_.emplace_back(format::ExprOp::Constant, expr.constant());
    } else if (expr.kind() == symbolic::Kind::kSymbol) {
      code_.emplace_back(format::ExprOp::Symbol, numbers_.at(expr.symbol()));
    } else {
      emit(expr.operands()[0]);
      for (const Expr& operand : expr.operands().subspan(1)) {
        emit(operand);
        code_.emplace_back(op_of(expr.kind()), 0);
      }
    }
  }

  std::map<Symbol, int64_t> numbers_;
  std::map<std::string, format::Expr> known_;
  std::vector<format::Instruction> code_;
};

}  // namespace

class TableWriter {
 public:
  TableWriter(const Program& program, const FileTables* file)
      : program_(program), file_(file), exprs_(program.symbols) {
    std::set<size_t> checked;  // in a file, an output that an assertion looks at is no result
    for (const Assertion& assertion : program.assertions) {
      if (file && assertion.output) checked.insert(*assertion.output);
    }
    for (size_t i = 0; i < program.outputs.size(); ++i)
      result_of_.push_back(checked.contains(i) ? kNoSlot : results_++);
  }

  std::string run() {
    const auto symbols = symbol_table();
    const auto bindings = binding_table();
    const auto slots = table<format::Slot>(program_.slots, [&](const Slot& slot) { return slot_of(slot); });
    uint32_t kernel = 0;
    const auto tasks = table<format::Task>(program_.tasks, [&](const Task& task) { return task_of(task, kernel); });
    const auto kernels = kernel_table();
    const auto inputs = input_table();
    const auto outputs = output_table();
    const auto checks = check_table();
    const auto updates = table<format::Update>(
        program_.updates, [&](const auto& update) { return format::CreateUpdate(b_, update.target, update.value); });
    const auto states = file_ ? blob_table(&file_->leaves) : leaf_table();
    const auto constants = blob_table(file_ ? &file_->constants : nullptr, program_.constants.size());
    const auto state_names = b_.CreateVectorOfStrings(has_states() ? program_.leaf_names : std::vector<std::string>());
    const auto spaces = table<format::Space>(program_.spaces, [&](const ProgramSpace& space) {
      return format::CreateSpace(b_, text(space.device), text(space.handle->info().identity()));
    });
    const auto code = b_.CreateVectorOfStructs(exprs_.code());
    format::FinishProgramBuffer(
        b_, format::CreateProgram(b_, text(program_.graph.name()), code, symbols, bindings, slots, tasks, kernels,
                                  inputs, states, constants, outputs, updates, state_names, checks,
                                  file_ && file_->key ? *file_->key : kNoSlot, spaces));
    return {reinterpret_cast<const char*>(b_.GetBufferPointer()), b_.GetSize()};
  }

 private:
  bool has_states() const { return file_ != nullptr || program_.keeps_states; }

  Offset<flatbuffers::String> text(std::string_view from) { return b_.CreateString(from.data(), from.size()); }

  template <class T, class From, class Make>
  Table<T> table(const std::vector<From>& from, Make make) {
    std::vector<Offset<T>> entries;
    for (const From& each : from) entries.push_back(make(each));
    return b_.CreateVector(entries);
  }

  Structs<format::Expr> exprs(std::span<const Expr> from) {
    std::vector<format::Expr> result;
    for (const Expr& expr : from) result.push_back(exprs_.add(expr));
    return b_.CreateVectorOfStructs(result);
  }

  Table<format::Symbol> symbol_table() {
    const symbolic::Ranges ranges = program_.graph.ranges();
    return table<format::Symbol>(program_.symbols, [&](Symbol symbol) {
      const auto range = ranges.find(symbol);
      const symbolic::Interval known = range == ranges.end() ? symbolic::Interval::all() : range->second;
      return format::CreateSymbol(b_, text(symbol.name()), known.low, known.high);
    });
  }

  Structs<format::Binding> binding_table() {
    std::vector<format::Binding> bindings;
    for (const SymbolBinding& binding : program_.bindings) {
      bindings.emplace_back(binding.input, binding.dim, binding.factor, exprs_.add(binding.rest));
    }
    return b_.CreateVectorOfStructs(bindings);
  }

  Offset<format::Slot> slot_of(const Slot& slot) {
    static constexpr format::SlotKind kKinds[] = {format::SlotKind::Input, format::SlotKind::State,
                                                  format::SlotKind::Constant, format::SlotKind::Temporary,
                                                  format::SlotKind::Output};
    const Slot& root = program_.slots[slot.root];
    const bool is_input = root.kind == SlotKind::kLeaf && !has_states();  // after the graph's own
    const bool is_checked = root.kind == SlotKind::kOutput && result_of_[root.position] == kNoSlot;
    auto position = root.position + static_cast<uint32_t>(is_input ? program_.inputs.size() : 0);
    if (root.kind == SlotKind::kOutput) position = is_checked ? 0 : result_of_[root.position];
    const format::SlotKind kind = is_input     ? format::SlotKind::Input
                                  : is_checked ? format::SlotKind::Temporary
                                               : kKinds[static_cast<int>(root.kind)];
    return format::CreateSlot(b_, static_cast<format::DType>(slot.type.dtype), kind, slot.root, position,
                              exprs(slot.type.shape), slot.over, static_cast<uint16_t>(slot.space));
  }

  static format::TaskKind kind_of(TaskKind kind) {
    switch (kind) {
      case TaskKind::kKernel:
        return format::TaskKind::Kernel;
      case TaskKind::kLibrary:
        return format::TaskKind::Library;
      case TaskKind::kDevice:
        return format::TaskKind::Device;
      case TaskKind::kTransfer:
        return format::TaskKind::Transfer;
      case TaskKind::kReference:
      case TaskKind::kExternal:
        break;
    }
    return format::TaskKind::Fallback;
  }

  static bool has_code(const Task& task) { return task.kind == TaskKind::kKernel || task.kind == TaskKind::kDevice; }

  Offset<format::Task> task_of(const Task& task, uint32_t& kernel) {
    const auto name = text(task.name), file = text(task.location.file);
    const auto inputs = b_.CreateVector(task.inputs), outputs = b_.CreateVector(task.outputs),
               sizes = b_.CreateVector(task.sizes);
    const auto ops = b_.CreateVectorOfStrings(task.ops);
    const bool is_call = file_ && task.kind == TaskKind::kExternal;
    const Node* const node = task.kind == TaskKind::kLibrary ? &task.body->nodes()[0] : nullptr;
    const auto function = text(node ? node->op->name.get() : is_call ? std::string_view(task.name) : "");
    const auto numbers = exprs(node ? library_numbers(*node->op, node->attrs) : task.launch_sizes);
    const auto argument = text(node      ? library_text(*node->op, node->attrs)
                               : is_call ? file_->calls[static_cast<size_t>(&task - program_.tasks.data())]
                                         : "");
    const auto flops = task.tree ? exprs_.add(loops::flops(*task.tree)) : format::Expr();
    const auto bytes = task.tree ? exprs_.add(loops::bytes(*task.tree)) : format::Expr();
    format::TaskBuilder builder(b_);
    builder.add_kind(kind_of(task.kind));
    builder.add_name(name);
    builder.add_inputs(inputs);
    builder.add_outputs(outputs);
    if (has_code(task)) builder.add_kernel(kernel++);
    builder.add_sizes(sizes);
    builder.add_function(function);
    builder.add_numbers(numbers);
    builder.add_text(argument);
    if (task.tree) builder.add_flops(&flops);
    if (task.tree) builder.add_bytes(&bytes);
    builder.add_ops(ops);
    builder.add_file(file);
    builder.add_line(task.location.line);
    return builder.Finish();
  }

  Table<format::KernelCode> kernel_table() {
    std::vector<Offset<format::KernelCode>> kernels;
    for (size_t i = 0; i < program_.tasks.size(); ++i) {
      if (!has_code(program_.tasks[i])) continue;
      kernels.push_back(!file_ ? format::CreateKernelCode(b_) : code_of(program_.tasks[i], file_->kernels[i]));
    }
    return b_.CreateVector(kernels);
  }

  Offset<format::KernelCode> code_of(const Task& task, std::string_view portable) {
    if (task.kind != TaskKind::kDevice) return format::CreateKernelCode(b_, aligned(portable));
    const runtime::DeviceProgram& code = *task.kernel->device_program();
    const auto bytes = aligned({reinterpret_cast<const char*>(code.code().data()), code.code().size()});
    const auto space = static_cast<uint16_t>(program_.slots[task.outputs[0]].space);
    return format::CreateKernelCode(b_, 0, bytes, code.scratch_bytes(), space);
  }

  Offset<flatbuffers::Vector<uint8_t>> aligned(std::string_view bytes) {
    b_.ForceVectorAlignment(bytes.size(), 1, 16);
    return b_.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }

  Table<format::Argument> input_table() {
    std::vector<Offset<format::Argument>> inputs(program_.inputs.size() + (has_states() ? 0 : program_.leaves.size()));
    for (uint32_t i = 0; i < program_.slots.size(); ++i) {
      const Slot& slot = program_.slots[i];
      if (slot.root != i) continue;
      if (slot.kind == SlotKind::kInput) {
        const std::string& name = program_.graph.leaf(program_.inputs[slot.position])->name;
        inputs[slot.position] = format::CreateArgument(b_, text(name), i);
      }
      if (slot.kind == SlotKind::kLeaf && !has_states()) {
        inputs[program_.inputs.size() + slot.position] =
            format::CreateArgument(b_, text(program_.leaf_names[slot.position]), i);
      }
    }
    return b_.CreateVector(inputs);
  }

  Table<format::Result> output_table() {
    std::vector<Offset<format::Result>> outputs;
    const std::vector<std::string> names = program_.output_names();
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const auto& output = program_.outputs[i];
      if (result_of_[i] == kNoSlot) continue;
      outputs.push_back(format::CreateResult(b_, text(names[i]), output.slot, output.is_copied));
    }
    return b_.CreateVector(outputs);
  }

  Table<format::Check> check_table() {
    if (!file_ || program_.assertions.empty()) return {};
    return table<format::Check>(program_.assertions, [&](const Assertion& assertion) {
      const auto message = text(assertion.message), place = text(assertion.location.file);
      const auto guard = assertion.guard ? exprs_.add(*assertion.guard) : format::Expr();
      const uint32_t slot = assertion.output ? program_.outputs[*assertion.output].slot : kNoSlot;
      return format::CreateCheck(b_, message, slot, assertion.guard ? &guard : nullptr, place, assertion.location.line);
    });
  }

  Structs<format::Blob> blob_table(const std::vector<ByteRange>* ranges, size_t otherwise = 0) {
    std::vector<format::Blob> blobs(ranges ? ranges->size() : otherwise, format::Blob(0, 0));
    for (size_t i = 0; ranges && i < blobs.size(); ++i) {
      blobs[i] = format::Blob((*ranges)[i].offset, (*ranges)[i].size);
    }
    return b_.CreateVectorOfStructs(blobs);
  }

  // Leaves that are states, in memory of this process.
  Structs<format::Blob> leaf_table() {
    std::vector<format::Blob> blobs;
    for (const Tensor& leaf : program_.leaves) {
      if (program_.keeps_states) blobs.emplace_back(0, static_cast<uint64_t>(leaf.numel() * size_of(leaf.dtype())));
    }
    return b_.CreateVectorOfStructs(blobs);
  }

  const Program& program_;
  const FileTables* file_;
  ExprTable exprs_;
  uint32_t results_ = 0;
  std::vector<uint32_t> result_of_;  // of each output; kNoSlot where it is none
  FlatBufferBuilder b_;
};

std::vector<std::string> Program::output_names() const {
  std::vector<std::string> names;
  std::unordered_map<std::string, int> counts;
  for (ValueRef output : source->outputs()) {
    const Leaf* const leaf = source->leaf(output);
    names.push_back(leaf ? leaf->name : source->value_name(output));
    ++counts[names.back()];
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || counts.at(names[i]) > 1) names[i] = fmt::format("out{}", i);
  }
  return names;
}

std::string program_tables(const Program& program, const FileTables* file) { return TableWriter(program, file).run(); }

}  // namespace tenon
