// The bodies of loops: memory, elements and nodes.
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>

#include "codegen/emitter.h"
#include "loops/limits.h"
#include "runtime/kernel.h"

namespace tenon::codegen {

using namespace loops;
using llvm::Value;

namespace {

constexpr int64_t kMostStackBytes = 1 << 18;  // All arrays of a kernel on the stack.
constexpr int kToSecondCache = 2;             // The argument of llvm.prefetch that brings a line to the L2 cache.

bool is_parallel_between(const LoopTree& tree, TreeRef inner, TreeRef outer) {
  for (TreeRef ref = tree.parent(inner); ref != outer; ref = tree.parent(ref)) {
    if (tree.loop(ref).annotation.mark == Mark::kParallel) return true;
  }
  return false;
}

}  // namespace

// ---- memory ---------------------------------------------------------------------------------------------------------

bool Emitter::is_one_element(const Compiler::Allocation& memory) {
  return memory.scratch && memory.size().is_constant(1);
}

bool Emitter::has_wide_total(NodeRef sum) const { return compiler_.allocations.at(sum).dtype != ir_.node(sum).dtype; }

bool Emitter::is_register(NodeRef ref) const {
  const Node& node = ir_.node(ref);
  const Compiler::Allocation& memory = compiler_.allocations.at(ref);
  if (!(node.as<loops::Compute>() || node.as<View>()) || !is_one_element(memory)) return false;
  if (tree_.parent(tree_.find(ref)) != memory.lca) return false;
  return std::ranges::none_of(
      ir_.consumers(ref), [&](NodeRef reader) { return is_parallel_between(tree_, tree_.find(reader), memory.lca); });
}

void Emitter::declare_in(TreeRef loop) {
  for (NodeRef ref : ir_.order()) {
    const Compiler::Allocation& memory = compiler_.allocations.at(ref);
    const auto carry = compiler_.carries.find(ref);
    if (memory.scratch && memory.lca == loop && !is_register(ref) && !compiler_.is_fused(ref)) {
      arrays_[memory.mem_idx] = declare(ref, memory);
    }
    if (carry != compiler_.carries.end() && carry->second.lca == loop) {
      arrays_[carry->second.mem_idx] = declare(ref, carry->second);
    }
  }
}

Value* Emitter::declare(NodeRef ref, const Compiler::Allocation& memory) {
  const std::string& name = ir_.node(ref).name;
  llvm::Type* const type = values_.memory_type(memory.dtype);
  const Expr size = memory.size();
  if (size.is_constant() && size.constant() <= kMostStackArrayBytes / size_of(memory.dtype) &&
      stack_bytes_ < kMostStackBytes) {
    stack_bytes_ += size.constant() * size_of(memory.dtype);
    return f_->on_stack(type, std::max<int64_t>(size.constant(), 1), name);
  }
  std::vector<Value*> extents;
  for (const Compiler::Dim& dim : memory.dims) extents.push_back(index(dim.extent));
  return f_->on_heap(type, extents, name,
                     [&] { return failed(kTenonOutOfMemory, ref, b_.getInt64(0), b_.getInt64(0)); });
}

Value* Emitter::address_in(const Compiler::Allocation& memory, const Expr& position, Value* array) {
  if (!array) array = arrays_.at(memory.mem_idx);
  return f_->indices.address(array, values_.memory_type(memory.dtype), position);
}

// ---- where elements are ---------------------------------------------------------------------------------------------

Compiler::Access Emitter::access(TreeRef at, Which which) const {
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

std::vector<Emitter::Which> Emitter::elements_of(TreeRef leaf) const {
  const Node& node = ir_.node(tree_.node(leaf));
  std::vector<Which> elements = {{Which::kSelf}};
  const auto add = [&](Which::Role role, size_t count) {
    for (size_t i = 0; i < count; ++i) elements.push_back({role, i});
  };
  const auto* view = node.as<View>();
  view ? add(Which::kPiece, view->pieces.size()) : add(Which::kInput, node.inputs.size());
  add(Which::kLookup, node.lookups().size());
  add(Which::kCarry, node.as<Scan>() ? 1 : 0);
  return elements;
}

Emitter::Spot& Emitter::spot(TreeRef at, Which which) {
  const auto found = spots_.find({at, which});
  if (found != spots_.end()) return found->second;
  const Compiler::Access here = access(at, which);
  const bool has_position = here.memory || ir_.node(here.node).as<Index>();
  const Expr position = has_position ? compiler_.get_scoped_expr(here) : Expr(0);
  return spots_.emplace(std::pair(at, which), Spot{.access = here, .position = position}).first->second;
}

// The position with literals in place of counters. Copies of an unrolled body mostly differ by a constant, which is
// cheap to add.
Emitter::Expr Emitter::position(Spot& spot) {
  if (literals_.empty()) return spot.position;
  const auto as_known = [](const auto& literal) { return std::pair(literal.first, literal.second.is_offset); };
  const bool is_current = std::ranges::equal(spot.known, literals_, {}, {}, as_known);
  if (!is_current) {
    spot.known.clear();
    spot.slopes.clear();
    spot.is_affine = true;
    symbolic::Substitution zero;
    for (const auto& [symbol, literal] : literals_) {
      const Result<Expr> slope = differentiate(spot.position, symbol);
      spot.known.emplace_back(symbol, literal.is_offset);
      spot.is_affine = spot.is_affine && slope.ok() && slope->is_constant();
      spot.slopes.push_back(spot.is_affine ? slope->constant() : 0);
      if (!literal.is_offset) zero.emplace(symbol, 0);
    }
    spot.base = substitute(spot.position, zero);
  }
  if (!spot.is_affine) return substituted(spot.position);
  int64_t offset = 0;
  size_t i = 0;
  for (const auto& [symbol, literal] : literals_) offset += spot.slopes[i++] * literal.number;
  return offset == 0 ? spot.base : spot.base + offset;
}

std::optional<Emitter::Expr> Emitter::lane_stride(Spot& spot) {
  if (spot.lanes_of != vector_) {
    spot.lanes_of = vector_;
    const Result<Expr> stride = differentiate(spot.position, compiler_.counter(vector_));
    spot.stride = stride.ok() ? std::optional(*stride) : std::nullopt;
  }
  if (!spot.stride || f_->indices.differs_by_lane(spot.position)) return {};
  return substituted(*spot.stride);
}

Value* Emitter::steps() {
  std::vector<llvm::Constant*> numbers;
  for (int64_t lane = 0; lane < lanes_; ++lane) numbers.push_back(b_.getInt64(static_cast<uint64_t>(lane)));
  return llvm::ConstantVector::get(numbers);
}

Value* Emitter::irregular(const Expr& position) {
  const Symbol counter = compiler_.counter(vector_);
  const auto literal = literals_.find(counter);
  const bool is_number = literal != literals_.end() && !literal->second.is_offset;
  Value* const first = is_number ? b_.getInt64(static_cast<uint64_t>(literal->second.number)) : index(counter);
  f_->indices.bind_lanes(counter, b_.CreateAdd(all_lanes(first), steps()));
  // The literal of the vectorized loop is already in the lanes.
  const auto own = literals_.extract(counter);
  Value* const lanes = f_->indices.lanes(substituted(position), static_cast<unsigned>(lanes_));
  if (own) literals_.emplace(own.key(), own.mapped());
  f_->indices.unbind(counter);
  return lanes;
}

// ---- reading and writing --------------------------------------------------------------------------------------------

// Whether a masked access may access the whole vector. It may if the rows of the scratch array are whole vectors and
// this is the last stretch of the loop: the other lanes are unused memory.
bool Emitter::fills_whole_vectors(const Spot& spot) const {
  if (!is_last_part_ || !spot.access.memory->scratch || spot.access.memory->dims.empty()) return false;
  const Expr& row = spot.access.memory->dims.back().extent;
  return row.is_constant() && row.constant() % lanes_ == 0 && is_at_whole_vectors(spot);
}

bool Emitter::is_at_whole_vectors(const Spot& spot) const {
  if (!begins_at_whole_vector_) return false;
  const Symbol counter = compiler_.counter(vector_);
  const Expr at_first_lane = substitute(spot.position, {{counter, lanes_ * Expr(counter)}});
  return symbolic::simplify(mod(at_first_lane, lanes_), scope_->box.ranges()).is_constant(0);
}

Value* Emitter::mask_for(const Spot& spot, bool is_contiguous) const {
  if (guard_) return guard_;
  return tail_ && is_contiguous && fills_whole_vectors(spot) ? nullptr : tail_;
}

Value* Emitter::read(TreeRef at, Which which) {
  Spot& here = spot(at, which);
  const Node& node = ir_.node(here.access.node);
  if (const auto* constant = node.as<Constant>()) return values_.literal(node.dtype, constant->value);
  if (const auto known = registers_.find(here.access.node); known != registers_.end()) return known->second;
  const std::optional<Expr> stride = lanes_ == 1 ? Expr(0) : lane_stride(here);
  if (!here.access.memory) {
    if (!stride) return irregular(here.position);
    Value* const first = f_->indices.value(position(here));
    if (stride->is_constant(0)) return first;
    return b_.CreateAdd(all_lanes(first), b_.CreateMul(all_lanes(f_->indices.value(*stride)), steps()));
  }
  const Compiler::Allocation& memory = *here.access.memory;
  if (which.role == Which::kSelf && held_.contains(here.access.node)) {
    return b_.CreateLoad(values_.memory_type(node.dtype, lanes_), held(here));
  }
  if (Value* const known = transposed_read(at, which)) return values_.from_memory(known, node.dtype);
  llvm::Type* const type = values_.memory_type(memory.dtype);
  Value* const array = arrays_.at(memory.mem_idx);
  Value* const address = stride ? address_in(memory, position(here)) : nullptr;
  std::optional<Expr> ahead = stride && stride->is_constant(1) ? ahead_of(here, at) : std::nullopt;
  const bool is_read = stride && stride->is_constant(1) && ir_.node(here.access.node).as<Read>();
  if (!ahead && is_read) ahead = next_block({at, which}, vector_);
  if (ahead) prefetch(address_in(memory, position(here) + *ahead));
  Value* const addresses = stride ? nullptr : b_.CreateGEP(type, array, irregular(here.position));
  Value* const value = values_.from_memory(load(here, address, stride, addresses), memory.dtype);
  return which.role == Which::kSelf ? value : values_.cast(value, memory.dtype, node.dtype);
}

bool Emitter::is_plain_sum(TreeRef pass) const {
  const std::vector<TreeRef>& children = tree_.children(pass);
  const NodeRef only = children.size() == 1 ? tree_.node(children[0]) : NodeRef();
  return only && ir_.node(only).sums() && ir_.folds(only, tree_.loop(pass).var);
}

// The distance in elements at which a read of a large array prefetches. Empty: no prefetch. Two cases: (1) A row that
// several loops read is in the cache after the first of them; the later ones prefetch the next row. (2) A plain sum
// reads faster than hardware prefetches, which stops at each page. It prefetches two of four cache lines: hardware
// brings the others, which measured faster than prefetching all four.
std::optional<Emitter::Expr> Emitter::ahead_of(const Spot& spot, TreeRef at) const {
  const NodeRef source = spot.access.node;
  if (!ir_.node(source).as<Read>() || !goes_past_caches(source)) return {};
  const TreeRef pass = tree_.parent(at), row = tree_.parent(pass);
  const auto reads = [&](NodeRef ref) {
    return std::ranges::find(ir_.node(ref).inputs, source) != ir_.node(ref).inputs.end();
  };
  std::vector<TreeRef> passes = row ? tree_.children(row) : std::vector{pass};
  std::erase_if(passes, [&](TreeRef child) { return std::ranges::none_of(tree_.nodes_below(child), reads); });
  if (passes.size() == 1) {
    const bool is_told = sum_ < 2 && is_plain_sum(pass);
    return is_told ? std::optional<Expr>(machine_.prefetch_bytes / size_of(ir_.node(source).dtype)) : std::nullopt;
  }
  const Result<Expr> stride = differentiate(spot.position, compiler_.counter(row));
  return passes[0] != pass && stride.ok() && stride->is_constant() ? std::optional(*stride) : std::nullopt;
}

void Emitter::prefetch(Value* address) {
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                     {address, b_.getInt32(0), b_.getInt32(kToSecondCache), b_.getInt32(1)});
}

Value* Emitter::load(const Spot& spot, Value* address, const std::optional<Expr>& stride, Value* addresses) {
  const DType dtype = spot.access.memory->dtype;
  const llvm::Align align(static_cast<uint64_t>(size_of(dtype)));
  llvm::Type* const type = values_.memory_type(dtype);
  if (stride && stride->is_constant(0) && !guard_) return b_.CreateAlignedLoad(type, address, align);
  auto* const vector = llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes_));
  if (stride && stride->is_constant(1)) {
    Value* const mask = mask_for(spot, true);
    if (!mask) return b_.CreateAlignedLoad(vector, address, align);
    return b_.CreateMaskedLoad(vector, address, align, mask, llvm::Constant::getNullValue(vector));
  }
  Value* const mask = mask_for(spot, false);
  const int64_t step = stride && stride->is_constant() ? stride->constant() : 0;
  const int64_t used = !mask || guard_ ? lanes_ : tail_count_;
  if (used > 0 && step != 0 && std::abs(step) <= machine_.most_strided_step)
    return strided(type, address, step, used, align);
  if (!addresses) addresses = b_.CreateGEP(type, address, b_.CreateMul(all_lanes(f_->indices.value(*stride)), steps()));
  return b_.CreateMaskedGather(vector, addresses, align, mask, mask ? llvm::Constant::getNullValue(vector) : nullptr);
}

// A mask of the elements from `begin` on: those of the lanes in the mask, which are `step` elements apart.
Value* Emitter::spread(Value* mask, int64_t step, int64_t begin) {
  std::vector<int> picks;
  for (int64_t element = begin; element < begin + lanes_; ++element) {
    const int64_t lane = step < 0 ? lanes_ - 1 - element / -step : element / step;
    picks.push_back(static_cast<int>(element % std::abs(step) == 0 ? lane : lanes_));
  }
  return b_.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), picks);
}

// Loads all elements from the first used lane to the last, and no others; with a guard, only those of its lanes.
// Shuffles pick the wanted ones.
Value* Emitter::strided(llvm::Type* type, Value* address, int64_t step, int64_t used, llvm::Align align) {
  const int64_t wide = std::abs(step), last = (used - 1) * wide;
  auto* const vector = llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes_));
  Value* const from = step < 0 ? b_.CreateConstGEP1_64(type, address, static_cast<uint64_t>(-last)) : address;
  Value* const zero = llvm::Constant::getNullValue(vector);
  Value* result = zero;
  for (int64_t first = 0; first <= last; first += lanes_) {
    const int64_t begin = std::clamp<int64_t>(last + 1 - lanes_, 0, first);
    Value* const at = b_.CreateConstGEP1_64(type, from, static_cast<uint64_t>(begin));
    Value* const mask = guard_              ? spread(guard_, step, begin)
                        : last + 1 < lanes_ ? first_lanes(b_.getInt64(static_cast<uint64_t>(last + 1)))
                                            : nullptr;
    Value* const loaded = mask ? static_cast<Value*>(b_.CreateMaskedLoad(vector, at, align, mask, zero))
                               : b_.CreateAlignedLoad(vector, at, align);
    std::vector<int> picks;
    for (int64_t lane = 0; lane < lanes_; ++lane) {
      const int64_t element = step < 0 ? last - lane * wide : lane * wide;
      const bool is_here = lane < used && element >= first && element < first + lanes_;
      picks.push_back(static_cast<int>(is_here ? lanes_ + element - begin : lane));
    }
    result = b_.CreateShuffleVector(result, loaded, picks);
  }
  return result;
}

void Emitter::write(TreeRef at, Value* value) {
  const NodeRef ref = tree_.node(at);
  if (!ir_.node(ref).as<Write>() && is_register(ref)) {
    registers_[ref] = value;
    return;
  }
  Spot& here = spot(at, {Which::kSelf});
  const Compiler::Allocation& memory = *here.access.memory;
  if (held_.contains(ref)) {
    b_.CreateStore(all_lanes(value), held(here));
    return;
  }
  const Expr stride = lanes_ == 1 ? Expr(0) : *lane_stride(here);
  store(here, address_in(memory, position(here)), stride, values_.to_memory(value, memory.dtype));
}

// An array larger than the caches is evicted before it is read again. So stores to it bypass the caches.
bool Emitter::goes_past_caches(NodeRef ref) const {
  const Compiler::Allocation& memory = compiler_.allocations.at(ref);
  const Expr size = memory.size();
  return target_.arch == Arch::kX86 && size.is_constant() &&
         size.constant() >= machine_.uncached_bytes() / size_of(memory.dtype);
}

bool Emitter::is_streamed(const Spot& spot) const {
  return streams_are_aligned_ && ir_.node(spot.access.node).as<Write>() && goes_past_caches(spot.access.node) &&
         is_at_whole_vectors(spot);
}

void Emitter::store(const Spot& spot, Value* address, const Expr& stride, Value* value) {
  const llvm::Align align(static_cast<uint64_t>(size_of(spot.access.memory->dtype)));
  if (stride.is_constant(0)) {
    if (lanes_of(value) > 1) value = b_.CreateExtractElement(value, uint64_t{0});
    b_.CreateAlignedStore(value, address, align);
    return;
  }
  value = all_lanes(value);
  if (stride.is_constant(1)) {
    if (Value* const mask = mask_for(spot, true)) {
      b_.CreateMaskedStore(value, address, align, mask);
    } else if (is_streamed(spot)) {
      const auto bytes = static_cast<uint64_t>(lanes_ * size_of(spot.access.memory->dtype));
      llvm::StoreInst* const stored = b_.CreateAlignedStore(value, address, llvm::Align(bytes));
      llvm::Metadata* const one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
      stored->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(b_.getContext(), {one}));
    } else {
      b_.CreateAlignedStore(value, address, align);
    }
    return;
  }
  llvm::Type* const type = value->getType()->getScalarType();
  Value* const addresses = b_.CreateGEP(type, address, b_.CreateMul(all_lanes(f_->indices.value(stride)), steps()));
  b_.CreateMaskedScatter(value, addresses, align, mask_for(spot, false));
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

void Emitter::node(TreeRef ref) {
  const Node& node = ir_.node(tree_.node(ref));
  if (compiler_.is_fused(tree_.node(ref))) return;
  const std::span<const Lookup> lookups = node.lookups();
  for (size_t i = 0; i < lookups.size(); ++i) look_up(lookups[i], ref, i);
  std::visit([&](const auto& action) { emit(action, ref); }, node.action);
  for (const Lookup& lookup : lookups) f_->indices.unbind(lookup.symbol);
}

template <class Action>
void Emitter::emit(const Action&, TreeRef ref) {
  check(false, "%{} cannot be emitted as a statement", ir_.node(tree_.node(ref)).name);
}

void Emitter::look_up(const Lookup& lookup, TreeRef ref, size_t position) {
  const Which which{Which::kLookup, position};
  Value* index_value = values_.cast(read(ref, which), ir_.node(lookup.indices).dtype, DType::kI64);
  Value* const bound = index(at_least_zero(lookup.bound));
  const auto like = [&](Value* value) { return values_.splat(value, lanes_of(index_value)); };
  Value* bad = b_.CreateICmpUGE(index_value, like(bound));
  if (tail_ && lanes_of(bad) > 1) bad = b_.CreateAnd(bad, tail_);
  leave_where(bad, kTenonOutOfRange, tree_.node(ref), index_value, lookup.bound);
  if (lanes_of(index_value) == 1) return f_->indices.bind_here(lookup.symbol, index_value);
  if (tail_) index_value = b_.CreateSelect(tail_, index_value, llvm::Constant::getNullValue(index_value->getType()));
  f_->indices.bind_lanes(lookup.symbol, index_value);
}

// Leaves the kernel with an error if a lane is bad. The first bad lane is reported.
void Emitter::leave_where(Value* bad, int64_t kind, NodeRef node, Value* value, const Expr& bound) {
  const bool is_vector = lanes_of(bad) > 1;
  Value* const any = is_vector ? b_.CreateOrReduce(bad) : bad;
  f_->leave_when(any, [&] {
    Value* one = value;
    if (is_vector) {
      Value* const bits = b_.CreateBitCast(bad, b_.getIntNTy(static_cast<unsigned>(lanes_of(bad))));
      Value* const wide = b_.CreateZExt(bits, b_.getInt64Ty());
      Value* const lane = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, wide, b_.getTrue());
      one = lanes_of(value) > 1 ? b_.CreateExtractElement(value, lane) : value;
    }
    return failed(kind, node, one, index(bound));
  });
}

std::vector<Value*> Emitter::inputs_of(TreeRef ref) {
  std::vector<Value*> values;
  int64_t lanes = 1;
  for (size_t i = 0; i < ir_.node(tree_.node(ref)).inputs.size(); ++i) {
    values.push_back(read(ref, {Which::kInput, i}));
    lanes = std::max(lanes, lanes_of(values.back()));
  }
  for (Value*& value : values) value = values_.splat(value, lanes);
  return values;
}

void Emitter::emit(const loops::Compute& compute, TreeRef ref) {
  const Node& node = ir_.node(tree_.node(ref));
  const std::vector<Value*> x = inputs_of(ref);
  const std::string_view op = compute.op->name;
  const DType operands = ir_.node(node.inputs.back()).dtype;
  if (divides_integers(*compute.op, operands)) {
    Value* bad = b_.CreateIsNull(x[1]);
    if (tail_ && lanes_of(bad) > 1) bad = b_.CreateAnd(bad, tail_);
    leave_where(bad, kTenonDivisionByZero, tree_.node(ref), values_.cast(x[0], operands, DType::kI64), 0);
  }
  Value* const value = op == "cast"      ? values_.cast(x[0], operands, node.dtype)
                       : op == "bitcast" ? values_.bits_as(x[0], operands, node.dtype)
                                         : values_.apply(*compute.op, operands, x);
  value->setName(node.name);
  write(ref, value);
}

void Emitter::emit(const loops::Write&, TreeRef ref) { write(ref, inputs_of(ref)[0]); }

// ---- views ----------------------------------------------------------------------------------------------------------

void Emitter::emit(const View& view, TreeRef ref) { write(ref, pieces(view, ref, 0)); }

Value* Emitter::pieces(const View& view, TreeRef ref, size_t first) {
  if (first == view.pieces.size()) return values_.literal(ir_.node(tree_.node(ref)).dtype, view.fill);
  const Which which{Which::kPiece, first};
  Value* const inside = holds(guards(spot(ref, which)));
  if (!inside) return read(ref, which);
  if (is_always_there(spot(ref, which))) {
    Value* const value = read(ref, which);
    Value* const otherwise = pieces(view, ref, first + 1);
    const int64_t lanes = std::max({lanes_of(inside), lanes_of(value), lanes_of(otherwise)});
    return b_.CreateSelect(values_.splat(inside, lanes), values_.splat(value, lanes), values_.splat(otherwise, lanes));
  }
  if (lanes_of(inside) == 1) {
    return either(inside, [&] { return read(ref, which); }, [&] { return pieces(view, ref, first + 1); });
  }
  Value* const around = guard_;
  guard_ = around ? b_.CreateAnd(around, inside) : tail_ ? b_.CreateAnd(tail_, inside) : inside;
  Value* const value = all_lanes(read(ref, which));
  guard_ = around;
  return b_.CreateSelect(inside, value, all_lanes(pieces(view, ref, first + 1)));
}

// Scratch at the own index exists even if a constraint fails. Reading it always, and selecting after, keeps it in
// registers.
bool Emitter::is_always_there(const Spot& spot) const {
  if (!spot.access.memory || !spot.access.memory->scratch) return false;
  return spot.access.index == ir_.own_index(spot.access.node);
}

Value* Emitter::either(Value* condition, const std::function<Value*()>& yes, const std::function<Value*()>& no) {
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) return known->isOne() ? yes() : no();
  llvm::BasicBlock* const then = f_->block("then");
  llvm::BasicBlock* const otherwise = f_->block("else");
  llvm::BasicBlock* const after = f_->block("either");
  b_.CreateCondBr(condition, then, otherwise);
  b_.SetInsertPoint(then);
  Value* first = yes();
  llvm::BasicBlock* const then_end = b_.GetInsertBlock();
  b_.SetInsertPoint(otherwise);
  Value* second = no();
  const int64_t lanes = std::max(lanes_of(first), lanes_of(second));
  second = values_.splat(second, lanes);
  llvm::BasicBlock* const otherwise_end = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(then_end);
  first = values_.splat(first, lanes);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* const value = b_.CreatePHI(first->getType(), 2);
  value->addIncoming(first, then_end);
  value->addIncoming(second, otherwise_end);
  return value;
}

const std::vector<Constraint>& Emitter::guards(Spot& spot) {
  if (spot.guards_of != scope_number_) {
    spot.guards_of = scope_number_;
    spot.guards = compiler_.get_constraints(spot.access, *scope_);
  }
  return spot.guards;
}

bool Emitter::differs_by_lane(const Expr& expr) const {
  return lanes_ > 1 && (depends_on(expr, compiler_.counter(vector_)) || f_->indices.differs_by_lane(expr));
}

Value* Emitter::holds(const std::vector<Constraint>& constraints) {
  Value* result = nullptr;
  for (const Constraint& constraint : constraints) {
    Value* const one = holds(constraint);
    if (!one) continue;
    const int64_t lanes = std::max(lanes_of(one), result ? lanes_of(result) : 1);
    result = result ? b_.CreateAnd(values_.splat(result, lanes), values_.splat(one, lanes)) : one;
  }
  return result;
}

// Sizes of empty arrays may be negative.
Emitter::Expr Emitter::at_least_zero(const Expr& bound) const {
  return bounds(bound, scope_->box.ranges()).low >= 0 ? bound : max(bound, 0);
}

// 0 <= x < bound is one unsigned comparison, as no bound is negative.
Value* Emitter::holds(const Constraint& constraint) {
  Value* const bound = index(at_least_zero(constraint.bound));
  if (differs_by_lane(constraint.expr)) return b_.CreateICmpULT(irregular(constraint.expr), all_lanes(bound));
  Value* const inside = b_.CreateICmpULT(index(constraint.expr), bound);
  const auto* known = llvm::dyn_cast<llvm::ConstantInt>(inside);
  return known && known->isOne() ? nullptr : inside;
}

// ---- folds, scans, scatters -----------------------------------------------------------------------------------------

void Emitter::emit(const Reduce& reduce, TreeRef ref) {
  const NodeRef self = tree_.node(ref);
  const Node& node = ir_.node(self);
  const bool by_lane = lanes_ > 1 && ir_.folds(self, tree_.loop(vector_).var);
  const DType dtype = by_lane || held_.contains(self) ? node.dtype : compiler_.allocations.at(self).dtype;
  llvm::Type* const lanes_type = values_.type(dtype, lanes_);
  Value* const sum = by_lane ? b_.CreateLoad(lanes_type, lane_sum(self, sum_)) : read(ref, {Which::kSelf});
  const bool fused = compiler_.is_fused(node.inputs[0]);
  std::vector<Value*> x = inputs_of(fused ? tree_.find(node.inputs[0]) : ref);
  int64_t lanes = lanes_of(sum);
  for (const Value* operand : x) lanes = std::max(lanes, lanes_of(operand));
  for (Value*& operand : x) operand = values_.splat(values_.cast(operand, node.dtype, dtype), lanes);
  Value* const before = values_.splat(sum, lanes);
  Value* const both[] = {before, x[0]};
  Value* next = fused ? values_.mul_add(x[0], x[1], before) : values_.apply(*reduce.op, dtype, both);
  next->setName(node.name);
  if (!by_lane) return write(ref, next);
  if (tail_) next = b_.CreateSelect(tail_, next, sum);
  b_.CreateStore(next, lane_sum(self, sum_));
}

void Emitter::emit(const Scan& scan, TreeRef ref) {
  const DType dtype = ir_.node(tree_.node(ref)).dtype;
  Spot& carry = spot(ref, {Which::kCarry});
  const DType wide = carry.access.memory->dtype;
  const Expr stride = lanes_ == 1 ? Expr(0) : *lane_stride(carry);
  Value* const at = address_in(*carry.access.memory, position(carry));
  Value* const before = values_.from_memory(load(carry, at, stride, nullptr), wide);
  Value* const x = values_.splat(inputs_of(ref)[0], lanes_of(before));
  Value* const next = values_.added(*scan.op, before, wide, x, dtype);
  store(carry, at, stride, values_.to_memory(next, wide));
  write(ref, values_.cast(next, wide, dtype));
}

void Emitter::emit(const Scatter& scatter, TreeRef ref) {
  const DType dtype = ir_.node(tree_.node(ref)).dtype;
  const auto combine = [&] {
    Value* next = read(ref, {Which::kInput, 1});
    if (scatter.op) {
      Value* before = read(ref, {Which::kSelf});
      const int64_t lanes = std::max(lanes_of(before), lanes_of(next));
      Value* const both[] = {values_.splat(before, lanes), values_.splat(next, lanes)};
      next = values_.apply(*scatter.op, dtype, both);
    }
    write(ref, next);
  };
  Value* const inside = holds(guards(spot(ref, {Which::kSelf})));
  inside ? f_->when(inside, combine) : combine();
}

}  // namespace tenon::codegen
