#pragma once

#include <cstddef>

namespace tenon {

// Folds one more hash into a running one.
inline void hash_combine(size_t& seed, size_t hash) {
  seed ^= hash + 0x9e3779b97f4a7c15ull + (seed << 12) + (seed >> 4);
}

}  // namespace tenon
