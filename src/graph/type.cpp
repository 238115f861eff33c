#include "graph/type.h"

#include <algorithm>
#include <numeric>

#include "support/text.h"

namespace tenon {
namespace {

// Which of two dtype categories wins: "higher" comes from operands that have dimensions, "lower" from rank 0.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || is_float(*higher)) return higher;
  if (*higher == DType::kBool || is_float(*lower)) return promote(*higher, *lower);
  return higher;
}

}  // namespace

std::string to_string(std::span<const Expr> shape) {
  return "[" + join(shape, ", ", [](const Expr& size) { return to_string(size); }) + "]";
}

std::string to_string(const TensorType& type) { return std::string(name_of(type.dtype)) + to_string(type.shape); }

TensorType type_of(const Tensor& tensor) { return {tensor.dtype(), to_shape(tensor.shape())}; }

bool data_fits(const TensorType& type, const Tensor& data) {
  const auto same_size = [](const Expr& size, int64_t actual) {
    return !size.is_constant() || size.constant() == actual;
  };
  return type.dtype == data.dtype() && std::ranges::equal(type.shape, data.shape(), same_size);
}

Shape to_shape(std::span<const int64_t> sizes) { return {sizes.begin(), sizes.end()}; }

Expr element_count(std::span<const Expr> shape) {
  Expr count = 1;
  for (const Expr& size : shape) count = count * size;
  return count;
}

bool is_static(std::span<const Expr> shape) {
  return std::ranges::all_of(shape, [](const Expr& size) { return size.is_constant(); });
}

Sizes evaluate(std::span<const Expr> shape, const symbolic::Bindings& bindings) {
  Sizes sizes;
  sizes.reserve(shape.size());
  for (const Expr& size : shape) sizes.push_back(evaluate(size, bindings));
  return sizes;
}

symbolic::Ranges Facts::ranges_of(const Expr& a, const Expr& b) const {
  symbolic::Ranges ranges;
  for (const Expr* expr : {&a, &b}) {
    for (const Symbol& symbol : symbols_of(*expr)) {
      const bool declared = declared_ && declared_->contains(symbol);
      ranges.emplace(symbol, declared ? declared_->at(symbol) : symbolic::Interval::at_least(0));
    }
  }
  return ranges;
}

bool Facts::equal(const Expr& a, const Expr& b) const { return a == b || provably_equal(a, b, ranges_of(a, b)); }

bool Facts::equal(std::span<const Expr> a, std::span<const Expr> b) const {
  return std::ranges::equal(a, b, [&](const Expr& left, const Expr& right) { return equal(left, right); });
}

bool Facts::less_equal(const Expr& a, const Expr& b) const {
  using symbolic::Kind;
  if (provably_less_equal(a, b, ranges_of(a, b))) return true;
  // Bounds forget that both sides share a symbol; minimum and maximum are decided operand by operand.
  const auto below_b = [&](const Expr& operand) { return less_equal(operand, b); };
  const auto above_a = [&](const Expr& operand) { return less_equal(a, operand); };
  if (a.kind() == Kind::kMax && std::ranges::all_of(a.operands(), below_b)) return true;
  if (a.kind() == Kind::kMin && std::ranges::any_of(a.operands(), below_b)) return true;
  if (b.kind() == Kind::kMin && std::ranges::all_of(b.operands(), above_a)) return true;
  return b.kind() == Kind::kMax && std::ranges::any_of(b.operands(), above_a);
}

Expr Facts::min(const Expr& a, const Expr& b) const {
  if (less_equal(a, b)) return a;
  return less_equal(b, a) ? b : symbolic::min(a, b);
}

Expr Facts::max(const Expr& a, const Expr& b) const {
  if (less_equal(a, b)) return b;
  return less_equal(b, a) ? a : symbolic::max(a, b);
}

Shape broadcast(std::span<const Expr> a, std::span<const Expr> b) {
  if (a.size() < b.size()) std::swap(a, b);
  Shape result(a.begin(), a.end());
  const size_t offset = a.size() - b.size();
  for (size_t dim = 0; dim < b.size(); ++dim) {
    Expr& size = result[offset + dim];
    if (size == b[dim] || b[dim].is_constant(1)) continue;
    if (!size.is_constant(1)) {
      fail("cannot broadcast {} with {}: sizes {} and {} differ and neither is 1", to_string(a), to_string(b),
           to_string(size), to_string(b[dim]));
    }
    size = b[dim];
  }
  return result;
}

void check_broadcasts_to(std::span<const Expr> from, std::span<const Expr> to) {
  if (from.size() > to.size() || broadcast(from, to) != Shape(to.begin(), to.end())) {
    fail("cannot broadcast {} to {}", to_string(from), to_string(to));
  }
}

DType result_dtype(std::span<const TensorType> operands) {
  std::optional<DType> with_dims;
  std::optional<DType> without_dims;
  for (const TensorType& type : operands) {
    std::optional<DType>& category = type.rank() > 0 ? with_dims : without_dims;
    category = category ? promote(*category, type.dtype) : type.dtype;
  }
  const auto result = combine(with_dims, without_dims);
  check(result.has_value(), "result_dtype needs an operand");
  return *result;
}

int64_t normalize_dim(int64_t dim, int64_t rank) {
  const int64_t limit = std::max<int64_t>(rank, 1);
  if (dim < -limit || dim >= limit) {
    fail("dimension {} is out of range for rank {}: it must be in [{}, {}]", dim, rank, -limit, limit - 1);
  }
  return dim < 0 ? dim + limit : dim;
}

std::vector<int64_t> normalize_dims(std::span<const int64_t> dims, int64_t rank) {
  std::vector<int64_t> result;
  if (dims.empty()) {
    result.resize(static_cast<size_t>(rank));
    std::iota(result.begin(), result.end(), 0);
    return result;
  }
  for (int64_t dim : dims) result.push_back(normalize_dim(dim, rank));
  std::ranges::sort(result);
  const auto repeated = std::ranges::adjacent_find(result);
  if (repeated != result.end()) fail("dimension {} appears twice", *repeated);
  if (rank == 0) result.clear();
  return result;
}

}  // namespace tenon
