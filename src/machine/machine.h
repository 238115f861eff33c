// The model of a machine: every number that fusion, schedules and emitters decide with and that belongs to the machine
// rather than to the program.
//
// A default value describes a current x86-64 server core with AVX-512. It is a property of such cores, or was measured
// on one (Sapphire Rapids) with bench/kernels; the comment says which. Numbers that follow from others are functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/dtype.h"

namespace tenon {

// One instruction for a small contraction: c[m, n] += a[m, k] * b[k, n]. A loop that is annotated with its name, and
// the loops below it, are that instruction.
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
  // ---- size ----
  int64_t vector_bytes = 64;
  int64_t vector_registers = 32;
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;  // of one core
  int64_t l3_bytes = 16 << 20;
  int64_t page_bytes = 4096;
  int64_t threads = 1;
  std::vector<TileIntrinsic> tiles = {};  // The best first.

  // ---- arithmetic ----
  int64_t fma_latency = 4;  // Cycles from one multiply-add to the next that needs its result.
  int64_t fma_ports = 2;    // Multiply-adds that start in one cycle.
  // Costs in vector multiply-adds, measured.
  double load_cost = 0.3;        // Loading a vector or a broadcast number for a block of multiply-adds.
  double pack_cost = 6;          // Copying one vector of a convolution's windows.
  double transpose_cost = 6;     // Writing one vector of a block that is transposed in registers.
  int64_t transposed_side = 16;  // The largest square that is transposed in registers: its rows take half of 32.

  // ---- blocks of registers ----
  // The block of a matrix product, in rows and vectors; 0: the schedule chooses. The tuner sets them.
  int64_t block_rows = 0;
  int64_t block_vectors = 0;
  int64_t product_registers = 0;   // Registers that the block of a matrix product fills; 0: vector_registers.
  int64_t most_block_rows = 14;    // Higher blocks broadcast more than they load: measured slower.
  int64_t most_block_vectors = 4;  // Wider blocks leave too few rows to reuse their vectors.
  int64_t column_sums = 16;        // Vectors of sums over rows that stay in registers: half of 32.
  int64_t column_sum_ops = 2;      // Operations beside such a sum that leave it its registers. Measured.

  // ---- memory ----
  int64_t cached_column_sums = 64;    // Vectors of sums over rows that stay in the L1 cache. Measured.
  int64_t transposed_block = 64;      // Rows and columns of a block that is transposed in the L1 cache: 16 KiB of f32.
  int64_t read_streams = 8;           // Arrays or rows that prefetchers follow at the same time. Measured.
  int64_t far_rows = 4;               // Rows, pages apart, that a sum reads together. Measured.
  int64_t prefetch_bytes = 10 << 10;  // How far ahead a plain sum prefetches. Measured: hardware stops at a page.
  int64_t most_fetching_reads = 16;   // Reads of a block of weights that each fetch the next block. Measured.
  int64_t most_strided_step = 4;      // Elements from lane to lane up to which loads and shuffles beat a gather.
  int64_t pack_rows = 24;             // Rows that must read a packed operand to pay for packing it. Measured.
  int64_t pack_steps = 256;           // Steps of a sum, each in another cache line, that pay for packing. Measured.
  int64_t pack_channels = 64;         // Channels of a convolution that fill its vectors and pay for packing.
  int64_t row_pixels = 512;           // Pixels of an image of bytes that is multiplied as one row. Measured.
  int64_t most_dot_rows = 3;          // Rows of a product up to which it is computed as dot products. Measured.
  int64_t most_dot_queries = 8;       // Queries of attention up to which its scores are dot products. Measured.
  int64_t attention_queries = 32;     // Queries of a block of attention, whose scores stay in the L2 cache. Measured.
  int64_t most_attention_queries = 48;  // The same where a larger block leaves no rest.

  // ---- threads ----
  int64_t thread_grain = 1 << 12;  // Elements of a vectorized loop worth handing to a thread: about 1 us. Measured.
  int64_t thread_work = 1 << 18;   // Operations below which starting threads costs more than it saves. Measured.
  int64_t thread_iterations = 8;   // Iterations of a loop that threads share evenly enough.
  int64_t function_work = 16;      // Operations that a function (exp, tanh, ...) counts for.
  int64_t scalar_work = 8;         // Operations that one on a single element counts for: it fills no vector.

  // ---- time, of one thread, in nanoseconds. Only ratios matter. Measured. ----
  double flop_time = 1.0 / 60;       // In a matrix product or a convolution.
  double byte_time = 1.0 / 12;       // From or to memory.
  double launch_time = 1000;         // Of one kernel.
  double operation_time = 1.0 / 16;  // On one element: plus, minus, times, compare, select.
  double function_time = 0.5;        // On one element: exp, tanh, ...
  double random_time = 1.5;          // One random number.

  int64_t lanes(DType dtype) const { return vector_bytes / size_of(dtype); }

  // Multiply-adds that must be independent to keep all ports busy.
  int64_t in_flight() const { return fma_latency * fma_ports; }

  // Whether registers hold a block's accumulators, the vectors of one step, and one broadcast number.
  bool holds_block(int64_t rows, int64_t vectors) const { return (rows + 1) * vectors + 1 <= vector_registers; }

  // An output of so many bytes is not in any cache when it is read again.
  int64_t uncached_bytes() const { return 2 * l3_bytes; }

  // The share of time that threads work, 0 to 1, when they share that many equal iterations. A program that was
  // compiled for one thread may run on more: it is scheduled for two.
  double busy_share(int64_t iterations) const;
};

}  // namespace tenon
