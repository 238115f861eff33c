/* Tenon's compiler behind one table of functions, for a program that records ATen calls: PyTorch's lazy device
 * (tenon/lazy.h, docs/lazy.md). C11: the recorder and the compiler may be built by different compilers.
 *
 *     const tenon_aten_compiler* compiler = tenon_aten_compiler_v1();
 *     tenon_import* import;
 *     if (compiler->import_new(&import, &error)) return report(error);
 *     int64_t x;
 *     compiler->import_input(import, &type, 0, &x, &error);
 *     tenon_aten_arg self = {TENON_ARG_TENSOR, x};
 *     tenon_aten_call relu = {.size = sizeof relu, .target = "aten.relu.default", .args = &self, .arg_count = 1};
 *     const tenon_aten_arg* y;
 *     compiler->import_call(import, &relu, &y, &error);
 *     ...
 *     compiler->import_compile(import, &request, &program, &error);
 *     compiler->program_run(program, inputs, 1, results, 1, &error);
 *
 * Functions that can fail return a status, and on failure write a text into the caller's `error`: TENON_UNSUPPORTED for
 * calls that Tenon does not compile, TENON_RUN_FAILED for a failing run and for Ctrl-C, TENON_INTERNAL for a mistake of
 * Tenon's. Nothing here throws or ends the process. An import belongs to one thread at a time; many threads may run one
 * program. Structs begin with their size, so that a later version can add members at the end. */
#ifndef TENON_ATEN_COMPILER_H
#define TENON_ATEN_COMPILER_H

#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- calls ---- */

enum {
  TENON_ARG_NONE,
  TENON_ARG_BOOL,    /* integer: 0 or 1 */
  TENON_ARG_INTEGER, /* integer */
  TENON_ARG_REAL,    /* real */
  TENON_ARG_TEXT,    /* text */
  TENON_ARG_DTYPE,   /* integer: a tenon_dtype */
  TENON_ARG_TENSOR,  /* integer: the number of a tensor of the import */
  TENON_ARG_SETTING, /* text: a device, a layout, a dtype that Tenon lacks; calls decline one that would matter */
  TENON_ARG_LIST     /* items, integer of them */
};

/* An argument or a result of a call. */
typedef struct tenon_aten_arg {
  int64_t kind;
  int64_t integer;
  double real;
  const char* text;
  const struct tenon_aten_arg* items;
} tenon_aten_arg;

typedef struct tenon_named_arg {
  const char* name;
  tenon_aten_arg value;
} tenon_named_arg;

typedef struct tenon_aten_call {
  size_t size;
  const char* target; /* "aten.add.Tensor" */
  const tenon_aten_arg* args;
  uint64_t arg_count;
  const tenon_named_arg* named; /* keyword-only arguments */
  uint64_t named_count;
  /* What the call gives if the fallback runs it: dtypes and shapes, without data. With none, a call that Tenon cannot
   * compile fails. */
  const tenon_tensor* results;
  uint64_t result_count;
  const char* external_because; /* why the fallback runs it even if Tenon has it; may be null */
} tenon_aten_call;

/* What is known of a tensor of an import. */
typedef struct tenon_imported_tensor {
  size_t size;
  tenon_dtype dtype;
  int32_t rank;
  const int64_t* shape; /* -1: only known at run time. Valid until the next call for this import. */
  int64_t variable;     /* equal for tensors that are one variable of the model */
  int64_t is_number;    /* not 0: a number of Python that a run gives; beside a tensor it is promoted as one */
} tenon_imported_tensor;

typedef struct tenon_import tenon_import;

/* ---- programs ---- */

/* A tensor with an owner of its memory. Whoever takes it calls release(owner) once, when the memory is not needed any
 * more. A null release: nothing to do. */
typedef struct tenon_owned_tensor {
  tenon_tensor tensor;
  void* owner;
  void (*release)(void* owner);
} tenon_owned_tensor;

/* Runs external call number `call`: they are counted from 0, in the order of import_call. Its operands are the tensors
 * among its arguments, in order; to read, until it returns. It fills in all results, with memory of its own. */
typedef tenon_status (*tenon_fallback)(void* user_data, int64_t call, const tenon_tensor* operands,
                                       uint64_t operand_count, tenon_owned_tensor* results, uint64_t result_count,
                                       tenon_text* error);

typedef struct tenon_compile_request {
  size_t size;
  const tenon_aten_arg* outputs;
  uint64_t output_count;
  const char* device;      /* takes the nodes that it claims; null: the CPU runs all */
  const uint64_t* donated; /* inputs whose memory results may take */
  uint64_t donated_count;
  tenon_fallback fallback;          /* null: a graph with external calls is an error */
  void* user_data;                  /* of the fallback */
  void (*release)(void* user_data); /* called once, also if the compilation fails; may be null */
} tenon_compile_request;

typedef struct tenon_aten_program tenon_aten_program;

typedef struct tenon_program_facts {
  size_t size;
  uint64_t input_count; /* with the key */
  uint64_t output_count;
  const int64_t* places; /* of each output: the donated input whose memory it is in, or -1 */
  int64_t takes_key;     /* not 0: the last input is a key of random numbers, i64[2], which no call was given */
} tenon_program_facts;

/* ---- devices ---- */

typedef struct tenon_device_facts {
  size_t size;
  const char* name;      /* "cpu", "npu"; valid as long as the process */
  int64_t total_memory;  /* bytes; 0: not known */
  int64_t free_memory;   /* of them */
  int64_t program_bytes; /* that programs of this process hold there; of the CPU -1: not known */
} tenon_device_facts;

/* ---- the table ---- */

typedef struct tenon_aten_compiler {
  size_t size;
  /* Calls `take` with the name of each overload of the registry: "aten.add.Tensor". */
  void (*each_overload)(void* user_data, void (*take)(void* user_data, const char* overload));
  /* Device 0 is the CPU, plug-ins follow in the order in which they were loaded. */
  uint64_t (*device_count)(void);
  const char* (*device_name)(uint64_t device); /* null if there is no such device; lives as long as the process */
  /* Opens the device, to ask it. */
  tenon_status (*device_facts)(uint64_t device, tenon_device_facts* facts, tenon_text* error);

  tenon_status (*import_new)(tenon_import** import, tenon_text* error);
  void (*import_free)(tenon_import* import);
  /* An input of the program, in order. A number has rank 0, and f64, i64 or bool. */
  tenon_status (*import_input)(tenon_import* import, const tenon_tensor* type, int64_t is_number, int64_t* tensor,
                               tenon_text* error);
  tenon_status (*import_constant)(tenon_import* import, const tenon_tensor* data, int64_t* tensor, tenon_text* error);
  /* From now on, random numbers come from this tensor, i64[2]. */
  tenon_status (*import_key)(tenon_import* import, int64_t tensor, tenon_text* error);
  /* The result is valid until the next call for this import. With `results` it is a list. */
  tenon_status (*import_call)(tenon_import* import, const tenon_aten_call* call, const tenon_aten_arg** result,
                              tenon_text* error);
  tenon_status (*import_tensor)(const tenon_import* import, int64_t tensor, tenon_imported_tensor* facts,
                                tenon_text* error);
  /* Ends the import, which is good for import_free alone then. */
  tenon_status (*import_compile)(tenon_import* import, const tenon_compile_request* request,
                                 tenon_aten_program** program, tenon_text* error);

  void (*program_facts)(const tenon_aten_program* program, tenon_program_facts* facts);
  /* A result in the memory of an input does not own it: release(owner) frees its description alone. */
  tenon_status (*program_run)(const tenon_aten_program* program, const tenon_tensor* inputs, uint64_t input_count,
                              tenon_owned_tensor* results, uint64_t result_count, tenon_text* error);
  /* Its graph, its segments, and the loops of its kernels. Valid until the program is freed. */
  const char* (*program_text)(const tenon_aten_program* program);
  void (*program_free_memory)(const tenon_aten_program* program); /* that runs keep for the next run */
  void (*program_free)(tenon_aten_program* program);
} tenon_aten_compiler;

/* Valid as long as the process. Of Tenon::compiler; in Python, tenon._tenon.aten_compiler has it in a capsule of the
 * name TENON_ATEN_COMPILER. */
TENON_API const tenon_aten_compiler* tenon_aten_compiler_v1(void);
#define TENON_ATEN_COMPILER "tenon_aten_compiler_v1"

#ifdef __cplusplus
}
#endif

#endif
