/* The machine alone, without Tenon: one row times one tile of weights, with bias and relu, as five actions. Take it as
 * the first test of your simulator or RTL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/device.h"

const tenon_device_api* tenon_device_plugin_v1(const tenon_host* host);

enum { SIZE = 16 }; /* rows and columns of the array */

static char text[256];
static tenon_text error = {text, sizeof text};

static void expect(int is_so, const char* what) {
  if (is_so) return;
  fprintf(stderr, "mydev_test: %s %s\n", what, text);
  exit(1);
}

/* tenon_sink::write */
static tenon_status append(void* self, const void* bytes, size_t count) {
  static size_t used;
  if (count > 4096 - used) return TENON_OUT_OF_MEMORY;
  memcpy((char*)self + used, bytes, count);
  used += count;
  return TENON_OK;
}

static uint16_t bf16(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return (uint16_t)(bits >> 16);
}

int main(void) {
  static uint16_t x[SIZE], weights[SIZE][SIZE];
  static float vectors[2][SIZE], y[SIZE];
  for (int n = 0; n < SIZE; ++n) {
    x[n] = bf16((float)(n % 3));
    vectors[0][n] = (float)-n; /* bias */
    vectors[1][n] = 0.5F;      /* scale */
    for (int k = 0; k < SIZE; ++k) weights[k][n] = bf16((float)((k + n) % 5 - 2));
  }
  const tenon_tile_action actions[] = {
      {.kind = TENON_TILE_LOAD, .buffer = 0, .run = sizeof x, .inner = 1, .outer = 1, .line = 0},
      {.kind = TENON_TILE_LOAD, .buffer = 1, .run = sizeof weights, .inner = 1, .outer = 1, .line = 16},
      {.kind = TENON_TILE_LOAD,
       .buffer = 2,
       .run = sizeof vectors,
       .inner = 1,
       .outer = 1,
       .line = 64,
       .signal = TENON_UNIT_COMPUTE | TENON_UNIT_STORE},
      {.kind = TENON_TILE_MULTIPLY,
       .dtype = TENON_BF16,
       .inner = 1,
       .outer = 1,
       .inner_last = 1,
       .outer_last = 1,
       .line = 0,
       .weights = 16,
       .weight_lines = 2,
       .wait = TENON_UNIT_LOAD,
       .signal = TENON_UNIT_STORE},
      {.kind = TENON_TILE_EPILOGUE,
       .epilogues = TENON_TILE_BIAS | TENON_TILE_SCALE,
       .line = 64,
       .low = 0,
       .high = 1e30F,
       .inner = 1,
       .outer = 1,
       .wait = TENON_UNIT_LOAD | TENON_UNIT_COMPUTE},
      {.kind = TENON_TILE_STORE,
       .dtype = TENON_F32,
       .buffer = 3,
       .run = SIZE,
       .inner = 1,
       .outer = 1,
       .epilogues = TENON_TILE_BIAS | TENON_TILE_SCALE | TENON_TILE_CLAMP}};
  const tenon_segment segment = {
      .size = sizeof segment, .actions = actions, .action_count = sizeof actions / sizeof *actions};
  static uint64_t code[512];
  tenon_sink sink = {.size = sizeof sink, .self = code, .write = append};

  const tenon_device_api* const api = tenon_device_plugin_v1(NULL);
  tenon_device* device = NULL;
  tenon_device_program* program = NULL;
  expect(api->open("", &device, &error) == TENON_OK, "open:");
  expect(api->compile(device, &segment, &sink, &error) == TENON_OK, "compile:");
  expect(api->load(device, code, 7, &program, &error) == TENON_BAD_FILE, "load takes code that is cut off");
  const size_t bytes = 48 + sizeof actions; /* a header and the actions */
  expect(api->load(device, code, bytes, &program, &error) == TENON_OK, "load:");
  void* const buffers[] = {x, weights, vectors, y};
  const tenon_launch launch = {.size = sizeof launch, .buffers = buffers, .buffer_count = 4};
  uint64_t ticket = 0;
  expect(api->submit(device, program, &launch, &ticket, &error) == TENON_OK, "submit:");
  if (ticket != 0) expect(api->wait(device, ticket, &error) == TENON_OK, "wait:");
  for (int n = 0; n < SIZE; ++n) {
    float wanted = (float)-n;
    for (int k = 0; k < SIZE; ++k) wanted += (float)(k % 3) * (float)((k + n) % 5 - 2);
    wanted = wanted * 0.5F < 0 ? 0 : wanted * 0.5F;
    snprintf(text, sizeof text, "%d is %g, not %g", n, (double)y[n], (double)wanted);
    expect(y[n] == wanted, "result");
  }
  api->release(device, program);
  api->release(device, NULL);
  puts("mydev_test: all results are right");
  return 0;
}
