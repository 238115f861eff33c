// Blocks that are read along one variable and used along another: they are transposed in registers.
#include <numeric>

#include "codegen/emitter.h"

namespace tenon::codegen {

using namespace loops;
using llvm::Value;

// Applies to an unrolled loop around a vectorized one. An array that is contiguous along the outer loop is read row by
// row and transposed in registers, not gathered.
std::optional<Emitter::BlockLanes> Emitter::lanes_of_block(TreeRef outer, int64_t count) {
  if (tree_.children(outer).size() != 1 || count < 2) return {};
  const TreeRef inner = tree_.children(outer)[0];
  if (tree_.kind(inner) == LoopTree::NODE || tree_.loop(inner).annotation.mark != Mark::kVectorize) return {};
  const std::vector<Compiler::Stretch> parts = compiler_.stretches(inner, *scope_);
  if (parts.size() != 1 || !parts[0].begin.is_constant(0) || !parts[0].end.is_constant()) return {};
  const int64_t rows = parts[0].end.constant(), lanes = lanes_for(inner, rows);
  if (rows < 2 || rows > lanes) return {};
  return BlockLanes{.loop = inner, .count = lanes, .used = rows};
}

bool Emitter::is_read_across(Spot& element, TreeRef outer, TreeRef inner) {
  if (!element.access.memory || !guards(element).empty()) return false;
  const TreeRef writer = tree_.find(element.access.node);
  if (registers_.contains(element.access.node) || (writer && tree_.contains(outer, writer))) return false;
  const Result<Expr> along = differentiate(element.position, compiler_.counter(outer));
  const Result<Expr> across = differentiate(element.position, compiler_.counter(inner));
  return along.ok() && along->is_constant(1) && across.ok() && !across->is_constant(0) &&
         !depends_on(*across, compiler_.counter(outer)) && element.access.where.empty();
}

void Emitter::transpose_reads(TreeRef outer, const Expr& begin, int64_t count) {
  const std::optional<BlockLanes> inner = lanes_of_block(outer, count);
  if (!inner) return;
  for (TreeRef leaf : tree_.children(inner->loop)) {
    if (!ir_.node(tree_.node(leaf)).lookups().empty()) continue;
    for (Which which : elements_of(leaf)) {
      if (which.role != Which::kInput && which.role != Which::kPiece) continue;
      Spot& element = spot(leaf, which);
      if (is_read_across(element, outer, inner->loop)) {
        blocks_.insert_or_assign({leaf, which}, transposed_rows(element, outer, *inner, begin, count));
      }
    }
  }
}

// Transposes as many columns at a time as there are lanes.
Emitter::TransposedBlock Emitter::transposed_rows(Spot& element, TreeRef outer, const BlockLanes& inner,
                                                  const Expr& begin, int64_t count) {
  TransposedBlock block{compiler_.counter(outer), {}};
  for (int64_t first = 0; first < count; first += inner.count) {
    const int64_t width = std::min(count - first, inner.count);
    std::vector<Value*> columns = transposed(rows_of(element, outer, inner, begin + first, width));
    block.columns.insert(block.columns.end(), columns.begin(), columns.begin() + width);
  }
  return block;
}

// Short rows and missing rows are filled up. The elements that come from filling are not used.
std::vector<Value*> Emitter::rows_of(Spot& element, TreeRef outer, const BlockLanes& inner, const Expr& begin,
                                     int64_t width) {
  const DType stored = element.access.memory->dtype, dtype = ir_.node(element.access.node).dtype;
  llvm::Type* const type = values_.memory_type(stored);
  auto* const vector = llvm::FixedVectorType::get(type, static_cast<unsigned>(width));
  Value* const array = arrays_.at(element.access.memory->mem_idx);
  std::vector<int> filled(static_cast<size_t>(inner.count), llvm::PoisonMaskElem);
  std::iota(filled.begin(), filled.begin() + width, 0);
  auto* const nothing = llvm::PoisonValue::get(values_.memory_type(dtype, inner.count));
  std::vector<Value*> rows;
  for (int64_t row = 0; row < inner.used; ++row) {
    const symbolic::Substitution here = {{compiler_.counter(outer), begin}, {compiler_.counter(inner.loop), row}};
    Value* const address = f_->indices.address(array, type, substituted(substitute(element.position, here)));
    Value* loaded = b_.CreateAlignedLoad(vector, address, llvm::Align(static_cast<uint64_t>(size_of(stored))));
    if (stored != dtype) loaded = values_.cast(loaded, stored, dtype);
    rows.push_back(width == inner.count ? loaded : b_.CreateShuffleVector(loaded, filled));
  }
  rows.resize(static_cast<size_t>(inner.count), nothing);
  return rows;
}

// Transposes by exchanging each bit of the row number with the same bit of the lane number.
std::vector<Value*> Emitter::transposed(std::vector<Value*> rows) {
  const auto count = static_cast<int>(rows.size());
  for (int bit = 1; bit < count; bit *= 2) {
    std::vector<int> even, odd;
    for (int lane = 0; lane < count; ++lane) {
      const bool is_set = (lane & bit) != 0;
      even.push_back(is_set ? count + lane - bit : lane);
      odd.push_back(is_set ? count + lane : lane + bit);
    }
    for (int row = 0; row < count; ++row) {
      if ((row & bit) != 0) continue;
      Value*& first = rows[static_cast<size_t>(row)];
      Value*& second = rows[static_cast<size_t>(row + bit)];
      Value* const kept = first;
      first = shuffled(kept, second, even);
      second = shuffled(kept, second, odd);
    }
  }
  return rows;
}

// LLVM spends long trying to merge shuffles. This keeps it from merging.
Value* Emitter::shuffled(Value* x, Value* y, llvm::ArrayRef<int> picks) {
  if (llvm::isa<llvm::PoisonValue>(x) && llvm::isa<llvm::PoisonValue>(y)) return x;
  Value* const result = b_.CreateShuffleVector(x, y, picks);
  return result->getType()->isFPOrFPVectorTy() ? b_.CreateArithmeticFence(result, result->getType()) : result;
}

// The transposed vector for this copy of the unrolled body. Null if the element is not transposed.
Value* Emitter::transposed_read(TreeRef at, Which which) const {
  const auto found = blocks_.find({at, which});
  if (found == blocks_.end()) return nullptr;
  return found->second.columns[static_cast<size_t>(copy_of_.at(found->second.counter))];
}

}  // namespace tenon::codegen
