#include "program/run.h"

#include <algorithm>
#include <map>

#include "backends/library_task.h"
#include "backends/reference/evaluate.h"
#include "graph/reference.h"
#include "program/frames.h"
#include "support/checked.h"

namespace tenon {

Tensor new_tensor(DType dtype, Sizes shape) {
  const int64_t bytes = checked_mul(element_count(shape), size_of(dtype));
  const int64_t whole = checked_mul(checked_add(bytes, kArenaAlignment) / kArenaAlignment, kArenaAlignment);
  void* memory = std::aligned_alloc(kArenaAlignment, static_cast<size_t>(whole));
  if (memory == nullptr) fail("there is no memory for a tensor of {} bytes", bytes);
  Sizes strides = contiguous_strides(shape);
  return Tensor::borrow(dtype, std::move(shape), std::move(strides), memory, std::shared_ptr<void>(memory, std::free));
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
    moved[leaf.value] = result.copy_leaf(leaf, std::move(type));
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
  const LibraryTaskFn task = body.nodes().size() == 1 ? find_library_task(*body.nodes()[0].op) : nullptr;
  if (task == nullptr) return evaluate(concrete_graph(body, sizes), inputs).value();
  const Node& node = body.nodes()[0];
  ConcreteNode concrete = concrete_node(body, node, inputs, sizes);
  ReferenceContext context(*node.op, concrete.pointers, concrete.attrs, std::move(concrete.operands),
                           std::move(concrete.outputs));
  task(context);
  std::vector<Tensor> results = std::move(context).take_outputs();
  std::vector<Tensor> wanted;
  for (ValueRef output : body.outputs()) {
    const auto position = std::ranges::find(node.results, output) - node.results.begin();
    wanted.push_back(results[static_cast<size_t>(position)]);
  }
  return wanted;
}

std::vector<Tensor> run_task_once(const Task& task, const std::vector<Slot>& slots, const std::vector<Tensor>& inputs) {
  if (task.kind != TaskKind::kKernel) return run_whole(*task.body, inputs, {});
  std::vector<Tensor> outputs;
  std::vector<void*> memory;
  for (const Tensor& input : inputs) memory.push_back(input.data());
  for (uint32_t slot : task.outputs) {
    const TensorType& type = slots[slot].type;
    memory.push_back(outputs.emplace_back(new_tensor(type.dtype, evaluate(type.shape, {}))).data());
  }
  task.kernel->run(memory);
  return outputs;
}

// ---- a run ----------------------------------------------------------------------------------------------------------

class ProgramRun {
 public:
  ProgramRun(const Program& program, std::span<const Tensor> inputs)
      : program_(program),
        inputs_(inputs),
        symbols_(program.symbols_.size(), kUnknown),
        pointers_(program.slots_.size()) {
    memory_.reserve(program.most_arguments_);
    bind_inputs();
    frame_ = program.frames_->find(std::span(symbols_).first(program.bound_symbols_), program.slots_);
    arena_ = program.frames_->take(frame_->arena_bytes);
  }
  ~ProgramRun() { program_.frames_->give_back(std::move(arena_)); }
  ProgramRun(const ProgramRun&) = delete;

  std::vector<Tensor> run() {
    place_slots();
    check_updates();
    for (const Task& task : program_.tasks_) run_task(task);
    std::vector<Tensor> outputs = take_outputs();
    apply_updates();
    return outputs;
  }

 private:
  static constexpr int64_t kUnknown = kInt64Min;

  const std::vector<Slot>& slots() const { return program_.slots_; }

  // ---- inputs ----

  // The common case without a word: sizes that are constants or symbols, each as it should be.
  void bind_inputs() {
    const std::vector<ValueRef>& formal = program_.inputs_;
    bool fits = formal.size() == inputs_.size();
    for (size_t i = 0; fits && i < formal.size(); ++i) fits = bind(program_.graph_.type(formal[i]), inputs_[i]);
    const auto bound = std::span(symbols_).first(program_.bound_symbols_);
    if (!fits || std::ranges::find(bound, kUnknown) != bound.end()) bind_by_solving(formal);
    check_ranges();
  }

  bool bind(const TensorType& type, const Tensor& tensor) {
    if (!tensor.defined() || tensor.dtype() != type.dtype || tensor.rank() != type.rank()) return false;
    for (int64_t dim = 0; dim < type.rank(); ++dim) {
      const Expr& size = type.size(dim);
      if (size.is_constant()) {
        if (size.constant() != tensor.size(dim)) return false;
        continue;
      }
      if (size.kind() != symbolic::Kind::kSymbol) return false;
      int64_t& value = symbols_[index_of(size.symbol())];
      if (value != kUnknown && value != tensor.size(dim)) return false;
      value = tensor.size(dim);
    }
    return true;
  }

  size_t index_of(Symbol symbol) const {
    const auto found = std::ranges::find(program_.symbols_, symbol);
    return static_cast<size_t>(found - program_.symbols_.begin());
  }

  void bind_by_solving(const std::vector<ValueRef>& formal) {
    if (formal.size() != inputs_.size()) {
      fail("program {} takes {} inputs, got {}", program_.graph_.name(), formal.size(), inputs_.size());
    }
    std::vector<symbolic::Equation> equations;
    for (size_t i = 0; i < formal.size(); ++i) {
      const std::string& name = program_.graph_.leaf(formal[i])->name;
      const TensorType& type = program_.graph_.type(formal[i]);
      const Tensor& tensor = inputs_[i];
      if (!tensor.defined() || !data_fits(type, tensor)) {
        fail("input '{}' must be {}, got {}", name, to_string(type),
             tensor.defined() ? to_string(type_of(tensor)) : "nothing");
      }
      for (int64_t dim = 0; dim < type.rank(); ++dim) {
        equations.push_back({type.size(dim), tensor.size(dim), fmt::format("dimension {} of input '{}'", dim, name)});
      }
    }
    const symbolic::Bindings bindings = solve(equations, program_.graph_.ranges()).value();
    for (const auto& [symbol, value] : bindings) symbols_[index_of(symbol)] = value;
  }

  void check_ranges() const {
    for (size_t i = 0; i < program_.bound_symbols_; ++i) check_range(i);
  }

  void check_range(size_t symbol) const {
    const auto range = program_.graph_.symbols().find(program_.symbols_[symbol]);
    if (range == program_.graph_.symbols().end() || range->second.contains(symbols_[symbol])) return;
    fail("{} is {}, which is outside of {}", range->first.name(), symbols_[symbol], to_string(range->second));
  }

  // ---- memory ----

  void place_slots() {
    outputs_.reserve(program_.outputs_.size());
    for (const auto& output : program_.outputs_) {
      const Slot& root = slots()[slots()[output.slot].root];
      const bool is_made_now = root.kind == SlotKind::kOutput && !output.is_copied && is_known(root.type.shape);
      outputs_.push_back(is_made_now ? new_tensor(root.type.dtype, sizes_of(root.type.shape)) : Tensor());
    }
    for (size_t i = 0; i < slots().size(); ++i) pointers_[i] = place_of(i);
  }

  // An alias is where its root is, which comes before it.
  void* root_place(size_t id, const Tensor& tensor) {
    const uint32_t root = slots()[id].root;
    return root == id ? contiguous(tensor) : pointers_[root];
  }

  // As it is, or a copy that lives as long as the run.
  void* contiguous(const Tensor& tensor) {
    return tensor.is_contiguous() ? tensor.data() : copies_.emplace_back(tensor.copy()).data();
  }

  void* place_of(size_t id) {
    const Slot& slot = slots()[slots()[id].root];
    switch (slot.kind) {
      case SlotKind::kInput:
        return root_place(id, inputs_[slot.position]);
      case SlotKind::kLeaf:
        return root_place(id, program_.leaves_[slot.position]);
      case SlotKind::kConstant:
        return program_.constants_[slot.position].data();  // null where nothing reads it
      case SlotKind::kOutput:
        return outputs_[slot.position].defined() ? outputs_[slot.position].data() : nullptr;
      case SlotKind::kHeld:
        return nullptr;
      case SlotKind::kTemporary:
        break;
    }
    const int64_t offset = frame_->offsets[slots()[id].root];
    return offset < 0 ? nullptr : arena_.memory.get() + offset;
  }

  bool is_known(const Shape& shape) const {
    return std::ranges::all_of(shape, [&](const Expr& size) {
      return size.is_constant() || std::ranges::all_of(symbols_of(size), [&](Symbol symbol) {
               return symbols_[index_of(symbol)] != kUnknown;
             });
    });
  }

  Sizes sizes_of(const Shape& shape) const {
    if (!is_static(shape)) return evaluate(shape, known_sizes());
    Sizes sizes(shape.size());
    std::ranges::transform(shape, sizes.begin(), &Expr::constant);
    return sizes;
  }

  symbolic::Bindings known_sizes() const {
    symbolic::Bindings bindings;
    for (size_t i = 0; i < symbols_.size(); ++i) {
      if (symbols_[i] != kUnknown) bindings[program_.symbols_[i]] = symbols_[i];
    }
    return bindings;
  }

  // What has no place yet gets one of its own, when its task comes: its size was not known before.
  void* memory_of(uint32_t id) {
    if (pointers_[id] != nullptr) return pointers_[id];
    const uint32_t root = slots()[id].root;
    if (pointers_[root] == nullptr)
      hold(root, new_tensor(slots()[root].type.dtype, sizes_of(slots()[root].type.shape)));
    return pointers_[id] = pointers_[root];
  }

  void hold(uint32_t root, Tensor tensor) {
    if (held_.empty()) held_.resize(slots().size());
    pointers_[root] = tensor.data();
    held_[root] = std::move(tensor);
  }

  Tensor tensor_of(uint32_t id) {
    const Slot& slot = slots()[id];
    Sizes shape = sizes_of(slot.type.shape);
    Sizes strides = contiguous_strides(shape);
    return Tensor::borrow(slot.type.dtype, std::move(shape), std::move(strides), memory_of(id), owner_of(slot.root));
  }

  std::shared_ptr<void> owner_of(uint32_t root) const { return held_.empty() ? nullptr : held_[root].owner(); }

  // ---- tasks ----

  void run_task(const Task& task) {
    try {
      if (task.kind == TaskKind::kKernel) {
        run_kernel(task);
      } else {
        run_whole_task(task);
      }
    } catch (const Error& error) {
      const Diagnostic& inner = error.diagnostic();
      throw Error({fmt::format("{}: {}", task.name, inner.message), inner.where.known() ? inner.where : task.location});
    }
  }

  void run_kernel(const Task& task) {
    memory_.clear();
    for (uint32_t slot : task.inputs) memory_.push_back(memory_of(slot));
    for (uint32_t slot : task.outputs) memory_.push_back(memory_of(slot));
    sizes_.clear();
    for (uint32_t symbol : task.sizes) sizes_.push_back(symbols_[symbol]);
    task.kernel->run(memory_, sizes_);
  }

  void run_whole_task(const Task& task) {
    std::vector<Tensor> operands;
    for (uint32_t slot : task.inputs) operands.push_back(tensor_of(slot));
    std::vector<Tensor> results = task.kind == TaskKind::kExternal ? program_.host_(task.call, operands)
                                                                   : run_whole(*task.body, operands, known_sizes());
    if (task.kind == TaskKind::kExternal) results = wanted_of(task, std::move(results));
    for (size_t i = 0; i < task.outputs.size(); ++i) {
      take_result(task.outputs[i], results[i], operands);
      operands.push_back(results[i]);  // nor may a later result share its memory
    }
  }

  // The host gives all results of the call; those that nothing needs have no slot.
  static std::vector<Tensor> wanted_of(const Task& task, std::vector<Tensor> results) {
    const Node& node = task.body->nodes().back();
    if (results.size() != node.results.size())
      fail("the call gave {} results, where {} were promised", results.size(), node.results.size());
    std::vector<Tensor> wanted;
    for (ValueRef output : task.body->outputs()) {
      const auto position = static_cast<size_t>(std::ranges::find(node.results, output) - node.results.begin());
      wanted.push_back(results[position]);
    }
    return wanted;
  }

  void take_result(uint32_t slot, const Tensor& result, const std::vector<Tensor>& others) {
    const TensorType& type = slots()[slot].type;
    if (!result.defined() || result.dtype() != type.dtype || result.rank() != type.rank()) {
      fail("a result must be {}, got {}", to_string(type), result.defined() ? to_string(type_of(result)) : "nothing");
    }
    bind_late(type, result);
    const bool shares = std::ranges::any_of(others, [&](const Tensor& x) { return x.shares_memory_with(result); });
    hold(slot, shares ? result.copy() : result.contiguous());
  }

  // A size that only the task could know.
  void bind_late(const TensorType& type, const Tensor& result) {
    for (int64_t dim = 0; dim < type.rank(); ++dim) {
      const Expr& size = type.size(dim);
      if (size.kind() == symbolic::Kind::kSymbol && symbols_[index_of(size.symbol())] == kUnknown) {
        symbols_[index_of(size.symbol())] = result.size(dim);
        check_range(index_of(size.symbol()));
      }
      const int64_t wanted = sizes_of({size})[0];
      if (wanted != result.size(dim)) {
        fail("dimension {} of a result must be {} = {}, got {}", dim, size, wanted, result.size(dim));
      }
    }
  }

  // ---- results ----

  std::vector<Tensor> take_outputs() {
    std::vector<Tensor> outputs;
    outputs.reserve(program_.outputs_.size());
    for (size_t i = 0; i < program_.outputs_.size(); ++i) {
      const auto& output = program_.outputs_[i];
      const uint32_t root = slots()[output.slot].root;
      if (output.is_copied) {
        outputs.push_back(tensor_of(output.slot).copy());
      } else {
        outputs.push_back(in_shape_of(output.slot, outputs_[i].defined() ? std::move(outputs_[i]) : held_result(root)));
      }
    }
    return outputs;
  }

  Tensor held_result(uint32_t root) {
    memory_of(root);
    return held_[root];
  }

  Tensor in_shape_of(uint32_t slot, Tensor tensor) const {
    if (slots()[slot].root == slot) return tensor;
    Sizes shape = sizes_of(slots()[slot].type.shape);
    Sizes strides = contiguous_strides(shape);
    return Tensor::borrow(tensor.dtype(), std::move(shape), std::move(strides), tensor.data(), tensor.owner());
  }

  // ---- updates ----

  const Tensor& target_of(uint32_t slot) const {
    const Slot& target = slots()[slot];
    return target.kind == SlotKind::kInput ? inputs_[target.position] : program_.leaves_[target.position];
  }

  void check_updates() const {
    for (size_t i = 0; i < program_.updates_.size(); ++i) {
      const Tensor& target = target_of(program_.updates_[i].target);
      const std::string& name = program_.graph_.leaf(program_.graph_.updates()[i].target)->name;
      if (target.access() == Access::kReadOnly) fail("'{}' is updated, but its memory is read-only", name);
      if (target.overlaps_itself()) fail("'{}' is updated, but its elements share memory: give a copy", name);
      for (size_t j = 0; j < i; ++j) {
        if (!target.shares_memory_with(target_of(program_.updates_[j].target))) continue;
        fail("'{}' and '{}' are both updated, but share memory: give copies", name,
             program_.graph_.leaf(program_.graph_.updates()[j].target)->name);
      }
    }
  }

  // A new value may be the very memory that another update overwrites: such a one is copied first.
  void apply_updates() {
    std::vector<Tensor> values;
    for (const auto& update : program_.updates_) {
      Tensor value = tensor_of(update.value);
      const bool is_overwritten = std::ranges::any_of(
          program_.updates_, [&](const auto& other) { return target_of(other.target).shares_memory_with(value); });
      values.push_back(is_overwritten ? value.copy() : value);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      Tensor target = target_of(program_.updates_[i].target);
      target.copy_from(values[i]);
    }
  }

  const Program& program_;
  std::span<const Tensor> inputs_;
  std::vector<int64_t> symbols_;
  std::vector<void*> pointers_;  // of each slot; null where its place is not known yet
  std::shared_ptr<const Frame> frame_;
  Arena arena_;
  std::vector<Tensor> copies_;
  std::vector<Tensor> outputs_;
  std::vector<Tensor> held_;  // of each slot, those that have memory of their own; empty until there is one
  std::vector<void*> memory_;
  std::vector<int64_t> sizes_;
};

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
  }
  return "";
}

Program::Program(Graph graph, HostFn host) : graph_(std::move(graph)), host_(std::move(host)) {}

std::vector<Tensor> Program::run(std::span<const Tensor> inputs) const { return ProgramRun(*this, inputs).run(); }

size_t Program::constant_bytes() const {
  size_t bytes = 0;
  for (const Tensor& constant : constants_) bytes += static_cast<size_t>(constant.numel() * size_of(constant.dtype()));
  return bytes;
}

int64_t Program::arena_bytes() const { return frames_->last_arena_bytes(); }

}  // namespace tenon
