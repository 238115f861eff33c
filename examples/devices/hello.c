/* hello: the smallest useful device. It runs relu, matmul and softmax on f32, in memory of the host, one launch at a
 * time. A real device sends commands to its hardware in submit, and adds allocate, free, copy and wait.
 *
 *     cc -shared -fPIC -I include -o hello.so hello.c -lm */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/device.h"

enum { RELU, MATMUL, SOFTMAX };
static const char* const kOps[] = {"relu", "matmul", "softmax"};

enum { F32 = 1 << TENON_F32 };
static const tenon_op_rule kRules[] = {{"relu", F32, 0, 0}, {"matmul", F32, 0, 0}, {"softmax", F32, 0, 0}};

/* A buffer of the launch, or -1 and an offset in scratch. */
typedef struct place {
  int64_t buffer, offset;
} place;

typedef struct step {
  int64_t op;
  place in[2], out;
  int64_t batch, rows, inner, columns;
} step;

struct tenon_device_program { /* the code of a segment */
  int64_t count;
  step steps[];
};

static tenon_status describe(const char* options, tenon_device_info* info, tenon_text* error) {
  (void)options, (void)error;
  info->name = "hello";
  info->version = "1";
  info->doc = "relu, matmul and softmax in plain C";
  info->rules = kRules;
  info->rule_count = sizeof kRules / sizeof *kRules;
  return TENON_OK;
}

static tenon_status open_device(const char* options, tenon_device** device, tenon_text* error) {
  (void)options, (void)error;
  *device = NULL; /* it has no state */
  return TENON_OK;
}

/* Asked for nodes that match a rule. */
static tenon_status claim(tenon_device* device, const tenon_segment* segment, tenon_claim* claim, tenon_text* error) {
  (void)device, (void)error;
  const tenon_node* const node = &segment->nodes[0];
  const tenon_value *const a = &segment->values[node->inputs[0]],
                           *const b = &segment->values[node->inputs[node->input_count - 1]];
  claim->accepted = 1;
  if (strcmp(node->op, "softmax") == 0 && node->attributes[0].numbers[0] != (double)(a->rank - 1) &&
      node->attributes[0].numbers[0] != -1)
    claim->accepted = 0, claim->reason = "its softmax is along the last dimension";
  if (strcmp(node->op, "matmul") == 0 &&
      (a->rank < 2 || a->rank != b->rank || memcmp(a->shape, b->shape, sizeof(int64_t) * (size_t)(a->rank - 2)) != 0))
    claim->accepted = 0, claim->reason = "its matmul takes operands of the same batch sizes";
  return TENON_OK;
}

static int64_t product(const int64_t* sizes, int64_t count) {
  int64_t result = 1;
  for (int64_t i = 0; i < count; ++i) result *= sizes[i];
  return result;
}

static tenon_status compile(tenon_device* device, const tenon_segment* segment, tenon_sink* sink, tenon_text* error) {
  (void)device;
  place* const places = calloc(segment->value_count, sizeof *places);
  if (places == NULL) return tenon_write_text(error, TENON_OUT_OF_MEMORY, "no memory to compile");
  int64_t buffers = 0;
  for (uint64_t i = 0; i < segment->value_count; ++i) {
    const tenon_value* const value = &segment->values[i];
    const int is_buffer = value->role != TENON_VALUE_TEMPORARY;
    places[i] = is_buffer ? (place){buffers++, 0} : (place){-1, (int64_t)sink->scratch_bytes};
    if (!is_buffer) sink->scratch_bytes += (uint64_t)(product(value->shape, value->rank) * 4 + 63) / 64 * 64;
  }
  tenon_status status = sink->write(sink->self, &segment->node_count, sizeof segment->node_count);
  for (uint64_t i = 0; i < segment->node_count && status == TENON_OK; ++i) {
    const tenon_node* const node = &segment->nodes[i];
    const tenon_value *const a = &segment->values[node->inputs[0]], *const out = &segment->values[node->outputs[0]];
    step it = {.op = RELU, .in = {places[node->inputs[0]]}, .out = places[node->outputs[0]]};
    while (strcmp(node->op, kOps[it.op]) != 0) ++it.op;
    if (it.op == MATMUL) {
      it.in[1] = places[node->inputs[1]];
      it.batch = product(a->shape, a->rank - 2);
      it.rows = a->shape[a->rank - 2];
      it.inner = a->shape[a->rank - 1];
      it.columns = out->shape[out->rank - 1];
    } else {
      it.columns = it.op == SOFTMAX && a->rank > 0 ? a->shape[a->rank - 1] : 1;
      it.rows = it.columns == 0 ? 0 : product(a->shape, a->rank) / it.columns;
    }
    status = sink->write(sink->self, &it, sizeof it);
  }
  free(places);
  return status;
}

static tenon_status load(tenon_device* device, const void* code, size_t bytes, tenon_device_program** program,
                         tenon_text* error) {
  (void)device;
  *program = malloc(bytes);
  if (*program == NULL) return tenon_write_text(error, TENON_OUT_OF_MEMORY, "no memory for the code");
  memcpy(*program, code, bytes);
  return TENON_OK;
}

static void release(tenon_device* device, tenon_device_program* program) { (void)device, free(program); }

static void run_step(const step* it, const float* a, const float* b, float* out) {
  for (int64_t i = 0; it->op == RELU && i < it->rows; ++i) out[i] = a[i] > 0 || isnan(a[i]) ? a[i] : 0;
  for (int64_t i = 0; it->op == SOFTMAX && i < it->rows; ++i, a += it->columns, out += it->columns) {
    float largest = a[0], sum = 0;
    for (int64_t k = 1; k < it->columns; ++k) largest = fmaxf(largest, a[k]);
    for (int64_t k = 0; k < it->columns; ++k) sum += out[k] = expf(a[k] - largest);
    for (int64_t k = 0; k < it->columns; ++k) out[k] /= sum;
  }
  for (int64_t i = 0; it->op == MATMUL && i < it->batch * it->rows * it->columns; ++i) {
    const int64_t row = i / it->columns, batch = row / it->rows, column = i % it->columns;
    float sum = 0;
    for (int64_t k = 0; k < it->inner; ++k)
      sum += a[row * it->inner + k] * b[(batch * it->inner + k) * it->columns + column];
    out[i] = sum;
  }
}

static float* address(const tenon_launch* launch, place at) {
  return at.buffer < 0 ? (float*)((char*)launch->scratch + at.offset) : launch->buffers[at.buffer];
}

static tenon_status submit(tenon_device* device, tenon_device_program* program, const tenon_launch* launch,
                           uint64_t* ticket, tenon_text* error) {
  (void)device, (void)ticket, (void)error;
  for (int64_t i = 0; i < program->count; ++i) {
    const step* const it = &program->steps[i];
    run_step(it, address(launch, it->in[0]), address(launch, it->in[1]), address(launch, it->out));
  }
  return TENON_OK;
}

const tenon_device_api* tenon_device_plugin_v1(const tenon_host* host) {
  static const tenon_device_api api = {sizeof api, describe, open_device, release, claim, compile, load, .submit = submit};
  (void)host;
  return &api;
}
