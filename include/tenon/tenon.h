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

/* Structs of options begin with their size, so that later versions can add members at the end. In C write it down:
 *
 *     tenon_context_options options = {.size = sizeof options, .threads = 4};
 *
 * In C++20 it is there by itself: tenon_context_options options{.threads = 4}. What is 0 is the default, and so is what
 * lies past the size that the caller gives: a program may be older than the library. It may also be newer, as long as
 * all that the library does not know is 0; else the call fails with TENON_UNSUPPORTED. Each member has 8 bytes: there
 * is no padding, whose bytes nobody sets. */
#ifdef __cplusplus
#define TENON_SIZE_OF(type) = sizeof(type)
#else
#define TENON_SIZE_OF(type)
#endif

/* ---- failure ---- */

typedef enum tenon_status {
  TENON_OK = 0,
  TENON_INVALID_ARGUMENT = 1, /* the caller's mistake: a null pointer, an input of another dtype, shape or rank */
  TENON_BAD_FILE = 2,         /* not an artifact, damaged, or one that breaks the format's rules */
  TENON_UNSUPPORTED = 3,      /* a newer format or option, or code for another CPU than this machine's */
  TENON_IO = 4,               /* the system could not read or map the file */
  TENON_OUT_OF_MEMORY = 5,    /* the system has no more */
  TENON_OVER_BUDGET = 6,      /* the context's budget is too small; the text names what is needed */
  TENON_RUN_FAILED = 7,       /* the model's own error: an index out of range, an integer divided by zero, ... */
  TENON_INTERNAL = 8          /* a mistake of Tenon's */
} tenon_status;

/* What went wrong in the calling thread's last call that failed; valid until its next call that fails. Never null. */
TENON_API const char* tenon_error(void);

/* Where a function of the caller puts the text of its failure: memory of the library. tenon_write_text ends it with a
 * zero and cuts what is too long. */
typedef struct tenon_text {
  char* data;
  size_t capacity;
} tenon_text;

static inline tenon_status tenon_write_text(tenon_text* error, tenon_status status, const char* text) {
  size_t i = 0;
  if (error == NULL || error->capacity == 0) return status;
  for (; i + 1 < error->capacity && text[i] != 0; ++i) error->data[i] = text[i];
  error->data[i] = 0;
  return status;
}

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

/* A call that is given a tensor checks its dtype, rank, sizes and strides, and that the data is aligned to its
 * elements; that the memory is there is the caller's promise. Strides may be zero or negative. */
typedef struct tenon_tensor {
  void* data;
  tenon_dtype dtype;
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides; /* in elements; null: row-major */
} tenon_tensor;

/* ---- calls ---- */

/* A model may have calls that Tenon lacks: its file names functions that the host must have. Register them before the
 * file is loaded; a missing one is an error that lists all. */
typedef struct tenon_call {
  size_t size;
  const char* name; /* "aten.frobnicate.default" */
  const char* text; /* how it is called: "(self=%0, dim=-1) -> %0", where %0 is inputs[0], and a result outputs[0] */
  const tenon_tensor* inputs; /* row-major memory of the program: to read, until the function returns */
  uint64_t input_count;
  const tenon_tensor* outputs; /* dtype and sizes, -1 for one that only the call knows; without data */
  uint64_t output_count;
  /* Memory for a result of these sizes, row-major. Each result must be made. Null: no memory, or sizes that are none.
   */
  void* (*make_output)(struct tenon_call* call, uint64_t output, const int64_t* shape);
} tenon_call;

/* Runs on the thread that runs the program; threads may run it at once. A failure ends the run. */
typedef tenon_status (*tenon_call_function)(void* user_data, tenon_call* call, tenon_text* error);

/* Replaces a function of the same name. Null removes it. Programs that are loaded keep theirs. */
TENON_API tenon_status tenon_register_call(const char* name, tenon_call_function function, void* user_data);

/* ---- programs ---- */

typedef struct tenon_program tenon_program;

typedef struct tenon_load_options {
  size_t size TENON_SIZE_OF(tenon_load_options);
  int64_t no_native; /* not 0: makes no code of the file executable; it runs on the portable interpreter, slowly */
  /* Of a file with code for devices: "npu", the device that it must run on, or with options "npu:rate=2"; "cpu": none
   * of them. Null: the first in the file whose devices this process has loaded (tenon/device.h), else the CPU. */
  const char* device;
} tenon_load_options;

/* Everything in the file is verified. `options` may be null. The file is mapped and must not be changed in place;
 * replacing it by another is fine. */
TENON_API tenon_status tenon_load_file(const char* path, const tenon_load_options* options, tenon_program** program);
/* The bytes must stay where they are until the program and its contexts are freed. */
TENON_API tenon_status tenon_load_memory(const void* bytes, size_t size, const tenon_load_options* options,
                                         tenon_program** program);
/* Null is nothing. Contexts of the program go on. */
TENON_API void tenon_program_free(tenon_program* program);

/* A dimension: a size, or an expression over symbols of which only the bounds are known. */
typedef struct tenon_dim {
  int64_t size;     /* -1 where it is symbolic */
  const char* text; /* "2*N", or the size */
} tenon_dim;

typedef struct tenon_tensor_info {
  const char* name;
  tenon_dtype dtype;
  int32_t rank;
  const tenon_dim* dims;
} tenon_tensor_info;

/* A size that is known when the program runs. */
typedef struct tenon_symbol {
  const char* name;
  int64_t low;
  int64_t high; /* INT64_MAX where there is no bound */
} tenon_symbol;

/* Several programs in one file: entries, which share the file's states (below). What loading gives is the first; the
 * only one of a file that says no more is "main". An entry is freed as a program is, in any order. */
TENON_API size_t tenon_entry_count(const tenon_program* program);
TENON_API const char* tenon_entry_name(const tenon_program* program, size_t entry); /* "" where there is none */
TENON_API tenon_status tenon_program_entry(const tenon_program* program, const char* name, tenon_program** entry);

TENON_API const char* tenon_program_name(const tenon_program* program);
TENON_API size_t tenon_input_count(const tenon_program* program);
TENON_API size_t tenon_output_count(const tenon_program* program);
TENON_API size_t tenon_symbol_count(const tenon_program* program);
/* What they point to lives as long as the program. */
TENON_API tenon_status tenon_input_info(const tenon_program* program, size_t input, tenon_tensor_info* info);
TENON_API tenon_status tenon_output_info(const tenon_program* program, size_t output, tenon_tensor_info* info);
TENON_API tenon_status tenon_symbol_info(const tenon_program* program, size_t symbol, tenon_symbol* info);

/* ---- kernels ---- */

/* A program as its parts: the code of the CPU and of devices that it runs, each under the name that `tenon inspect`
 * shows. A runtime of your own calls them one after the other; tenon_run plans memory and moves less between devices.
 *
 *     tenon_tensor x = {pixels, TENON_F32, 2, x_shape, NULL}, y = {scores, TENON_F32, 2, y_shape, NULL};
 *     tenon_call_kernel(program, "segment0", &x, 1, &y, 1);
 */
typedef struct tenon_kernel_info {
  const char* name;   /* the second of a name is "relu#1" */
  const char* device; /* "npu:rate=2"; "cpu" */
  uint64_t input_count;
  uint64_t output_count;
} tenon_kernel_info;

TENON_API size_t tenon_kernel_count(const tenon_program* program);
/* What it points to lives as long as the program. */
TENON_API tenon_status tenon_describe_kernel(const tenon_program* program, size_t kernel, tenon_kernel_info* info);
/* The type of input or output `number`; the outputs come after the inputs. */
TENON_API tenon_status tenon_kernel_argument(const tenon_program* program, size_t kernel, size_t number,
                                             tenon_tensor_info* info);
/* Runs one kernel to its end. Its inputs are what the task reads but constants, which the program has; tensors may have
 * any strides, and outputs must not overlap anything else. Sizes must not be symbols. A device gets copies of the
 * inputs, and gives its results back. */
TENON_API tenon_status tenon_call_kernel(const tenon_program* program, const char* name, const tenon_tensor* inputs,
                                         uint64_t input_count, const tenon_tensor* outputs, uint64_t output_count);

/* ---- states ---- */

/* What a model keeps from run to run: tensors with names, in memory of their own, that start as they are in the file.
 * A context has its own, which count for its budget; or several contexts run over one set of states, each its entry:
 *
 *     tenon_states_create(program, NULL, &states);
 *     tenon_program_entry(program, "step", &step);
 *     tenon_context_create_with(step, NULL, states, &training);
 *
 * One run, or one of the calls below, uses a set of states at a time. Whoever comes meanwhile from another thread gets
 * an error, and changes nothing. */
typedef struct tenon_states tenon_states;

typedef struct tenon_states_options {
  size_t size TENON_SIZE_OF(tenon_states_options);
  int64_t budget; /* bytes; 0: no limit */
} tenon_states_options;

/* Of all entries of the program's file. */
TENON_API tenon_status tenon_states_create(const tenon_program* program, const tenon_states_options* options,
                                           tenon_states** states);
TENON_API void tenon_states_free(tenon_states* states); /* null is nothing; contexts go on */

TENON_API size_t tenon_state_count(const tenon_states* states);
TENON_API int64_t tenon_states_bytes(const tenon_states* states); /* of all of them */
/* What it points to lives as long as the states. */
TENON_API tenon_status tenon_state_info(const tenon_states* states, size_t state, tenon_tensor_info* info);
TENON_API tenon_status tenon_find_state(const tenon_states* states, const char* name, size_t* state);
/* To read: row-major, and valid until the next run or call that changes states. */
TENON_API tenon_status tenon_get_state(tenon_states* states, size_t state, tenon_tensor* tensor);
/* Takes a copy of a tensor that has the state's dtype and shape, with any strides. It may lie in states itself: a
 * transposed view of what tenon_get_state gave. */
TENON_API tenon_status tenon_set_state(tenon_states* states, size_t state, const tenon_tensor* tensor);
TENON_API tenon_status tenon_states_reset(tenon_states* states); /* to what they are in the model's file */

/* Texts that go with states into checkpoints: the epoch, a seed. */
typedef struct tenon_note {
  const char* key;
  const char* value;
} tenon_note;
TENON_API tenon_status tenon_set_note(tenon_states* states, const char* key, const char* value); /* null: no more */
TENON_API size_t tenon_note_count(const tenon_states* states);
/* By their keys in order; valid until the next call that changes notes. */
TENON_API tenon_status tenon_get_note(tenon_states* states, size_t note, tenon_note* place);

/* A checkpoint: the values of all states, and the notes. The file is replaced in one step and is on the disk when this
 * returns: a process that is killed, or a machine that goes down, leaves the old file or the new one. */
TENON_API tenon_status tenon_states_save(tenon_states* states, const char* path);
/* The whole file is verified before anything changes: it is not damaged, and has these states and no others, of the
 * same dtypes and shapes. The text of an error says what differs. Notes become those of the file. */
TENON_API tenon_status tenon_states_load(tenon_states* states, const char* path);
/* The same values and notes as a .safetensors file, for others. */
TENON_API tenon_status tenon_states_export(tenon_states* states, const char* path);

/* ---- runs ---- */

typedef struct tenon_context tenon_context;

/* Bytes of the memory of a device, "npu": for temporaries, scratch, constants and states. */
typedef struct tenon_device_budget {
  const char* device;
  int64_t bytes;
} tenon_device_budget;

/* Threads of the caller's, for the parallel loops of a context. `parallel` calls body(data, i) once for each i below
 * `count`, on whatever threads it has, at the same time or one after the other, and returns when they are done. Results
 * do not depend on it: what it leaves out, the thread that called tenon_run does. It may throw (C++): the run then
 * fails with TENON_RUN_FAILED. */
typedef struct tenon_executor {
  size_t size TENON_SIZE_OF(tenon_executor);
  void (*parallel)(void* user, int64_t count, void (*body)(void* data, int64_t index), void* data);
  void* user;
} tenon_executor;

typedef struct tenon_context_options {
  size_t size TENON_SIZE_OF(tenon_context_options);
  /* The largest number of threads of a loop. 0: $TENON_THREADS, or as many as the process has CPUs by its affinity and
   * the quota of its control groups. */
  int64_t threads;
  int64_t budget; /* bytes for temporaries, scratch, results that are not in the caller's memory, and states of its own;
                     0: no limit */
  int64_t telemetry; /* not 0: notes when each task starts and ends */
  /* Of the memory of devices; those that it does not name have no limit but the memory that they say they have. */
  const tenon_device_budget* device_budgets;
  uint64_t device_budget_count;
  const tenon_executor* executor; /* copied; its `user` must live as long as the context. Null: Tenon's own threads */
} tenon_context_options;

TENON_API tenon_status tenon_context_create(const tenon_program* program, const tenon_context_options* options,
                                            tenon_context** context);
/* Over these states, which must have all of the program's, by name and type: of its file, or of another. They count for
 * their own budget. */
TENON_API tenon_status tenon_context_create_with(const tenon_program* program, const tenon_context_options* options,
                                                 tenon_states* states, tenon_context** context);
TENON_API void tenon_context_free(tenon_context* context); /* null is nothing */
/* Those that it runs over, to be freed as others are. */
TENON_API tenon_status tenon_context_states(const tenon_context* context, tenon_states** states);

/* Takes the tensor's shape and strides now, and reads its data in each run until another is set. Its memory may overlap
 * that of other inputs, of states, and of this context's last results: a run sees it as it was before the run. Memory
 * of an input that the program updates must not overlap itself, a state, a result or another such input: the run says
 * so with TENON_INVALID_ARGUMENT. */
TENON_API tenon_status tenon_set_input(tenon_context* context, size_t input, const tenon_tensor* tensor);
/* Results go to this memory, which must have their shape; null: memory of the context. It may have any strides. It must
 * not overlap itself, an input, another output, a state, or what tenon_get_output gave of this context's own memory:
 * the run says so with TENON_INVALID_ARGUMENT. */
TENON_API tenon_status tenon_set_output(tenon_context* context, size_t output, const tenon_tensor* tensor);
/* A model that draws random numbers (dropout in training) has an input i64[2], the key that they follow from. Nobody
 * needs to set it: each run draws one. After this, runs draw from the seed: the first, the second, ... after it are the
 * same in every process. A model without random numbers ignores it. */
TENON_API tenon_status tenon_set_seed(tenon_context* context, int64_t seed);
/* After an error the context can run again. What the program updates is as it was if the inputs, the outputs or the
 * budget do not fit. If a task fails on the way, what it updates in place may have been updated before. */
TENON_API tenon_status tenon_run(tenon_context* context);
/* Of the last run; valid until the next. Its memory is row-major, unless it is the caller's. */
TENON_API tenon_status tenon_get_output(const tenon_context* context, size_t output, tenon_tensor* tensor);

/* Bytes that count for the budget: now, and at most so far. */
typedef struct tenon_memory {
  int64_t current;
  int64_t peak;
  int64_t arena;       /* of temporaries, for the sizes of the last run */
  int64_t arena_least; /* the largest sum of temporaries that live at one time: no plan needs less */
} tenon_memory;
TENON_API tenon_status tenon_context_memory(const tenon_context* context, tenon_memory* memory);

/* ---- telemetry ---- */

typedef struct tenon_event {
  const char* task; /* its name */
  const char* kind; /* "kernel", "library" or "fallback" */
  int64_t start_ns; /* of a clock that never goes back */
  int64_t end_ns;
  int64_t bytes; /* that it reads and writes, each element once; of a gather or a slice only what it takes. -1 where
                    sizes are known too late */
  int64_t flops; /* -1: not known */
} tenon_event;

/* Of the last run, in order; none where telemetry is off. */
TENON_API size_t tenon_event_count(const tenon_context* context);
TENON_API tenon_status tenon_get_event(const tenon_context* context, size_t number, tenon_event* event);

#ifdef __cplusplus
}
#endif

#endif
