// Products of matrices by groups of rows. The left matrix is copied once, as tiles of a few rows. Then one group and
// one panel of columns is a task: the panel of the right matrix is copied, a block of its depth at a time, and meets
// all tiles of the group. f16 and bf16 become f32 in the copies. Each sum adds in the order of the depth, so that
// threads change nothing.
#include <algorithm>
#include <cstring>

#include "runtime/cpu_features.h"
#include "runtime/elements.h"
#include "runtime/kernels.h"
#include "runtime/kernels/parallel.h"
#include "runtime/scalar_functions.h"

namespace tenon {
namespace {

constexpr int64_t kRows = 6;          // of a tile
constexpr int64_t kPanelBytes = 128;  // of a row of a panel
constexpr int64_t kMostDepth = 128;   // of a block: the panel stays in the first cache
constexpr int64_t kMostTiles = 64;    // whose sums wait in scratch

int64_t tiles_of(int64_t rows) { return (rows + kRows - 1) / kRows; }

// ---- what is compiled for each kind of elements: all else sees bytes ------------------------------------------------

// A tile of sums, plus a tile of `a`, in which the elements of a column follow each other, times a panel. As many bytes
// of the panel at a time as leave all sums in registers.
template <class Real, size_t kBytes>
[[gnu::always_inline]] inline void add_tile(const void* a, const void* panel, int64_t depth, void* sums) {
  using Lanes __attribute__((vector_size(kBytes))) = Real;
  const auto* const left = static_cast<const Real*>(a);
  for (size_t part = 0; part < kPanelBytes; part += kBytes) {
    const auto* const right = static_cast<const std::byte*>(panel) + part;
    auto* const to = static_cast<std::byte*>(sums) + part;
    Lanes sum[kRows], row;
    for (int64_t i = 0; i < kRows; ++i) std::memcpy(&sum[i], to + i * kPanelBytes, sizeof row);
    for (int64_t k = 0; k < depth; ++k) {
      std::memcpy(&row, right + k * kPanelBytes, sizeof row);
#pragma GCC unroll 6
      for (int64_t i = 0; i < kRows; ++i) sum[i] += left[k * kRows + i] * row;
    }
    for (int64_t i = 0; i < kRows; ++i) std::memcpy(to + i * kPanelBytes, &sum[i], sizeof row);
  }
}

using AddTile = void (*)(const void* a, const void* panel, int64_t depth, void* sums);

template <class Real>
void add_tile_anywhere(const void* a, const void* panel, int64_t depth, void* sums) {
  add_tile<Real, 16>(a, panel, depth, sums);
}

#ifdef __x86_64__
template <class Real>
[[gnu::target("arch=x86-64-v3")]] void add_tile_v3(const void* a, const void* panel, int64_t depth, void* sums) {
  add_tile<Real, 64>(a, panel, depth, sums);
}

[[gnu::target("arch=x86-64-v4"), clang::min_vector_width(512)]] void add_tile_v4(const void* a, const void* panel,
                                                                                 int64_t depth, void* sums) {
  add_tile<float, 128>(a, panel, depth, sums);
}

template <class Real>
AddTile fastest() {
  if (sizeof(Real) == 4 && runtime::has_level(4)) return add_tile_v4;
  return runtime::has_level(3) ? add_tile_v3<Real> : add_tile_anywhere<Real>;
}
#else
template <class Real>
AddTile fastest() {
  return add_tile_anywhere<Real>;
}
#endif

struct Half {
  uint16_t bits;

  // The exponent moves by a product, which also makes a normal number of a denormal one.
  operator float() const {  // NOLINT(google-explicit-constructor): a number
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7FFF) << 13;
    const bool is_finite = (bits & 0x7C00) != 0x7C00;
    const float value = is_finite ? bits_as<float>(magnitude) * 0x1p112F : bits_as<float>(magnitude | 0x7F800000);
    return (bits & 0x8000) != 0 ? -value : value;
  }
};

struct Brain {
  uint16_t bits;
  operator float() const { return from_brain(bits); }  // NOLINT(google-explicit-constructor): a number
};

// Copies `count` elements that are `stride` apart to places `step` apart.
template <class Element, class Real>
void load(const void* from, int64_t count, int64_t stride, void* to, int64_t step) {
  const auto* const elements = static_cast<const Element*>(from);
  auto* const reals = static_cast<Real*>(to);
  if (stride == 1 && step == 1) {
    std::copy_n(elements, count, reals);
  } else {
    for (int64_t i = 0; i < count; ++i) reals[i * step] = elements[i * stride];
  }
}

void load_brains(const void* from, int64_t count, int64_t stride, void* to, int64_t step) {
  constexpr int64_t kLanes = 16;
  using Narrow __attribute__((vector_size(kLanes * 2))) = uint16_t;
  using Wide __attribute__((vector_size(kLanes * 4))) = uint32_t;
  const auto* brains = static_cast<const Brain*>(from);
  auto* reals = static_cast<float*>(to);
  for (; stride == 1 && step == 1 && count >= kLanes; count -= kLanes, brains += kLanes, reals += kLanes) {
    Narrow bits;
    std::memcpy(&bits, brains, sizeof bits);
    const Wide wide = __builtin_convertvector(bits, Wide) << 16;
    std::memcpy(reals, &wide, sizeof wide);
  }
  load<Brain, float>(brains, count, stride, reals, step);
}

// Sums as narrower elements.
void store_brains(const void* sums, int64_t count, std::byte* out) {
  for (int64_t i = 0; i < count; ++i) {
    const float sum = static_cast<const float*>(sums)[i];
    const auto bits = bits_as<uint32_t>(sum);
    const auto rounded = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    const uint16_t brain = sum == sum ? rounded : 0x7FC0;
    std::memcpy(out + i * 2, &brain, sizeof brain);
  }
}

void store_halves(const void* sums, int64_t count, std::byte* out) {
  for (int64_t i = 0; i < count; ++i) runtime::store_real(TENON_F16, out + i * 2, static_cast<const float*>(sums)[i]);
}

template <int64_t kBytes>
void store_same(const void* sums, int64_t count, std::byte* out) {
  std::memcpy(out, sums, static_cast<size_t>(count * kBytes));
}

struct Elements {
  int64_t bytes;       // in memory
  int64_t real_bytes;  // where they are computed with
  void (*load)(const void* from, int64_t count, int64_t stride, void* to, int64_t step);
  void (*store)(const void* sums, int64_t count, std::byte* out);
  AddTile add_tile;

  int64_t panel() const { return kPanelBytes / real_bytes; }
};

Elements elements_of(tenon_dtype dtype) {
  if (dtype == TENON_F64) return {8, 8, load<double, double>, store_same<8>, fastest<double>()};
  if (dtype == TENON_F32) return {4, 4, load<float, float>, store_same<4>, fastest<float>()};
  if (dtype == TENON_F16) return {2, 4, load<Half, float>, store_halves, fastest<float>()};
  return {2, 4, load_brains, store_brains, fastest<float>()};
}

// ---- the product of one group ---------------------------------------------------------------------------------------

// A matrix in memory: element (i, j) is the one with the number i * row + j * column.
struct Matrix {
  const std::byte* data;
  int64_t row, column;
};

struct Product {
  Matrix a, b;
  int64_t rows, depth;
  std::byte* tiles;  // room for those of a
  std::byte* out;
};

class Multiplier {
 public:
  Multiplier(const Elements& elements, int64_t columns) : e_(elements), columns_(columns) {}

  static constexpr int64_t kScratch = kPanelBytes * (kMostDepth + kMostTiles * kRows);  // bytes
  int64_t panels() const { return (columns_ + e_.panel() - 1) / e_.panel(); }

  // One of the product's tiles. Rows that it does not have are zero.
  [[gnu::noinline]] void copy_tile(const Product& p, int64_t number) const {
    const int64_t first = number * kRows, rows = std::min(kRows, p.rows - first),
                  size = kRows * p.depth * e_.real_bytes;
    std::byte* const tile = p.tiles + number * size;
    const std::byte* const from = p.a.data + first * p.a.row * e_.bytes;
    if (rows < kRows) std::fill_n(tile, size, std::byte{0});
    if (p.a.row == 1) {
      for (int64_t k = 0; k < p.depth; ++k) {
        e_.load(from + k * p.a.column * e_.bytes, rows, 1, tile + k * kRows * e_.real_bytes, 1);
      }
    } else {
      for (int64_t i = 0; i < rows; ++i) {
        e_.load(from + i * p.a.row * e_.bytes, p.depth, p.a.column, tile + i * e_.real_bytes, kRows);
      }
    }
  }

  // The columns of one panel.
  [[gnu::noinline]] void run(const Product& p, int64_t number, std::byte* scratch) const {
    const int64_t first = number * e_.panel(), columns = std::min(e_.panel(), columns_ - first);
    std::byte *const panel = scratch, *const sums = scratch + kMostDepth * kPanelBytes;
    for (int64_t tile = 0; tile < tiles_of(p.rows); tile += kMostTiles) {
      const int64_t tiles = std::min(kMostTiles, tiles_of(p.rows) - tile);
      std::fill_n(sums, tiles * kRows * kPanelBytes, std::byte{0});
      for (int64_t k = 0; k < p.depth; k += kMostDepth) {
        const int64_t depth = std::min(kMostDepth, p.depth - k);
        copy_panel({p.b.data + (k * p.b.row + first * p.b.column) * e_.bytes, p.b.row, p.b.column}, depth, columns,
                   panel);
        for (int64_t i = 0; i < tiles; ++i) {
          const std::byte* const a = p.tiles + ((tile + i) * p.depth + k) * kRows * e_.real_bytes;
          e_.add_tile(a, panel, depth, sums + i * kRows * kPanelBytes);
        }
      }
      const int64_t row = tile * kRows, rows = std::min(tiles * kRows, p.rows - row);
      for (int64_t i = 0; i < rows; ++i) {
        e_.store(sums + i * kPanelBytes, columns, p.out + ((row + i) * columns_ + first) * e_.bytes);
      }
    }
  }

 private:
  // What is right of the columns is zero.
  [[gnu::noinline]] void copy_panel(const Matrix& b, int64_t depth, int64_t columns, std::byte* panel) const {
    if (columns < e_.panel()) std::fill_n(panel, depth * kPanelBytes, std::byte{0});
    if (b.column == 1) {
      for (int64_t k = 0; k < depth; ++k) {
        e_.load(b.data + k * b.row * e_.bytes, columns, 1, panel + k * kPanelBytes, 1);
      }
    } else {
      for (int64_t j = 0; j < columns; ++j) {
        e_.load(b.data + j * b.column * e_.bytes, depth, b.row, panel + j * e_.real_bytes, e_.panel());
      }
    }
  }

  Elements e_;
  int64_t columns_;
};

// ---- all groups -----------------------------------------------------------------------------------------------------

int64_t begin_of(const tenon_groups& groups, int64_t group) { return group == 0 ? 0 : groups.ends[group - 1]; }

struct Grouped {
  tenon_groups groups;
  int64_t left;   // columns of x
  int64_t right;  // columns of the result
  bool is_outer;
  bool transposed;
  const void* x;
  const void* w;
  void* out;

  // Room for the tiles, in elements. Each group has its own, from where those before it end at the latest.
  int64_t room() const {
    return room_before(begin_of(groups, groups.count), groups.count, left, is_outer) + kRows * left;
  }
  int64_t first_place(int64_t group) const { return room_before(begin_of(groups, group), group, left, is_outer); }
  static int64_t room_before(int64_t begin, int64_t group, int64_t left, bool is_outer) {
    return is_outer ? begin * tiles_of(left) * kRows : (begin / kRows + group) * kRows * left;
  }

  [[gnu::noinline]] Product product(int64_t group, const Elements& e, std::byte* tiles) const {
    const int64_t begin = begin_of(groups, group), length = groups.ends[group] - begin;
    const int64_t matrix = group * left * right * e.bytes, row = begin * right * e.bytes;
    const std::byte* const a = static_cast<const std::byte*>(x) + begin * left * e.bytes;
    const std::byte* const b = static_cast<const std::byte*>(w) + (is_outer ? row : matrix);
    std::byte* const to = static_cast<std::byte*>(out) + (is_outer ? matrix : row);
    std::byte* const own_tiles = tiles + first_place(group) * e.real_bytes;
    if (is_outer) return {{a, 1, left}, {b, right, 1}, left, length, own_tiles, to};
    const Matrix of_group = transposed ? Matrix{b, 1, left} : Matrix{b, right, 1};
    return {{a, left, 1}, of_group, length, left, own_tiles, to};
  }
};

int64_t multiply(const tenon_services* services, tenon_dtype dtype, const Grouped& g) {
  const Elements elements = elements_of(dtype);
  const Multiplier multiplier(elements, g.right);
  const ScratchArray<std::byte> tiles(services, g.room() * elements.real_bytes);
  if (!tiles.get()) return kTenonOutOfMemory;
  for (int64_t group = 0; group < g.groups.count; ++group) {
    const Product product = g.product(group, elements, tiles.get());
    const int64_t count = product.depth == 0 ? 0 : tiles_of(product.rows);
    in_parallel(services, 0, count, product.rows * product.depth, [&](int64_t begin, int64_t end) -> int64_t {
      for (int64_t tile = begin; tile < end; ++tile) multiplier.copy_tile(product, tile);
      return 0;
    });
  }
  const int64_t panels = multiplier.panels(), products = begin_of(g.groups, g.groups.count) * g.left * g.right;
  return in_parallel(services, 0, g.groups.count * panels, products / 16, [&](int64_t begin, int64_t end) -> int64_t {
    const ScratchArray<std::byte> scratch(services, Multiplier::kScratch);
    if (!scratch.get()) return kTenonOutOfMemory;
    for (int64_t task = begin; task < end; ++task) {
      multiplier.run(g.product(task / panels, elements, tiles.get()), task % panels, scratch.get());
    }
    return 0;
  });
}

}  // namespace
}  // namespace tenon

int64_t tenon_grouped_matmul(const tenon_services* services, tenon_dtype dtype, tenon_groups groups, int64_t depth,
                             int64_t columns, int transposed, const void* x, const void* w, void* out) {
  const int64_t in_groups = tenon::begin_of(groups, groups.count), row = columns * tenon::runtime::size_of(dtype);
  std::fill_n(static_cast<std::byte*>(out) + in_groups * row, (groups.rows - in_groups) * row, std::byte{0});
  return tenon::multiply(services, dtype, {groups, depth, columns, false, transposed != 0, x, w, out});
}

int64_t tenon_grouped_outer(const tenon_services* services, tenon_dtype dtype, tenon_groups groups, int64_t rows,
                            int64_t columns, const void* x, const void* y, void* out) {
  return tenon::multiply(services, dtype, {groups, rows, columns, true, false, x, y, out});
}

int64_t tenon_grouped_scratch(tenon_dtype dtype, int64_t groups, int64_t rows, int64_t columns, int is_outer,
                              int64_t threads) {
  using tenon::Grouped, tenon::kRows, tenon::Multiplier;
  const int64_t tiles = Grouped::room_before(rows, groups, columns, is_outer != 0) + kRows * columns;
  return tiles * tenon::elements_of(dtype).real_bytes + threads * Multiplier::kScratch;
}
