#include "codegen/emit.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "codegen/emitter.h"

namespace tenon::codegen {

using namespace loops;
using llvm::BasicBlock;
using llvm::Value;

llvm::Function* emit_kernel(llvm::Module& module, const LoopTree& tree, const std::string& name, const Target& target) {
  return Emitter(module, tree, target).kernel(name);
}

Emitter::Emitter(llvm::Module& module, const LoopTree& tree, const Target& target)
    : module_(module),
      tree_(tree),
      ir_(tree.ir),
      target_(target),
      machine_(machine_of(target)),
      b_(module.getContext()),
      values_(b_, target),
      compiler_(tree) {
  compiler_.widen_totals();
  values_.flushes_subnormals = multiplies_narrow_floats();
}

// Whether an instruction multiplies bf16: these take subnormal numbers for 0.
bool Emitter::multiplies_narrow_floats() const {
  const auto is_of_floats = [&](TreeRef loop) {
    const Annotation& annotation = tree_.loop(loop).annotation;
    return annotation.mark == Mark::kTile && std::ranges::any_of(machine_.tiles, [&](const TileIntrinsic& tile) {
             return tile.name == annotation.tile && is_float(tile.a);
           });
  };
  return std::ranges::any_of(ir_.order(), [&](NodeRef node) {
    return std::ranges::any_of(tree_.path(tree_.parent(tree_.find(node))), is_of_floats);
  });
}

// ---- the function ---------------------------------------------------------------------------------------------------

llvm::Function* Emitter::kernel(const std::string& name) {
  llvm::Type* const pointer = b_.getPtrTy();
  auto* const type = llvm::FunctionType::get(b_.getInt64Ty(), {pointer, pointer, pointer, pointer}, false);
  auto* const function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
  FunctionBuilder builder(b_, function);
  f_ = &builder;
  bind_parameters(function);
  const Compiler::Scope root = compiler_.root();
  scope_ = &root;
  f_->indices.set_ranges(root.box.ranges());
  whole_tree();
  f_->finish();
  return function;
}

// Stores that bypass the caches need aligned addresses. If the addresses may be unaligned, code for both cases is
// emitted.
void Emitter::whole_tree() {
  const auto all = [&] {
    body({}, tree_.roots());
    fence_streams();
  };
  std::vector<NodeRef> streams = ir_.writes();
  std::erase_if(streams, [&](NodeRef ref) { return !goes_past_caches(ref); });
  if (streams.empty()) return all();
  Value* const aligned = are_aligned(streams);
  streams_are_aligned_ = true;
  f_->when(aligned, all);
  streams_are_aligned_ = false;
  f_->when(b_.CreateNot(aligned), all);
}

Value* Emitter::are_aligned(const std::vector<NodeRef>& writes) {
  Value* bits = b_.getInt64(0);
  for (NodeRef ref : writes) {
    bits = b_.CreateOr(bits, b_.CreatePtrToInt(arrays_.at(compiler_.allocations.at(ref).mem_idx), b_.getInt64Ty()));
  }
  return b_.CreateIsNull(b_.CreateAnd(bits, static_cast<uint64_t>(target_.vector_bytes - 1)));
}

// Makes stores that bypassed the caches visible to other threads.
void Emitter::fence_streams() {
  if (streams_are_aligned_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
}

void Emitter::bind_parameters(llvm::Function* function) {
  const char* const names[] = {"memory", "sizes", "error", "services"};
  for (unsigned i = 0; i < 4; ++i) function->getArg(i)->setName(names[i]);
  f_->error = function->getArg(2);
  f_->services = function->getArg(3);
  const llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(f_->entry_end());
  uint64_t position = 0;
  for (Symbol symbol : ir_.size_symbols()) {
    Value* const at = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), function->getArg(1), position++);
    f_->indices.bind(symbol, b_.CreateLoad(b_.getInt64Ty(), at, symbol.name()));
  }
  const auto bind_array = [&](NodeRef ref) {
    const int64_t slot = compiler_.allocations.at(ref).mem_idx;
    Value* const at = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), function->getArg(0), static_cast<uint64_t>(slot));
    arrays_[slot] = b_.CreateLoad(b_.getPtrTy(), at, ir_.node(ref).name);
  };
  for (NodeRef ref : ir_.reads()) bind_array(ref);
  for (NodeRef ref : ir_.writes()) bind_array(ref);
}

Value* Emitter::failed(int64_t kind, NodeRef node, Value* value, Value* bound) {
  Value* const code = b_.getInt64(static_cast<uint64_t>(kind));
  b_.CreateCall(failed_function(), {f_->error, code, b_.getInt64(node.id), value, bound});
  return code;
}

// Records an error. If several threads fail, the first one wins.
llvm::Function* Emitter::failed_function() {
  constexpr const char* kName = "tenon.failed";
  if (llvm::Function* const known = module_.getFunction(kName)) return known;
  const llvm::IRBuilderBase::InsertPointGuard guard(b_);
  llvm::Type* const number = b_.getInt64Ty();
  auto* const type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), number, number, number, number}, false);
  auto* const function = llvm::Function::Create(type, llvm::Function::InternalLinkage, kName, module_);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::Cold);
  auto* const entry = BasicBlock::Create(b_.getContext(), "entry", function);
  auto* const first = BasicBlock::Create(b_.getContext(), "first", function);
  auto* const exit = BasicBlock::Create(b_.getContext(), "exit", function);
  b_.SetInsertPoint(entry);
  const auto ordering = llvm::AtomicOrdering::SequentiallyConsistent;
  Value* const swapped = b_.CreateAtomicCmpXchg(function->getArg(0), b_.getInt64(0), function->getArg(1),
                                                llvm::MaybeAlign(8), ordering, ordering);
  b_.CreateCondBr(b_.CreateExtractValue(swapped, 1), first, exit);
  b_.SetInsertPoint(first);
  for (unsigned i = 1; i < 4; ++i) {
    b_.CreateStore(function->getArg(i + 1), b_.CreateConstInBoundsGEP1_64(number, function->getArg(0), i));
  }
  b_.CreateBr(exit);
  b_.SetInsertPoint(exit);
  b_.CreateRetVoid();
  return function;
}

// ---- loops ----------------------------------------------------------------------------------------------------------

void Emitter::body(TreeRef ref, const std::vector<TreeRef>& children) {
  declare_in(ref);
  for (TreeRef child : children) {
    const std::vector<Compiler::Fill> fills = compiler_.fills(child);
    for (const Compiler::Fill& fill : fills) grid_that_sums(fill.node) ? start_grid(fill) : start(fill);
    tree_.kind(child) == LoopTree::NODE ? node(child) : loop(child);
    for (const Compiler::Fill& fill : fills) {
      if (grid_that_sums(fill.node)) finish_grid(fill);
    }
  }
}

void Emitter::loop(TreeRef ref) {
  const SumBlocks blocks = sum_blocks(ref);
  if (blocks.size > 0) {
    sum_blocks_[blocks.loop] = blocks;
    plain_loop(ref);
    sum_blocks_.erase(blocks.loop);
  } else if (!blocks.held.empty()) {
    // If totals are wider than registers, sums start at 0 and are added to their totals at the end.
    const bool anew = std::ranges::any_of(blocks.held, [&](NodeRef sum) { return has_wide_total(sum); });
    holding(blocks.held, anew, [&] { plain_loop(ref); });
  } else {
    plain_loop(ref);
  }
}

void Emitter::plain_loop(TreeRef ref) {
  if (const std::vector<TreeRef> loops = run_of(ref); loops.size() > 1) return run(loops);
  const std::vector<Compiler::Stretch> parts = compiler_.stretches(ref, *scope_);
  for (const Compiler::Stretch& part : parts) {
    is_last_part_ = &part == &parts.back();
    in_scope(part.scope, [&] { stretch(ref, part.begin, part.end); });
  }
}

void Emitter::in_scope(const Compiler::Scope& scope, const std::function<void()>& body) {
  const Compiler::Scope* const around = std::exchange(scope_, &scope);
  const int64_t around_number = std::exchange(scope_number_, ++scopes_);
  f_->indices.set_ranges(scope.box.ranges());
  body();
  scope_ = around;
  scope_number_ = around_number;
  f_->indices.set_ranges(around->box.ranges());
}

void Emitter::stretch(TreeRef ref, const Expr& begin, const Expr& end) {
  const auto& [var, size, tail, step, annotation] = tree_.loop(ref);
  if (annotation.mark == Mark::kTile && !has_tile(target_, annotation.tile)) {
    fail("target {} has no tile \"{}\": take it off the loop over {}", target_.name, annotation.tile,
         ir_.var(var).name);
  }
  const symbolic::Interval count = bounds(substituted(end - begin), scope_->box.ranges());
  if (count.high <= 0) return;
  if (annotation.mark == Mark::kTile) {
    if (const Grid* const grid = grid_of(ref)) return multiply(*grid);
    if (tile(ref, begin, end)) return;
  }
  if (annotation.mark == Mark::kVectorize) return vectors(ref, begin, end);
  const int64_t most = annotation.mark == Mark::kUnroll ? kMostCopies / copies_ : 1;
  if (count.high <= most && (count.is_single() || annotation.mark == Mark::kUnroll)) {
    return unrolled(ref, begin, end, count.high);
  }
  if (annotation.mark == Mark::kParallel && target_.has_threads) return parallel(ref, begin, end);
  serial(ref, index(begin), index(end));
}

void Emitter::serial(TreeRef ref, Value* begin, Value* end) {
  const auto steps = [&](Value* from, Value* to) {
    f_->loop(compiler_.counter(ref), from, to, 1, [&] { body(ref, tree_.children(ref)); });
  };
  const auto found = sum_blocks_.find(ref);
  if (found == sum_blocks_.end()) return steps(begin, end);
  const SumBlocks blocks = found->second;
  const Symbol block("block_of_sums");
  f_->loop(block, begin, end, blocks.size, [&] {
    Value* const from = index(block);
    Value* const past = b_.CreateAdd(from, b_.getInt64(static_cast<uint64_t>(blocks.size)));
    Value* const to = b_.CreateSelect(b_.CreateICmpSLT(past, end), past, end);
    in_block(blocks, [&] { steps(from, to); });
  });
}

void Emitter::at_literal(Symbol counter, Literal literal, const std::function<void()>& body) {
  literals_.emplace(counter, literal);
  body();
  literals_.erase(counter);
}

Emitter::Expr Emitter::substituted(const Expr& expr) const {
  symbolic::Substitution substitution;
  for (const auto& [symbol, literal] : literals_) {
    if (depends_on(expr, symbol)) {
      substitution.emplace(symbol, literal.is_offset ? Expr(symbol) + literal.number : Expr(literal.number));
    }
  }
  return substitution.empty() ? expr : substitute(expr, substitution);
}

// A copy that may not be needed tests whether the loop has that iteration.
void Emitter::unrolled(TreeRef ref, const Expr& begin, const Expr& end, int64_t most) {
  const Symbol counter = compiler_.counter(ref);
  const Expr first = substituted(begin);
  const int64_t least = std::max<int64_t>(bounds(substituted(end - begin), scope_->box.ranges()).low, 0);
  const auto copy = [&](int64_t i) {
    const Literal literal{first.is_constant() ? first.constant() + i : i, !first.is_constant()};
    const auto emit = [&] { at_literal(counter, literal, [&] { body(ref, tree_.children(ref)); }); };
    copy_of_.insert_or_assign(counter, i);
    if (i < least) return emit();
    f_->when(b_.CreateICmpSLT(index(begin + i), index(end)), emit);
  };
  const auto copies = [&] {
    copies_ *= most;
    if (least == most) transpose_reads(ref, begin, most);
    for (int64_t i = 0; i < most; ++i) copy(i);
    blocks_.clear();
    copies_ /= most;
  };
  first.is_constant() ? copies() : f_->with(counter, index(begin), copies);
}

// The approximate work of one iteration, in operations of vector lanes.
Emitter::Expr Emitter::work_below(TreeRef ref) const {
  if (tree_.kind(ref) == LoopTree::NODE) return work_of(ref);
  Expr work = 0;
  for (TreeRef child : tree_.children(ref)) {
    const Expr times = tree_.kind(child) == LoopTree::LOOP ? tree_.loop(child).size + 1 : Expr(1);
    work += times * work_below(child);
  }
  return work;
}

int64_t Emitter::work_of(TreeRef leaf) const {
  const Node& node = ir_.node(tree_.node(leaf));
  const auto* compute = node.as<loops::Compute>();
  const TreeRef loop = tree_.parent(leaf);
  const bool is_vector = loop && tree_.loop(loop).annotation.mark == Mark::kVectorize && node.lookups().empty();
  const bool is_long = compute && is_float(node.dtype) && cost_of(*compute->op) >= Cost::kFunction;
  return (is_long ? machine_.function_work : 1) * (is_vector ? 1 : machine_.scalar_work);
}

// The loop directly inside, if both are parallel and all of its iterations are alike. Empty: there is none.
std::optional<Compiler::Stretch> Emitter::parallel_inside(TreeRef ref) const {
  const std::vector<TreeRef>& children = tree_.children(ref);
  const bool is_nest = children.size() == 1 && tree_.kind(children[0]) == LoopTree::LOOP &&
                       tree_.loop(children[0]).annotation.mark == Mark::kParallel;
  if (!is_nest || !compiler_.fills(children[0]).empty()) return {};
  std::vector<Compiler::Stretch> parts = compiler_.stretches(children[0], *scope_);
  const bool is_plain =
      parts.size() == 1 && parts[0].begin.is_constant(0) && !depends_on(parts[0].end, compiler_.counter(ref));
  return is_plain ? std::optional(std::move(parts[0])) : std::nullopt;
}

// Two parallel loops are one, over all pairs of their iterations.
void Emitter::parallel_pairs(TreeRef ref, const Expr& begin, const Expr& end, const Compiler::Stretch& inside) {
  const TreeRef inner = tree_.children(ref)[0];
  const Symbol pair("pair");
  const Expr count = at_least_zero(inside.end), pairs = at_least_zero(end - begin) * count;
  on_threads(ref, 0, pairs, (end - begin) * work_below(ref), [&](Value* from, Value* to) {
    f_->loop(pair, from, to, 1, [&] {
      Value* const outer_at = index(begin + floordiv(pair, count));
      Value* const inner_at = index(mod(pair, count));
      f_->with(compiler_.counter(ref), outer_at, [&] {
        f_->with(compiler_.counter(inner), inner_at,
                 [&] { in_scope(inside.scope, [&] { body(inner, tree_.children(inner)); }); });
      });
    });
  });
}

void Emitter::parallel(TreeRef ref, const Expr& begin, const Expr& end) {
  if (const auto inside = parallel_inside(ref)) return parallel_pairs(ref, begin, end, *inside);
  on_threads(ref, begin, end, (end - begin) * work_below(ref), [&](Value* from, Value* to) { serial(ref, from, to); });
}

// A vectorized parallel loop: threads take blocks of whole vectors.
void Emitter::parallel_vectors(TreeRef ref, const Expr& count) {
  const Symbol first("first"), past("past");
  const int64_t grain = machine_.thread_grain;
  on_threads(ref, 0, ceildiv(count, grain), count * work_below(ref), [&](Value* from, Value* to) {
    f_->with(first, from,
             [&] { f_->with(past, to, [&] { vectors(ref, grain * Expr(first), min(grain * Expr(past), count)); }); });
  });
}

// Emits the body as a function that runs a stretch of the loop. A table passes it all values that exist at this point.
void Emitter::on_threads(TreeRef ref, const Expr& begin, const Expr& end, const Expr& work, const StretchBody& body) {
  std::vector<std::pair<Symbol, Value*>> symbols;
  for (const auto& [symbol, value] : f_->indices.symbols()) symbols.emplace_back(symbol, value);
  std::vector<Value*> contents = {f_->error, f_->services};
  for (const auto& [slot, array] : arrays_) contents.push_back(array);
  for (const auto& [symbol, value] : symbols) contents.push_back(value);
  std::vector<llvm::Type*> types;
  for (Value* value : contents) types.push_back(value->getType());
  auto* const table_type = llvm::StructType::get(b_.getContext(), types);
  Value* const table = f_->on_stack(table_type, 1, "table");
  for (unsigned i = 0; i < contents.size(); ++i) {
    b_.CreateStore(contents[i], b_.CreateStructGEP(table_type, table, i));
  }
  llvm::Type* const number = b_.getInt64Ty();
  auto* const type = llvm::FunctionType::get(number, {b_.getPtrTy(), number, number}, false);
  auto* const function = llvm::Function::Create(
      type, llvm::Function::InternalLinkage, f_->function()->getName() + "_" + compiler_.counter(ref).name(), module_);
  Value* const from = index(begin);
  Value* const to = index(end);
  const BasicBlock::iterator here = b_.GetInsertPoint();
  BasicBlock* const block = b_.GetInsertBlock();
  const TreeRef around = std::exchange(outlined_, ref);
  outline(*f_, function, symbols, table_type, body);
  outlined_ = around;
  b_.SetInsertPoint(block, here);

  Value* const is_small = b_.CreateICmpSLT(index(work), b_.getInt64(static_cast<uint64_t>(machine_.thread_work)));
  auto* const call_type =
      llvm::FunctionType::get(number, {b_.getPtrTy(), number, number, b_.getPtrTy(), b_.getPtrTy()}, false);
  Value* const code = either(
      is_small, [&] { return b_.CreateCall(function, {table, from, to}); },
      [&] {
        Value* const parallel_for = b_.CreateLoad(b_.getPtrTy(), f_->services, "parallel_for");
        return b_.CreateCall(call_type, parallel_for, {f_->services, from, to, function, table});
      });
  f_->leave_when(b_.CreateIsNotNull(code), [&] { return code; });
}

void Emitter::outline(FunctionBuilder& outside, llvm::Function* function,
                      const std::vector<std::pair<Symbol, Value*>>& symbols, llvm::StructType* table,
                      const StretchBody& body) {
  FunctionBuilder inside(b_, function);
  f_ = &inside;
  const std::map<int64_t, Value*> arrays_outside = arrays_;
  const auto registers_outside = std::exchange(registers_, {});
  f_->indices.set_ranges(scope_->box.ranges());
  unsigned position = 0;
  {
    const llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(f_->entry_end());
    const auto next = [&](const llvm::Twine& name) {
      Value* const at = b_.CreateStructGEP(table, function->getArg(0), position);
      return b_.CreateLoad(table->getElementType(position++), at, name);
    };
    f_->error = next("error");
    f_->services = next("services");
    for (auto& [slot, array] : arrays_) array = next(array->getName());
    for (const auto& [symbol, value] : symbols) f_->indices.bind(symbol, next(symbol.name()));
  }
  body(function->getArg(1), function->getArg(2));
  fence_streams();
  f_->finish();
  f_ = &outside;
  arrays_ = arrays_outside;
  registers_ = registers_outside;
}

// ---- loops that are one ---------------------------------------------------------------------------------------------

// The loop, and the directly nested loops that continue in memory where it stops.
std::vector<TreeRef> Emitter::run_of(TreeRef ref) {
  std::vector<TreeRef> loops = {ref};
  while (tree_.children(loops.back()).size() == 1) {
    const TreeRef inner = tree_.children(loops.back())[0];
    if (tree_.kind(inner) == LoopTree::NODE || !runs_on(loops.back(), inner)) break;
    loops.push_back(inner);
  }
  return loops;
}

// Whether one iteration of the outer loop moves every element as far as all iterations of the inner loop together.
bool Emitter::runs_on(TreeRef outer, TreeRef inner) {
  const auto is_whole = [&](TreeRef ref) {
    const LoopTree::Loop& loop = tree_.loop(ref);
    return loop.step == 1 && !scope_->extents.contains(loop.var);
  };
  const Mark outer_mark = tree_.loop(outer).annotation.mark, inner_mark = tree_.loop(inner).annotation.mark;
  const bool marks_agree = (outer_mark == Mark::kNone || outer_mark == Mark::kParallel) &&
                           (inner_mark == Mark::kNone || inner_mark == Mark::kVectorize);
  if (!is_whole(outer) || !is_whole(inner) || !marks_agree || !compiler_.fills(inner).empty()) return false;
  for (NodeRef node : tree_.nodes_below(inner)) {
    if (ir_.node(node).as<Scatter>()) return false;
    const TreeRef leaf = tree_.find(node);
    for (Which which : elements_of(leaf)) {
      const Spot& element = spot(leaf, which);
      if (!keeps_pace(element.position, outer, inner)) return false;
      for (const Constraint& constraint : element.access.where) {
        if (!keeps_pace(compiler_.over_counters(constraint.expr, leaf), outer, inner)) return false;
      }
      for (const Constraint& open : compiler_.get_constraints(element.access)) {
        const auto depends = [&](TreeRef loop) { return depends_on(open.expr, compiler_.counter(loop)); };
        if (depends(outer) || depends(inner)) return false;
      }
    }
  }
  return true;
}

bool Emitter::keeps_pace(const Expr& expr, TreeRef outer, TreeRef inner) const {
  const Result<Expr> far = differentiate(expr, compiler_.counter(outer));
  const Result<Expr> near = differentiate(expr, compiler_.counter(inner));
  return far.ok() && near.ok() && *far == *near * tree_.loop(inner).size &&
         !depends_on(*near, compiler_.counter(outer));
}

void Emitter::run(const std::vector<TreeRef>& loops) {
  const TreeRef last = loops.back();
  Compiler::Scope scope = *scope_;
  Expr count = 1;
  for (TreeRef ref : loops) count *= at_least_zero(tree_.loop(ref).size);
  if (bounds(count, scope_->box.ranges()).high <= 0) return;
  for (TreeRef ref : loops) {
    scope.extents.insert_or_assign(tree_.loop(ref).var, 1);
    if (ref == last) continue;
    scope.box.add(compiler_.counter(ref), 0, 0);
    literals_.emplace(compiler_.counter(ref), Literal{0, false});
  }
  scope.box.add(compiler_.counter(last), 0, count - 1);
  is_last_part_ = true;
  const bool is_parallel = tree_.loop(loops[0]).annotation.mark == Mark::kParallel && target_.has_threads;
  const bool is_vector = tree_.loop(last).annotation.mark == Mark::kVectorize;
  in_scope(scope, [&] {
    if (is_parallel) {
      is_vector ? parallel_vectors(last, count) : parallel(last, 0, count);
    } else {
      is_vector ? vectors(last, 0, count) : serial(last, index(0), index(count));
    }
  });
  for (TreeRef ref : loops) literals_.erase(compiler_.counter(ref));
}

}  // namespace tenon::codegen
