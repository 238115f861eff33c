// The code of threads: memory and nodes.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/thread_emitter.h"
#include "runtime/kernel.h"

namespace tenon::codegen {

using namespace loops;
using llvm::Value;

// ---- memory ---------------------------------------------------------------------------------------------------------

// The value of the node is the same for all its readers, in the code after it.
bool ThreadEmitter::is_register(NodeRef ref) const {
  const Node& node = ir_.node(ref);
  const Compiler::Allocation& memory = compiler_.allocations.at(ref);
  if (!(node.as<loops::Compute>() || node.as<View>()) || !memory.scratch || !memory.lca) return false;
  return memory.size().is_constant(1) && tree_.parent(tree_.find(ref)) == memory.lca;
}

void ThreadEmitter::declare(TreeRef root) {
  for_each_scratch(root, [&](NodeRef ref, const Compiler::Allocation& memory) {
    if (!memory.lca) return;
    if (arrays_.contains(memory.mem_idx)) {
      arrays_[memory.mem_idx] = own_part(memory);
      return;
    }
    const bool is_own = plan_.place(memory) == Place::kThread || !has_threads_;
    const int64_t count = std::max<int64_t>(memory.size().constant(), 1);
    llvm::Type* const type = values_.memory_type(memory.dtype);
    const std::string name = fmt::format("scratch{}", memory.mem_idx);
    arrays_[memory.mem_idx] = is_own ? f_->on_stack(type, count, ir_.node(ref).name) : shared_array(type, count, name);
  });
}

// The part of a large array that is this thread's, or this block's.
Value* ThreadEmitter::own_part(const Compiler::Allocation& memory) {
  const bool is_own = plan_.place(memory) == Place::kThread || !has_threads_;
  Value* part = block_number();
  if (is_own) part = b_.CreateAdd(b_.CreateMul(part, thread_count()), thread());
  return b_.CreateGEP(b_.getInt8Ty(), arrays_.at(memory.mem_idx), b_.CreateMul(part, index(bytes_of(memory))));
}

Value* ThreadEmitter::address_in(const Compiler::Allocation& memory, const Expr& position) {
  return f_->indices.address(arrays_.at(memory.mem_idx), values_.memory_type(memory.dtype), shifted(position));
}

// Arrays of the kernel and of the device's scratch begin at multiples of 256 bytes, shared ones at multiples of 16. The
// first of several copies says that all of them can be one access.
llvm::Align ThreadEmitter::alignment(const Compiler::Allocation& memory, const Expr& position) const {
  const llvm::Align natural(static_cast<uint64_t>(size_of(memory.dtype)));
  if (width_ == 1 || copy_ != 0 || is_emulated_) return natural;
  const bool is_part =
      memory.lca && std::ranges::find(scratch, memory.mem_idx, &DeviceScratch::mem_idx) != scratch.end();
  if (plan_.place(memory) == Place::kThread || is_part) return natural;
  const Expr at_first = substitute(position, {{copied_, width_ * Expr(copied_)}});
  const Result<Expr> stride = differentiate(position, copied_);
  if (!stride || !stride->is_constant(1)) return natural;
  if (!scope_->box.simplify(mod(at_first, width_)).is_constant(0)) return natural;
  return llvm::Align(static_cast<uint64_t>(std::min(width_ * size_of(memory.dtype), kVectorBytes)));
}

Value* ThreadEmitter::load(const Compiler::Allocation& memory, const Expr& position) {
  const llvm::Align align = alignment(memory, position);
  Value* const loaded = b_.CreateAlignedLoad(values_.memory_type(memory.dtype), address_in(memory, position), align);
  return values_.from_memory(loaded, memory.dtype);
}

// What all threads of a block compute goes to memory that they share once.
void ThreadEmitter::store(const Compiler::Allocation& memory, const Expr& position, Value* value) {
  const auto put = [&] {
    const llvm::Align align = alignment(memory, position);
    b_.CreateAlignedStore(values_.to_memory(value, memory.dtype), address_in(memory, position), align);
  };
  plan_.place(memory) == Place::kThread ? put() : by_first_thread(put);
}

// ---- how accumulators start -----------------------------------------------------------------------------------------

const OpDef& ThreadEmitter::fold_op(NodeRef ref) const {
  const auto* reduce = ir_.node(ref).as<Reduce>();
  return reduce ? *reduce->op : *ir_.node(ref).as<Scan>()->op;
}

// Threads of a block, or of all blocks in a launch of its own, share the work where they share the array.
void ThreadEmitter::start(const Compiler::Fill& fill, bool is_launch) {
  const bool is_shared = has_threads_ && !differs_ && plan_.place(*fill.memory) != Place::kThread;
  if (!is_launch && !is_shared) {
    const std::function<void(size_t)> nest = [&](size_t depth) {
      if (depth == fill.counters.size()) return start_element(fill);
      f_->loop(fill.counters[depth], number(0), index(fill.extents[depth]), 1, [&] { nest(depth + 1); });
    };
    return nest(0);
  }
  ThreadPlan::Touched touched;
  touched.written.insert(fill.memory->mem_idx);
  if (is_shared) barrier_before(touched);
  Value* total = number(1);
  for (const Expr& extent : fill.extents) total = b_.CreateMul(total, index(max(extent, 0)));
  Value* first = thread();
  Value* step = thread_count();
  if (is_launch) {
    first = b_.CreateAdd(b_.CreateMul(block_number(), step), first);
    step = b_.CreateMul(block_count(), step);
  }
  on_threads([&] {
    const Symbol element("fill_element");
    f_->loop(element, first, total, step, [&] {
      std::vector<Value*> counters(fill.counters.size());
      Value* rest = index(element);
      for (size_t i = counters.size(); i-- > 0;) {
        Value* const count = index(fill.extents[i]);
        counters[i] = b_.CreateURem(rest, count);
        rest = b_.CreateUDiv(rest, count);
      }
      const std::function<void(size_t)> nest = [&](size_t depth) {
        if (depth == counters.size()) return start_element(fill);
        f_->with(fill.counters[depth], counters[depth], [&] { nest(depth + 1); });
      };
      nest(0);
    });
  });
  if (is_shared) note(touched);
}

void ThreadEmitter::start_element(const Compiler::Fill& fill) {
  const auto put = [&] { store(*fill.memory, fill.offset, first_value(fill)); };
  Value* const inside = holds(fill.where);
  inside ? f_->when(inside, put) : put();
}

Value* ThreadEmitter::first_value(const Compiler::Fill& fill) {
  if (!fill.source) return values_.literal(fill.memory->dtype, *identity_of(fold_op(fill.node), fill.memory->dtype));
  const Node& source = ir_.node(fill.source);
  if (const auto* constant = source.as<Constant>()) return values_.literal(source.dtype, constant->value);
  if (source.as<Index>()) return index(fill.source_offset);
  if (const auto known = registers_.find(fill.source); known != registers_.end()) return known->second;
  const Compiler::Allocation& from = compiler_.allocations.at(fill.source);
  return values_.cast(load(from, fill.source_offset), from.dtype, source.dtype);
}

// ---- elements -------------------------------------------------------------------------------------------------------

Compiler::Access ThreadEmitter::access(TreeRef at, Which which) const {
  const Node& node = ir_.node(tree_.node(at));
  switch (which.role) {
    case Which::kSelf:
      return compiler_.gen_access(tree_.node(at), at);
    case Which::kInput:
      return compiler_.gen_access(node.inputs[which.position], at);
    case Which::kPiece:
      return compiler_.gen_access(node.as<View>()->pieces[which.position], at);
    case Which::kLookup:
      return compiler_.gen_lookup(node.lookups()[which.position], at);
    default:
      return compiler_.gen_carry(at);
  }
}

ThreadEmitter::Spot& ThreadEmitter::spot(TreeRef at, Which which) {
  const auto found = spots_.find({at, which});
  if (found != spots_.end()) return found->second;
  const Compiler::Access here = access(at, which);
  const bool has_position = here.memory || ir_.node(here.node).as<Index>();
  const Expr position = has_position ? compiler_.get_scoped_expr(here) : Expr(0);
  return spots_.emplace(std::pair(at, which), Spot{here, position}).first->second;
}

Value* ThreadEmitter::read(TreeRef at, Which which) {
  const Spot& here = spot(at, which);
  const Node& node = ir_.node(here.access.node);
  if (const auto* constant = node.as<Constant>()) return values_.literal(node.dtype, constant->value);
  if (const auto known = registers_.find(here.access.node); known != registers_.end()) return known->second;
  if (!here.access.memory) return index(here.position);
  const Compiler::Allocation& memory = *here.access.memory;
  const auto sum = which.role == Which::kSelf ? sums_.find(here.access.node) : sums_.end();
  if (sum != sums_.end()) {
    return values_.from_memory(b_.CreateLoad(values_.memory_type(memory.dtype), sum->second), memory.dtype);
  }
  Value* const value = load(memory, here.position);
  return which.role == Which::kSelf ? value : values_.cast(value, memory.dtype, node.dtype);
}

void ThreadEmitter::write(TreeRef at, Value* value) {
  const NodeRef ref = tree_.node(at);
  if (!ir_.node(ref).as<Write>() && is_register(ref)) {
    registers_[ref] = value;
    return;
  }
  const Spot& here = spot(at, {Which::kSelf});
  const Compiler::Allocation& memory = *here.access.memory;
  if (const auto sum = sums_.find(ref); sum != sums_.end()) {
    b_.CreateStore(values_.to_memory(value, memory.dtype), sum->second);
    return;
  }
  store(memory, here.position, value);
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

void ThreadEmitter::node(TreeRef ref) {
  const Node& node = ir_.node(tree_.node(ref));
  if (compiler_.is_fused(tree_.node(ref))) return;
  const std::span<const Lookup> lookups = node.lookups();
  for (size_t i = 0; i < lookups.size(); ++i) look_up(lookups[i], ref, i);
  std::visit([&](const auto& action) { emit(action, ref); }, node.action);
  for (const Lookup& lookup : lookups) f_->indices.unbind(lookup.symbol);
}

template <class Action>
void ThreadEmitter::emit(const Action&, TreeRef ref) {
  check(false, "%{} cannot be emitted as a statement", ir_.node(tree_.node(ref)).name);
}

void ThreadEmitter::look_up(const Lookup& lookup, TreeRef ref, size_t position) {
  Value* const value = values_.cast(read(ref, {Which::kLookup, position}), ir_.node(lookup.indices).dtype, DType::kI64);
  Value* const bad = b_.CreateICmpUGE(value, index(at_least_zero(lookup.bound)));
  leave_when(bad, kTenonOutOfRange, tree_.node(ref), value, lookup.bound);
  f_->indices.bind_here(lookup.symbol, value);
}

// The thread records the error and ends. The launch has no result then.
void ThreadEmitter::leave_when(Value* bad, int64_t kind, NodeRef node, Value* value, const Expr& bound) {
  f_->leave_when(bad, [&] {
    Value* const code = number(kind);
    b_.CreateCall(failed_function(), {f_->error, code, number(node.id), value, index(bound)});
    return code;
  });
}

// The first thread that fails writes the record.
llvm::Function* ThreadEmitter::failed_function() {
  constexpr const char* kName = "tenon_failed";
  if (llvm::Function* const known = module_.getFunction(kName)) return known;
  const llvm::IRBuilderBase::InsertPointGuard guard(b_);
  llvm::Type* const type = b_.getInt64Ty();
  auto* const signature = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), type, type, type, type}, false);
  auto* const function = llvm::Function::Create(signature, llvm::Function::InternalLinkage, kName, module_);
  function->addFnAttr(llvm::Attribute::NoInline);
  auto* const entry = llvm::BasicBlock::Create(b_.getContext(), "entry", function);
  auto* const first = llvm::BasicBlock::Create(b_.getContext(), "first", function);
  auto* const exit = llvm::BasicBlock::Create(b_.getContext(), "exit", function);
  b_.SetInsertPoint(entry);
  const auto ordering = llvm::AtomicOrdering::Monotonic;
  Value* const swapped = b_.CreateAtomicCmpXchg(function->getArg(0), number(0), function->getArg(1),
                                                llvm::MaybeAlign(8), ordering, ordering);
  b_.CreateCondBr(b_.CreateExtractValue(swapped, 1), first, exit);
  b_.SetInsertPoint(first);
  for (unsigned i = 1; i < 4; ++i)
    b_.CreateStore(function->getArg(i + 1), b_.CreateConstInBoundsGEP1_64(type, function->getArg(0), i));
  b_.CreateBr(exit);
  b_.SetInsertPoint(exit);
  b_.CreateRetVoid();
  return function;
}

std::vector<Value*> ThreadEmitter::inputs_of(TreeRef ref) {
  std::vector<Value*> values;
  for (size_t i = 0; i < ir_.node(tree_.node(ref)).inputs.size(); ++i) values.push_back(read(ref, {Which::kInput, i}));
  return values;
}

void ThreadEmitter::emit(const loops::Compute& compute, TreeRef ref) {
  const Node& node = ir_.node(tree_.node(ref));
  const std::vector<Value*> x = inputs_of(ref);
  const std::string_view op = compute.op->name;
  const DType operands = ir_.node(node.inputs.back()).dtype;
  if (divides_integers(*compute.op, operands)) {
    leave_when(b_.CreateIsNull(x[1]), kTenonDivisionByZero, tree_.node(ref), values_.cast(x[0], operands, DType::kI64),
               0);
  }
  write(ref, op == "cast"      ? values_.cast(x[0], operands, node.dtype)
             : op == "bitcast" ? values_.bits_as(x[0], operands, node.dtype)
                               : values_.apply(*compute.op, operands, x));
}

void ThreadEmitter::emit(const loops::Write&, TreeRef ref) { write(ref, inputs_of(ref)[0]); }

void ThreadEmitter::emit(const View& view, TreeRef ref) { write(ref, pieces(view, ref, 0)); }

Value* ThreadEmitter::pieces(const View& view, TreeRef ref, size_t first) {
  if (first == view.pieces.size()) return values_.literal(ir_.node(tree_.node(ref)).dtype, view.fill);
  const Which which{Which::kPiece, first};
  Value* const inside = holds_at(ref, which);
  if (!inside) return read(ref, which);
  return either(inside, [&] { return read(ref, which); }, [&] { return pieces(view, ref, first + 1); });
}

Value* ThreadEmitter::either(Value* condition, const std::function<Value*()>& yes, const std::function<Value*()>& no) {
  llvm::BasicBlock* const then = f_->block("then");
  llvm::BasicBlock* const otherwise = f_->block("else");
  llvm::BasicBlock* const after = f_->block("either");
  b_.CreateCondBr(condition, then, otherwise);
  b_.SetInsertPoint(then);
  Value* const first = yes();
  llvm::BasicBlock* const then_end = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(otherwise);
  Value* const second = no();
  llvm::BasicBlock* const otherwise_end = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* const value = b_.CreatePHI(first->getType(), 2);
  value->addIncoming(first, then_end);
  value->addIncoming(second, otherwise_end);
  return value;
}

Value* ThreadEmitter::holds_at(TreeRef at, Which which) {
  return holds(compiler_.get_constraints(spot(at, which).access, *scope_));
}

// 0 <= x < bound is one unsigned comparison, as no bound is negative.
Value* ThreadEmitter::holds(const std::vector<Constraint>& constraints) {
  Value* result = nullptr;
  for (const Constraint& constraint : constraints) {
    Value* const inside = b_.CreateICmpULT(index(constraint.expr), index(at_least_zero(constraint.bound)));
    result = result ? b_.CreateAnd(result, inside) : inside;
  }
  return result;
}

ThreadEmitter::Expr ThreadEmitter::at_least_zero(const Expr& bound) const {
  return bounds(bound, scope_->box.ranges()).low >= 0 ? bound : max(bound, 0);
}

// ---- folds, scans, scatters -----------------------------------------------------------------------------------------

void ThreadEmitter::emit(const Reduce& reduce, TreeRef ref) {
  const NodeRef self = tree_.node(ref);
  const Node& node = ir_.node(self);
  const DType dtype = compiler_.allocations.at(self).dtype;
  const bool fused = compiler_.is_fused(node.inputs[0]);
  std::vector<Value*> x = inputs_of(fused ? tree_.find(node.inputs[0]) : ref);
  for (Value*& operand : x) operand = values_.cast(operand, node.dtype, dtype);
  Value* const before = read(ref, {Which::kSelf});
  Value* const both[] = {before, x[0]};
  write(ref, fused ? values_.mul_add(x[0], x[1], before) : values_.apply(*reduce.op, dtype, both));
}

void ThreadEmitter::emit(const Scan& scan, TreeRef ref) {
  const DType dtype = ir_.node(tree_.node(ref)).dtype;
  const Spot& carry = spot(ref, {Which::kCarry});
  const Compiler::Allocation& memory = *carry.access.memory;
  Value* const before = load(memory, carry.position);
  Value* const next = values_.added(*scan.op, before, memory.dtype, inputs_of(ref)[0], dtype);
  store(memory, carry.position, next);
  write(ref, values_.cast(next, memory.dtype, dtype));
}

void ThreadEmitter::emit(const Scatter& scatter, TreeRef ref) {
  const DType dtype = ir_.node(tree_.node(ref)).dtype;
  const auto combine = [&] {
    Value* next = read(ref, {Which::kInput, 1});
    if (scatter.op) {
      Value* const both[] = {read(ref, {Which::kSelf}), next};
      next = values_.apply(*scatter.op, dtype, both);
    }
    write(ref, next);
  };
  Value* const inside = holds_at(ref, {Which::kSelf});
  inside ? f_->when(inside, combine) : combine();
}

}  // namespace tenon::codegen
