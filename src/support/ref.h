// Refs: positions of things in the object that owns them, one type for each kind of thing. A default ref is empty.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace tenon {

template <class Tag>
struct Ref {
  static constexpr uint32_t kNone = ~0u;
  uint32_t id = kNone;
  explicit operator bool() const { return id != kNone; }
  auto operator<=>(const Ref&) const = default;
};

}  // namespace tenon

template <class Tag>
struct std::hash<tenon::Ref<Tag>> {
  size_t operator()(const tenon::Ref<Tag>& ref) const { return ref.id; }
};
