// Where values belong in sorted lines, and how often each integer occurs.
#include <algorithm>

#include "runtime/elements.h"
#include "runtime/kernels/order.h"
#include "runtime/kernels/parallel.h"

namespace tenon {
namespace {

constexpr uint64_t kNan = ~uint64_t{0};

// The key of an element; NaN has one of its own.
template <class Element>
uint64_t key_at(const void* elements, int64_t position, uint64_t limit) {
  using Key = typename Element::Key;
  const Key key =
      Element::key(static_cast<const typename Element::Storage*>(elements)[position], static_cast<Key>(limit));
  return Element::is_nan(key) ? kNan : key;
}

struct KeyAt {
  uint64_t (*of_element)(const void* elements, int64_t position, uint64_t limit);
  uint64_t limit;
  bool has_nan;  // The largest key of an integer is that of a number.
  bool is_nan(uint64_t key) const { return has_nan && key == kNan; }
  uint64_t operator()(const void* elements, int64_t position) const { return of_element(elements, position, limit); }
};

// Halves the line from `first` on. NaN in it counts as smaller than all else, as in PyTorch.
int64_t place_in(const KeyAt& key_at, const void* lines, int64_t first, int64_t length, uint64_t value, bool right) {
  if (key_at.is_nan(value)) return length;
  int64_t begin = 0, end = length;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    const uint64_t key = key_at(lines, first + middle);
    const bool is_behind = !key_at.is_nan(key) && (right ? key > value : key >= value);
    (is_behind ? end : begin) = is_behind ? middle : middle + 1;
  }
  return begin;
}

// Calls body(integer) for each.
template <class Body>
void for_each_integer(tenon_dtype dtype, int64_t size, const void* x, Body body) {
  constexpr int64_t kBlock = 256;
  int64_t integers[kBlock];
  for (int64_t first = 0; first < size; first += kBlock) {
    const int64_t count = std::min(kBlock, size - first);
    const runtime::Places from{static_cast<std::byte*>(const_cast<void*>(x)), first, 1, nullptr};
    runtime::load_integers(dtype, from, count, integers);
    for (int64_t i = 0; i < count; ++i) body(integers[i]);
  }
}

}  // namespace
}  // namespace tenon

void tenon_searchsorted(const tenon_services* services, tenon_dtype dtype, tenon_searches searches, int right,
                        const void* sequence, const void* values, int64_t* places) {
  const tenon::KeyAt key_at = tenon::with_element(dtype, [](auto element, uint64_t limit) -> tenon::KeyAt {
    return {tenon::key_at<decltype(element)>, limit, decltype(element)::kHasNan};
  });
  const int64_t size = searches.lines * searches.values;
  tenon::in_parallel(services, 0, size, 8 * size, [&](int64_t begin, int64_t end) -> int64_t {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / searches.values * searches.length;
      places[i] = tenon::place_in(key_at, sequence, first, searches.length, key_at(values, i), right != 0);
    }
    return 0;
  });
}

void tenon_integer_range(tenon_dtype dtype, int64_t size, const void* x, int64_t* least, int64_t* most) {
  *least = INT64_MAX, *most = INT64_MIN;
  tenon::for_each_integer(dtype, size, x, [&](int64_t integer) {
    *least = std::min(*least, integer);
    *most = std::max(*most, integer);
  });
}

void tenon_bincount(tenon_dtype dtype, int64_t size, const void* x, int64_t bins, int64_t* counts) {
  std::fill_n(counts, bins, 0);
  tenon::for_each_integer(dtype, size, x, [&](int64_t integer) { ++counts[integer]; });
}
