/* Kernels that are no loops, written by hand: the library tasks of the op table. Their records (src/graph/ops/) say
 * what they compute; these functions say how to call them.
 *
 * Arrays are row-major; outputs overlap nothing else. Loops run on the host's threads, and results do not depend on how
 * many there are. Each returns 0, or kTenonOutOfMemory when the host has no scratch; the outputs are then undefined. */
#ifndef TENON_RUNTIME_KERNELS_H
#define TENON_RUNTIME_KERNELS_H

#include "runtime/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* f16 and bf16 are bits; a bool is a byte, 0 or 1. */
typedef enum tenon_dtype {
  kTenonF64,
  kTenonF32,
  kTenonF16,
  kTenonBF16,
  kTenonI64,
  kTenonI32,
  kTenonI16,
  kTenonI8,
  kTenonU8,
  kTenonBool
} tenon_dtype;

/* The lines of an array along one dimension: `outer` is the product of the sizes before it, `inner` of those after it.
 * A scalar is one line of length 1. */
typedef struct tenon_lines {
  int64_t outer;
  int64_t length;
  int64_t inner;
} tenon_lines;

/* Stable; NaN is the largest. `values` may be null when only the indices matter. */
int64_t tenon_sort(const tenon_host* host, tenon_dtype dtype, tenon_lines lines, int descending, const void* x,
                   void* values, int64_t* indices);

/* The first k of each sorted line, 0 <= k <= length; the outputs' lines have length k. */
int64_t tenon_topk(const tenon_host* host, tenon_dtype dtype, tenon_lines lines, int64_t k, int largest, const void* x,
                   void* values, int64_t* indices);

/* The k-th of each line sorted upwards, 1 <= k <= length; the outputs' lines have length 1. */
int64_t tenon_kthvalue(const tenon_host* host, tenon_dtype dtype, tenon_lines lines, int64_t k, const void* x,
                       void* values, int64_t* indices);

/* The indices of what is not zero, in two steps. The first returns how many there are, and notes in starts[0 ...
 * TENON_NONZERO_PARTS - 1] where each part of the array begins in the result; the second writes them, a row of `rank`
 * each. */
enum { TENON_NONZERO_PARTS = 256 };
int64_t tenon_nonzero_count(const tenon_host* host, tenon_dtype dtype, int64_t size, const void* x, int64_t* starts);
void tenon_nonzero_write(const tenon_host* host, tenon_dtype dtype, const int64_t* shape, int64_t rank, const void* x,
                         const int64_t* starts, int64_t* indices);

/* Random numbers of a key: a seed and an offset. */
void tenon_philox(const tenon_host* host, const int64_t* key, int64_t size, int64_t* out);
/* A floating dtype. */
void tenon_uniform(const tenon_host* host, tenon_dtype dtype, const int64_t* key, int64_t size, void* out);
/* In [low, low + range), 0 < range <= 2^59. */
void tenon_randint(const tenon_host* host, const int64_t* key, int64_t low, int64_t range, int64_t size, int64_t* out);

#ifdef __cplusplus
}
#endif

#endif
