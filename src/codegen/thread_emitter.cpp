#include "codegen/thread_emitter.h"

#include <fmt/format.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "codegen/module.h"
#include "support/is_in.h"

namespace tenon::codegen {

using namespace loops;
using llvm::Value;

namespace {

Compiler with_wide_totals(const LoopTree& tree) {
  Compiler compiler(tree);
  compiler.widen_totals();
  return compiler;
}

Symbol linear_symbol() { return Symbol("thread_iteration"); }

}  // namespace

ThreadCode emit_threads(const LoopTree& tree, const std::string& name, const Target& target,
                        const std::function<bool(TreeRef)>& is_skipped, ThreadText text) {
  CompilationUnit unit(target);
  ThreadEmitter emitter(unit.module(), tree, name, target);
  for (TreeRef root : tree.roots()) {
    if (!is_skipped || !is_skipped(root)) emitter.emit(root);
  }
  ThreadCode code{.launches = std::move(emitter.launches), .scratch = std::move(emitter.scratch)};
  if (!code.launches.empty()) code.text = text == ThreadText::kLlvm ? unit.ir_text() : unit.object();
  return code;
}

ThreadEmitter::ThreadEmitter(llvm::Module& module, const LoopTree& tree, const std::string& name, const Target& target)
    : module_(module),
      tree_(tree),
      ir_(tree.ir),
      name_(name),
      target_(target),
      b_(module.getContext()),
      values_(b_, target),
      compiler_(with_wide_totals(tree)),
      plan_(compiler_),
      is_emulated_(target.arch != Arch::kPtx) {
  for (TreeRef root : tree.roots()) {
    for_each_scratch(root, [&](NodeRef, const Compiler::Allocation& memory) {
      if (!memory.lca) scratch_number(memory.mem_idx, bytes_of(memory));
    });
  }
}

// ---- launches -------------------------------------------------------------------------------------------------------

void ThreadEmitter::emit(TreeRef root) {
  size_t number = 0;
  for (const Compiler::Fill& fill : compiler_.fills(root)) start_launch(fill, root, number++);
  root_launch(root);
}

void ThreadEmitter::launch(TreeRef root, const std::string& suffix, const Expr& blocks, const Expr& threads,
                           int64_t most_threads, const std::vector<LaunchParameter>& parameters, const Body& body) {
  const std::string entry = fmt::format("{}_{}", name_, suffix);
  llvm::Function* const function = is_emulated_ ? emulated_entry(entry) : gpu_entry(entry, parameters, most_threads);
  FunctionBuilder builder(b_, function);
  f_ = &builder;
  arrays_.clear(), parts_.clear(), registers_.clear();
  since_barrier_ = {};
  threads_ = threads;
  shared_bytes_ = 0;
  bind(function, parameters);
  const Compiler::Scope scope = compiler_.root();
  scope_ = &scope;
  f_->indices.set_ranges(scope.box.ranges());
  body();
  f_->finish();
  f_ = nullptr;
  launches.push_back({root, entry, blocks, threads, parameters});
}

llvm::Function* ThreadEmitter::gpu_entry(const std::string& name, const std::vector<LaunchParameter>& parameters,
                                         int64_t most_threads) {
  std::vector<llvm::Type*> types;
  for (const LaunchParameter& parameter : parameters) {
    const bool is_size = parameter.kind == LaunchParameter::kSize;
    types.push_back(is_size ? static_cast<llvm::Type*>(b_.getInt64Ty()) : b_.getPtrTy());
  }
  auto* const type = llvm::FunctionType::get(b_.getVoidTy(), types, false);
  auto* const function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
  function->setCallingConv(llvm::CallingConv::PTX_Kernel);
  llvm::Metadata* const limit[] = {llvm::ValueAsMetadata::get(function),
                                   llvm::MDString::get(b_.getContext(), "maxntidx"),
                                   llvm::ConstantAsMetadata::get(b_.getInt32(static_cast<uint32_t>(most_threads)))};
  for (unsigned i = 0; i < parameters.size(); ++i) {
    if (parameters[i].kind == LaunchParameter::kSize) continue;
    if (parameters[i].kind != LaunchParameter::kArray || !plan_.is_only_read(parameters[i].number)) continue;
    function->addParamAttr(i, llvm::Attribute::NoAlias);
    function->addParamAttr(i, llvm::Attribute::ReadOnly);
  }
  module_.getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(b_.getContext(), limit));
  return function;
}

llvm::Function* ThreadEmitter::emulated_entry(const std::string& name) {
  auto* const type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), b_.getPtrTy()}, false);
  return llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
}

void ThreadEmitter::bind(llvm::Function* function, const std::vector<LaunchParameter>& parameters) {
  const std::vector<Symbol> sizes = ir_.size_symbols();
  for (unsigned i = 0; i < parameters.size(); ++i) {
    Value* const argument = argument_of(function, i, parameters[i].kind == LaunchParameter::kSize);
    const auto& [kind, position] = parameters[i];
    if (kind == LaunchParameter::kErrors) {
      f_->error = argument;
    } else if (kind == LaunchParameter::kSize) {
      f_->indices.bind(sizes[static_cast<size_t>(position)], argument);
    } else if (kind == LaunchParameter::kArray) {
      arrays_[position] = argument;
    } else {
      const int64_t mem_idx = scratch[static_cast<size_t>(position)].mem_idx;
      arrays_[mem_idx] = argument;
    }
  }
}

Value* ThreadEmitter::argument_of(llvm::Function* function, unsigned position, bool is_number) {
  if (!is_emulated_) return function->getArg(position);
  const llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(f_->entry_end());
  llvm::Type* const type = is_number ? static_cast<llvm::Type*>(b_.getInt64Ty()) : b_.getPtrTy();
  return b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), function->getArg(0), position));
}

std::vector<LaunchParameter> ThreadEmitter::parameters_of(const std::set<int64_t>& arrays) {
  const auto own = static_cast<int64_t>(ir_.reads().size() + ir_.writes().size());
  std::vector<LaunchParameter> parameters;
  for (int64_t mem_idx : arrays) {
    if (mem_idx >= 0 && mem_idx < own) {
      parameters.push_back({LaunchParameter::kArray, mem_idx});
      continue;
    }
    const auto known = std::ranges::find(scratch, mem_idx, &DeviceScratch::mem_idx);
    if (known != scratch.end()) parameters.push_back({LaunchParameter::kScratch, known - scratch.begin()});
  }
  for (size_t i = 0; i < ir_.size_symbols().size(); ++i)
    parameters.push_back({LaunchParameter::kSize, static_cast<int64_t>(i)});
  parameters.push_back({LaunchParameter::kErrors});
  return parameters;
}

int64_t ThreadEmitter::scratch_number(int64_t mem_idx, const Expr& bytes) {
  const auto known = std::ranges::find(scratch, mem_idx, &DeviceScratch::mem_idx);
  if (known != scratch.end()) return known - scratch.begin();
  scratch.push_back({mem_idx, bytes});
  return std::ssize(scratch) - 1;
}

ThreadEmitter::Expr ThreadEmitter::bytes_of(const Compiler::Allocation& memory) const {
  Expr bytes = size_of(memory.dtype);
  for (const Compiler::Dim& dim : memory.dims) bytes *= max(dim.extent, 0);
  return bytes;
}

void ThreadEmitter::for_each_scratch(TreeRef root,
                                     const std::function<void(NodeRef, const Compiler::Allocation&)>& visit) const {
  for (NodeRef ref : tree_.nodes_below(root)) {
    const Compiler::Allocation& memory = compiler_.allocations.at(ref);
    if (memory.scratch && !is_register(ref) && !compiler_.is_fused(ref)) visit(ref, memory);
    if (const auto carry = compiler_.carries.find(ref); carry != compiler_.carries.end()) visit(ref, carry->second);
  }
}

// The arrays that a launch gets from outside.
std::set<int64_t> ThreadEmitter::memory_below(TreeRef root) const {
  std::set<int64_t> arrays;
  const auto add = [&](NodeRef node) {
    const auto memory = compiler_.allocations.find(node);
    if (memory != compiler_.allocations.end()) arrays.insert(memory->second.mem_idx);
  };
  for (NodeRef node : tree_.nodes_below(root)) {
    add(node);
    std::ranges::for_each(ir_.node(node).inputs, add);
  }
  for_each_scratch(root, [&](NodeRef, const Compiler::Allocation& memory) { arrays.insert(memory.mem_idx); });
  return arrays;
}

// The start of an accumulator in the device's memory is a launch of its own, on all threads.
void ThreadEmitter::start_launch(const Compiler::Fill& fill, TreeRef root, size_t number) {
  const Compiler::Allocation& memory = *fill.memory;
  std::set<int64_t> arrays = {memory.mem_idx};
  if (fill.source) {
    const auto source = compiler_.allocations.find(fill.source);
    if (source != compiler_.allocations.end()) arrays.insert(source->second.mem_idx);
  }
  Expr count = 1;
  for (const Expr& extent : fill.extents) count *= max(extent, 0);
  const Expr blocks = min(ceildiv(count, kStreamThreads), kMostBlocks);
  const std::string suffix = fmt::format("{}_start{}", launches.size(), number);
  launch(root, suffix, blocks, kStreamThreads, kStreamThreads, parameters_of(arrays), [&] {
    has_threads_ = true;
    on_threads([&] { start(fill, true); });
  });
}

void ThreadEmitter::root_launch(TreeRef root) {
  has_threads_ = plan_.has_threads(root);
  Expr threads = 1;
  const Expr blocks = grid_of(root, &threads);
  const bool is_grid_fold = tree_.kind(root) == LoopTree::LOOP && plan_.role(root) == ThreadRole::kGridFold;
  std::set<int64_t> arrays = memory_below(root);
  if (is_grid_fold) {
    for (NodeRef sum : plan_.folded_by(root)) {
      const Compiler::Allocation parts = parts_of(sum);
      scratch_number(parts.mem_idx, Expr(kMostFoldBlocks) * size_of(parts.dtype));
      arrays.insert(parts.mem_idx);
    }
  }
  add_parts(root, blocks, threads);
  Expr limited = blocks;
  for_each_scratch(root, [&](NodeRef, const Compiler::Allocation& memory) {
    if (!memory.lca) return;
    const auto part = std::ranges::find(scratch, memory.mem_idx, &DeviceScratch::mem_idx);
    if (part == scratch.end()) return;
    const Expr each = max(bytes_of(memory), 1) * (plan_.place(memory) == Place::kThread ? threads : Expr(1));
    limited = min(limited, max(floordiv(kMostPartBytes, each), 1));
  });
  const int64_t most = threads.is_constant() ? threads.constant() : kMostThreads;
  launch(root, fmt::format("{}", launches.size()), limited, threads, most, parameters_of(arrays), [&] {
    declare(root);
    body({root});
  });
  if (is_grid_fold) finish_launch(root, limited);
}

// The arrays that are too large for the memory of a block or a thread, and lie in the device's memory.
void ThreadEmitter::add_parts(TreeRef root, const Expr& blocks, const Expr& threads) {
  int64_t own_bytes = 0, shared_bytes = 0;
  for_each_scratch(root, [&](NodeRef, const Compiler::Allocation& memory) {
    if (!memory.lca) return;
    const bool is_own = plan_.place(memory) == Place::kThread || !has_threads_;
    const Expr bytes = bytes_of(memory);
    int64_t& used = is_own ? own_bytes : shared_bytes;
    const int64_t most = is_own ? kMostOwnTotal : kMostArrayBytes;
    if (bytes.is_constant() && used + bytes.constant() <= most) {
      used += bytes.constant();
      return;
    }
    const Expr parts = is_own ? blocks * threads : blocks;
    scratch_number(memory.mem_idx, min(bytes * parts, max(bytes * (is_own ? threads : Expr(1)), kMostPartBytes)));
  });
}

ThreadEmitter::Expr ThreadEmitter::count_of(const std::vector<TreeRef>& chain) const {
  Expr count = 1;
  for (TreeRef ref : chain) count *= max(tree_.loop(ref).iterations(), 0);
  return compiler_.root().box.simplify(count);
}

ThreadEmitter::Expr ThreadEmitter::grid_of(TreeRef root, Expr* threads) {
  const ThreadRole role = tree_.kind(root) == LoopTree::LOOP ? plan_.role(root) : ThreadRole::kSerial;
  if (role == ThreadRole::kGridThread) {
    *threads = kStreamThreads;
    const std::vector<TreeRef> chain = plan_.chain(root);
    return min(ceildiv(count_of(chain), kStreamThreads * vector_width(chain)), kMostBlocks);
  }
  if (role == ThreadRole::kGridFold) {
    *threads = kStreamThreads;
    const std::vector<TreeRef> chain = plan_.chain(root);
    const Expr blocks = ceildiv(count_of(chain), kStreamThreads * elements_of_thread(chain));
    return max(min(blocks, kMostFoldBlocks), 1);  // a fold of nothing has a result, too
  }
  *threads = has_threads_ ? threads_of(root) : Expr(1);
  return role == ThreadRole::kBlock ? min(count_of(plan_.chain(root)), kMostBlocks) : Expr(1);
}

// As many threads as the longest loop has work for.
ThreadEmitter::Expr ThreadEmitter::threads_of(TreeRef root) {
  Expr most = 1;
  tree_.walk(
      [&](TreeRef ref, int) {
        const ThreadRole role = tree_.kind(ref) == LoopTree::LOOP ? plan_.role(ref) : ThreadRole::kSerial;
        if (role != ThreadRole::kThread && role != ThreadRole::kFold) return;
        const std::vector<TreeRef> chain = plan_.chain(ref);
        if (chain[0] == ref) most = max(most, ceildiv(count_of(chain), elements_of_thread(chain)));
      },
      root);
  return compiler_.root().box.simplify(kWarp * max(min(ceildiv(most, kWarp), kMostThreads / kWarp), 1));
}

int64_t ThreadEmitter::elements_of_thread(const std::vector<TreeRef>& chain) {
  if (plan_.role(chain[0]) != ThreadRole::kGridFold) return kElementsOfThread;
  return std::max(kElementsOfPart, 2 * vector_width(chain));
}

// ---- loops ----------------------------------------------------------------------------------------------------------

void ThreadEmitter::body(const std::vector<TreeRef>& children) {
  for (TreeRef child : children) {
    const bool is_root = !tree_.parent(child);
    const std::vector<Compiler::Fill> fills = is_root ? std::vector<Compiler::Fill>() : compiler_.fills(child);
    for (const Compiler::Fill& fill : fills) start(fill);
    if (!differs_) {
      const ThreadPlan::Touched touched = plan_.touched_below(child);
      barrier_before(touched);
      tree_.kind(child) == LoopTree::NODE ? node(child) : loop(child);
      note(touched);
    } else {
      tree_.kind(child) == LoopTree::NODE ? node(child) : loop(child);
    }
  }
}

void ThreadEmitter::loop(TreeRef ref) {
  switch (plan_.role(ref)) {
    case ThreadRole::kSerial:
      return serial(ref);
    case ThreadRole::kFold:
    case ThreadRole::kGridFold:
      return fold(ref);
    default:
      return spread(ref);
  }
}

// All iterations of a loop, with the tail, as one stretch.
ThreadEmitter::Inside ThreadEmitter::inside(TreeRef ref, const Compiler::Scope& scope) const {
  const LoopTree::Loop& loop = tree_.loop(ref);
  const auto open = scope.extents.find(loop.var);
  const Expr extent = open == scope.extents.end() ? ir_.var(loop.var).size : open->second;
  const Expr all = ceildiv(extent, loop.step);
  const bool has_tail = !provably_equal(floordiv(extent, loop.step), all, scope.box.ranges());
  Inside result{scope.box.simplify(all), scope};
  const Symbol counter = compiler_.counter(ref);
  const Expr covered = has_tail ? min(loop.step, extent - Expr(counter) * loop.step) : Expr(loop.step);
  result.scope.extents.insert_or_assign(loop.var, covered);
  result.scope.box.add(counter, 0, result.count - 1);
  return result;
}

void ThreadEmitter::in_scope(const Compiler::Scope& scope, const Body& body) {
  const Compiler::Scope* const around = std::exchange(scope_, &scope);
  f_->indices.set_ranges(scope.box.ranges());
  body();
  scope_ = around;
  f_->indices.set_ranges(around->box.ranges());
}

// What the next iteration does comes after what this one does, so all of it counts as done before.
void ThreadEmitter::serial(TreeRef ref) {
  const Inside within = inside(ref, *scope_);
  Value* const end = index(within.count);
  if (!differs_) note(plan_.touched_below(ref));
  in_scope(within.scope,
           [&] { f_->loop(compiler_.counter(ref), number(0), end, 1, [&] { body(tree_.children(ref)); }); });
}

void ThreadEmitter::on_threads(const Body& body) {
  const bool around = std::exchange(differs_, true);
  body();
  differs_ = around;
}

void ThreadEmitter::spread(TreeRef ref) {
  const std::vector<TreeRef> chain = plan_.chain(ref);
  const auto children = [&] { body(tree_.children(chain.back())); };
  switch (plan_.role(ref)) {
    case ThreadRole::kBlock:
      note(plan_.touched_below(ref));
      return in_chain(chain, block_number(), block_count(), children);
    case ThreadRole::kGridThread: {
      Value* const first = b_.CreateAdd(b_.CreateMul(block_number(), thread_count()), thread());
      Value* const all = b_.CreateMul(block_count(), thread_count());
      return on_threads([&] { stream(chain, first, all); });
    }
    default:
      return on_threads([&] { stream(chain, thread(), thread_count()); });
  }
}

// Each thread takes neighbours along the innermost loop, where there are enough: LLVM makes wide loads and stores of
// copies of one access. What remains of the loop goes one by one.
void ThreadEmitter::stream(const std::vector<TreeRef>& chain, Value* first, Value* step) {
  const int64_t width = vector_width(chain);
  const TreeRef last = chain.back();
  if (width > 1) in_chain(chain, first, step, [&] { copies(last, width); }, width);
  const Expr rest = compiler_.root().box.simplify(mod(tree_.loop(last).size, width));
  if (width > 1 && rest.is_constant(0)) return;
  Value* const begin = width == 1 ? first : b_.CreateAdd(first, index(tree_.loop(last).size - rest));
  in_chain(chain, begin, step, [&] { body(tree_.children(last)); });
}

// The bytes of an element of the narrowest array whose neighbours along the loop are neighbours in memory. Empty if
// some node of the loop has no copies.
std::optional<int64_t> ThreadEmitter::narrowest_in(const std::vector<TreeRef>& chain) {
  const TreeRef last = chain.back();
  int64_t narrowest = kVectorBytes;
  const auto consider = [&](const Compiler::Access& access) {
    const std::optional<Expr> stride = compiler_.stride(access, last);
    const bool is_run = stride && stride->is_constant(1);
    if (is_run) narrowest = std::min(narrowest, size_of(access.memory->dtype));
    return is_run;
  };
  const ThreadRole role = plan_.role(chain[0]);
  const bool folds = role == ThreadRole::kFold || role == ThreadRole::kGridFold;
  const std::vector<NodeRef> sums = folds ? plan_.folded_by(chain[0]) : std::vector<NodeRef>();
  for (TreeRef child : tree_.children(last)) {
    if (tree_.kind(child) == LoopTree::LOOP) return {};
    const NodeRef ref = tree_.node(child);
    const Node& node = ir_.node(ref);
    for (NodeRef input : node.inputs) {
      if (ir_.node(input).as<Read>() && !ir_.node(input).vars.empty()) consider(compiler_.gen_access(input, child));
    }
    if (is_in(sums, ref) || compiler_.is_fused(ref)) continue;
    if (!node.as<loops::Compute>() && !node.as<View>() && !node.as<Write>()) return {};
    const bool is_stored = node.as<Write>() || !is_register(ref);
    if (is_stored && !consider(compiler_.gen_access(ref, child))) return {};
  }
  return narrowest;
}

// How many neighbours a thread takes, so that enough threads are left. 1: no copies.
int64_t ThreadEmitter::vector_width(const std::vector<TreeRef>& chain) {
  const TreeRef last = chain.back();
  const LoopTree::Loop& loop = tree_.loop(last);
  const auto is_same_var = [&](TreeRef ref) { return tree_.loop(ref).var == loop.var; };
  if (loop.step != 1 || !loop.tail.is_constant(0) || std::ranges::count_if(tree_.path(last), is_same_var) > 1) return 1;
  const std::optional<int64_t> narrowest = narrowest_in(chain);
  if (!narrowest || *narrowest == kVectorBytes) return 1;
  const ThreadRole role = plan_.role(chain[0]);
  const int64_t threads = role == ThreadRole::kGridThread || role == ThreadRole::kGridFold ? kLeastVectors : kWarp;
  const Expr count = count_of(chain);
  const auto suits = [&](int64_t width) {
    const bool is_whole = compiler_.root().box.simplify(mod(loop.size, width)).is_constant(0);
    return (is_whole || chain.size() == 1) && (!count.is_constant() || count.constant() >= width * threads);
  };
  int64_t width = std::min(kVectorBytes / *narrowest, kMostWidth);
  while (width > 1 && !suits(width)) width /= 2;
  return width;
}

// Node by node, so that copies of an access are next to each other.
void ThreadEmitter::copies(TreeRef loop, int64_t width) {
  copied_ = compiler_.counter(loop);
  width_ = width;
  std::vector<std::unordered_map<NodeRef, Value*>> registers(static_cast<size_t>(width), registers_);
  for (TreeRef child : tree_.children(loop)) {
    for (copy_ = 0; copy_ < width; ++copy_) {
      std::swap(registers_, registers[static_cast<size_t>(copy_)]);
      node(child);
      std::swap(registers_, registers[static_cast<size_t>(copy_)]);
    }
  }
  copy_ = 0;
  width_ = 1;
}

// One loop over all iterations of the chain, from `first` on. The innermost counter changes first, by `width`.
void ThreadEmitter::in_chain(const std::vector<TreeRef>& chain, Value* first, Value* step, const Body& body,
                             int64_t width) {
  std::vector<Inside> scopes;
  Value* total = number(1);
  for (TreeRef ref : chain) {
    scopes.push_back(inside(ref, scopes.empty() ? *scope_ : scopes.back().scope));
    const Expr count = ref == chain.back() ? floordiv(scopes.back().count, width) : scopes.back().count;
    total = b_.CreateMul(total, index(max(count, 0)));
  }
  if (chain.size() == 1 && width == 1) {
    return f_->loop(compiler_.counter(chain[0]), first, total, step, [&] { in_scope(scopes.back().scope, body); });
  }
  f_->loop(linear_symbol(), first, total, step, [&] {
    std::vector<Value*> counters(chain.size());
    Value* rest = index(linear_symbol());
    for (size_t i = chain.size(); i-- > 0;) {
      const int64_t by = i + 1 == chain.size() ? width : 1;
      Value* const count = index(floordiv(scopes[i].count, by));
      counters[i] = i == 0 ? rest : b_.CreateURem(rest, count);
      if (i > 0) rest = b_.CreateUDiv(rest, count);
      if (by > 1) counters[i] = b_.CreateMul(counters[i], number(by));
    }
    const std::function<void(size_t)> nest = [&](size_t depth) {
      if (depth == chain.size()) return in_scope(scopes.back().scope, body);
      f_->with(compiler_.counter(chain[depth]), counters[depth], [&] { nest(depth + 1); });
    };
    nest(0);
  });
}

// Each thread folds its elements, starting with the identity. Then the block folds the threads' results, and adds them
// to the total; of a fold on all blocks it stores them.
void ThreadEmitter::fold(TreeRef ref) {
  fold_parts(plan_.chain(ref), [&](NodeRef sum, Value* all) {
    if (plan_.role(ref) == ThreadRole::kGridFold) {
      const Compiler::Allocation parts = parts_of(sum);
      const auto put = [&] {
        llvm::Type* const type = values_.memory_type(parts.dtype);
        Value* const at = b_.CreateGEP(type, arrays_.at(parts.mem_idx), block_number());
        b_.CreateStore(values_.to_memory(all, parts.dtype), at);
      };
      return by_first_thread(put);
    }
    const Compiler::Allocation& memory = compiler_.allocations.at(sum);
    const Expr position = position_of_total(sum, ref);
    Value* const both[] = {load(memory, position), all};
    store(memory, position, values_.apply(fold_op(sum), memory.dtype, both));
  });
}

void ThreadEmitter::fold_parts(const std::vector<TreeRef>& chain, const std::function<void(NodeRef, Value*)>& finish) {
  const std::vector<NodeRef> sums = plan_.folded_by(chain[0]);
  const auto dtype_of = [&](NodeRef sum) { return compiler_.allocations.at(sum).dtype; };
  for (NodeRef sum : sums) {
    sums_[sum] = f_->on_stack(values_.memory_type(dtype_of(sum)), 1, ir_.node(sum).name + "_part");
    Value* const identity = values_.literal(dtype_of(sum), *identity_of(fold_op(sum), dtype_of(sum)));
    b_.CreateStore(values_.to_memory(identity, dtype_of(sum)), sums_[sum]);
  }
  Value* first = thread();
  Value* step = thread_count();
  if (plan_.role(chain[0]) == ThreadRole::kGridFold) {
    first = b_.CreateAdd(b_.CreateMul(block_number(), step), first);
    step = b_.CreateMul(block_count(), step);
  }
  on_threads([&] { stream(chain, first, step); });
  for (NodeRef sum : sums) {
    const DType dtype = dtype_of(sum);
    Value* const part = values_.from_memory(b_.CreateLoad(values_.memory_type(dtype), sums_[sum]), dtype);
    sums_.erase(sum);
    finish(sum, block_fold(fold_op(sum), dtype, part));
  }
}

// Where a fold on all blocks keeps the results of blocks: an array that no Compiler knows.
Compiler::Allocation ThreadEmitter::parts_of(NodeRef sum) const {
  Compiler::Allocation parts{.mem_idx = -1 - int64_t{sum.id}, .dtype = compiler_.allocations.at(sum).dtype};
  parts.scratch = true;
  return parts;
}

ThreadEmitter::Expr ThreadEmitter::position_of_total(NodeRef sum, TreeRef loop) const {
  const Compiler::Fill block = compiler_.fill(sum, loop);
  symbolic::Substitution first;
  for (Symbol counter : block.counters) first.emplace(counter, 0);
  return substitute(block.offset, first);
}

// One block folds the results of all blocks.
void ThreadEmitter::finish_launch(TreeRef root, const Expr& blocks) {
  std::set<int64_t> arrays;
  for (NodeRef sum : plan_.folded_by(root)) {
    arrays.insert(parts_of(sum).mem_idx);
    arrays.insert(compiler_.allocations.at(sum).mem_idx);
  }
  const std::string suffix = fmt::format("{}_finish", launches.size());
  launch(root, suffix, 1, kStreamThreads, kStreamThreads, parameters_of(arrays), [&] {
    has_threads_ = true;
    for (NodeRef sum : plan_.folded_by(root)) {
      const Compiler::Allocation& memory = compiler_.allocations.at(sum);
      llvm::Type* const type = values_.memory_type(memory.dtype);
      Value* const part = f_->on_stack(type, 1, ir_.node(sum).name + "_part");
      Value* const identity = values_.literal(memory.dtype, *identity_of(fold_op(sum), memory.dtype));
      b_.CreateStore(values_.to_memory(identity, memory.dtype), part);
      const Symbol block("block");
      f_->loop(block, thread(), index(blocks), thread_count(), [&] {
        Value* const at = b_.CreateGEP(type, arrays_.at(parts_of(sum).mem_idx), index(block));
        Value* const both[] = {values_.from_memory(b_.CreateLoad(type, part), memory.dtype),
                               values_.from_memory(b_.CreateLoad(type, at), memory.dtype)};
        b_.CreateStore(values_.to_memory(values_.apply(fold_op(sum), memory.dtype, both), memory.dtype), part);
      });
      Value* const all =
          block_fold(fold_op(sum), memory.dtype, values_.from_memory(b_.CreateLoad(type, part), memory.dtype));
      const Expr position = position_of_total(sum, root);
      Value* const both[] = {load(memory, position), all};
      store(memory, position, values_.apply(fold_op(sum), memory.dtype, both));
    }
  });
}

// ---- what threads share ---------------------------------------------------------------------------------------------

// The members of EmulatedThread, in order.
enum ThreadEmitter::Member : unsigned { kThread, kThreads, kBlock, kBlocks, kShared, kBarrier, kExchange };

Value* ThreadEmitter::member(Member member) {
  llvm::Type* const type = member < kShared ? static_cast<llvm::Type*>(b_.getInt64Ty()) : b_.getPtrTy();
  Value* const self = f_->function()->getArg(1);
  return b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), self, member));
}

Value* ThreadEmitter::special(Member emulated) {
  constexpr llvm::Intrinsic::ID kRegisters[] = {
      llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, llvm::Intrinsic::nvvm_read_ptx_sreg_ntid_x,
      llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x};
  if (is_emulated_) return member(emulated);
  return b_.CreateZExt(b_.CreateIntrinsic(kRegisters[emulated], {}, {}), b_.getInt64Ty());
}

Value* ThreadEmitter::thread() { return special(kThread); }
Value* ThreadEmitter::thread_count() { return special(kThreads); }
Value* ThreadEmitter::block_number() { return special(kBlock); }
Value* ThreadEmitter::block_count() { return special(kBlocks); }

void ThreadEmitter::barrier() {
  if (!is_emulated_) {
    b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
    return;
  }
  b_.CreateCall(llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy()}, false), member(kBarrier),
                {f_->function()->getArg(1)});
}

Value* ThreadEmitter::exchanged(Value* word, int64_t distance) {
  Value* const lane = b_.getInt32(static_cast<uint32_t>(distance));
  if (!is_emulated_) {
    return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                              {b_.getInt32(~0u), word, lane, b_.getInt32(31)});
  }
  llvm::Type* const type = b_.getInt32Ty();
  return b_.CreateCall(llvm::FunctionType::get(type, {b_.getPtrTy(), type, type}, false), member(kExchange),
                       {f_->function()->getArg(1), word, lane});
}

void ThreadEmitter::note(const ThreadPlan::Touched& touched) {
  since_barrier_.read.insert(touched.read.begin(), touched.read.end());
  since_barrier_.written.insert(touched.written.begin(), touched.written.end());
}

// Waits until all threads are here, if what comes next reads what another thread wrote, or writes what it read.
void ThreadEmitter::barrier_before(const ThreadPlan::Touched& next) {
  if (!has_threads_ || differs_) return;
  const auto meets = [](const std::set<int64_t>& a, const std::set<int64_t>& b) {
    return std::ranges::any_of(a, [&](int64_t position) { return b.contains(position); });
  };
  const bool conflicts = meets(since_barrier_.written, next.read) || meets(since_barrier_.written, next.written) ||
                         meets(since_barrier_.read, next.written);
  if (!conflicts) return;
  barrier();
  since_barrier_ = {};
}

void ThreadEmitter::by_first_thread(const Body& body) {
  if (!has_threads_ || differs_) return body();
  f_->when(b_.CreateIsNull(thread()), body);
}

Value* ThreadEmitter::shared_array(llvm::Type* type, int64_t count, const std::string& name) {
  constexpr unsigned kSharedSpace = 3;
  if (is_emulated_) {
    const uint64_t bytes = module_.getDataLayout().getTypeAllocSize(type) * static_cast<uint64_t>(count);
    const uint64_t at = std::exchange(shared_bytes_, (shared_bytes_ + bytes + 15) / 16 * 16);
    return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), member(kShared), at);
  }
  auto* const array = llvm::ArrayType::get(type, static_cast<uint64_t>(std::max<int64_t>(count, 1)));
  auto* const global = new llvm::GlobalVariable(
      module_, array, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(array),
      fmt::format("{}_{}_{}", name_, launches.size(), name), nullptr, llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  global->setAlignment(llvm::Align(16));
  return llvm::ConstantExpr::getAddrSpaceCast(global, b_.getPtrTy());
}

// The value of the lane whose number differs in the bit `distance`.
Value* ThreadEmitter::from_lane(Value* value, int64_t distance) {
  llvm::Type* const type = value->getType();
  const unsigned bits = type->getPrimitiveSizeInBits();
  llvm::Type* const word = b_.getInt32Ty();
  const auto shuffle = [&](Value* x) { return exchanged(x, distance); };
  if (bits <= 32) {
    Value* const whole = b_.CreateZExt(b_.CreateBitCast(value, b_.getIntNTy(bits)), word);
    return b_.CreateBitCast(b_.CreateTrunc(shuffle(whole), b_.getIntNTy(bits)), type);
  }
  auto* const pair = llvm::FixedVectorType::get(word, 2);
  Value* const words = b_.CreateBitCast(value, pair);
  Value* result = llvm::PoisonValue::get(pair);
  for (uint64_t i = 0; i < 2; ++i)
    result = b_.CreateInsertElement(result, shuffle(b_.CreateExtractElement(words, i)), i);
  return b_.CreateBitCast(result, type);
}

Value* ThreadEmitter::warp_fold(const OpDef& op, DType dtype, Value* value) {
  for (int64_t distance = kWarp / 2; distance > 0; distance /= 2) {
    Value* const both[] = {value, from_lane(value, distance)};
    value = values_.apply(op, dtype, both);
  }
  return value;
}

// Every thread of the block gets the fold of all threads' values.
Value* ThreadEmitter::block_fold(const OpDef& op, DType dtype, Value* value) {
  llvm::Type* const type = values_.memory_type(dtype);
  value = warp_fold(op, dtype, value);
  if (threads_.is_constant(kWarp)) return value;
  Value* const totals = shared_array(type, kMostThreads / kWarp, fmt::format("totals{}", fold_arrays_++));
  Value* const lane = b_.CreateAnd(thread(), number(kWarp - 1));
  Value* const warp = b_.CreateLShr(thread(), number(5));
  barrier();  // those who read the totals of the loop's last run are done
  f_->when(b_.CreateIsNull(lane),
           [&] { b_.CreateStore(values_.to_memory(value, dtype), b_.CreateGEP(type, totals, warp)); });
  barrier();
  since_barrier_ = {};
  Value* const is_there = b_.CreateICmpULT(lane, b_.CreateLShr(thread_count(), number(5)));
  Value* const identity = values_.literal(dtype, *identity_of(op, dtype));
  Value* const at = b_.CreateSelect(is_there, lane, number(0));
  Value* const total = values_.from_memory(b_.CreateLoad(type, b_.CreateGEP(type, totals, at)), dtype);
  return warp_fold(op, dtype, b_.CreateSelect(is_there, total, identity));
}

}  // namespace tenon::codegen
