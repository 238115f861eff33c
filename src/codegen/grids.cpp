// Tiles of rows and columns: AMX.
//
// The eight tile registers are ours by number: accumulators have the first, operands take turns with the others. LLVM
// could allocate them, but moves accumulators through memory where folding loops are nested. A function with tiles
// configures them when it starts, all alike, and releases them when it returns: the contents of the caller's tile
// registers are lost.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "codegen/emitter.h"

namespace tenon::codegen {

using namespace loops;
using llvm::Value;

namespace {

constexpr int64_t kSide = 16;      // rows, columns and groups of steps of a tile
constexpr int64_t kRowBytes = 64;  // bytes of a row of a tile register
constexpr int64_t kRegisters = 8;  // tile registers
constexpr int64_t kMostTiles = 4;  // the most accumulators: as many operands must fit the registers
constexpr int64_t kElements = kSide * kSide;

llvm::Intrinsic::ID instruction_of(const TileIntrinsic& tile) {
  using namespace llvm::Intrinsic;
  if (tile.a == DType::kBF16) return x86_tdpbf16ps;
  if (tile.a == DType::kI8) return tile.b == DType::kI8 ? x86_tdpbssd : x86_tdpbsud;
  return tile.b == DType::kI8 ? x86_tdpbusd : x86_tdpbuud;
}

// What LDTILECFG reads. The sizes are the architecture's: leaf 0x1D of CPUID, which says them too, is empty on some
// machines.
std::vector<uint8_t> configuration() {
  std::vector<uint8_t> bytes(64, 0);
  bytes[0] = 1;  // the palette
  for (size_t i = 0; i < kRegisters; ++i) {
    bytes[16 + 2 * i] = kRowBytes;
    bytes[48 + i] = kSide;
  }
  return bytes;
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
  if (!product || loop(0).step != 1 || loop(2).step != 1 || loop(3).step != 1) return {};
  const bool is_square = loop(0).size.is_constant(kSide) && loop(2).size.is_constant(kSide);
  if (!is_square || !loop(1).size.is_constant(kSide) || !loop(3).size.is_constant()) return {};
  // Groups are of one variable, or each iteration over one is a group of another.
  const int64_t group = loop(3).size.constant();
  const bool is_one = loop(1).var == loop(3).var;
  const Expr &depth = ir_.var(loop(1).var).size, &steps = ir_.var(loop(3).var).size;
  if (loop(1).step != (is_one ? group : 1) || (!is_one && !steps.is_constant(group))) return {};
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

// Whether the accumulators are 16 x 16 each, and code that folds knows which of them it adds to: it is unrolled.
bool Emitter::is_grid_of_sums(const Grid& grid) {
  const Element sum{grid.product.sum, {Which::kSelf}};
  if (!moves_by(sum, {{grid.rows, kSide}, {grid.groups, 0}, {grid.columns, 1}, {grid.steps, 0}})) return false;
  const Spot& here = spot(sum.leaf, sum.which);
  const Compiler::Allocation& memory = *here.access.memory;
  if (!memory.scratch || !ends_with(memory.dims, {kSide, kSide})) return false;
  const NodeRef node = tree_.node(sum.leaf);
  const std::vector<TreeRef> path = tree_.path(tree_.parent(sum.leaf));
  const auto folds = [&](TreeRef loop) { return ir_.folds(node, tree_.loop(loop).var); };
  const auto fold = std::ranges::find_if(path, folds);
  const auto is_other = [&](NodeRef other) { return other != node && ir_.node(other).as<Reduce>(); };
  if (std::ranges::any_of(tree_.nodes_below(*fold), is_other)) return false;
  Expr size = 1;
  for (const Expr& extent : compiler_.fill(node, *fold).extents) size *= extent;
  if (!size.is_constant() || size.constant() > kMostTiles * kElements) return false;
  return std::all_of(fold, path.end(), [&](TreeRef loop) {
    const bool is_own = loop == grid.rows || loop == grid.columns;
    return is_own || tree_.loop(loop).annotation.mark == Mark::kUnroll ||
           !depends_on(here.position, compiler_.counter(loop));
  });
}

// Whether memory goes on beyond the last element, for whole blocks of the loops around it. Rows in reverse order go on
// before the first.
bool Emitter::goes_on(const Element& element) {
  const Spot& here = spot(element.leaf, element.which);
  symbolic::Ranges ranges = ir_.ranges();
  for (TreeRef loop : tree_.path(tree_.parent(element.leaf))) {
    const Expr iterations = tree_.loop(loop).iterations();
    if (!depends_on(here.position, compiler_.counter(loop))) continue;
    if (!iterations.is_constant()) return false;
    ranges.insert_or_assign(compiler_.counter(loop), symbolic::Interval{0, iterations.constant() - 1});
  }
  const Expr size = here.access.memory->size();
  const symbolic::Interval reached = bounds(here.position, ranges);
  return size.is_constant() && reached.low >= 0 && reached.high < size.constant();
}

// Whether memory has whole blocks of rows, so that rows beyond the last can be read.
bool Emitter::has_whole_rows(const Grid& grid) {
  const VarRef var = tree_.loop(grid.rows).var;
  const Expr& size = ir_.var(var).size;
  if (size.is_constant() && size.constant() % kSide == 0) return true;
  const Compiler::Allocation& memory = *spot(grid.product.a.leaf, grid.product.a.which).access.memory;
  const auto is_of_rows = [&](const Compiler::Dim& dim) {
    return dim.var == var && dim.step == 1 && dim.extent.is_constant(kSide);
  };
  return (memory.scratch && std::ranges::any_of(memory.dims, is_of_rows)) || goes_on(grid.product.a);
}

// The same for columns.
bool Emitter::has_whole_columns(const Grid& grid) {
  const Compiler::Allocation& memory = *spot(grid.product.b.leaf, grid.product.b.which).access.memory;
  return ends_with(memory.dims, {kSide, tree_.loop(grid.steps).size.constant()}) || goes_on(grid.product.b);
}

const Emitter::Grid* Emitter::grid_of(TreeRef ref) {
  const auto known = grids_.find(ref);
  if (known != grids_.end()) return known->second ? &*known->second : nullptr;
  std::optional<Grid>& result = grids_[ref];
  std::optional<Grid> grid = grid_loops(ref);
  if (!grid || !is_grid_of_sums(*grid)) return nullptr;
  const auto& [sum, a, b] = grid->product;
  const int64_t group = tree_.loop(grid->steps).size.constant();
  const bool a_fits = moves_by(a, {{grid->groups, group}, {grid->columns, 0}, {grid->steps, 1}});
  const bool b_fits = moves_by(b, {{grid->rows, 0}, {grid->columns, group}, {grid->steps, 1}});
  const std::optional<Expr> by_group = slope(b, grid->groups);
  if (!a_fits || !b_fits || !by_group || !by_group->is_constant()) return nullptr;
  if (!has_whole_rows(*grid) || !has_whole_columns(*grid)) return nullptr;
  const auto memory = [&](const Element& element) { return spot(element.leaf, element.which).access.memory; };
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

// Calls the function with the position of each accumulator of the block.
void Emitter::for_each_tile(const Compiler::Fill& fill, const std::function<void(const Expr&)>& visit) {
  const size_t loops = fill.counters.size() - 2;  // outside of the 16 x 16 elements of an accumulator
  symbolic::Substitution indices;
  for (Symbol counter : fill.counters) indices.insert_or_assign(counter, Expr(0));
  const std::function<void(size_t)> go = [&](size_t at) {
    if (at == loops) return visit(substitute(fill.offset, indices));
    for (int64_t i = 0; i < fill.extents[at].constant(); ++i) {
      indices.insert_or_assign(fill.counters[at], Expr(i));
      go(at + 1);
    }
  };
  go(0);
}

// Which accumulator of its block is at the position.
int64_t Emitter::number_of_tile(const Expr& position) {
  symbolic::Substitution outside;
  for (Symbol symbol : symbols_of(position)) outside.emplace(symbol, Expr(0));
  const Expr number = substitute(position, outside);
  check(number.is_constant(), "the position of a tile of sums is not a constant in its block: {}", position);
  return number.constant();
}

// Whether this function calls functions with tiles, which release them: those of parallel loops.
bool Emitter::may_lose_tiles() const {
  const auto is_marked = [&](TreeRef loop, Mark mark) { return tree_.loop(loop).annotation.mark == mark; };
  for (NodeRef node : ir_.order()) {
    const std::vector<TreeRef> path = tree_.path(tree_.parent(tree_.find(node)));
    const auto here = outlined_ ? std::ranges::find(path, outlined_) : path.begin();
    const auto inside = here == path.end() || !outlined_ ? here : here + 1;
    const auto call = std::find_if(inside, path.end(), [&](TreeRef loop) { return is_marked(loop, Mark::kParallel); });
    if (std::any_of(call, path.end(), [&](TreeRef loop) { return is_marked(loop, Mark::kTile); })) return true;
  }
  return false;
}

void Emitter::configure_tiles() {
  constexpr const char* kName = "tenon.tiles";
  llvm::GlobalVariable* data = module_.getNamedGlobal(kName);
  if (!data) {
    std::vector<uint8_t> sizes = configuration();
    llvm::Constant* const bytes = llvm::ConstantDataArray::get(b_.getContext(), sizes);
    data = new llvm::GlobalVariable(module_, bytes->getType(), true, llvm::GlobalValue::InternalLinkage, bytes, kName);
    data->setAlignment(llvm::Align(64));
  }
  b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {data});
}

void Emitter::start_grid(const Compiler::Fill& fill) {
  const bool is_first = !std::exchange(f_->has_tiles, true);
  if (may_lose_tiles()) {
    configure_tiles();
  } else if (is_first) {
    const llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(f_->entry_end());
    configure_tiles();
  }
  accumulators_.clear();
  for_each_tile(fill, [&](const Expr& position) {
    const auto number = static_cast<uint8_t>(accumulators_.size());
    accumulators_.emplace(number_of_tile(substituted(position)), number);
    b_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {b_.getInt8(number)});
  });
  next_operand_ = kRegisters - 1;
}

void Emitter::finish_grid(const Compiler::Fill& fill) {
  for_each_tile(fill, [&](const Expr& position) {
    const Expr at = substituted(position);
    Value* const tile = b_.getInt8(accumulators_.at(number_of_tile(at)));
    b_.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64, {},
                       {tile, address_in(*fill.memory, at), b_.getInt64(kRowBytes)});
  });
}

// While blocks read the same tiles of weights, each of them brings a part of the next tiles to the L2 cache.
void Emitter::fetch_next_tile(const Element& element, TreeRef rows) {
  const std::optional<Expr> ahead = next_block(element, rows);
  if (!ahead) return;
  const auto reads_again = [&](TreeRef loop) {
    const std::optional<Expr> by = slope(element, loop);
    return by && by->is_constant(0) && !literals_.contains(compiler_.counter(loop));
  };
  TreeRef blocks = tree_.parent(rows);
  while (blocks && !reads_again(blocks)) blocks = tree_.parent(blocks);
  if (!blocks || !tree_.loop(blocks).iterations().is_constant()) return;
  Spot& here = spot(element.leaf, element.which);
  const int64_t count = ceildiv(kSide, tree_.loop(blocks).iterations()).constant();
  const int64_t row = kRowBytes / size_of(here.access.memory->dtype);
  const Expr first = position(here) + *ahead + Expr(compiler_.counter(blocks)) * (count * row);
  for (int64_t i = 0; i < count; ++i) prefetch(address_in(*here.access.memory, first + i * row));
}

// The register of an operand, which is loaded once for all tiles in the same basic block.
uint8_t Emitter::load_tile(const Element& element, TreeRef rows, Value* stride) {
  Spot& here = spot(element.leaf, element.which);
  const Compiler::Allocation& memory = *here.access.memory;
  const Expr at = position(here);
  if (tiles_in_ != b_.GetInsertBlock()) loaded_tiles_.clear();
  tiles_in_ = b_.GetInsertBlock();
  const std::pair key(memory.mem_idx, at);
  const auto known = std::ranges::find(loaded_tiles_, key, &LoadedTile::source);
  if (known != loaded_tiles_.end()) return known->number;
  const uint8_t number = next_operand_;
  next_operand_ = number == accumulators_.size() ? kRegisters - 1 : number - 1;
  std::erase_if(loaded_tiles_, [&](const LoadedTile& tile) { return tile.number == number; });
  loaded_tiles_.push_back({key, number});
  b_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {}, {b_.getInt8(number), address_in(memory, at), stride});
  fetch_next_tile(element, rows);
  return number;
}

// Multiplies whole tiles. Rows and columns beyond the last are computed too, and never read.
void Emitter::multiply(const Grid& grid) {
  const auto& [sum, a, b] = grid.product;
  std::vector<Symbol> counters;
  for (TreeRef loop : {grid.rows, grid.groups, grid.columns, grid.steps}) counters.push_back(compiler_.counter(loop));
  for (Symbol counter : counters) literals_.emplace(counter, Literal{0, false});
  const auto bytes_to_next = [&](const Element& element, Symbol row) {
    const Spot& at = spot(element.leaf, element.which);
    return index(*differentiate(at.position, row) * size_of(at.access.memory->dtype));
  };
  const uint8_t total = accumulators_.at(number_of_tile(position(spot(sum, {Which::kSelf}))));
  const uint8_t left = load_tile(a, grid.rows, bytes_to_next(a, counters[0]));
  const uint8_t right = load_tile(b, grid.rows, bytes_to_next(b, counters[1]));
  b_.CreateIntrinsic(instruction_of(grid.tile), {}, {b_.getInt8(total), b_.getInt8(left), b_.getInt8(right)});
  for (Symbol counter : counters) literals_.erase(counter);
}

}  // namespace tenon::codegen
