// The order of elements: each element has a key, an unsigned number, and an entry is a key with the element's position.
// All entries differ, so every sort of entries is stable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/kernels.h"

namespace tenon {

// ---- keys -----------------------------------------------------------------------------------------------------------

template <class Bits>
inline constexpr Bits kSignOf = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));

// Dtypes of one size share code: a `limit` says what makes them different.

// The limit is infinity. Both zeros have one key. All NaNs have one key, the largest.
template <class Bits>
struct FloatElement {
  using Storage = Bits;
  using Key = Bits;
  static constexpr Bits kSign = kSignOf<Bits>, kNan = std::numeric_limits<Bits>::max();

  static Key key(Storage x, Bits limit) {
    const Bits magnitude = x & static_cast<Bits>(~kSign);
    const Bits ordered = (x & kSign) && magnitude != 0 ? static_cast<Bits>(~x) : static_cast<Bits>(x | kSign);
    return magnitude > limit ? kNan : ordered;
  }
  static constexpr bool kHasNan = true;
  static bool is_nan(Key key) { return key == kNan; }
  static bool is_shared(Key key) { return key == kSign || key == kNan; }  // different elements may have this key
  static Storage element(Key key, Bits) { return key & kSign ? key ^ kSign : static_cast<Bits>(~key); }
};

// The limit is the sign of signed integers, or 0.
template <class Bits>
struct IntegerElement {
  using Storage = Bits;
  using Key = Bits;
  static Key key(Storage x, Bits limit) { return x ^ limit; }
  static constexpr bool kHasNan = false;
  static bool is_nan(Key) { return false; }
  static bool is_shared(Key) { return false; }
  static Storage element(Key key, Bits limit) { return key ^ limit; }
};

// Calls body with a value of the element's class, and the limit.
template <class Body>
auto with_element(tenon_dtype dtype, Body body) {
  switch (dtype) {
    case TENON_F64:
      return body(FloatElement<uint64_t>(), 0x7FF0000000000000);
    case TENON_F32:
      return body(FloatElement<uint32_t>(), 0x7F800000);
    case TENON_F16:
    case TENON_BF16:
      return body(FloatElement<uint16_t>(), dtype == TENON_F16 ? 0x7C00 : 0x7F80);
    case TENON_I64:
      return body(IntegerElement<uint64_t>(), kSignOf<uint64_t>);
    case TENON_I32:
      return body(IntegerElement<uint32_t>(), kSignOf<uint32_t>);
    case TENON_I16:
      return body(IntegerElement<uint16_t>(), kSignOf<uint16_t>);
    case TENON_I8:
    case TENON_U8:
    case TENON_BOOL:
      break;
  }
  return body(IntegerElement<uint8_t>(), dtype == TENON_I8 ? kSignOf<uint8_t> : 0);
}

// ---- entries --------------------------------------------------------------------------------------------------------

// An entry in one number: a key of 32 bits, in a line of up to 2^32 elements. The leading bits of a longer key are left
// out.
struct NarrowEntry {
  static constexpr size_t kKeyBytes = 4;
  static constexpr int64_t kLongestLine = int64_t{1} << 32;

  uint64_t bits;
  static NarrowEntry make(uint64_t key, int64_t position) { return {key << 32 | static_cast<uint64_t>(position)}; }
  uint64_t key() const { return bits >> 32; }
  int64_t position() const { return static_cast<int64_t>(bits & 0xFFFFFFFF); }
  bool operator<(const NarrowEntry& other) const { return bits < other.bits; }
};

struct WideEntry {
  static constexpr size_t kKeyBytes = 8;

  uint64_t key_bits;
  int64_t from;
  static WideEntry make(uint64_t key, int64_t position) { return {key, position}; }
  uint64_t key() const { return key_bits; }
  int64_t position() const { return from; }
  bool operator<(const WideEntry& other) const {
    return key_bits < other.key_bits || (key_bits == other.key_bits && from < other.from);
  }
};

// One function, which the runtime's own lists use as well.
void sort_entries(WideEntry* begin, WideEntry* end);
void sort_entries(NarrowEntry* begin, NarrowEntry* end);

template <class Entry, class Element>
inline constexpr bool kHoldsKey = sizeof(typename Element::Key) <= Entry::kKeyBytes;

// ---- lines ----------------------------------------------------------------------------------------------------------

// One line of an array, ascending or descending. In a descending line, larger elements have smaller keys.
struct LinePlace {
  const void* first;
  int64_t stride;
  bool downward;
  uint64_t limit;
  int shift = 0;  // entries omit this many low bits of the key
};

// The line of the same number in the outputs, whose lines may have another length.
struct OutputPlace {
  void* values;  // may be null
  int64_t* indices;
  int64_t stride;
};

inline int64_t first_of_line(const tenon_lines& lines, int64_t number) {
  return number / lines.inner * lines.length * lines.inner + number % lines.inner;
}

template <class Element>
struct Line : LinePlace {
  using Storage = typename Element::Storage;
  using Key = typename Element::Key;

  explicit Line(const LinePlace& place) : LinePlace(place) {}

  Storage at(int64_t position) const { return static_cast<const Storage*>(first)[position * stride]; }
  Key flip() const { return downward ? std::numeric_limits<Key>::max() : Key{0}; }
  Key key(int64_t position) const {
    return static_cast<Key>(Element::key(at(position), static_cast<Key>(limit)) ^ flip());
  }

  template <class Entry>
  Storage element(const Entry& entry) const {
    if (Entry::kKeyBytes < sizeof(Key)) return at(entry.position());
    const auto key = static_cast<Key>(static_cast<Key>(entry.key()) ^ flip());
    return Element::is_shared(key) ? at(entry.position()) : Element::element(key, static_cast<Key>(limit));
  }
};

// The code that exists for each kind of element and entry. All other code works on entries through these functions:
// code for each kind would be most of the runtime's size.
template <class Entry>
struct LineFunctions {
  int64_t element_bytes;
  size_t key_bytes;  // of an entry
  void (*load_entries)(const LinePlace& line, int64_t begin, int64_t end, Entry* to);
  void (*store_entries)(const LinePlace& line, const OutputPlace& out, const Entry* entries, int64_t begin,
                        int64_t end);
  const LineFunctions<NarrowEntry>*
      narrow;  // of wide entries whose keys are narrow: they have no functions of their own

  void load(const LinePlace& line, int64_t begin, int64_t end, Entry* to) const;
  void store(const LinePlace& line, const OutputPlace& out, const Entry* entries, int64_t begin, int64_t end) const;

  LinePlace input(const void* x, const tenon_lines& lines, int64_t number, bool downward, uint64_t limit) const {
    const void* const first = static_cast<const std::byte*>(x) + first_of_line(lines, number) * element_bytes;
    return {first, lines.inner, downward, limit};
  }
  OutputPlace output(void* values, int64_t* indices, const tenon_lines& lines, int64_t number) const {
    const int64_t first = first_of_line(lines, number);
    void* const at = values ? static_cast<std::byte*>(values) + first * element_bytes : nullptr;
    return {at, indices + first, lines.inner};
  }
};

// ---- lines of more than 2^32 elements whose keys are narrow: rare, so it is the same code for all ----

[[gnu::noinline]] inline void load_long_line(const LineFunctions<NarrowEntry>& functions, LinePlace line, int64_t begin,
                                             int64_t end, WideEntry* to) {
  constexpr int64_t kBlock = 64;
  NarrowEntry block[kBlock];
  const auto* const first = static_cast<const std::byte*>(line.first);
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    line.first = first + at * line.stride * functions.element_bytes;
    functions.load_entries(line, 0, count, block);
    for (int64_t i = 0; i < count; ++i) *to++ = WideEntry::make(block[i].key(), at + i);
  }
}

[[gnu::noinline]] inline void store_long_line(int64_t element_bytes, const LinePlace& line, const OutputPlace& out,
                                              const WideEntry* entries, int64_t begin, int64_t end) {
  const auto* const from = static_cast<const std::byte*>(line.first);
  auto* const to = static_cast<std::byte*>(out.values);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t position = entries[i].position();
    out.indices[i * out.stride] = position;
    if (to)
      std::memcpy(to + i * out.stride * element_bytes, from + position * line.stride * element_bytes,
                  static_cast<size_t>(element_bytes));
  }
}

template <class Entry>
void LineFunctions<Entry>::load(const LinePlace& line, int64_t begin, int64_t end, Entry* to) const {
  if constexpr (std::is_same_v<Entry, WideEntry>) {
    if (narrow) return load_long_line(*narrow, line, begin, end, to);
  }
  load_entries(line, begin, end, to);
}

template <class Entry>
void LineFunctions<Entry>::store(const LinePlace& line, const OutputPlace& out, const Entry* entries, int64_t begin,
                                 int64_t end) const {
  if constexpr (std::is_same_v<Entry, WideEntry>) {
    if (narrow) return store_long_line(element_bytes, line, out, entries, begin, end);
  }
  store_entries(line, out, entries, begin, end);
}

// ---- all other lines ----

template <class Element, class Entry>
void load_entries(const LinePlace& place, int64_t begin, int64_t end, Entry* to) {
  const Line<Element> line(place);
  for (int64_t i = begin; i < end; ++i) *to++ = Entry::make(static_cast<uint64_t>(line.key(i)) >> line.shift, i);
}

template <class Element, class Entry>
void store_entries(const LinePlace& place, const OutputPlace& out, const Entry* entries, int64_t begin, int64_t end) {
  const Line<Element> line(place);
  for (int64_t i = begin; i < end; ++i) out.indices[i * out.stride] = entries[i].position();
  if (!out.values) return;
  auto* const values = static_cast<typename Element::Storage*>(out.values);
  for (int64_t i = begin; i < end; ++i) values[i * out.stride] = line.element(entries[i]);
}

template <class Element, class Entry>
inline constexpr LineFunctions<Entry> kLineFunctions = {
    sizeof(typename Element::Storage), std::min(sizeof(typename Element::Key), Entry::kKeyBytes),
    load_entries<Element, Entry>, store_entries<Element, Entry>, nullptr};
template <class Element>
  requires kHoldsKey<NarrowEntry, Element>
inline constexpr LineFunctions<WideEntry> kLineFunctions<Element, WideEntry> = {
    sizeof(typename Element::Storage), sizeof(typename Element::Key), nullptr, nullptr,
    &kLineFunctions<Element, NarrowEntry>};

}  // namespace tenon
