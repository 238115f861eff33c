/* Kernels that are no loops, written by hand: the library tasks of the op table. Their records (src/ops/) say
 * what they compute; these functions say how to call them.
 *
 * Arrays are row-major; outputs overlap nothing else. Loops run on the threads of `services`, and results do not depend
 * on the number of threads. Each function returns 0, or kTenonOutOfMemory where `services` has no scratch memory: the
 * outputs are then undefined. */
#ifndef TENON_RUNTIME_KERNELS_H
#define TENON_RUNTIME_KERNELS_H

#include "runtime/kernel.h"
#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The lines of an array along one dimension: `outer` is the product of the sizes before it, `inner` of those after it.
 * A scalar is one line of length 1. */
typedef struct tenon_lines {
  int64_t outer;
  int64_t length;
  int64_t inner;
} tenon_lines;

/* Stable; NaN is the largest. `values` may be null when only the indices matter. */
int64_t tenon_sort(const tenon_services* services, tenon_dtype dtype, tenon_lines lines, int descending, const void* x,
                   void* values, int64_t* indices);

/* The first k of each sorted line, 0 <= k <= length; the outputs' lines have length k. */
int64_t tenon_topk(const tenon_services* services, tenon_dtype dtype, tenon_lines lines, int64_t k, int largest,
                   const void* x, void* values, int64_t* indices);

/* The k-th of each line sorted upwards, 1 <= k <= length; the outputs' lines have length 1. */
int64_t tenon_kthvalue(const tenon_services* services, tenon_dtype dtype, tenon_lines lines, int64_t k, const void* x,
                       void* values, int64_t* indices);

/* The indices of what is not zero, in two steps. The first returns how many there are, and notes in starts[0 ...
 * TENON_NONZERO_PARTS - 1] where each part of the array begins in the result; the second writes them, a row of `rank`
 * each. */
enum { TENON_NONZERO_PARTS = 256 };
int64_t tenon_nonzero_count(const tenon_services* services, tenon_dtype dtype, int64_t size, const void* x,
                            int64_t* starts);
void tenon_nonzero_write(const tenon_services* services, tenon_dtype dtype, const int64_t* shape, int64_t rank,
                         const void* x, const int64_t* starts, int64_t* indices);

/* Where each value belongs in its line, found by halving. Line i has `length` elements and the i-th run of values. */
typedef struct tenon_searches {
  int64_t lines;
  int64_t length;
  int64_t values; /* of each line */
} tenon_searches;

/* The number of elements that are before the value, or with `right` before or equal; NaN comes last. */
void tenon_searchsorted(const tenon_services* services, tenon_dtype dtype, tenon_searches searches, int right,
                        const void* sequence, const void* values, int64_t* places);

/* The least and the largest of size > 0 integers. */
void tenon_integer_range(tenon_dtype dtype, int64_t size, const void* x, int64_t* least, int64_t* most);

/* How often each integer of [0, bins) occurs; there are no others. */
void tenon_bincount(tenon_dtype dtype, int64_t size, const void* x, int64_t bins, int64_t* counts);

/* Random numbers of a key: a seed and an offset. */
void tenon_philox(const tenon_services* services, const int64_t* key, int64_t size, int64_t* out);
/* A floating dtype. */
void tenon_uniform(const tenon_services* services, tenon_dtype dtype, const int64_t* key, int64_t size, void* out);
/* In [low, low + range), 0 < range <= 2^59. */
void tenon_randint(const tenon_services* services, const int64_t* key, int64_t low, int64_t range, int64_t size,
                   int64_t* out);

/* ---- products by groups ----
 * Of a floating dtype; f16 and bf16 add in f32. Group g has the rows from the end of the one before it up to ends[g];
 * ends ascend in [0, rows]. */
typedef struct tenon_groups {
  int64_t count;
  int64_t rows; /* of all groups, and those after the last group */
  const int64_t* ends;
} tenon_groups;

/* Each row of x [rows, depth] times the matrix of its group, of w [count, depth, columns], or [count, columns, depth]
 * where it is transposed. The result [rows, columns] is zero after the last group. */
int64_t tenon_grouped_matmul(const tenon_services* services, tenon_dtype dtype, tenon_groups groups, int64_t depth,
                             int64_t columns, int transposed, const void* x, const void* w, void* out);

/* For each group the transposed rows of x [groups.rows, rows] times those of y [groups.rows, columns]:
 * [count, rows, columns]. */
int64_t tenon_grouped_outer(const tenon_services* services, tenon_dtype dtype, tenon_groups groups, int64_t rows,
                            int64_t columns, const void* x, const void* y, void* out);

/* ---- matrices ----
 * Batches of f32 or f64 matrices; all compute in double. Signs are LAPACK's where the result has one of two. */
typedef struct tenon_matrices {
  int64_t batch;
  int64_t rows;
  int64_t columns;
} tenon_matrices;

/* The lower factor of each symmetric matrix, of which the lower triangle is read. `info` is 0, or the order of the
 * first leading minor that is not positive; the factor is NaN then. */
int64_t tenon_cholesky(const tenon_services* services, tenon_dtype dtype, int64_t batch, int64_t size, const void* x,
                       void* out, int32_t* info);

/* With partial pivoting, min(rows, columns) pivots each. `info` is 0, or the number of the first pivot that is zero. */
int64_t tenon_lu(const tenon_services* services, tenon_dtype dtype, tenon_matrices shape, const void* x, void* lu,
                 int32_t* pivots, int32_t* info);

/* The order in which `count` <= rows exchanges leave rows. kTenonOutOfRange for a pivot that is not in [1, rows]. */
int64_t tenon_pivots_to_permutation(int64_t batch, int64_t count, int64_t rows, const int32_t* pivots,
                                    int64_t* permutation);

/* `shape` is that of b and x; each a is a square of its rows, of which one triangle is read. */
int64_t tenon_triangular_solve(const tenon_services* services, tenon_dtype dtype, tenon_matrices shape, int upper,
                               int unitriangular, const void* a, const void* b, void* x);

/* R and, below its diagonal, the vectors of min(rows, columns) reflections. */
int64_t tenon_geqrf(const tenon_services* services, tenon_dtype dtype, tenon_matrices shape, const void* x, void* a,
                    void* tau);

/* The first columns of the product of `count` reflections, count <= columns <= rows. */
int64_t tenon_householder_product(const tenon_services* services, tenon_dtype dtype, tenon_matrices shape,
                                  int64_t count, const void* a, const void* tau, void* q);

/* Of symmetric matrices, of which the lower triangle is read: eigenvalues upwards, vectors in columns, the largest
 * component of each positive. `info` is not 0 where a matrix is not finite or there is no convergence; its results are
 * undefined then. */
int64_t tenon_eigh(const tenon_services* services, tenon_dtype dtype, int64_t batch, int64_t size, const void* x,
                   void* values, void* vectors, int32_t* info);

/* The min(rows, columns) singular values downwards, and their vectors, the largest component of each row of vh
 * positive. `info` is as for tenon_eigh. */
int64_t tenon_svd(const tenon_services* services, tenon_dtype dtype, tenon_matrices shape, const void* x, void* u,
                  void* s, void* vh, int32_t* info);

int64_t tenon_matrix_exp(const tenon_services* services, tenon_dtype dtype, int64_t batch, int64_t size, const void* x,
                         void* out);

/* ---- scratch ----
 * The most bytes that a function takes of `services` at a time, if these have so many threads. Functions that are not
 * here take none. */
int64_t tenon_sort_scratch(tenon_dtype dtype, tenon_lines lines, int64_t threads);
int64_t tenon_select_scratch(tenon_dtype dtype, tenon_lines lines, int64_t k, int64_t threads); /* topk, kthvalue */
/* Of x [rows, columns]. */
int64_t tenon_grouped_scratch(tenon_dtype dtype, int64_t groups, int64_t rows, int64_t columns, int is_outer,
                              int64_t threads);
int64_t tenon_cholesky_scratch(int64_t batch, int64_t size, int64_t threads);
int64_t tenon_lu_scratch(tenon_matrices shape, int64_t threads);
int64_t tenon_triangular_solve_scratch(tenon_matrices shape, int64_t threads);
int64_t tenon_geqrf_scratch(tenon_matrices shape, int64_t threads);
int64_t tenon_householder_product_scratch(tenon_matrices shape, int64_t count, int64_t threads);
int64_t tenon_eigh_scratch(int64_t batch, int64_t size, int64_t threads);
int64_t tenon_svd_scratch(tenon_matrices shape, int64_t threads);
int64_t tenon_matrix_exp_scratch(int64_t batch, int64_t size, int64_t threads);

#ifdef __cplusplus
}
#endif

#endif
