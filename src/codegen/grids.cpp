// Tiles of rows and columns: AMX.
//
// LLVM allocates the tile registers and emits their configuration. It needs a value for each accumulator throughout the
// folding loops. So each 16 x 16 part of the array of sums is a variable, which is stored to the array after the loops.
// The kernel releases all tiles when it returns: the contents of the caller's tile registers are lost.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "codegen/emitter.h"

namespace tenon::codegen {

using namespace loops;
using llvm::Value;

namespace {

constexpr int64_t kSide = 16;      // rows, columns and groups of steps of a tile
constexpr int64_t kRowBytes = 64;  // bytes of a row of a tile register
constexpr int64_t kMostTiles = 4;  // the most accumulators: as many operands must fit the eight registers
constexpr int64_t kElements = kSide * kSide;

llvm::Intrinsic::ID instruction_of(const TileIntrinsic& tile) {
  using namespace llvm::Intrinsic;
  if (tile.a == DType::kBF16) return x86_tdpbf16ps_internal;
  if (tile.a == DType::kI8) return tile.b == DType::kI8 ? x86_tdpbssd_internal : x86_tdpbsud_internal;
  return tile.b == DType::kI8 ? x86_tdpbusd_internal : x86_tdpbuud_internal;
}

bool ends_with(const std::vector<loops::Compiler::Dim>& dims, std::initializer_list<int64_t> extents) {
  if (dims.size() < extents.size()) return false;
  return std::equal(extents.begin(), extents.end(), dims.end() - std::ssize(extents),
                    [](int64_t extent, const loops::Compiler::Dim& dim) { return dim.extent.is_constant(extent); });
}

}  // namespace

// ---- which loops ----------------------------------------------------------------------------------------------------

std::optional<Emitter::Grid> Emitter::grid_loops(TreeRef ref) {
  std::vector<TreeRef> nest = {ref};
  while (nest.size() < 4) {
    const std::vector<TreeRef>& children = tree_.children(nest.back());
    if (children.size() != 1 || tree_.kind(children[0]) == LoopTree::NODE) return {};
    nest.push_back(children[0]);
  }
  const auto loop = [&](size_t i) -> const LoopTree::Loop& { return tree_.loop(nest[i]); };
  const std::optional<TileProduct> product = product_below(nest[3]);
  if (!product || loop(1).var != loop(3).var || loop(0).step != 1 || loop(2).step != 1) return {};
  const bool is_square = loop(0).size.is_constant(kSide) && loop(2).size.is_constant(kSide);
  if (!is_square || !loop(1).size.is_constant(kSide) || !loop(3).size.is_constant(loop(1).step)) return {};
  const Expr& depth = ir_.var(loop(3).var).size;
  if (!depth.is_constant() || depth.constant() % (kSide * loop(1).step) != 0) return {};
  Grid grid{.rows = nest[0], .groups = nest[1], .columns = nest[2], .steps = nest[3], .product = *product};
  const auto moves = [&](const Element& element, TreeRef by) {
    return depends_on(spot(element.leaf, element.which).position, compiler_.counter(by));
  };
  if (moves(product->a, grid.columns)) std::swap(grid.product.a, grid.product.b);
  return grid;
}

// Whether the element always exists and moves by exactly these strides.
bool Emitter::moves_by(const Element& element, const std::vector<std::pair<TreeRef, Expr>>& strides) {
  const Spot& here = spot(element.leaf, element.which);
  if (!here.access.memory || !compiler_.get_constraints(here.access).empty()) return false;
  return std::ranges::all_of(strides, [&](const auto& stride) {
    const Result<Expr> moved = differentiate(here.position, compiler_.counter(stride.first));
    return moved.ok() && *moved == stride.second;
  });
}

// Whether the accumulators are 16 x 16 each, at positions that are constants in unrolled code.
bool Emitter::is_grid_of_sums(const Grid& grid) {
  const Element sum{grid.product.sum, {Which::kSelf}};
  if (!moves_by(sum, {{grid.rows, kSide}, {grid.groups, 0}, {grid.columns, 1}, {grid.steps, 0}})) return false;
  const Spot& here = spot(sum.leaf, sum.which);
  const Compiler::Allocation& memory = *here.access.memory;
  const Expr size = memory.size();
  if (!memory.scratch || !ends_with(memory.dims, {kSide, kSide})) return false;
  if (!size.is_constant() || size.constant() > kMostTiles * kElements) return false;
  const auto is_known = [&](TreeRef loop) {
    const bool is_own = loop == grid.rows || loop == grid.columns;
    return is_own || tree_.loop(loop).annotation.mark == Mark::kUnroll ||
           !depends_on(here.position, compiler_.counter(loop));
  };
  return std::ranges::all_of(tree_.path(tree_.parent(sum.leaf)), is_known);
}

// Whether memory has whole blocks of rows, so that rows beyond the last can be read.
bool Emitter::has_whole_rows(const Grid& grid) {
  const VarRef var = tree_.loop(grid.rows).var;
  const Expr& size = ir_.var(var).size;
  if (size.is_constant() && size.constant() % kSide == 0) return true;
  const Compiler::Allocation& memory = *spot(grid.product.a.leaf, grid.product.a.which).access.memory;
  return memory.scratch && std::ranges::any_of(memory.dims, [&](const Compiler::Dim& dim) {
           return dim.var == var && dim.step == 1 && dim.extent.is_constant(kSide);
         });
}

const Emitter::Grid* Emitter::grid_of(TreeRef ref) {
  const auto known = grids_.find(ref);
  if (known != grids_.end()) return known->second ? &*known->second : nullptr;
  std::optional<Grid>& result = grids_[ref];
  std::optional<Grid> grid = grid_loops(ref);
  if (!grid || !is_grid_of_sums(*grid)) return nullptr;
  const auto& [sum, a, b] = grid->product;
  const int64_t group = tree_.loop(grid->groups).step;
  const bool a_fits = moves_by(a, {{grid->groups, group}, {grid->columns, 0}, {grid->steps, 1}});
  const bool b_fits =
      moves_by(b, {{grid->rows, 0}, {grid->groups, kSide * group}, {grid->columns, group}, {grid->steps, 1}});
  if (!a_fits || !b_fits || !has_whole_rows(*grid)) return nullptr;
  const auto memory = [&](const Element& element) { return spot(element.leaf, element.which).access.memory; };
  if (!ends_with(memory(b)->dims, {kSide, group})) return nullptr;
  for (const TileIntrinsic& tile : machine_.tiles) {
    if (tile.name != tree_.loop(ref).annotation.tile || tile.m != kSide || tile.k != kSide * group) continue;
    if (tile.a != memory(a)->dtype || tile.b != memory(b)->dtype) continue;
    if (tile.c != compiler_.allocations.at(tree_.node(sum)).dtype) continue;
    grid->tile = tile;
    result = std::move(grid);
    return &*result;
  }
  return nullptr;
}

const Emitter::Grid* Emitter::grid_that_sums(NodeRef ref) {
  if (!ir_.node(ref).as<Reduce>()) return nullptr;
  for (TreeRef loop : tree_.path(tree_.parent(tree_.find(ref)))) {
    if (tree_.loop(loop).annotation.mark == Mark::kTile) return grid_of(loop);
  }
  return nullptr;
}

// ---- code -----------------------------------------------------------------------------------------------------------

llvm::Type* Emitter::grid_type() const {
  return llvm::FixedVectorType::get(llvm::Type::getInt32Ty(b_.getContext()), kElements);
}

void Emitter::start_grid(NodeRef sum) {
  std::vector<Value*>& tiles = grid_sums_[sum];
  tiles.clear();
  const int64_t count = compiler_.allocations.at(sum).size().constant() / kElements;
  for (int64_t i = 0; i < count; ++i) {
    tiles.push_back(f_->on_stack(grid_type(), 1, ir_.node(sum).name + "_tile"));
    b_.CreateStore(llvm::Constant::getNullValue(grid_type()), tiles.back());
  }
}

Value* Emitter::tile_in(Value* variable) {
  return b_.CreateIntrinsic(llvm::Intrinsic::x86_cast_vector_to_tile, {grid_type()},
                            {b_.CreateLoad(grid_type(), variable)});
}

void Emitter::finish_grid(NodeRef sum) {
  const Compiler::Allocation& memory = compiler_.allocations.at(sum);
  int64_t position = 0;
  for (Value* variable : grid_sums_.at(sum)) {
    Value* const address = address_in(memory, position * kElements);
    b_.CreateIntrinsic(
        llvm::Intrinsic::x86_tilestored64_internal, {},
        {b_.getInt16(kSide), b_.getInt16(kRowBytes), address, b_.getInt64(kRowBytes), tile_in(variable)});
    ++position;
  }
}

// Loads an operand once for all tiles in the same basic block.
Value* Emitter::load_tile(const Element& element, Value* stride) {
  Spot& here = spot(element.leaf, element.which);
  const Compiler::Allocation& memory = *here.access.memory;
  const Expr at = position(here);
  if (tiles_in_ != b_.GetInsertBlock()) loaded_tiles_.clear();
  tiles_in_ = b_.GetInsertBlock();
  Value*& tile = loaded_tiles_[memory.mem_idx].try_emplace(at, nullptr).first->second;
  if (tile) return tile;
  Value* const address = address_in(memory, at);
  tile = b_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64_internal, {},
                            {b_.getInt16(kSide), b_.getInt16(kRowBytes), address, stride});
  return tile;
}

// Multiplies whole tiles. Rows and columns beyond the last are computed too, and never read.
void Emitter::multiply(const Grid& grid) {
  const auto& [sum, a, b] = grid.product;
  std::vector<Symbol> counters;
  for (TreeRef loop : {grid.rows, grid.groups, grid.columns, grid.steps}) counters.push_back(compiler_.counter(loop));
  for (Symbol counter : counters) literals_.emplace(counter, Literal{0, false});
  Spot& here = spot(sum, {Which::kSelf});
  const Expr at = position(here);
  check(at.is_constant() && at.constant() % kElements == 0, "the position of a tile of sums is not a constant: {}", at);
  Value* const variable = grid_sums_.at(tree_.node(sum))[static_cast<size_t>(at.constant() / kElements)];
  const Expr row = *differentiate(spot(a.leaf, a.which).position, counters[0]);
  Value* const left = load_tile(a, index(row * size_of(grid.tile.a)));
  Value* const right = load_tile(b, b_.getInt64(kRowBytes));
  Value* const next = b_.CreateIntrinsic(
      instruction_of(grid.tile), {},
      {b_.getInt16(kSide), b_.getInt16(kRowBytes), b_.getInt16(kRowBytes), tile_in(variable), left, right});
  b_.CreateStore(b_.CreateIntrinsic(llvm::Intrinsic::x86_cast_tile_to_vector, {grid_type()}, {next}), variable);
  for (Symbol counter : counters) literals_.erase(counter);
}

}  // namespace tenon::codegen
