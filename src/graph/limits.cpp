#include "graph/limits.h"

#include <algorithm>

namespace tenon {
namespace {

bool has_too_many_bytes(const TensorType& type) {
  int64_t bytes = size_of(type.dtype);
  return std::ranges::any_of(type.shape, [&](const Expr& size) {
    return size.is_constant() && __builtin_mul_overflow(bytes, std::max<int64_t>(size.constant(), 1), &bytes);
  });
}

}  // namespace

void check_limits(const TensorType& type, std::string_view what) {
  if (type.rank() > kHighestRank)
    fail("{} has {} dimensions: at most {} are supported", what, type.rank(), kHighestRank);
  for (const Expr& size : type.shape) {
    if (size.is_constant() && size.constant() < 0) fail("{} has a negative size: {}", what, to_string(type));
  }
  if (has_too_many_bytes(type)) fail("{} is too large: {} has more than 2^63 - 1 bytes", what, to_string(type));
}

void check_part_count(int64_t count, std::string_view what) {
  if (count < 0 || count > kMostParts)
    fail("{} {} are out of range: at most {} are supported", count, what, kMostParts);
}

}  // namespace tenon
