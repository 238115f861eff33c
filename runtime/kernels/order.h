// How elements are ordered: each has a key, an unsigned number, and an entry is a key with the position it comes from.
// Entries are all different, so that any way to sort them is stable.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/kernels.h"

namespace tenon {

// ---- keys -----------------------------------------------------------------------------------------------------------

template <class Bits>
inline constexpr Bits kSignOf = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));

// Both zeros have the same key, and so have all NaNs: the largest.
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
  static bool is_shared(Key key) { return key == kSign || key == kNan; }  // by elements that differ
  static Storage element(Key key) { return key & kSign ? key ^ kSign : static_cast<Bits>(~key); }
};

template <class Bits>
struct SignedElement {
  using Storage = Bits;
  using Key = Bits;
  static Key key(Storage x) { return x ^ kSignOf<Bits>; }
  static bool is_shared(Key) { return false; }
  static Storage element(Key key) { return key ^ kSignOf<Bits>; }
};

struct UnsignedElement {
  using Storage = uint8_t;
  using Key = uint8_t;
  static Key key(Storage x) { return x; }
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

// A key of 32 bits in a line of up to 2^32 elements: one number. What a longer key has before those is left out.
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

// One line of an array, upwards or downwards: in a downward line the larger element has the smaller key.
template <class Element>
struct Line {
  using Storage = typename Element::Storage;
  using Key = typename Element::Key;

  const Storage* first;
  int64_t stride;
  bool downward;
  int shift = 0;  // entries have the key without so many of its last bits

  Line(const void* x, const tenon_lines& lines, int64_t number, bool is_downward)
      : first(static_cast<const Storage*>(x) + number / lines.inner * lines.length * lines.inner +
              number % lines.inner),
        stride(lines.inner),
        downward(is_downward) {}

  Key flip() const { return downward ? std::numeric_limits<Key>::max() : Key{0}; }
  Key key(int64_t position) const { return static_cast<Key>(Element::key(first[position * stride]) ^ flip()); }

  template <class Entry>
  void load(int64_t begin, int64_t end, Entry* to) const {
    for (int64_t i = begin; i < end; ++i) *to++ = Entry::make(static_cast<uint64_t>(key(i)) >> shift, i);
  }

  template <class Entry>
  Storage element(const Entry& entry) const {
    if (Entry::kKeyBytes < sizeof(Key)) return first[entry.position() * stride];
    const auto key = static_cast<Key>(static_cast<Key>(entry.key()) ^ flip());
    return Element::is_shared(key) ? first[entry.position() * stride] : Element::element(key);
  }
};

// The line of the same number in the outputs, whose lines may have another length.
template <class Storage>
struct OutputLine {
  Storage* values;  // may be null
  int64_t* indices;
  int64_t stride;

  OutputLine(void* all_values, int64_t* all_indices, const tenon_lines& lines, int64_t number)
      : values(static_cast<Storage*>(all_values)), indices(all_indices), stride(lines.inner) {
    const int64_t first = number / lines.inner * lines.length * lines.inner + number % lines.inner;
    indices += first;
    if (values) values += first;
  }

  template <class Line, class Entry>
  void store(const Line& line, const Entry* entries, int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) indices[i * stride] = entries[i].position();
    if (!values) return;
    for (int64_t i = begin; i < end; ++i) values[i * stride] = line.element(entries[i]);
  }
};

}  // namespace tenon
