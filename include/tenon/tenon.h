/* Tenon's runtime: loads compiled models (.tenon) and runs them. It needs neither Python nor a compiler. C11.
 *
 *     tenon_program* program;
 *     tenon_context* context;
 *     if (tenon_load_file("model.tenon", NULL, &program)) return report(tenon_error());
 *     if (tenon_context_create(program, NULL, &context)) return report(tenon_error());
 *     int64_t shape[] = {1, 784};
 *     tenon_tensor image = {pixels, TENON_F32, 2, shape, NULL};
 *     if (tenon_set_input(context, 0, &image) || tenon_run(context)) return report(tenon_error());
 *     tenon_tensor scores;
 *     tenon_get_output(context, 0, &scores);
 *     tenon_context_free(context);
 *     tenon_program_free(program);
 *
 * A program is immutable: many threads may use it at once, each with a context of its own. A context belongs to one
 * thread at a time. Nothing here throws, prints or ends the process. */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TENON_API __attribute__((visibility("default")))
#else
#define TENON_API
#endif

/* ---- failure ---- */

typedef enum tenon_status {
  TENON_OK = 0,
  TENON_INVALID_ARGUMENT = 1, /* the caller's mistake: a null pointer, an input of another dtype, shape or rank */
  TENON_BAD_FILE = 2,         /* not an artifact, damaged, or one that breaks the format's rules */
  TENON_UNSUPPORTED = 3,      /* a newer format, or code for a CPU that this machine is not */
  TENON_IO = 4,               /* the system could not read or map the file */
  TENON_OUT_OF_MEMORY = 5,    /* the system has no more */
  TENON_OVER_BUDGET = 6,      /* the context's budget is too small; the text names what is needed */
  TENON_RUN_FAILED = 7,       /* the model's own error: an index out of range, an integer divided by zero, ... */
  TENON_INTERNAL = 8          /* a mistake of Tenon's */
} tenon_status;

/* What went wrong in the calling thread's last call that failed; valid until its next call that fails. Never null. */
TENON_API const char* tenon_error(void);

TENON_API const char* tenon_version(void); /* "0.1.0" */

/* ---- tensors ---- */

/* f16 and bf16 are bits; a bool is a byte, 0 or 1. */
typedef enum tenon_dtype {
  TENON_F64,
  TENON_F32,
  TENON_F16,
  TENON_BF16,
  TENON_I64,
  TENON_I32,
  TENON_I16,
  TENON_I8,
  TENON_U8,
  TENON_BOOL
} tenon_dtype;

TENON_API size_t tenon_dtype_size(tenon_dtype dtype);      /* in bytes; 0 for none of these */
TENON_API const char* tenon_dtype_name(tenon_dtype dtype); /* "f32" */

typedef struct tenon_tensor {
  void* data;
  tenon_dtype dtype;
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides; /* in elements; null: row-major */
} tenon_tensor;

#ifdef __cplusplus
}
#endif

#endif
