/* A device plug-in: memory and code that runs beside the CPU, behind one table of functions. C11; a plug-in is a shared
 * library that needs this header and nothing to link.
 *
 *     const tenon_device_api* tenon_device_plugin_v1(const tenon_host* host) { return &api; }
 *
 * Five functions are enough to start: describe, open, compile, load, submit. A null entry means the default: memory of
 * the host, copies by the host, launches that are done when submit returns, claims by the table of rules, no events.
 *
 * Every function that can fail returns a status, and on failure writes a text into the caller's `error`. A plug-in
 * never throws, prints or ends the process. What it is given (a segment, a launch, a text) is there until it returns,
 * and code until its program is released. A host may limit how long a call takes ($TENON_DEVICE_TIMEOUT): a device that
 * does not return in time is lost to its process. Structs begin with their size, so that a later version can add
 * members at the end: a reader takes members past the given size as 0. docs/add-a-device.md is the tutorial. */
#ifndef TENON_DEVICE_H
#define TENON_DEVICE_H

#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a device is ---- */

/* Ops that the device runs. A node matches a rule if its op has this name, every tensor has one of these dtypes (bit
 * 1 << TENON_F32, ...; 0: any) and at most this rank (0: any), and its sizes are known when it is compiled, unless the
 * rule takes symbolic sizes. */
typedef struct tenon_op_rule {
  const char* op;
  uint32_t dtypes;
  uint32_t max_rank;
  uint32_t symbolic; /* not 0: sizes may be symbols */
} tenon_op_rule;

enum {
  /* compile() gets fused groups as kernels (tenon_segment::kernel), one at a time, as a CPU does. Without it, compile()
   * gets whole segments as nodes. */
  TENON_DEVICE_KERNELS = 1,
  /* The device runs machine code of the host, as a simulator does: kernels come with an object for this machine. */
  TENON_DEVICE_HOST_CODE = 2
};

/* A tile machine: an array that multiplies tiles, memories beside it, and three units that run at the same time. A load
 * unit copies runs of bytes from the device's memory into lines of the scratchpad, a compute unit multiplies rows of
 * activations by a tile of weights into accumulators, a store unit takes accumulators through an epilogue to memory.
 * Tenon compiles contractions and convolutions into actions of such a machine (tenon_tile_action). */
enum { TENON_TILE_BIAS = 1, TENON_TILE_SCALE = 2, TENON_TILE_RESIDUAL = 4, TENON_TILE_CLAMP = 8 }; /* epilogues */

typedef struct tenon_tile_machine {
  size_t size;
  uint32_t rows;           /* of the array: activations of a row that are multiplied together (k) */
  uint32_t columns;        /* of the array: results of a row (n) */
  uint32_t operand_dtypes; /* bits 1 << TENON_BF16, ...: what the array multiplies */
  uint32_t output_dtypes;  /* what stores write */
  uint32_t epilogues;      /* bits: what stores can do, in the order bias, scale, residual, clamp */
  uint32_t line_bytes;     /* of the scratchpad */
  uint32_t lines;
  uint32_t line_banks;       /* bank of a line: line / (lines / banks) */
  uint32_t accumulator_rows; /* of `columns` 32-bit words */
  uint32_t accumulator_banks;
  uint32_t max_run;       /* bytes of a run */
  uint32_t max_count;     /* of inner and outer repetitions */
  uint32_t max_line_step; /* between repetitions, in lines */
  int64_t max_stride;     /* between repetitions, in bytes of memory */
  uint32_t dma_bytes;     /* that memory moves in a cycle, each way */
  uint32_t dma_latency;   /* cycles */
  double hertz;           /* cycles of a second; 0: not known */
} tenon_tile_machine;

typedef struct tenon_device_info {
  size_t size;
  const char* name;    /* "npu": how users call it; lower-case letters, digits and _ */
  const char* version; /* of the plug-in and the code it makes: files keep both apart by it. Never empty */
  const char* doc;     /* a sentence */
  uint64_t flags;
  const tenon_op_rule* rules; /* see also tenon_device_api::claim */
  uint64_t rule_count;
  uint64_t memory;         /* bytes; 0: not known */
  uint64_t alignment;      /* of every tensor in the device's memory, in bytes; 0: 64 */
  double crossing_seconds; /* that a transfer takes beside its bytes; 0: not known */
  double bytes_per_second; /* of transfers; 0: not known */
  /* The device takes contractions and convolutions as actions of this machine (tenon_segment::actions). It needs no
   * rules. Null: it is no tile machine. */
  const tenon_tile_machine* tiles;
} tenon_device_info;

/* ---- what a device compiles ---- */

enum { TENON_VALUE_INPUT, TENON_VALUE_CONSTANT, TENON_VALUE_OUTPUT, TENON_VALUE_TEMPORARY };

/* A tensor of a segment, row-major. */
typedef struct tenon_value {
  const char* name;
  int32_t role;
  tenon_dtype dtype;
  int64_t rank;
  const int64_t* shape; /* a size, or -1 - i: sizes[i] of the launch */
  const void* data;     /* of a constant, while compile() runs; else null */
} tenon_value;

typedef struct tenon_attribute {
  const char* name;
  const char* text;      /* as Tenon prints it: "0.5", "[0, 1]", "true" */
  uint64_t count;        /* of numbers; 0 for what is not made of numbers */
  const double* numbers; /* integers up to 2^53 are exact */
} tenon_attribute;

typedef struct tenon_node {
  const char* op;         /* docs/ops.md */
  const uint32_t* inputs; /* values; UINT32_MAX for an optional operand that is not there */
  const uint32_t* outputs;
  const tenon_attribute* attributes;
  uint32_t input_count, output_count, attribute_count;
  uint32_t line; /* of the model, with its file; 0: not known */
  const char* file;
} tenon_node;

enum { TENON_TILE_LOAD, TENON_TILE_MULTIPLY, TENON_TILE_EPILOGUE, TENON_TILE_STORE }; /* kinds of actions */
enum { TENON_UNIT_LOAD = 1, TENON_UNIT_COMPUTE = 2, TENON_UNIT_STORE = 4 };           /* bits of `wait` and `signal` */
enum {
  TENON_TILE_ACCUMULATE = 1, /* multiply: add to the accumulators, else overwrite them */
  TENON_TILE_TRANSPOSE = 2,  /* multiply: a line of weights holds a column */
  TENON_TILE_ZEROS = 4,      /* load: there is no memory to read; the runs are zeros */
  TENON_TILE_INTEGERS = 8    /* store: accumulators and biases are 32-bit integers, else f32 */
};
#define TENON_SCRATCH UINT32_MAX /* as a buffer: the scratch memory of the launch */

/* One step of a tile machine. Run, row or element (i, j) of `outer` x `inner` repetitions is at base + i * outer step +
 * j * inner step, in memory (bytes) and in the scratchpad (lines).
 *
 * load: copies runs of `run` bytes from memory to consecutive lines. Zeros fill the last line of a run.
 *
 * multiply: outer x inner rows of activations by one tile of weights, whose row r is at line weights + r *
 * weight_lines, to accumulator rows accumulator + i * inner + j. Rows of which i is not in [outer_first, outer_last) or
 * j not in [inner_first, inner_last) consist of `pad`; row (outer_first, inner_first) is at `line`.
 *
 * epilogue: sets what later stores do. With bias or scale, lines have `columns` biases, then as many scales, each of 32
 * bits.
 *
 * store: writes the first `run` columns of accumulator rows to memory, as `dtype`. The residual of row (i, j) is
 * `i * inner + j` rows behind `line`. It is bf16, or i8 with TENON_TILE_INTEGERS.
 *
 * An action begins when its unit is done with those before it, and after it took one token of every unit in `wait`.
 * When it is done, it gives a token to every unit in `signal`. Actions that run one after the other find their tokens.
 */
typedef struct tenon_tile_action {
  uint32_t kind, wait, signal, flags;
  uint32_t node;   /* of the segment: what it is for */
  uint32_t dtype;  /* multiply: of the operands; store: of what it writes */
  uint32_t buffer; /* load, store: of the launch, or TENON_SCRATCH */
  uint32_t run;
  int64_t offset; /* in the buffer, in bytes */
  int64_t inner_stride, outer_stride;
  uint32_t inner, outer;
  uint32_t line; /* load: to; multiply: activations; epilogue: vectors; store: residual */
  int32_t inner_lines, outer_lines;
  uint32_t inner_first, inner_last, outer_first, outer_last;
  uint32_t accumulator;
  uint32_t weights;
  int32_t weight_lines;
  uint32_t epilogues;          /* epilogue: vectors to read; store: steps to take (TENON_TILE_BIAS, ...) */
  float low, high;             /* epilogue: of the clamp */
  float residual_scale;        /* epilogue: a residual counts as (residual - residual_zero_point) * residual_scale */
  int32_t residual_zero_point; /* 0 but for residuals in i8 */
  int32_t pad;                 /* multiply: a number of the operands' dtype */
  int32_t zero_point;          /* epilogue: added to what is rounded to i8 */
} tenon_tile_action;

/* Nodes in an order in which they can run. The buffers of a launch are the values that are not temporaries, in order.
 */
typedef struct tenon_segment {
  size_t size;
  const char* name;
  const char* text; /* the same as a graph, for people */
  const tenon_value* values;
  const tenon_node* nodes;
  uint64_t value_count;
  uint64_t node_count; /* 0 where the segment is a kernel */
  uint64_t size_count; /* of symbolic sizes: tenon_launch::sizes */
  const void*
      kernel; /* of a device with TENON_DEVICE_KERNELS: the loops (format/kernel.fbs); tenon_host can run them */
  uint64_t kernel_bytes;
  const void* object; /* with TENON_DEVICE_HOST_CODE: an ELF object of this machine */
  uint64_t object_bytes;
  const tenon_tile_action* actions; /* of a tile machine: all that the segment does */
  uint64_t action_count;
  uint64_t action_scratch; /* bytes of TENON_SCRATCH that they use: part of tenon_sink::scratch_bytes */
} tenon_segment;

typedef struct tenon_claim {
  size_t size;
  int64_t accepted;
  double seconds;     /* an estimate; less than 0: not known */
  const char* reason; /* why not; lives until the next call */
} tenon_claim;

/* Takes the code that compile() makes, in pieces, until it returns. There must be some. */
typedef struct tenon_sink {
  size_t size;
  void* self;
  tenon_status (*write)(void* self, const void* bytes, size_t count);
  uint64_t scratch_bytes; /* set by compile(): memory of the device that a launch needs beside its buffers */
} tenon_sink;

/* ---- what a device runs ---- */

typedef struct tenon_launch {
  size_t size;
  void* const* buffers; /* in the device's memory */
  uint64_t buffer_count;
  const int64_t* sizes;
  uint64_t size_count;
  void* scratch; /* null where compile() asked for none */
} tenon_launch;

typedef struct tenon_device_event {
  uint64_t ticket;   /* of the launch or copy */
  uint64_t begin_ns; /* of the host's steady clock, or of the device's, from any start */
  uint64_t end_ns;
} tenon_device_event;

typedef struct tenon_device tenon_device;                 /* an open device: the plug-in's own */
typedef struct tenon_device_program tenon_device_program; /* loaded code: the plug-in's own */

/* Calls for one device come one at a time, but for wait(), which other calls may overtake. Launches and copies of one
 * device happen in the order in which they were submitted. */
typedef struct tenon_device_api {
  size_t size;
  /* `options` is what the user wrote after the name ("npu:rate=2"), or "". What `info` points to lives as long as the
   * plug-in. */
  tenon_status (*describe)(const char* options, tenon_device_info* info, tenon_text* error);
  tenon_status (*open)(const char* options, tenon_device** device, tenon_text* error);
  /* Frees a program; with a null program, closes the device, whose programs and memory are freed before. May be null.
   */
  void (*release)(tenon_device* device, tenon_device_program* program);
  /* Whether the device takes a node, which is the only one of the segment. Asked for nodes that match a rule; for all
   * nodes if there are no rules. Null: the rules decide. */
  tenon_status (*claim)(tenon_device* device, const tenon_segment* segment, tenon_claim* claim, tenon_text* error);
  tenon_status (*compile)(tenon_device* device, const tenon_segment* segment, tenon_sink* sink, tenon_text* error);
  /* Code that compile() made, also in another process. The bytes live until the program is released. */
  tenon_status (*load)(tenon_device* device, const void* code, size_t bytes, tenon_device_program** program,
                       tenon_text* error);
  /* Memory of the device: an address, to which the host adds offsets. The host never reads or writes there. Null:
   * memory of the host. */
  tenon_status (*allocate)(tenon_device* device, uint64_t bytes, uint64_t alignment, void** memory, tenon_text* error);
  void (*free)(tenon_device* device, void* memory);
  /* From the host to the device or back. The host's memory stays as it is until the ticket is waited for. Null: the
   * host copies. */
  tenon_status (*copy)(tenon_device* device, void* to, const void* from, uint64_t bytes, int to_device,
                       uint64_t* ticket, tenon_text* error);
  /* Starts a launch. A ticket of 0: it is done. */
  tenon_status (*submit)(tenon_device* device, tenon_device_program* program, const tenon_launch* launch,
                         uint64_t* ticket, tenon_text* error);
  /* Returns when this launch or copy, and all before it, are done, and says how this one ended. The host waits once for
   * every ticket that is not 0. Null: everything is done at once. */
  tenon_status (*wait)(tenon_device* device, uint64_t ticket, tenon_text* error);
  /* When launches and copies ran: at most `capacity`, oldest first, each given once. Null: the host measures. */
  tenon_status (*events)(tenon_device* device, tenon_device_event* events, uint64_t capacity, uint64_t* count,
                         tenon_text* error);
} tenon_device_api;

/* ---- what the host offers a plug-in ---- */

typedef struct tenon_host_kernel tenon_host_kernel;

/* Lives as long as the process. Kernels run in memory of the host: the golden values of a device, and the body of a
 * simulator. */
typedef struct tenon_host {
  size_t size;
  /* A kernel as tenon_segment has it, which is copied. With an object it runs as machine code, else it is interpreted.
   */
  tenon_status (*load_kernel)(const void* kernel, uint64_t kernel_bytes, const void* object, uint64_t object_bytes,
                              tenon_host_kernel** loaded, tenon_text* error);
  tenon_status (*run_kernel)(const tenon_host_kernel* kernel, void* const* buffers, const int64_t* sizes,
                             tenon_text* error);
  void (*free_kernel)(tenon_host_kernel* kernel);
} tenon_host;

/* What a plug-in exports. Null: it cannot work with this host. */
#define TENON_DEVICE_SYMBOL "tenon_device_plugin_v1"
typedef const tenon_device_api* (*tenon_device_plugin)(const tenon_host* host);

/* ---- what a host calls ---- */

/* Loads a plug-in from a shared library. Its code runs in this process: load only what you trust. The name of its
 * device is valid as long as the process. Loading the same library again is nothing. */
TENON_API tenon_status tenon_load_plugin(const char* path, const char** name);
/* A device that is part of this program. `name` is written if it is not null. */
TENON_API tenon_status tenon_register_device(tenon_device_plugin plugin, const char** name);
TENON_API size_t tenon_device_count(void); /* besides the CPU */
TENON_API const char* tenon_device_name(size_t device);

/* ---- tensors in the memory of devices ---- */

/* A tensor in the memory of a device, row-major. As an input it is read where it is, if the program runs there; as an
 * output it is written there. Another program, or a task of the CPU, gets a copy; so does a program that uses the
 * device with other options ("npu:rate=2"), for which it is opened once more. A tensor that programs only read may be
 * an input of several at the same time.
 *
 *     tenon_device_tensor_create("npu", &image, &x);
 *     tenon_device_tensor_create("npu", &scores_type, &y);
 *     tenon_set_input_on_device(context, 0, x);
 *     tenon_set_output_on_device(context, 0, y);
 *     tenon_run(context);                          // transfers neither x nor y
 *     tenon_device_tensor_read(y, &scores);        // transfers y
 */
typedef struct tenon_device_tensor tenon_device_tensor;

/* `device` is a name or a spec: "npu", "npu:rate=2". The tensor has a copy of the data, which may have any strides;
 * null data: the memory is not written. */
TENON_API tenon_status tenon_device_tensor_create(const char* device, const tenon_tensor* tensor,
                                                  tenon_device_tensor** made);
/* Memory of the caller: the data is an address of the device, aligned as the device wants it (tenon_device_info), and
 * row-major. It must be there until release(owner) is called, by whoever uses the tensor last. */
TENON_API tenon_status tenon_device_tensor_wrap(const char* device, const tenon_tensor* tensor,
                                                void (*release)(void* owner), void* owner, tenon_device_tensor** made);
TENON_API void tenon_device_tensor_free(tenon_device_tensor* tensor); /* null is nothing; contexts go on */
/* Its type, with an address of the device as data; valid as long as the tensor. `device` may be null. */
TENON_API tenon_status tenon_device_tensor_info(tenon_device_tensor* tensor, const char** device, tenon_tensor* info);
/* Copies the value to memory of the host that has the tensor's dtype and shape, with any strides. */
TENON_API tenon_status tenon_device_tensor_read(tenon_device_tensor* tensor, const tenon_tensor* to);

/* As tenon_set_input and tenon_set_output. The context keeps the tensor until it is given another. A result in a
 * device's memory must overlap no input and no other result there. */
TENON_API tenon_status tenon_set_input_on_device(tenon_context* context, size_t input, tenon_device_tensor* tensor);
TENON_API tenon_status tenon_set_output_on_device(tenon_context* context, size_t output, tenon_device_tensor* tensor);

#ifdef __cplusplus
}
#endif

#endif
