/* faulty: a device that runs relu on f32, and does one thing that no plug-in may: -DFAULT=HANG_SUBMIT. Without a fault
 * it is right. tests/python/test_faulty_devices.py compiles it once for each fault. -DENTRY names the function that it
 * exports.
 *
 *     cc -shared -fPIC -I include -DFAULT=HANG_SUBMIT -o faulty.so tests/devices/faulty.c */
#define _DEFAULT_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/device.h"

enum {
  NONE,
  /* calls that do not return */
  HANG_ENTRY,
  HANG_DESCRIBE,
  HANG_OPEN,
  HANG_CLAIM,
  HANG_COMPILE,
  HANG_LOAD,
  HANG_ALLOCATE,
  HANG_COPY,
  HANG_SUBMIT,
  HANG_WAIT,
  HANG_RELEASE,
  HANG_EVENTS,
  /* failures */
  LATE_ERROR,
  NO_REASON,
  CLAIMS_TOO_MUCH,
  TEXT_TOO_LONG,
  BUG_OF_OTHERS,
  ENDS_PROCESS,
  CRASH,
  /* memory */
  PAST_OUTPUT,
  BEFORE_OUTPUT,
  PAST_SCRATCH,
  INTO_INPUT,
  UNALIGNED_MEMORY,
  SAME_MEMORY,
  NO_MEMORY,
  EVENTS_TOO_MANY,
  EVENTS_WITHOUT_END,
  /* the sink */
  NO_CODE,
  LATE_CODE,
  NULL_CODE,
  HUGE_CODE,
  HUGE_SCRATCH,
  /* lies of describe */
  NULL_NAME,
  BAD_NAME,
  NO_VERSION,
  ODD_ALIGNMENT,
  HUGE_ALIGNMENT,
  NO_RULES,
  NULL_OP,
  UNKNOWN_OP,
  TINY_MEMORY,
  NAN_TRANSFERS,
  NO_ROWS,
  HUGE_LINES,
  NAN_CLOCK,
  /* the table */
  NULL_TABLE,
  SMALL_TABLE,
  NO_SUBMIT,
  NO_FREE,
  /* results */
  WRONG_RESULT,
  SAME_TICKET
};
#ifndef FAULT
#define FAULT NONE
#endif

#define HAS_MEMORY                                                                                      \
  (FAULT == HANG_ALLOCATE || FAULT == HANG_COPY || FAULT == UNALIGNED_MEMORY || FAULT == SAME_MEMORY || \
   FAULT == NO_MEMORY || FAULT == NO_FREE || FAULT == SAME_TICKET)
#define HAS_EVENTS (FAULT == HANG_EVENTS || FAULT == EVENTS_TOO_MANY || FAULT == EVENTS_WITHOUT_END)

struct tenon_device_program {
  uint64_t count;
};

static tenon_sink kept_sink;

static void hang_if(int is_so) {
  while (is_so) usleep(1000);
}

static tenon_status describe(const char* options, tenon_device_info* info, tenon_text* error) {
  static const tenon_op_rule rule = {FAULT == NULL_OP      ? NULL
                                     : FAULT == UNKNOWN_OP ? "rellu"
                                                           : "relu",
                                     1 << TENON_F32, 0, 0};
  static const tenon_tile_machine machine = {.size = sizeof machine,
                                             .rows = FAULT == NO_ROWS ? 0 : 16,
                                             .columns = 16,
                                             .operand_dtypes = 1 << TENON_BF16,
                                             .output_dtypes = 1 << TENON_BF16,
                                             .line_bytes = FAULT == HUGE_LINES ? UINT32_MAX : 16,
                                             .lines = 1024,
                                             .line_banks = 1,
                                             .accumulator_rows = 256,
                                             .accumulator_banks = 1,
                                             .max_run = UINT32_MAX,
                                             .max_count = 65535,
                                             .max_line_step = 1024,
                                             .max_stride = INT64_MAX,
                                             .dma_bytes = 16,
                                             .hertz = FAULT == NAN_CLOCK ? NAN : 0};
  (void)options, (void)error;
  hang_if(FAULT == HANG_DESCRIBE);
  info->name = FAULT == NULL_NAME ? NULL : FAULT == BAD_NAME ? "My Device" : "faulty";
  info->version = FAULT == NO_VERSION ? NULL : "1";
  info->rules = FAULT == NO_RULES ? NULL : &rule;
  info->rule_count = 1;
  info->alignment = FAULT == ODD_ALIGNMENT ? 3 : FAULT == HUGE_ALIGNMENT ? UINT64_C(1) << 50 : 64;
  info->memory = FAULT == TINY_MEMORY ? 1 : UINT64_MAX;
  info->bytes_per_second = FAULT == NAN_TRANSFERS ? NAN : 0;
  info->tiles = FAULT == NO_ROWS || FAULT == HUGE_LINES || FAULT == NAN_CLOCK ? &machine : NULL;
  return TENON_OK;
}

static tenon_status open_device(const char* options, tenon_device** device, tenon_text* error) {
  (void)options, (void)error;
  hang_if(FAULT == HANG_OPEN);
  *device = NULL;
  return TENON_OK;
}

static void release(tenon_device* device, tenon_device_program* program) {
  (void)device;
  hang_if(FAULT == HANG_RELEASE);
  free(program);
}

static tenon_status claim(tenon_device* device, const tenon_segment* segment, tenon_claim* claim, tenon_text* error) {
  (void)device, (void)segment, (void)error;
  hang_if(FAULT == HANG_CLAIM);
  claim->accepted = 1;
  return TENON_OK;
}

static tenon_status compile(tenon_device* device, const tenon_segment* segment, tenon_sink* sink, tenon_text* error) {
  (void)device;
  uint64_t count = 1;
  hang_if(FAULT == HANG_COMPILE);
  for (int64_t i = 0; i < segment->values[0].rank; ++i) count *= (uint64_t)segment->values[0].shape[i];
  sink->scratch_bytes = FAULT == PAST_SCRATCH ? 64 : FAULT == HUGE_SCRATCH ? UINT64_C(1) << 60 : 0;
  kept_sink = *sink;
  switch (FAULT) {
    case CLAIMS_TOO_MUCH:
      return tenon_write_text(error, TENON_UNSUPPORTED, "there is no command for this node");
    case TEXT_TOO_LONG:
      memset(error->data, 'x', error->capacity + 100);
      return TENON_UNSUPPORTED;
    case BUG_OF_OTHERS:
      return tenon_write_text(error, TENON_INTERNAL, "an assertion of the plug-in failed");
    case NO_CODE:
      return TENON_OK;
    case NULL_CODE:
      (void)sink->write(sink->self, NULL, 64);
      return TENON_OK;
    case HUGE_CODE:
      (void)sink->write(sink->self, &count, UINT64_C(1) << 50);
      return TENON_OK;
    default:
      return sink->write(sink->self, &count, sizeof count);
  }
}

static tenon_status load(tenon_device* device, const void* code, size_t bytes, tenon_device_program** program,
                         tenon_text* error) {
  (void)device, (void)error;
  hang_if(FAULT == HANG_LOAD);
  *program = malloc(bytes);
  memcpy(*program, code, bytes);
  return TENON_OK;
}

static tenon_status allocate(tenon_device* device, uint64_t bytes, uint64_t alignment, void** memory,
                             tenon_text* error) {
  static void* only;
  (void)device, (void)error;
  hang_if(FAULT == HANG_ALLOCATE);
  if (FAULT == NO_MEMORY) return TENON_OK;
  if (FAULT != SAME_MEMORY || only == NULL) only = aligned_alloc(alignment, (bytes / alignment + 2) * alignment);
  *memory = (char*)only + (FAULT == UNALIGNED_MEMORY);
  return TENON_OK;
}

static void free_memory(tenon_device* device, void* memory) { (void)device, (void)memory; }

static tenon_status copy(tenon_device* device, void* to, const void* from, uint64_t bytes, int to_device,
                         uint64_t* ticket, tenon_text* error) {
  (void)device, (void)to_device, (void)error;
  hang_if(FAULT == HANG_COPY);
  memcpy(to, from, bytes);
  *ticket = 7;
  return TENON_OK;
}

static tenon_status submit(tenon_device* device, tenon_device_program* program, const tenon_launch* launch,
                           uint64_t* ticket, tenon_text* error) {
  static uint64_t tickets = 1000;
  (void)device, (void)error;
  const float* const x = launch->buffers[0];
  float* const y = launch->buffers[1];
  hang_if(FAULT == HANG_SUBMIT);
  for (uint64_t i = 0; i < program->count; ++i) y[i] = x[i] > 0 || isnan(x[i]) ? x[i] : FAULT == WRONG_RESULT ? 1 : 0;
  switch (FAULT) {
    case NO_REASON:
      return (tenon_status)99;
    case ENDS_PROCESS:
      exit(0);
    case CRASH:
      *(volatile int*)8 = 1;
      break;
    case PAST_OUTPUT:
      y[program->count] = 1;
      break;
    case BEFORE_OUTPUT:
      y[-1] = 1;
      break;
    case PAST_SCRATCH:
      ((char*)launch->scratch)[64] = 1;
      break;
    case INTO_INPUT:
      if (program->count > 0) ((float*)launch->buffers[0])[0] += 1;
      break;
    case LATE_CODE:
      (void)kept_sink.write(kept_sink.self, y, 4);
      break;
    default:
      break;
  }
  *ticket = ++tickets;
  return TENON_OK;
}

static tenon_status wait_for(tenon_device* device, uint64_t ticket, tenon_text* error) {
  (void)device, (void)ticket;
  hang_if(FAULT == HANG_WAIT);
  return FAULT == LATE_ERROR ? tenon_write_text(error, TENON_RUN_FAILED, "the board is too hot") : TENON_OK;
}

static tenon_status events(tenon_device* device, tenon_device_event* to, uint64_t capacity, uint64_t* count,
                           tenon_text* error) {
  (void)device, (void)error;
  hang_if(FAULT == HANG_EVENTS);
  *count = FAULT == EVENTS_TOO_MANY ? capacity + 10 : capacity;
  for (uint64_t i = 0; i < *count; ++i) to[i] = (tenon_device_event){i, i, i + 1};
  return TENON_OK;
}

#ifndef ENTRY
#define ENTRY tenon_device_plugin_v1
#endif

const tenon_device_api* ENTRY(const tenon_host* host) {
  static const tenon_device_api api = {.size = FAULT == SMALL_TABLE ? 8 : sizeof api,
                                       .describe = describe,
                                       .open = open_device,
                                       .release = release,
                                       .claim = claim,
                                       .compile = compile,
                                       .load = load,
                                       .allocate = HAS_MEMORY ? allocate : NULL,
                                       .free = HAS_MEMORY && FAULT != NO_FREE ? free_memory : NULL,
                                       .copy = HAS_MEMORY ? copy : NULL,
                                       .submit = FAULT == NO_SUBMIT ? NULL : submit,
                                       .wait = wait_for,
                                       .events = HAS_EVENTS ? events : NULL};
  (void)host;
  hang_if(FAULT == HANG_ENTRY);
  return FAULT == NULL_TABLE ? NULL : &api;
}
