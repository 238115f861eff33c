// What a schedule must know of the machine that it is for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/dtype.h"

namespace tenon {

// One instruction for a small contraction: c[m, n] += a[m, k] * b[k, n]. A loop that is annotated with its name, and
// those below it, are that instruction.
struct TileIntrinsic {
  std::string name;
  DType a;
  DType b;
  DType c;
  int64_t m;
  int64_t n;
  int64_t k;
};

struct Machine {
  int64_t vector_bytes = 64;
  int64_t vector_registers = 32;
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;  // of one core
  int64_t l3_bytes = 16 << 20;
  int64_t threads = 1;
  std::vector<TileIntrinsic> tiles = {};
  // The block of registers that contractions take, in rows and vectors; 0 is what the plan thinks best.
  int64_t block_rows = 0;
  int64_t block_vectors = 0;

  int64_t lanes(DType dtype) const { return vector_bytes / size_of(dtype); }
};

}  // namespace tenon
