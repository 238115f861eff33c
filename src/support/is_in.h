#pragma once

#include <algorithm>

namespace tenon {

// Whether the item is among the items.
template <class Items, class Item>
bool is_in(const Items& items, const Item& item) {
  return std::ranges::find(items, item) != std::ranges::end(items);
}

}  // namespace tenon
