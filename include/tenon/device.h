/* A device plug-in: memory and code that runs beside the CPU, behind one table of functions. C11; a plug-in is a shared
 * library that needs this header and nothing to link.
 *
 *     const tenon_device_api* tenon_device_plugin_v1(const tenon_host* host) { return &api; }
 *
 * Five functions are enough to start: describe, open, compile, load, submit. A null entry means the default: memory of
 * the host, copies by the host, launches that are done when submit returns, claims by the table of rules, no events.
 *
 * Every function that can fail returns a status, and on failure writes a text into the caller's `error`. A plug-in
 * never throws, prints or ends the process. Structs begin with their size, so that a later version can add members at
 * the end: a reader takes members past the given size as 0. docs/add-a-device.md is the tutorial. */
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

typedef struct tenon_device_info {
  size_t size;
  const char* name;    /* "npu": how users call it; lower-case letters, digits and _ */
  const char* version; /* of the plug-in and the code it makes: caches and files keep both apart by it */
  const char* doc;     /* a sentence */
  uint64_t flags;
  const tenon_op_rule* rules; /* see also tenon_device_api::claim */
  uint64_t rule_count;
  uint64_t memory;         /* bytes; 0: not known */
  uint64_t alignment;      /* of every tensor in the device's memory, in bytes; 0: 64 */
  double crossing_seconds; /* that a transfer takes beside its bytes; 0: not known */
  double bytes_per_second; /* of transfers; 0: not known */
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
} tenon_segment;

typedef struct tenon_claim {
  size_t size;
  int64_t accepted;
  double seconds;     /* an estimate; less than 0: not known */
  const char* reason; /* why not; lives until the next call */
} tenon_claim;

/* Takes the code that compile() makes, in pieces. */
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
