/* mydev: a tile machine as a functional model. An array multiplies rows of activations by tiles of weights; Tenon
 * compiles contractions and convolutions, with bias, scale, residual and relu behind them, into its actions.
 *
 * Make it your machine: put your numbers into kMachine, let compile() encode your commands, and let submit() send them
 * to your simulator, RTL or board. load_unit, compute_unit and store_unit say what each command must do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/device.h"

enum { ROWS = 16, COLUMNS = 16, LINE_BYTES = 16, LINES = 16384, ACCUMULATORS = 2048 };
enum { BF16 = 1 << TENON_BF16, F32 = 1 << TENON_F32, I8 = 1 << TENON_I8, I32 = 1 << TENON_I32 };

static const tenon_tile_machine kMachine = {
    .size = sizeof kMachine,
    .rows = ROWS,
    .columns = COLUMNS,
    .operand_dtypes = BF16 | I8,
    .output_dtypes = BF16 | F32 | I8 | I32,
    .epilogues = TENON_TILE_BIAS | TENON_TILE_SCALE | TENON_TILE_RESIDUAL | TENON_TILE_CLAMP,
    .line_bytes = LINE_BYTES,
    .lines = LINES,
    .line_banks = 8,
    .accumulator_rows = ACCUMULATORS,
    .accumulator_banks = 4,
    .max_run = 65535,
    .max_count = 65535,
    .max_line_step = 32767,
    .max_stride = INT32_MAX,
    .dma_bytes = 16,
    .dma_latency = 32};

/* A sum of products: of floats, or of bytes. */
typedef union word {
  float real;
  int32_t integer;
} word;

struct tenon_device {
  unsigned char lines[LINES][LINE_BYTES];
  word accumulators[ACCUMULATORS][COLUMNS];
  tenon_tile_action epilogue; /* the last one: bounds and zero point */
  word biases[COLUMNS];
  word scales[COLUMNS];
};

/* Code: this header, then the actions. It holds no address, because another process may load it. */
struct tenon_device_program {
  char magic[40];
  uint64_t count;
  tenon_tile_action actions[];
};
static const char kMagic[40] = "mydev 1";

/* ---- the device ---- */

static tenon_status describe(const char* options, tenon_device_info* info, tenon_text* error) {
  if (options[0] != 0) return tenon_write_text(error, TENON_INVALID_ARGUMENT, "mydev takes no options");
  info->name = "mydev";
  info->version = "1"; /* change it when older code no longer runs */
  info->doc = "a tile machine, as a functional model";
  info->tiles = &kMachine;
  return TENON_OK;
}

static tenon_status open_device(const char* options, tenon_device** device, tenon_text* error) {
  (void)options;
  *device = calloc(1, sizeof **device);
  return *device != NULL ? TENON_OK : tenon_write_text(error, TENON_OUT_OF_MEMORY, "no memory for the machine");
}

static void release(tenon_device* device, tenon_device_program* program) {
  program != NULL ? free(program) : free(device);
}

static tenon_status compile(tenon_device* device, const tenon_segment* segment, tenon_sink* sink, tenon_text* error) {
  (void)device, (void)error;
  tenon_device_program header = {.count = segment->action_count};
  memcpy(header.magic, kMagic, sizeof header.magic);
  sink->scratch_bytes = segment->action_scratch;
  const tenon_status status = sink->write(sink->self, &header, sizeof header);
  if (status != TENON_OK) return status;
  return sink->write(sink->self, segment->actions, segment->action_count * sizeof *segment->actions);
}

static tenon_status load(tenon_device* device, const void* code, size_t bytes, tenon_device_program** program,
                         tenon_text* error) {
  (void)device;
  const tenon_device_program* const it = code;
  if (bytes < sizeof *it || memcmp(it->magic, kMagic, sizeof it->magic) != 0 ||
      it->count != (bytes - sizeof *it) / sizeof *it->actions)
    return tenon_write_text(error, TENON_BAD_FILE, "the code is not mydev's, or cut off");
  *program = malloc(bytes);
  if (*program == NULL) return tenon_write_text(error, TENON_OUT_OF_MEMORY, "no memory for the code");
  memcpy(*program, code, bytes);
  return TENON_OK;
}

/* ---- the machine: a function for each unit, which returns 0 if an action would leave the machine's memories ---- */

static float number(const void* from, uint32_t dtype, int64_t i) {
  if (dtype == TENON_I8) return ((const int8_t*)from)[i];
  const uint32_t bits = (uint32_t)((const uint16_t*)from)[i] << 16;
  float real;
  memcpy(&real, &bits, sizeof real);
  return real;
}

static int load_unit(tenon_device* device, const tenon_tile_action* a, const char* memory) {
  const int64_t lines = (a->run + LINE_BYTES - 1) / LINE_BYTES;
  for (int64_t i = 0; i < a->outer; ++i) {
    for (int64_t j = 0; j < a->inner; ++j) {
      const int64_t line = a->line + i * a->outer_lines + j * a->inner_lines;
      if (line < 0 || line + lines > LINES) return 0;
      memset(device->lines[line], 0, (size_t)lines * LINE_BYTES);
      if ((a->flags & TENON_TILE_ZEROS) == 0)
        memcpy(device->lines[line], memory + i * a->outer_stride + j * a->inner_stride, a->run);
    }
  }
  return 1;
}

static int compute_unit(tenon_device* device, const tenon_tile_action* a) {
  const int64_t lines = ROWS * (a->dtype == TENON_I8 ? 1 : 2) / LINE_BYTES; /* of a row */
  float tile[ROWS][COLUMNS], x[ROWS];
  for (int64_t k = 0; k < ROWS; ++k) {
    for (int64_t n = 0; n < COLUMNS; ++n) {
      const int is_transposed = (a->flags & TENON_TILE_TRANSPOSE) != 0;
      const int64_t line = a->weights + (is_transposed ? n : k) * a->weight_lines;
      if (line < 0 || line + lines > LINES) return 0;
      tile[k][n] = number(device->lines[line], a->dtype, is_transposed ? k : n);
    }
  }
  for (int64_t i = 0; i < a->outer; ++i) {
    for (int64_t j = 0; j < a->inner; ++j) {
      const int is_inside = i >= a->outer_first && i < a->outer_last && j >= a->inner_first && j < a->inner_last;
      const int64_t row = a->accumulator + i * a->inner + j;
      const int64_t line = a->line + (i - a->outer_first) * a->outer_lines + (j - a->inner_first) * a->inner_lines;
      if (row >= ACCUMULATORS || (is_inside && (line < 0 || line + lines > LINES))) return 0;
      for (int64_t k = 0; k < ROWS; ++k) x[k] = is_inside ? number(device->lines[line], a->dtype, k) : (float)a->pad;
      for (int64_t n = 0; n < COLUMNS; ++n) {
        word* const to = &device->accumulators[row][n];
        float sum = 0; /* exact for bytes: 16 products stay below 2^24 */
        for (int64_t k = 0; k < ROWS; ++k) sum += x[k] * tile[k][n];
        const int adds = (a->flags & TENON_TILE_ACCUMULATE) != 0;
        if (a->dtype == TENON_I8)
          to->integer = (int32_t)((uint32_t)(adds ? to->integer : 0) + (uint32_t)(int32_t)sum);
        else
          to->real = (adds ? to->real : 0) + sum;
      }
    }
  }
  return 1;
}

/* An accumulator after the steps of a store: bias, scale, residual, clamp. */
static float finished(const tenon_device* device, const tenon_tile_action* a, word sum, int64_t n, float residual) {
  const int has_bias = (a->epilogues & TENON_TILE_BIAS) != 0;
  float y = sum.real;
  if (a->flags & TENON_TILE_INTEGERS)
    y = (float)(int32_t)((uint32_t)sum.integer + (has_bias ? (uint32_t)device->biases[n].integer : 0));
  else if (has_bias)
    y += device->biases[n].real;
  if (a->epilogues & TENON_TILE_SCALE) y *= device->scales[n].real;
  if (a->epilogues & TENON_TILE_RESIDUAL)
    y += (residual - (float)device->epilogue.residual_zero_point) * device->epilogue.residual_scale;
  if ((a->epilogues & TENON_TILE_CLAMP) == 0) return y;
  return y < device->epilogue.low ? device->epilogue.low : y > device->epilogue.high ? device->epilogue.high : y;
}

static int store_unit(tenon_device* device, const tenon_tile_action* a, char* memory) {
  if (a->kind == TENON_TILE_EPILOGUE) {
    device->epilogue = *a;
    const int64_t lines = COLUMNS * 4 / LINE_BYTES;
    if (a->epilogues == 0) return 1;
    if (a->line + 2 * lines > LINES) return 0;
    memcpy(device->biases, device->lines[a->line], sizeof device->biases);
    memcpy(device->scales, device->lines[a->line + lines], sizeof device->scales);
    return 1;
  }
  const uint32_t residual_dtype = a->flags & TENON_TILE_INTEGERS ? TENON_I8 : TENON_BF16;
  const int64_t lines = COLUMNS * (residual_dtype == TENON_I8 ? 1 : 2) / LINE_BYTES; /* of a residual */
  for (int64_t row = 0; row < (int64_t)a->outer * a->inner; ++row) {
    char* const to = memory + row / a->inner * a->outer_stride + row % a->inner * a->inner_stride;
    const int has_residual = (a->epilogues & TENON_TILE_RESIDUAL) != 0;
    if (a->accumulator + row >= ACCUMULATORS || a->run > COLUMNS) return 0;
    if (has_residual && a->line + (row + 1) * lines > LINES) return 0;
    for (int64_t n = 0; n < a->run; ++n) {
      const word sum = device->accumulators[a->accumulator + row][n];
      const float y = finished(device, a, sum, n,
                               has_residual ? number(device->lines[a->line + row * lines], residual_dtype, n) : 0);
      const float whole = (isnan(y) ? 0 : nearbyintf(y)) + (float)device->epilogue.zero_point;
      uint32_t bits;
      memcpy(&bits, &y, sizeof bits);
      if (a->dtype == TENON_I32) ((int32_t*)to)[n] = sum.integer;
      if (a->dtype == TENON_F32) ((float*)to)[n] = y;
      if (a->dtype == TENON_BF16)
        ((uint16_t*)to)[n] = isnan(y) ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
      if (a->dtype == TENON_I8) ((int8_t*)to)[n] = (int8_t)(whole < -128 ? -128 : whole > 127 ? 127 : whole);
    }
  }
  return 1;
}

/* Runs the actions one after the other, so it may ignore their tokens. */
static tenon_status submit(tenon_device* device, tenon_device_program* program, const tenon_launch* launch,
                           uint64_t* ticket, tenon_text* error) {
  (void)ticket; /* 0: the launch is done when submit returns */
  for (uint64_t i = 0; i < program->count; ++i) {
    const tenon_tile_action* const a = &program->actions[i];
    const int has_memory =
        a->kind == TENON_TILE_STORE || (a->kind == TENON_TILE_LOAD && !(a->flags & TENON_TILE_ZEROS));
    char* memory = NULL;
    if (has_memory)
      memory = (char*)(a->buffer == TENON_SCRATCH ? launch->scratch : launch->buffers[a->buffer]) + a->offset;
    const int is_done = a->kind == TENON_TILE_LOAD       ? load_unit(device, a, memory)
                        : a->kind == TENON_TILE_MULTIPLY ? compute_unit(device, a)
                                                         : store_unit(device, a, memory);
    char text[80];
    if (is_done) continue;
    snprintf(text, sizeof text, "action %llu leaves the machine's memories", (unsigned long long)i);
    return tenon_write_text(error, TENON_RUN_FAILED, text);
  }
  return TENON_OK;
}

const tenon_device_api* tenon_device_plugin_v1(const tenon_host* host) {
  static const tenon_device_api api = {.size = sizeof api,
                                       .describe = describe,
                                       .open = open_device,
                                       .release = release,
                                       .compile = compile,
                                       .load = load,
                                       .submit = submit};
  (void)host;
  return &api;
}
