// The order of elements: each element has a key, an unsigned number, and an entry is a key with the element's position.
// All entries differ, so every sort of entries is stable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/kernels.h"

namespace tenon {

// ---- keys -----------------------------------------------------------------------------------------------------------

template <class Bits>
inline constexpr Bits kSignOf = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));

// Both zeros have one key. All NaNs have one key, the largest.
template <class Bits, Bits kInfinity>
struct FloatElement {
  using Storage = Bits;
  using Key = Bits;
  static constexpr Bits kSign = kSignOf<Bits>, kNan = std::numeric_limits<Bits>::max();

  static Key key(Storage x) {
    const Bits magnitude = x & static_cast<Bits>(~kSign);
    const Bits ordered = (x & kSign) && magnitude != 0 ? static_cast<Bits>(~x) : static_cast<Bits>(x | kSign);
    return magnitude > kInfinity ? kNan : ordered;
  }
  static bool is_nan(Key key) { return key == kNan; }
  static bool is_shared(Key key) { return key == kSign || key == kNan; }  // different elements may have this key
  static Storage element(Key key) { return key & kSign ? key ^ kSign : static_cast<Bits>(~key); }
};

template <class Bits>
struct SignedElement {
  using Storage = Bits;
  using Key = Bits;
  static Key key(Storage x) { return x ^ kSignOf<Bits>; }
  static bool is_nan(Key) { return false; }
  static bool is_shared(Key) { return false; }
  static Storage element(Key key) { return key ^ kSignOf<Bits>; }
};

struct UnsignedElement {
  using Storage = uint8_t;
  using Key = uint8_t;
  static Key key(Storage x) { return x; }
  static bool is_nan(Key) { return false; }
  static bool is_shared(Key) { return false; }
  static Storage element(Key key) { return key; }
};

// Calls body with a value of the element's class.
template <class Body>
auto with_element(tenon_dtype dtype, Body body) {
  switch (dtype) {
    case TENON_F64:
      return body(FloatElement<uint64_t, 0x7FF0000000000000>());
    case TENON_F32:
      return body(FloatElement<uint32_t, 0x7F800000>());
    case TENON_F16:
      return body(FloatElement<uint16_t, 0x7C00>());
    case TENON_BF16:
      return body(FloatElement<uint16_t, 0x7F80>());
    case TENON_I64:
      return body(SignedElement<uint64_t>());
    case TENON_I32:
      return body(SignedElement<uint32_t>());
    case TENON_I16:
      return body(SignedElement<uint16_t>());
    case TENON_I8:
      return body(SignedElement<uint8_t>());
    case TENON_U8:
    case TENON_BOOL:
      break;
  }
  return body(UnsignedElement());
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

template <class Entry, class Element>
inline constexpr bool kHoldsKey = sizeof(typename Element::Key) <= Entry::kKeyBytes;

// ---- lines ----------------------------------------------------------------------------------------------------------

// One line of an array, ascending or descending. In a descending line, larger elements have smaller keys.
struct LinePlace {
  const void* first;
  int64_t stride;
  bool downward;
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
  Key key(int64_t position) const { return static_cast<Key>(Element::key(at(position)) ^ flip()); }

  template <class Entry>
  Storage element(const Entry& entry) const {
    if (Entry::kKeyBytes < sizeof(Key)) return at(entry.position());
    const auto key = static_cast<Key>(static_cast<Key>(entry.key()) ^ flip());
    return Element::is_shared(key) ? at(entry.position()) : Element::element(key);
  }
};

// The code that exists for each kind of element and entry. All other code works on entries through these functions:
// code for each kind would be most of the runtime's size.
template <class Entry>
struct LineFunctions {
  int64_t element_bytes;
  size_t key_bytes;  // of an entry
  void (*load)(const LinePlace& line, int64_t begin, int64_t end, Entry* to);
  void (*store)(const LinePlace& line, const OutputPlace& out, const Entry* entries, int64_t begin, int64_t end);

  LinePlace input(const void* x, const tenon_lines& lines, int64_t number, bool downward) const {
    return {static_cast<const std::byte*>(x) + first_of_line(lines, number) * element_bytes, lines.inner, downward};
  }
  OutputPlace output(void* values, int64_t* indices, const tenon_lines& lines, int64_t number) const {
    const int64_t first = first_of_line(lines, number);
    void* const at = values ? static_cast<std::byte*>(values) + first * element_bytes : nullptr;
    return {at, indices + first, lines.inner};
  }
};

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
inline constexpr LineFunctions<Entry> kLineFunctions = {sizeof(typename Element::Storage),
                                                        std::min(sizeof(typename Element::Key), Entry::kKeyBytes),
                                                        load_entries<Element, Entry>, store_entries<Element, Entry>};

}  // namespace tenon
