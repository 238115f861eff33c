#include "codegen/tiles.h"

#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "codegen/emitter.h"

namespace tenon::codegen {

using namespace loops;
using llvm::Value;

namespace {

constexpr int64_t kGroupBytes = 4;  // steps of k in one lane take so many bytes
constexpr std::string_view kDotBF16 = "dpbf16", kDotMixed = "dpbusd", kDotSigned = "dpbssd", kDotUnsigned = "dpbuud",
                           kInterleave = "interleave";
constexpr std::string_view kGridBF16 = "amx-bf16", kGridI8 = "amx-int8";

}  // namespace

std::vector<TileIntrinsic> tiles_of(const Target& target) {
  const int64_t lanes = target.vector_bytes / kGroupBytes;
  std::vector<TileIntrinsic> tiles;
  const auto add = [&](std::string_view name, DType a, DType b, DType c, int64_t k) {
    tiles.push_back({std::string(name), a, b, c, 1, lanes, k});
  };
  if (target.has_amx) {
    const auto add_grid = [&](std::string_view name, DType a, DType b, DType c, int64_t k) {
      tiles.push_back({std::string(name), a, b, c, 16, 16, k});
    };
    add_grid(kGridBF16, DType::kBF16, DType::kBF16, DType::kF32, 32);
    for (DType a : {DType::kI8, DType::kU8}) {
      for (DType b : {DType::kI8, DType::kU8}) add_grid(kGridI8, a, b, DType::kI32, 64);
    }
  }
  if (target.has_bf16_dot) add(kDotBF16, DType::kBF16, DType::kBF16, DType::kF32, 2);
  if (target.has_dotprod) {
    add(kDotSigned, DType::kI8, DType::kI8, DType::kI32, 4);
    add(kDotUnsigned, DType::kU8, DType::kU8, DType::kI32, 4);
  }
  if (target.has_vnni || target.has_dotprod) {
    add(kDotMixed, DType::kU8, DType::kI8, DType::kI32, 4);
    add(kDotMixed, DType::kI8, DType::kU8, DType::kI32, 4);
  }
  return tiles;
}

bool has_tile(const Target& target, std::string_view name) {
  const auto tiles = tiles_of(target);
  const bool packs = name == kInterleave && (target.arch == Arch::kX86 || target.arch == Arch::kArm64);
  return packs || std::ranges::any_of(tiles, [&](const TileIntrinsic& tile) { return tile.name == name; });
}

// ---- what is below the loop -----------------------------------------------------------------------------------------

// The element that a node reads in the end, if it reads it through a view in the innermost loop.
std::optional<Emitter::Element> Emitter::source_of(TreeRef leaf, TreeRef inner, std::set<NodeRef>& seen) {
  const NodeRef input = ir_.node(tree_.node(leaf)).inputs[0];
  const TreeRef maker = tree_.find(input);
  if (!maker || tree_.parent(maker) != inner) return Element{leaf, {Which::kInput, 0}};
  const auto* view = ir_.node(input).as<View>();
  if (!view || !view->only_piece()) return {};
  seen.insert(input);
  return Element{maker, {Which::kPiece, 0}};
}

// Matches reduce add(mul(cast(a), cast(b))) and nothing else.
std::optional<Emitter::TileProduct> Emitter::product_below(TreeRef inner) {
  const std::vector<TreeRef>& leaves = tree_.children(inner);
  const auto is_leaf = [&](TreeRef ref) { return tree_.kind(ref) == LoopTree::NODE; };
  if (!std::ranges::all_of(leaves, is_leaf) || !ir_.node(tree_.node(leaves.back())).sums()) return {};
  TileProduct result{.sum = leaves.back()};
  std::set<NodeRef> seen = {tree_.node(result.sum)};
  const auto below = [&](NodeRef ref, std::string_view op) {
    seen.insert(ref);
    return tree_.find(ref) && tree_.parent(tree_.find(ref)) == inner && ir_.node(ref).computes(op);
  };
  const NodeRef product = ir_.node(tree_.node(result.sum)).inputs[0];
  if (!below(product, "mul")) return {};
  std::vector<Element> operands;
  for (NodeRef cast : ir_.node(product).inputs) {
    if (!below(cast, "cast")) return {};
    const std::optional<Element> operand = source_of(tree_.find(cast), inner, seen);
    if (!operand) return {};
    operands.push_back(*operand);
  }
  if (seen.size() != leaves.size()) return {};
  result.a = operands[0];
  result.b = operands[1];
  return result;
}

std::optional<Emitter::Expr> Emitter::slope(const Element& element, TreeRef loop) {
  Spot& here = spot(element.leaf, element.which);
  if (!here.access.memory || !guards(here).empty()) return {};
  const Result<Expr> slope = differentiate(here.position, compiler_.counter(loop));
  return slope.ok() ? std::optional(*slope) : std::nullopt;
}

// Whether memory has all steps of a group, even if the tail uses fewer.
bool Emitter::has_whole_groups(const Element& element, int64_t steps) {
  const Compiler::Allocation& memory = *spot(element.leaf, element.which).access.memory;
  return !memory.dims.empty() && memory.dims.back().extent.is_constant(steps);
}

std::optional<Emitter::DotTile::Layout> Emitter::layout_of(const Element& element, const DotTile& tile, int64_t steps) {
  const std::optional<Expr> by_column = slope(element, tile.columns), by_step = slope(element, tile.steps);
  if (!by_column || !by_step) return {};
  if (by_column->is_constant(0)) return by_step->is_constant(1) ? DotTile::kGroup : DotTile::kSteps;
  const bool is_packed = by_column->is_constant(steps) && by_step->is_constant(1);
  if (is_packed && (tile.depths.low == steps || has_whole_groups(element, steps))) return DotTile::kPacked;
  const bool slides = by_column->is_constant() && by_column->constant() > 0 && by_column->constant() < steps &&
                      by_step->is_constant(1) && target_.has_masks;
  if (slides) return DotTile::kSliding;
  if (by_column->is_constant(1)) return DotTile::kRows;
  const bool is_near = by_column->is_constant() && std::abs(by_column->constant()) <= machine_.most_strided_step;
  return is_near ? std::optional(DotTile::kRows) : std::nullopt;
}

// ---- loops ----------------------------------------------------------------------------------------------------------

std::optional<Emitter::DotTile> Emitter::tile_of(TreeRef ref, const Expr& begin, const Expr& end) {
  const std::vector<TreeRef>& children = tree_.children(ref);
  if (children.size() != 1 || tree_.kind(children[0]) == LoopTree::NODE) return {};
  if (tree_.loop(ref).step != 1 || tree_.loop(children[0]).step != 1) return {};
  std::vector<Compiler::Stretch> parts = compiler_.stretches(children[0], *scope_);
  if (parts.size() != 1 || !substituted(parts[0].begin).is_constant(0)) return {};
  DotTile tile{.columns = ref, .steps = children[0], .scope = std::move(parts[0].scope)};
  tile.first = substituted(begin);
  tile.count = substituted(end - begin);
  tile.depth = substituted(parts[0].end);
  tile.counts = bounds(tile.count, scope_->box.ranges());
  tile.depths = bounds(tile.depth, scope_->box.ranges());
  const int64_t lanes = target_.vector_bytes / kGroupBytes;
  const bool is_masked = tile.counts.low < lanes;
  const bool fits = tile.first.is_constant() && tile.counts.high <= lanes && tile.depths.high <= kGroupBytes &&
                    (!is_masked || target_.has_masks);
  return fits ? std::optional(std::move(tile)) : std::nullopt;
}

// Emits the instruction. False if the loops at this point do not fit it.
bool Emitter::tile(TreeRef ref, const Expr& begin, const Expr& end) {
  const std::optional<DotTile> tile = tile_of(ref, begin, end);
  if (!tile) return false;
  vector_ = ref;
  lanes_ = target_.vector_bytes / kGroupBytes;
  begins_at_whole_vector_ = tile->first.constant() % lanes_ == 0;
  bool fits = false;
  in_scope(tile->scope, [&] {
    const bool packs = tree_.loop(ref).annotation.tile == kInterleave;
    const Instruction instruction = packs ? interleave(*tile) : multiply(*tile);
    fits = instruction != nullptr;
    if (fits) by_count(*tile, instruction);
  });
  vector_ = {};
  lanes_ = 1;
  return fits;
}

void Emitter::by_count(const DotTile& tile, const Instruction& instruction) {
  const auto all = [&] {
    if (tile.counts.low < lanes_) tail_ = first_lanes(index(tile.count));
    tail_count_ = tail_ && tile.counts.is_single() ? tile.counts.low : 0;
    at_literal(compiler_.counter(tile.columns), {tile.first.constant(), false}, [&] { by_depth(tile, instruction); });
    tail_ = nullptr;
    tail_count_ = 0;
  };
  tile.counts.low > 0 ? all() : f_->when(b_.CreateICmpSGT(index(tile.count), b_.getInt64(0)), all);
}

void Emitter::by_depth(const DotTile& tile, const Instruction& instruction) {
  if (tile.depths.is_single()) return instruction(tile.depths.low);
  for (int64_t depth = std::max<int64_t>(tile.depths.low, 1); depth <= tile.depths.high; ++depth) {
    Value* const is_it = b_.CreateICmpEQ(index(tile.depth), b_.getInt64(static_cast<uint64_t>(depth)));
    f_->when(is_it, [&] { instruction(depth); });
  }
}

// ---- instructions ---------------------------------------------------------------------------------------------------

Emitter::Instruction Emitter::multiply(const DotTile& tile) {
  const std::string& name = tree_.loop(tile.columns).annotation.tile;
  std::optional<TileProduct> product = product_below(tile.steps);
  if (!product) return {};
  const std::optional<Expr> by_column = slope(product->a, tile.columns);
  if (by_column && !by_column->is_constant(0)) std::swap(product->a, product->b);
  const Element a = product->a, b = product->b;
  const TreeRef sum = product->sum;
  const Element result{sum, {Which::kSelf}};
  const auto dtype_of = [&](const Element& element) {
    const Compiler::Allocation* const memory = spot(element.leaf, element.which).access.memory;
    return memory ? std::optional(memory->dtype) : std::nullopt;
  };
  for (const TileIntrinsic& known : machine_.tiles) {
    if (known.name != name || known.m != 1 || known.k < tile.depths.high) continue;
    if (dtype_of(a) != known.a || dtype_of(b) != known.b || dtype_of(result) != known.c) continue;
    const std::optional<DotTile::Layout> a_layout = layout_of(a, tile, known.k), b_layout = layout_of(b, tile, known.k);
    const std::optional<Expr> result_step = slope(result, tile.columns);
    if (!a_layout || !b_layout || !result_step || !result_step->is_constant(1)) continue;
    return [=, this](int64_t depth) {
      Value* const left = groups(a, tile, *a_layout, depth, known.k);
      Value* const right = groups(b, tile, *b_layout, depth, known.k);
      write(sum, dot(known, all_lanes(read(result.leaf, result.which)), left, right));
    };
  }
  return {};
}

// A vector whose lanes are the steps of k of each column, 4 bytes.
Value* Emitter::groups(const Element& element, const DotTile& tile, DotTile::Layout layout, int64_t depth,
                       int64_t steps) {
  Spot& here = spot(element.leaf, element.which);
  const llvm::Align align(static_cast<uint64_t>(size_of(here.access.memory->dtype)));
  if (layout == DotTile::kGroup && depth == steps) {
    return all_lanes(b_.CreateAlignedLoad(b_.getInt32Ty(), group_address(element, tile, 0), align));
  }
  if (layout == DotTile::kPacked) fetch_next_block(element, tile);
  if (layout == DotTile::kPacked) return packed_groups(group_address(element, tile, 0), align, depth, steps);
  if (layout == DotTile::kSliding) return sliding_groups(element, tile, depth, steps);
  std::vector<Value*> rows;
  const std::optional<Expr> by_column = slope(element, tile.columns);
  for (int64_t step = 0; step < depth; ++step) {
    rows.push_back(load(here, group_address(element, tile, step), by_column, nullptr));
  }
  return interleaved(rows, steps);
}

// How far the next block of packed weights is, in elements. A few blocks of rows or pixels read the same block of a
// large operand, before all of them go on to the next. Empty where they do not, where so many read it that fetching
// costs more than it saves, where two blocks leave no room in the L2 cache, and for all copies of unrolled code but the
// first.
std::optional<Emitter::Expr> Emitter::next_block(const Element& element, TreeRef columns) {
  const Compiler::Allocation& memory = *spot(element.leaf, element.which).access.memory;
  const Expr size = memory.size();
  const int64_t most = machine_.l2_bytes / size_of(memory.dtype);
  if (target_.arch != Arch::kX86 || !size.is_constant() || size.constant() < most / 2) return {};
  int64_t reads = 1;
  for (TreeRef loop = tree_.parent(columns); loop; loop = tree_.parent(loop)) {
    const std::optional<Expr> by = slope(element, loop);
    if (!by || !by->is_constant()) return {};
    if (by->is_constant(0)) {
      const auto literal = literals_.find(compiler_.counter(loop));
      if (literal != literals_.end() && literal->second.number != 0) return {};
      const LoopTree::Loop& of = tree_.loop(loop);
      const Expr& count = ir_.var(of.var).size;
      if (literal == literals_.end())
        reads *= count.is_constant() ? (count.constant() + of.step - 1) / of.step : 1 << 10;
      if (reads > machine_.most_fetching_reads) return {};
    } else if (reads > 1) {
      const bool leaves_room = 4 * std::abs(by->constant()) <= most;
      return leaves_room ? by : std::nullopt;
    }
  }
  return {};
}

// While a block is computed, the next block of weights comes to the L2 cache.
void Emitter::fetch_next_block(const Element& element, const DotTile& tile) {
  const std::optional<Expr> ahead = next_block(element, tile.columns);
  if (!ahead) return;
  Spot& here = spot(element.leaf, element.which);
  Value* address = nullptr;
  at_literal(compiler_.counter(tile.steps), {0, false},
             [&] { address = address_in(*here.access.memory, position(here) + *ahead); });
  prefetch(address);
}

// Missing steps are zeros.
Value* Emitter::packed_groups(Value* address, llvm::Align align, int64_t depth, int64_t steps) {
  auto* const type = llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(lanes_));
  llvm::Constant* const zero = llvm::Constant::getNullValue(type);
  Value* const all = tail_ ? static_cast<Value*>(b_.CreateMaskedLoad(type, address, align, tail_, zero))
                           : b_.CreateAlignedLoad(type, address, align);
  const auto bits = static_cast<unsigned>(8 * kGroupBytes * depth / steps);
  return depth == steps ? all : b_.CreateAnd(all, llvm::ConstantInt::get(type, (uint64_t{1} << bits) - 1));
}

// Loads all elements from the first step of the first column to the last step of the last one, and no others. A shuffle
// picks the steps of each column. Missing steps are zeros.
Value* Emitter::sliding_groups(const Element& element, const DotTile& tile, int64_t depth, int64_t steps) {
  const int64_t by_column = slope(element, tile.columns)->constant(), wide = steps * lanes_;
  const DType dtype = spot(element.leaf, element.which).access.memory->dtype;
  llvm::Type* const type = values_.memory_type(dtype, wide);
  llvm::Constant* const zero = llvm::Constant::getNullValue(type);
  const llvm::Align align(static_cast<uint64_t>(size_of(dtype)));
  const auto number = [&](int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); };
  const int64_t columns = tail_count_ > 0 ? tail_count_ : lanes_;
  Value* count = number((columns - 1) * by_column + depth);
  if (tail_ && tail_count_ == 0) {
    Value* const before_last = b_.CreateSub(index(tile.count), number(1));
    count = b_.CreateAdd(b_.CreateMul(before_last, number(by_column)), number(depth));
  }
  Value* const mask = first_of(count, wide);
  Value* const all = b_.CreateMaskedLoad(type, group_address(element, tile, 0), align, mask, zero);
  std::vector<int> picks;
  for (int64_t column = 0; column < lanes_; ++column) {
    for (int64_t step = 0; step < steps; ++step)
      picks.push_back(static_cast<int>(step < depth ? column * by_column + step : wide));
  }
  auto* const groups = llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(lanes_));
  return b_.CreateBitCast(b_.CreateShuffleVector(all, zero, picks), groups);
}

// Interleaves rows: lane i has element i of every row, the first row in the lowest bits. Missing rows are zeros.
Value* Emitter::interleaved(std::vector<Value*> rows, int64_t steps) {
  const int64_t lanes = lanes_of(rows[0]);
  rows.resize(static_cast<size_t>(steps), llvm::Constant::getNullValue(rows[0]->getType()));
  if (lanes == 1) {
    Value* group = nullptr;
    const auto bits = static_cast<uint64_t>(8 * kGroupBytes / steps);
    for (size_t i = 0; i < rows.size(); ++i) {
      Value* const shifted = b_.CreateShl(b_.CreateZExt(rows[i], b_.getInt32Ty()), i * bits);
      group = group ? b_.CreateOr(group, shifted) : shifted;
    }
    return all_lanes(group);
  }
  // Interleave row i with row i + half first, so that neighbours are interleaved last.
  while (rows.size() > 1) {
    const size_t half = rows.size() / 2;
    const auto width = static_cast<int>(lanes_of(rows[0]));
    std::vector<int> order;
    for (int i = 0; i < width; ++i) order.push_back(i), order.push_back(i + width);
    for (size_t i = 0; i < half; ++i) rows[i] = b_.CreateShuffleVector(rows[i], rows[i + half], order);
    rows.resize(half);
  }
  return b_.CreateBitCast(rows[0], llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(lanes)));
}

Value* Emitter::dot(const TileIntrinsic& tile, Value* sum, Value* a, Value* b) {
  if (tile.name == kDotMixed && tile.b == DType::kU8) std::swap(a, b);
  return target_.arch == Arch::kArm64 ? arm_dot(tile, sum, a, b) : x86_dot(tile, sum, a, b);
}

Value* Emitter::x86_dot(const TileIntrinsic& tile, Value* sum, Value* a, Value* b) {
  using namespace llvm::Intrinsic;
  if (tile.name == kDotBF16) {
    auto* const type = llvm::FixedVectorType::get(b_.getBFloatTy(), static_cast<unsigned>(2 * lanes_));
    Value* const pairs[] = {b_.CreateBitCast(a, type), b_.CreateBitCast(b, type)};
    return b_.CreateIntrinsic(x86_avx512bf16_dpbf16ps_512, {}, {sum, pairs[0], pairs[1]});
  }
  const ID dot = lanes_ == 16 ? x86_avx512_vpdpbusd_512 : x86_avx512_vpdpbusd_256;
  return b_.CreateIntrinsic(dot, {}, {sum, a, b});
}

namespace {

struct ArmDot {
  llvm::Intrinsic::ID neon, sve;
};
constexpr ArmDot kArmBF16{llvm::Intrinsic::aarch64_neon_bfdot, llvm::Intrinsic::aarch64_sve_bfdot};
constexpr ArmDot kArmMixed{llvm::Intrinsic::aarch64_neon_usdot, llvm::Intrinsic::aarch64_sve_usdot};
constexpr ArmDot kArmSigned{llvm::Intrinsic::aarch64_neon_sdot, llvm::Intrinsic::aarch64_sve_sdot};
constexpr ArmDot kArmUnsigned{llvm::Intrinsic::aarch64_neon_udot, llvm::Intrinsic::aarch64_sve_udot};

}  // namespace

Value* Emitter::arm_dot(const TileIntrinsic& tile, Value* sum, Value* a, Value* b) {
  const auto elements = static_cast<unsigned>(tile.k * lanes_);
  auto* const type = llvm::FixedVectorType::get(tile.name == kDotBF16 ? b_.getBFloatTy() : b_.getInt8Ty(), elements);
  a = b_.CreateBitCast(a, type);
  b = b_.CreateBitCast(b, type);
  const auto call = [&](const ArmDot& dot, Value* to, Value* x, Value* y) {
    return target_.sve_bits > 0 ? sve_call(dot.sve, to, x, y)
                                : b_.CreateIntrinsic(dot.neon, {sum->getType(), type}, {to, x, y});
  };
  if (tile.name == kDotBF16) return call(kArmBF16, sum, a, b);
  if (tile.name == kDotSigned) return call(kArmSigned, sum, a, b);
  if (tile.name == kDotUnsigned) return call(kArmUnsigned, sum, a, b);
  if (target_.has_vnni) return call(kArmMixed, sum, a, b);
  // a * b = (a - 128) * b + 64 * b + 64 * b, where a - 128 is signed.
  Value* const less = b_.CreateXor(a, llvm::ConstantInt::get(type, 0x80));
  Value* const half = llvm::ConstantInt::get(type, 64);
  return call(kArmSigned, call(kArmSigned, call(kArmSigned, sum, less, b), half, b), half, b);
}

// SVE's instructions take vectors whose length LLVM does not know. Ours fill them, so that putting them in costs
// nothing.
Value* Emitter::sve_call(llvm::Intrinsic::ID dot, Value* sum, Value* a, Value* b) {
  const auto scalable = [&](Value* value) {
    const auto lanes = static_cast<unsigned>(lanes_of(value) * 128 / target_.sve_bits);  // of each 128 bits
    auto* const type = llvm::ScalableVectorType::get(value->getType()->getScalarType(), lanes);
    return b_.CreateInsertVector(type, llvm::PoisonValue::get(type), value, b_.getInt64(0));
  };
  Value* const operands[] = {scalable(sum), scalable(a), scalable(b)};
  std::vector<llvm::Type*> overloaded;
  if (llvm::Intrinsic::isOverloaded(dot)) overloaded.push_back(operands[0]->getType());
  return b_.CreateExtractVector(sum->getType(), b_.CreateIntrinsic(dot, overloaded, operands), b_.getInt64(0));
}

// The packing copy.
Emitter::Instruction Emitter::interleave(const DotTile& tile) {
  const std::vector<TreeRef>& leaves = tree_.children(tile.steps);
  if (leaves.size() != 1 || tree_.kind(leaves[0]) == LoopTree::LOOP) return {};
  const Node& node = ir_.node(tree_.node(leaves[0]));
  const auto* view = node.as<View>();
  if (!view || !view->only_piece()) return {};
  const int64_t steps = kGroupBytes / size_of(node.dtype);
  const Element to{leaves[0], {Which::kSelf}}, from{leaves[0], {Which::kPiece, 0}};
  if (steps < tile.depths.high || layout_of(to, tile, steps) != DotTile::kPacked) return {};
  if (!guards(spot(from.leaf, from.which)).empty()) return interleave_guarded(to, from, tile, *view, steps);
  const std::optional<DotTile::Layout> layout = layout_of(from, tile, steps);
  if (layout == DotTile::kRows || layout == DotTile::kPacked || layout == DotTile::kSliding) {
    return [=, this](int64_t depth) { store_groups(to, tile, groups(from, tile, *layout, depth, steps)); };
  }
  const std::optional<Expr> by_step = slope(from, tile.steps);
  const bool has_known_count = tile.counts.is_single() || tile.counts.low >= lanes_;
  if (!by_step || !by_step->is_constant(1) || tile.depths.low < steps || !has_known_count) return {};
  return [=, this](int64_t) { copy_groups(to, from, tile); };
}

// Whether all steps of a group exist where the first one does.
bool Emitter::have_steps_alike(Spot& element, const DotTile& tile) {
  return std::ranges::none_of(
      guards(element), [&](const Constraint& guard) { return depends_on(guard.expr, compiler_.counter(tile.steps)); });
}

// The groups of the lanes that exist, each contiguous in memory; zeros for the others.
Value* Emitter::gathered_groups(const Element& from, const DotTile& tile, int64_t by_column) {
  Spot& here = spot(from.leaf, from.which);
  const auto size = static_cast<int64_t>(size_of(here.access.memory->dtype));
  Value* inside = nullptr;
  at_literal(compiler_.counter(tile.steps), {0, false}, [&] { inside = holds(guards(here)); });
  Value* mask = inside ? all_lanes(inside) : llvm::Constant::getAllOnesValue(first_lanes(b_.getInt64(0))->getType());
  if (tail_) mask = b_.CreateAnd(mask, tail_);
  Value* const offsets = b_.CreateMul(all_lanes(b_.getInt64(static_cast<uint64_t>(by_column * size))), steps());
  Value* const addresses = b_.CreateGEP(b_.getInt8Ty(), group_address(from, tile, 0), offsets);
  auto* const type = llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(lanes_));
  return b_.CreateMaskedGather(type, addresses, llvm::Align(static_cast<uint64_t>(size)), mask,
                               llvm::Constant::getNullValue(type));
}

// The packing copy of elements that do not all exist, such as those around an image: masks leave zeros, or the
// view's other fill value, for the others.
Emitter::Instruction Emitter::interleave_guarded(const Element& to, const Element& from, const DotTile& tile,
                                                 const View& view, int64_t steps) {
  Spot& here = spot(from.leaf, from.which);
  const Result<Expr> by_column = differentiate(here.position, compiler_.counter(tile.columns));
  const Result<Expr> by_step = differentiate(here.position, compiler_.counter(tile.steps));
  const DType dtype = ir_.node(tree_.node(from.leaf)).dtype;
  const bool has_zeros = view.fill == zero_of(dtype);
  if (!target_.has_masks || !by_column.ok() || !by_column->is_constant()) return {};
  if (has_zeros && by_step.ok() && by_step->is_constant(1) && tile.depths.low == steps &&
      have_steps_alike(here, tile)) {
    return [=, this](int64_t) { store_groups(to, tile, gathered_groups(from, tile, by_column->constant())); };
  }
  const int64_t column = by_column->constant();
  if (column == 0 || std::abs(column) > machine_.most_strided_step) return {};
  Value* const fill = values_.to_memory(values_.literal(dtype, view.fill, lanes_), dtype);
  return [=, this, &here](int64_t depth) {
    std::vector<Value*> rows;
    for (int64_t step = 0; step < depth; ++step) {
      at_literal(compiler_.counter(tile.steps), {step, false}, [&] {
        Value* const inside = holds(guards(here));
        if (inside) guard_ = tail_ ? b_.CreateAnd(tail_, all_lanes(inside)) : all_lanes(inside);
        rows.push_back(load(here, address_in(*here.access.memory, position(here)), *by_column, nullptr));
        if (guard_ && !has_zeros) rows.back() = b_.CreateSelect(guard_, rows.back(), fill);
        guard_ = nullptr;
      });
    }
    store_groups(to, tile, interleaved(rows, steps));
  };
}

Value* Emitter::group_address(const Element& element, const DotTile& tile, int64_t step) {
  Spot& here = spot(element.leaf, element.which);
  Value* address = nullptr;
  at_literal(compiler_.counter(tile.steps), {step, false},
             [&] { address = address_in(*here.access.memory, position(here)); });
  return address;
}

void Emitter::store_groups(const Element& to, const DotTile& tile, Value* groups) {
  const llvm::Align align(static_cast<uint64_t>(size_of(ir_.node(tree_.node(to.leaf)).dtype)));
  Value* const address = group_address(to, tile, 0);
  tail_ ? static_cast<void>(b_.CreateMaskedStore(groups, address, align, tail_))
        : static_cast<void>(b_.CreateAlignedStore(groups, address, align));
}

void Emitter::copy_groups(const Element& to, const Element& from, const DotTile& tile) {
  const llvm::Align align(static_cast<uint64_t>(size_of(ir_.node(tree_.node(to.leaf)).dtype)));
  Literal& column = literals_.at(compiler_.counter(tile.columns));
  for (int64_t lane = 0; lane < std::min(lanes_, tile.counts.low); ++lane, ++column.number) {
    Value* const group = b_.CreateAlignedLoad(b_.getInt32Ty(), group_address(from, tile, 0), align);
    b_.CreateAlignedStore(group, group_address(to, tile, 0), align);
  }
}

}  // namespace tenon::codegen
