/* A device whose commands are the nodes of a segment: each squares a vector in memory of the host. Option
 * bug=N: command N adds 2 to element 3. It has the second table, tenon_device_debug_v1, and no tiles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/device_debug.h"

struct tenon_device {
  int bug;
};
struct command {
  uint32_t from, to; /* buffers, or -1 - temporary */
  int64_t count;
};
struct tenon_device_program {
  uint64_t count;
  const struct command* commands;
};

static const tenon_op_rule kRules[] = {{"mul", 1u << TENON_F32, 0, 0}};

static tenon_status describe(const char* options, tenon_device_info* info, tenon_text* error) {
  (void)options, (void)error;
  info->name = "counting";
  info->version = "1";
  info->rules = kRules;
  info->rule_count = 1;
  return TENON_OK;
}

static tenon_status open_device(const char* options, tenon_device** device, tenon_text* error) {
  int bug = -1;
  if (options[0] != 0 && sscanf(options, "bug=%d", &bug) != 1)
    return tenon_write_text(error, TENON_INVALID_ARGUMENT, "the option is bug=N");
  *device = malloc(sizeof **device);
  (*device)->bug = bug;
  return TENON_OK;
}

/* Values are numbered: buffers first, then temporaries. A temporary has memory in scratch. */
static tenon_status compile(tenon_device* device, const tenon_segment* segment, tenon_sink* sink, tenon_text* error) {
  (void)device, (void)error;
  uint32_t place[256], buffers = 0, temporaries = 0;
  for (uint64_t i = 0; i < segment->value_count; ++i)
    place[i] = segment->values[i].role == TENON_VALUE_TEMPORARY ? 1000 + temporaries++ : buffers++;
  int64_t count = 1;
  for (int64_t d = 0; d < segment->values[0].rank; ++d) count *= segment->values[0].shape[d];
  for (uint64_t i = 0; i < segment->node_count; ++i) {
    const struct command command = {place[segment->nodes[i].inputs[0]], place[segment->nodes[i].outputs[0]], count};
    sink->write(sink->self, &command, sizeof command);
  }
  sink->scratch_bytes = temporaries * count * sizeof(float);
  return TENON_OK;
}

static tenon_status load(tenon_device* device, const void* code, size_t bytes, tenon_device_program** program,
                         tenon_text* error) {
  (void)device, (void)error;
  *program = malloc(sizeof **program);
  (*program)->count = bytes / sizeof(struct command);
  (*program)->commands = code;
  return TENON_OK;
}

static float* place_of(const tenon_launch* launch, uint32_t place, int64_t count) {
  return place < 1000 ? launch->buffers[place] : (float*)launch->scratch + (place - 1000) * count;
}

static void run_command(tenon_device* device, tenon_device_program* program, const tenon_launch* launch, uint64_t i) {
  const struct command* command = &program->commands[i];
  const float* from = place_of(launch, command->from, command->count);
  float* to = place_of(launch, command->to, command->count);
  for (int64_t k = 0; k < command->count; ++k) to[k] = from[k] * from[k];
  if ((int)i == device->bug) to[3] += 2;
}

static tenon_status submit(tenon_device* device, tenon_device_program* program, const tenon_launch* launch,
                           uint64_t* ticket, tenon_text* error) {
  (void)ticket, (void)error;
  for (uint64_t i = 0; i < program->count; ++i) run_command(device, program, launch, i);
  return TENON_OK;
}

static const tenon_device_api kApi = {.size = sizeof kApi,
                                      .describe = describe,
                                      .open = open_device,
                                      .compile = compile,
                                      .load = load,
                                      .submit = submit};

const tenon_device_api* tenon_device_plugin_v1(const tenon_host* host) {
  (void)host;
  return &kApi;
}

/* ---- commands ---- */

static tenon_status commands(tenon_device* device, tenon_device_program* program, uint64_t* count, tenon_text* error) {
  (void)device, (void)error;
  *count = program->count;
  return TENON_OK;
}

static tenon_status command(tenon_device* device, tenon_device_program* program, uint64_t number,
                            tenon_debug_command* command, tenon_text* text) {
  (void)device;
  char line[64];
  snprintf(line, sizeof line, "square %u to %u", program->commands[number].from, program->commands[number].to);
  command->node = (uint32_t)number;
  return tenon_write_text(text, TENON_OK, line);
}

static tenon_status launch(tenon_device* device, tenon_device_program* program, const tenon_launch* launch,
                           tenon_debug_run* run, tenon_text* error) {
  if (run->events != NULL || run->waved != TENON_NO_COMMAND)
    return tenon_write_text(error, TENON_UNSUPPORTED, "it has no clock and no waves");
  for (uint64_t i = 0; i < program->count; ++i) {
    run_command(device, program, launch, i);
    const struct command* it = &program->commands[i];
    const float* to = place_of(launch, it->to, it->count);
    const unsigned char* bytes = (const unsigned char*)to;
    for (uint64_t k = 0; run->digests != NULL && k < it->count * sizeof(float); ++k)
      run->digests[i] = run->digests[i] * 31 + bytes[k];
    const int is_scratch = it->to >= 1000;
    const tenon_debug_write write = {sizeof write,
                                     TENON_DEBUG_MEMORY,
                                     is_scratch ? TENON_SCRATCH : it->to,
                                     is_scratch ? (it->to - 1000) * it->count * sizeof(float) : 0,
                                     to,
                                     it->count * sizeof(float)};
    if (run->logged == i) run->write(run->self, &write);
  }
  return TENON_OK;
}

static const tenon_device_debug_api kDebug = {sizeof kDebug, commands, command, launch};

const tenon_device_debug_api* tenon_device_debug_v1(void) { return &kDebug; }
