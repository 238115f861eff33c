// The first pass counts, part by part; the second knows from that where each part writes.
#include <algorithm>
#include <array>
#include <utility>

#include "runtime/kernels.h"
#include "runtime/kernels/parallel.h"

namespace tenon {
namespace {

constexpr int64_t kBlock = 256;

// The bits that make an element differ from zero: not the sign of a float.
uint64_t mask_of(tenon_dtype dtype) {
  switch (dtype) {
    case TENON_F64:
      return ~uint64_t{0} >> 1;
    case TENON_F32:
      return ~uint32_t{0} >> 1;
    case TENON_F16:
    case TENON_BF16:
      return 0x7FFF;
    default:
      return ~uint64_t{0};
  }
}

// Calls body with a pointer to the elements as bits, and with those of the bits that count.
template <class Body>
auto with_bits(tenon_dtype dtype, const void* x, Body body) {
  const auto call = [&]<class Bits>(Bits mask) { return body(static_cast<const Bits*>(x), mask); };
  const uint64_t mask = mask_of(dtype);
  switch (tenon_dtype_size(dtype)) {
    case 8:
      return call(mask);
    case 4:
      return call(static_cast<uint32_t>(mask));
    case 2:
      return call(static_cast<uint16_t>(mask));
    default:
      return call(static_cast<uint8_t>(mask));
  }
}

// Parts have the same size, which grows with the array's.
int64_t part_size(int64_t size) {
  constexpr int64_t kSmallest = 4096;
  return std::max(kSmallest, (size + TENON_NONZERO_PARTS - 1) / TENON_NONZERO_PARTS);
}

int64_t part_count(int64_t size) { return (size + part_size(size) - 1) / part_size(size); }

template <class Body>
void for_each_part(const tenon_services* services, int64_t size, Body body) {
  const int64_t each = part_size(size);
  in_parallel(services, 0, part_count(size), size, [&](int64_t begin, int64_t end) -> int64_t {
    for (int64_t part = begin; part < end; ++part) body(part, part * each, std::min(size, (part + 1) * each));
    return 0;
  });
}

template <class Bits>
int64_t count(const Bits* x, Bits mask, int64_t begin, int64_t end) {
  int64_t found = 0;
  for (int64_t at = begin; at < end; at += kBlock) {
    uint32_t in_block = 0;
    for (int64_t i = at; i < std::min(at + kBlock, end); ++i) in_block += (x[i] & mask) != 0;
    found += in_block;
  }
  return found;
}

// Writes the coordinates of positions, which come in ascending order.
class Coordinates {
 public:
  Coordinates(const int64_t* shape, int64_t rank, int64_t* to) : shape_(shape), rank_(rank), to_(to) {}

  void write(int64_t position) {
    if (position < row_end_) {
      for (int64_t dim = 0; dim < rank_ - 1; ++dim) to_[dim] = to_[dim - rank_];
      to_[rank_ - 1] = position - row_begin_;
    } else {
      begin_row(position);
    }
    to_ += rank_;
  }

 private:
  void begin_row(int64_t position) {
    int64_t rest = position;
    for (int64_t dim = rank_ - 1; dim >= 0; --dim) {
      to_[dim] = rest % shape_[dim];
      rest /= shape_[dim];
    }
    row_begin_ = position - to_[rank_ - 1];
    row_end_ = row_begin_ + shape_[rank_ - 1];
  }

  const int64_t* shape_;
  int64_t rank_;
  int64_t* to_;
  int64_t row_begin_ = 0;
  int64_t row_end_ = 0;
};

using Found = std::array<uint32_t, kBlock>;

// Which of a block's elements are not zero. Without branches: which are zero is anyone's guess.
template <class Bits>
size_t find(const Bits* x, Bits mask, uint32_t size, Found& found) {
  size_t count = 0;
  for (uint32_t i = 0; i < size; ++i) {
    found[count] = i;
    count += (x[i] & mask) != 0;
  }
  return count;
}

void write(tenon_dtype dtype, const void* x, int64_t begin, int64_t end, Coordinates to) {
  Found found;
  for (int64_t at = begin; at < end; at += kBlock) {
    const auto size = static_cast<uint32_t>(std::min(kBlock, end - at));
    const size_t count =
        with_bits(dtype, x, [&](const auto* bits, auto mask) { return find(bits + at, mask, size, found); });
    for (size_t i = 0; i < count; ++i) to.write(at + found[i]);
  }
}

}  // namespace
}  // namespace tenon

int64_t tenon_nonzero_count(const tenon_services* services, tenon_dtype dtype, int64_t size, const void* x,
                            int64_t* starts) {
  tenon::for_each_part(services, size, [&](int64_t part, int64_t begin, int64_t end) {
    starts[part] =
        tenon::with_bits(dtype, x, [&](const auto* bits, auto mask) { return tenon::count(bits, mask, begin, end); });
  });
  int64_t total = 0;
  for (int64_t part = 0; part < tenon::part_count(size); ++part) total += std::exchange(starts[part], total);
  return total;
}

void tenon_nonzero_write(const tenon_services* services, tenon_dtype dtype, const int64_t* shape, int64_t rank,
                         const void* x, const int64_t* starts, int64_t* indices) {
  if (rank == 0) return;
  int64_t size = 1;
  for (int64_t dim = 0; dim < rank; ++dim) size *= shape[dim];
  tenon::for_each_part(services, size, [&](int64_t part, int64_t begin, int64_t end) {
    tenon::write(dtype, x, begin, end, {shape, rank, indices + starts[part] * rank});
  });
}
