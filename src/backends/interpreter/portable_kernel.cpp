#include "backends/interpreter/portable_kernel.h"

#include <bit>

#include "format/kernel_generated.h"
#include "loops/compiler.h"
#include "runtime/scalar_ops.h"

namespace tenon {
namespace {

using loops::Compiler;
using loops::LoopTree;
using loops::NodeRef;
using loops::TreeRef;

namespace portable = format::portable;
using format::ExprOp;
using format::Instruction;
using portable::Action;
using portable::Range;
using portable::SourceKind;

constexpr uint32_t kNone = ~0u;

ExprOp op_of(symbolic::Kind kind) {
  using symbolic::Kind;
  switch (kind) {
    case Kind::kConstant:
      return ExprOp::Constant;
    case Kind::kSymbol:
      return ExprOp::Symbol;
    case Kind::kAdd:
      return ExprOp::Add;
    case Kind::kMul:
      return ExprOp::Mul;
    case Kind::kFloorDiv:
      return ExprOp::FloorDiv;
    case Kind::kMod:
      return ExprOp::Mod;
    case Kind::kMin:
      return ExprOp::Min;
    case Kind::kMax:
      return ExprOp::Max;
    case Kind::kEq:
      return ExprOp::Eq;
    case Kind::kNe:
      return ExprOp::Ne;
    case Kind::kLt:
      return ExprOp::Lt;
    case Kind::kLe:
      return ExprOp::Le;
  }
  check(false, "an expression has no kind");
  return ExprOp::Constant;
}

format::DType stored(DType dtype) { return static_cast<format::DType>(dtype); }
static_assert(static_cast<int>(DType::kBool) == static_cast<int>(format::DType::Bool));

int64_t bits_of(DType dtype, const loops::Scalar& scalar) {
  if (const auto* real = std::get_if<double>(&scalar)) return std::bit_cast<int64_t>(round_to(dtype, *real));
  return std::get<int64_t>(scalar);
}

template <class T>
uint32_t count_of(const std::vector<T>& table) {
  return static_cast<uint32_t>(table.size());
}

class Writer {
 public:
  explicit Writer(const LoopTree& tree) : compiler_(tree), tree_(tree), ir_(tree.ir) {}

  std::string write() {
    const std::vector<Symbol> sizes = ir_.size_symbols();
    for (Symbol size : sizes) symbol(size);
    for (const loops::Var& var : ir_.vars()) variables_.push_back(expr(var.size));
    for (TreeRef root : tree_.roots()) walk(root);
    add_buffers();
    return bytes(static_cast<uint32_t>(sizes.size()));
  }

 private:
  // ---- numbers ----

  uint32_t symbol(Symbol symbol) {
    return symbols_.emplace(symbol, static_cast<uint32_t>(symbols_.size())).first->second;
  }

  format::Expr expr(const Expr& value) {
    const auto found = exprs_.find(value);
    if (found != exprs_.end()) return found->second;
    const uint32_t first = count_of(code_);
    add_code(value);
    return exprs_.emplace(value, format::Expr(first, count_of(code_) - first)).first->second;
  }

  void add_code(const Expr& value) {
    const ExprOp op = op_of(value.kind());
    if (op == ExprOp::Constant) return code_.emplace_back(op, value.constant()), void();
    if (op == ExprOp::Symbol) return code_.emplace_back(op, symbol(value.symbol())), void();
    for (size_t i = 0; i < value.operands().size(); ++i) {
      add_code(value.operands()[i]);
      if (i > 0) code_.emplace_back(op, 0);
    }
  }

  uint32_t constant(int64_t bits) {
    const auto [found, is_new] = constant_numbers_.emplace(bits, count_of(constants_));
    if (is_new) constants_.push_back(bits);
    return found->second;
  }

  uint32_t op_number(std::string_view name) {
    const auto [found, is_new] = op_numbers_.emplace(name, count_of(ops_));
    if (is_new) ops_.emplace_back(name);
    return found->second;
  }

  // ---- sources ----

  Range guards(const std::vector<loops::Constraint>& constraints) {
    const uint32_t first = count_of(guards_);
    for (const auto& [value, bound] : constraints) guards_.emplace_back(expr(value), expr(bound));
    return {first, count_of(constraints)};
  }

  Range guards(const Compiler::Access& access) {
    std::vector<loops::Constraint> constraints = access.where;
    for (loops::Constraint& constraint : constraints) {
      constraint.expr = compiler_.over_counters(constraint.expr, access.at);
    }
    return guards(constraints);
  }

  portable::Source constant_source(DType dtype, const loops::Scalar& value, const Range& where = {}) {
    return {SourceKind::Constant, stored(dtype), constant(bits_of(dtype, value)), format::Expr(), where};
  }

  // An operand: `at` is the position in the memory of the node, or the value of an Index.
  portable::Source node_source(NodeRef ref, const std::function<Expr()>& at, const Range& where) {
    const loops::Node& node = ir_.node(ref);
    if (const auto* constant = node.as<loops::Constant>()) return constant_source(node.dtype, constant->value, where);
    const auto memory = compiler_.allocations.find(ref);
    const bool is_stored = memory != compiler_.allocations.end();
    return {is_stored ? SourceKind::Element : SourceKind::Number, stored(node.dtype),
            is_stored ? static_cast<uint32_t>(memory->second.mem_idx) : 0, expr(at()), where};
  }

  portable::Source source(const Compiler::Access& access) {
    return node_source(access.node, [&] { return compiler_.get_scoped_expr(access); }, guards(access));
  }

  Range add_sources(const std::vector<portable::Source>& sources) {
    const uint32_t first = count_of(sources_);
    sources_.insert(sources_.end(), sources.begin(), sources.end());
    return {first, count_of(sources)};
  }

  // ---- the tree ----

  void walk(TreeRef ref) {
    for (const Compiler::Fill& fill : compiler_.fills(ref)) add_fill(fill, 0);
    if (tree_.kind(ref) == LoopTree::NODE) return add_step(ref);
    const LoopTree::Loop& loop = tree_.loop(ref);
    loop_numbers_[ref] = count_of(loops_);
    const auto order = [&] {
      const loops::Mark mark = loop.annotation.mark;
      if (mark == loops::Mark::kParallel || mark == loops::Mark::kBlock) return portable::Order::Parallel;
      return mark == loops::Mark::kVectorize ? portable::Order::AnyOrder : portable::Order::InOrder;
    };
    in_loop(order(), compiler_.counter(ref), loop.var.id, loop.step, [&] {
      for (TreeRef child : tree_.children(ref)) walk(child);
    });
  }

  void in_loop(portable::Order order, Symbol counter, uint32_t variable, int64_t step,
               const std::function<void()>& body) {
    const uint32_t number = count_of(loops_), first = count_of(steps_);
    loops_.emplace_back();
    body();
    loops_[number] = {order, symbol(counter), variable, Range(first, count_of(steps_) - first), step};
  }

  // The start of an accumulator: loops over its block around a move.
  void add_fill(const Compiler::Fill& fill, size_t level) {
    if (level < fill.counters.size()) {
      variables_.push_back(expr(fill.extents[level]));
      return in_loop(portable::Order::InOrder, fill.counters[level], count_of(variables_) - 1, 1,
                     [&] { add_fill(fill, level + 1); });
    }
    const auto from = fill.source ? node_source(fill.source, [&] { return fill.source_offset; }, {}) : identity(fill);
    const auto out = static_cast<uint32_t>(fill.memory->mem_idx);
    const Range sources = add_sources({from}), where = guards(fill.where);
    steps_.emplace_back(Action::Move, fill.node.id, kNone, out, expr(fill.offset), kNone, format::Expr(), sources,
                        Range(), where);
  }

  portable::Source identity(const Compiler::Fill& fill) {
    const loops::Node& node = ir_.node(fill.node);
    const OpDef& op = node.as<loops::Scan>() ? *node.as<loops::Scan>()->op : *node.as<loops::Reduce>()->op;
    return constant_source(node.dtype, *loops::identity_of(op, node.dtype));
  }

  void add_step(TreeRef leaf) {
    const NodeRef ref = tree_.node(leaf);
    const loops::Node& node = ir_.node(ref);
    const auto [action, op] = action_of(node);
    if (action == Action::Compute && !runtime::find_scalar_op(op->name.get())) return add_primitives(leaf, *op);
    const Range lookups = add_lookups(node.lookups(), leaf);
    const Range sources = add_sources(node.as<loops::View>() ? pieces(ref, leaf) : operands(node, leaf));
    const Compiler::Access out = compiler_.gen_access(ref, leaf);
    const Range where = node.as<loops::Scatter>() ? guards(out) : Range();
    const auto [out_buffer, at] = place(out);
    const auto [carry, carry_at] =
        action == Action::Scan ? place(compiler_.gen_carry(leaf)) : std::pair(kNone, format::Expr());
    steps_.emplace_back(action, ref.id, op ? op_number(op->name.get()) : kNone, out_buffer, at, carry, carry_at,
                        sources, lookups, where);
  }

  // An op that the runtime has no function for: a step for each primitive, with scratch between them.
  void add_primitives(TreeRef leaf, const OpDef& op) {
    const NodeRef ref = tree_.node(leaf);
    const DType compute = ir_.node(ir_.node(ref).inputs.back()).dtype;
    const ScalarFn& fn = scalar_fn(op, compute);
    std::vector<portable::Source> values = operands(ir_.node(ref), leaf);
    for (size_t i = fn.arity(); i < fn.steps().size(); ++i) {
      const ScalarStep& step = fn.steps()[i];
      const DType dtype = dtype_of(step.type, is_float(compute) ? DType::kF64 : compute);
      if (step.primitive == Primitive::kConstant) {
        const auto number = is_float(dtype) ? loops::Scalar(step.number) : static_cast<int64_t>(step.number);
        values.push_back(constant_source(dtype, number));
        continue;
      }
      std::vector<portable::Source> sources;
      const PrimitiveDef& primitive = definition_of(step.primitive);
      for (size_t operand = 0; operand < primitive.operands; ++operand)
        sources.push_back(values[step.operands[operand]]);
      const auto [buffer, at] = i == fn.result() ? place(compiler_.gen_access(ref, leaf)) : add_scratch(leaf, dtype);
      steps_.emplace_back(Action::Compute, ref.id, op_number(primitive.name), buffer, at, kNone, format::Expr(),
                          add_sources(sources), Range(), Range());
      values.emplace_back(SourceKind::Element, stored(dtype), buffer, at, Range());
    }
  }

  // One element, for one iteration of the innermost loop.
  std::pair<uint32_t, format::Expr> add_scratch(TreeRef leaf, DType dtype) {
    const TreeRef loop = tree_.parent(leaf);
    scratch_.emplace_back(stored(dtype), tree_.node(leaf).id, loop ? loop_numbers_.at(loop) : kNone, expr(1));
    const size_t buffers = compiler_.allocations.size() + compiler_.carries.size() + scratch_.size();
    return {static_cast<uint32_t>(buffers - 1), expr(0)};
  }

  std::pair<uint32_t, format::Expr> place(const Compiler::Access& access) {
    return {static_cast<uint32_t>(access.memory->mem_idx), expr(compiler_.get_scoped_expr(access))};
  }

  static std::pair<Action, const OpDef*> action_of(const loops::Node& node) {
    if (const auto* compute = node.as<loops::Compute>()) {
      const bool is_elementwise = std::holds_alternative<Elementwise>(compute->op->semantics.get());
      return is_elementwise ? std::pair(Action::Compute, compute->op) : std::pair(Action::Bitcast, nullptr);
    }
    if (const auto* reduce = node.as<loops::Reduce>()) return {Action::Fold, reduce->op};
    if (const auto* scan = node.as<loops::Scan>()) return {Action::Scan, scan->op};
    const auto* scatter = node.as<loops::Scatter>();
    if (scatter && scatter->op) return {Action::Fold, scatter->op};
    return {Action::Move, nullptr};
  }

  std::vector<portable::Source> operands(const loops::Node& node, TreeRef leaf) {
    std::vector<portable::Source> sources;
    if (node.as<loops::Scatter>()) return {source(compiler_.gen_access(node.inputs[1], leaf))};
    for (NodeRef input : node.inputs) sources.push_back(source(compiler_.gen_access(input, leaf)));
    return sources;
  }

  // The pieces of a view up to the first without constraints; the fill value if there is none.
  std::vector<portable::Source> pieces(NodeRef ref, TreeRef leaf) {
    const auto& view = *ir_.node(ref).as<loops::View>();
    std::vector<portable::Source> sources;
    for (const loops::Piece& piece : view.pieces) {
      sources.push_back(source(compiler_.gen_access(piece, leaf)));
      if (piece.where.empty()) return sources;
    }
    sources.push_back(constant_source(ir_.node(ref).dtype, view.fill));
    return sources;
  }

  Range add_lookups(std::span<const loops::Lookup> lookups, TreeRef leaf) {
    const uint32_t first = count_of(lookups_);
    for (const loops::Lookup& lookup : lookups) {
      const uint32_t indices = add_sources({source(compiler_.gen_lookup(lookup, leaf))}).first();
      lookups_.emplace_back(symbol(lookup.symbol), indices, expr(lookup.bound));
    }
    return {first, static_cast<uint32_t>(lookups.size())};
  }

  // ---- memory ----

  void add_buffers() {
    std::map<int64_t, std::pair<NodeRef, const Compiler::Allocation*>> by_index;
    for (const auto& [node, allocation] : compiler_.allocations) by_index[allocation.mem_idx] = {node, &allocation};
    for (const auto& [node, allocation] : compiler_.carries) by_index[allocation.mem_idx] = {node, &allocation};
    for (const auto& [index, owner] : by_index) {
      check(index == static_cast<int64_t>(buffers_.size()), "memory {} of {} is missing", buffers_.size(), ir_.name());
      add_buffer(owner.first, *owner.second);
    }
    buffers_.insert(buffers_.end(), scratch_.begin(), scratch_.end());
  }

  // Floating-point folds are in f64.
  void add_buffer(NodeRef ref, const Compiler::Allocation& allocation) {
    const loops::Node& node = ir_.node(ref);
    const bool folds = node.as<loops::Reduce>() || node.as<loops::Scan>();
    const DType dtype = allocation.scratch && folds && is_float(node.dtype) ? DType::kF64 : node.dtype;
    const uint32_t loop = allocation.scratch && allocation.lca ? loop_numbers_.at(allocation.lca) : kNone;
    buffers_.emplace_back(stored(dtype), ref.id, loop, expr(allocation.size()));
  }

  // ---- bytes ----

  std::string bytes(uint32_t size_count) {
    flatbuffers::FlatBufferBuilder builder;
    std::vector<std::string> names;
    for (const loops::Node& node : ir_.nodes()) names.push_back(node.name);
    const auto variables = builder.CreateVectorOfStructs(variables_);
    const auto buffers = builder.CreateVectorOfStructs(buffers_);
    const auto loops = builder.CreateVectorOfStructs(loops_);
    const auto steps = builder.CreateVectorOfStructs(steps_);
    const auto sources = builder.CreateVectorOfStructs(sources_);
    const auto lookups = builder.CreateVectorOfStructs(lookups_);
    const auto guards = builder.CreateVectorOfStructs(guards_);
    const auto constants = builder.CreateVector(constants_);
    const auto code = builder.CreateVectorOfStructs(code_);
    const auto ops = builder.CreateVectorOfStrings(ops_);
    const auto nodes = builder.CreateVectorOfStrings(names);
    const auto kernel = portable::CreateKernel(builder, size_count, static_cast<uint32_t>(symbols_.size()),
                                               count_of(ir_.reads()), count_of(ir_.writes()), variables, buffers, loops,
                                               steps, sources, lookups, guards, constants, code, ops, nodes);
    builder.Finish(kernel);
    return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
  }

  const Compiler compiler_;
  const LoopTree& tree_;
  const loops::IR& ir_;
  std::map<Symbol, uint32_t> symbols_;
  std::map<Expr, format::Expr> exprs_;
  std::map<int64_t, uint32_t> constant_numbers_;
  std::map<std::string_view, uint32_t> op_numbers_;
  std::map<TreeRef, uint32_t> loop_numbers_;
  std::vector<format::Expr> variables_;
  std::vector<portable::Buffer> buffers_;
  std::vector<portable::Buffer> scratch_;  // between the primitives of an op
  std::vector<portable::Loop> loops_;
  std::vector<portable::Step> steps_;
  std::vector<portable::Source> sources_;
  std::vector<portable::Lookup> lookups_;
  std::vector<portable::Guard> guards_;
  std::vector<int64_t> constants_;
  std::vector<Instruction> code_;
  std::vector<std::string> ops_;
};

}  // namespace

std::string portable_kernel(const LoopTree& tree) { return Writer(tree).write(); }

}  // namespace tenon
