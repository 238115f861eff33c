/* loopback: a device that is this machine behind a plug-in's interface, to test everything between a model and a
 * device.
 *
 * Its memory is the host's at other addresses: a host that reads or writes there crashes. A thread runs launches and
 * copies in order, later than they were submitted. It runs the kernels that the CPU would run, so results are the same.
 *
 *     tenon run model.tenon --plugin loopback.so --device loopback:delay=50,seed=3
 *
 * Options: claim=P takes a node with probability P (1), ops=a+b takes these ops only, delay=N waits up to N
 * microseconds before each launch and copy (0), fail=P lets each one fail with probability P (0), seed=N is for all of
 * them (0). */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tenon/device.h"

/* Added to every address: no pointer of a process lies there. */
#define OFFSET ((uintptr_t)1 << 60)

#define EVENTS 4096 /* that are kept for events() */

static const tenon_host* the_host;
atomic_long loopback_live; /* blocks of memory, programs and devices that are not freed: tests look for leaks here */
atomic_long loopback_copies; /* that were submitted: tests count transfers here */

typedef struct command {
  struct command* next;
  uint64_t ticket;
  const tenon_host_kernel* kernel; /* null: a copy */
  void* to;
  const void* from;
  uint64_t bytes;
  void** buffers; /* both behind the command */
  int64_t* sizes;
  char text[200]; /* why it failed */
} command;

struct tenon_device {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  command *first, **end;
  command* failed; /* that nobody has waited for */
  uint64_t submitted, done;
  tenon_device_event events[EVENTS]; /* the last ones, around */
  uint64_t event_count, events_given;
  int stops;
  double claim, fail;
  int delay;
  uint64_t seed, random;
  char ops[256]; /* "+relu+matmul+"; empty: all */
};

static void* real(const void* address) { return (void*)((uintptr_t)address - OFFSET); }

static uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static double drawn(uint64_t* state) { return (double)(mixed(*state += 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53; }

static uint64_t hashed(uint64_t seed, const char* text) {
  for (; *text != 0; ++text) seed = mixed(seed + (unsigned char)*text + 0x9e3779b97f4a7c15u);
  return seed;
}

/* ---- the thread ---- */

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void run(tenon_device* device, command* it) {
  tenon_text error = {it->text, sizeof it->text};
  if (device->delay > 0) usleep((useconds_t)(drawn(&device->random) * device->delay));
  if (device->fail > 0 && drawn(&device->random) < device->fail) {
    snprintf(it->text, sizeof it->text, "injected failure of ticket %llu", (unsigned long long)it->ticket);
  } else if (it->kernel == NULL) {
    memcpy(it->to, it->from, it->bytes);
  } else if (the_host->run_kernel(it->kernel, it->buffers, it->sizes, &error) != TENON_OK && it->text[0] == 0) {
    snprintf(it->text, sizeof it->text, "a kernel failed");
  }
}

static void* work(void* argument) {
  tenon_device* const device = argument;
  pthread_mutex_lock(&device->mutex);
  for (;;) {
    while (device->first == NULL && !device->stops) pthread_cond_wait(&device->changed, &device->mutex);
    command* const it = device->first;
    if (it == NULL) break;
    device->first = it->next;
    if (device->first == NULL) device->end = &device->first;
    pthread_mutex_unlock(&device->mutex);
    const uint64_t begin = now_ns();
    run(device, it);
    pthread_mutex_lock(&device->mutex);
    device->events[device->event_count++ % EVENTS] = (tenon_device_event){it->ticket, begin, now_ns()};
    device->done = it->ticket;
    pthread_cond_broadcast(&device->changed);
    it->next = device->failed;
    it->text[0] != 0 ? (void)(device->failed = it) : free(it);
  }
  pthread_mutex_unlock(&device->mutex);
  return NULL;
}

static tenon_status enqueue(tenon_device* device, command* it, uint64_t* ticket, tenon_text* error) {
  if (it == NULL) return tenon_write_text(error, TENON_OUT_OF_MEMORY, "no memory for a command");
  pthread_mutex_lock(&device->mutex);
  it->ticket = *ticket = ++device->submitted;
  *device->end = it;
  device->end = &it->next;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->mutex);
  return TENON_OK;
}

/* ---- the interface ---- */

static tenon_status describe(const char* options, tenon_device_info* info, tenon_text* error) {
  (void)options, (void)error;
  info->name = "loopback";
  info->version = "1";
  info->doc = "this machine behind a plug-in's interface, with memory and a queue of its own, for tests";
  info->flags = TENON_DEVICE_KERNELS | TENON_DEVICE_HOST_CODE;
  return TENON_OK;
}

static tenon_status read_options(tenon_device* device, const char* options, tenon_text* error) {
  unsigned long long seed = 0;
  char ops[sizeof device->ops - 2] = "";
  for (int length = 0; *options != 0; options += length + (options[length] == ',')) {
    if (sscanf(options, "claim=%lf%n", &device->claim, &length) != 1 &&
        sscanf(options, "ops=%253[^,]%n", ops, &length) != 1 &&
        sscanf(options, "delay=%d%n", &device->delay, &length) != 1 &&
        sscanf(options, "fail=%lf%n", &device->fail, &length) != 1 &&
        sscanf(options, "seed=%llu%n", &seed, &length) != 1)
      return tenon_write_text(error, TENON_INVALID_ARGUMENT, "the options are claim, ops, delay, fail and seed");
  }
  device->seed = device->random = mixed(seed);
  if (ops[0] != 0) snprintf(device->ops, sizeof device->ops, "+%s+", ops);
  return TENON_OK;
}

static tenon_status open_device(const char* options, tenon_device** opened, tenon_text* error) {
  tenon_device* const device = calloc(1, sizeof *device);
  if (device == NULL) return tenon_write_text(error, TENON_OUT_OF_MEMORY, "no memory for the device");
  device->claim = 1;
  device->end = &device->first;
  pthread_mutex_init(&device->mutex, NULL);
  pthread_cond_init(&device->changed, NULL);
  tenon_status status = read_options(device, options, error);
  if (status == TENON_OK && pthread_create(&device->thread, NULL, work, device) != 0)
    status = tenon_write_text(error, TENON_OUT_OF_MEMORY, "no thread for the device");
  status == TENON_OK ? (void)(*opened = device, ++loopback_live) : free(device);
  return status;
}

static void release(tenon_device* device, tenon_device_program* program) {
  --loopback_live;
  if (program != NULL) {
    the_host->free_kernel((tenon_host_kernel*)program);
    return;
  }
  pthread_mutex_lock(&device->mutex);
  device->stops = 1;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->mutex);
  pthread_join(device->thread, NULL);
  for (command* it; (it = device->failed) != NULL; free(it)) device->failed = it->next;
  pthread_mutex_destroy(&device->mutex);
  pthread_cond_destroy(&device->changed);
  free(device);
}

static tenon_status claim(tenon_device* device, const tenon_segment* segment, tenon_claim* claim, tenon_text* error) {
  (void)error;
  char op[64];
  snprintf(op, sizeof op, "+%s+", segment->nodes[0].op);
  uint64_t state = hashed(device->seed, segment->text);
  claim->accepted = device->ops[0] == 0 ? drawn(&state) < device->claim : strstr(device->ops, op) != NULL;
  if (!claim->accepted) claim->reason = device->ops[0] == 0 ? "it drew a number against it" : "the option ops lacks it";
  return TENON_OK;
}

/* Code: the size of the kernel, the kernel, the object. */
static tenon_status compile(tenon_device* device, const tenon_segment* segment, tenon_sink* sink, tenon_text* error) {
  (void)device, (void)error;
  tenon_status status = sink->write(sink->self, &segment->kernel_bytes, sizeof segment->kernel_bytes);
  if (status == TENON_OK) status = sink->write(sink->self, segment->kernel, segment->kernel_bytes);
  if (status == TENON_OK) status = sink->write(sink->self, segment->object, segment->object_bytes);
  return status;
}

/* A program is the host's kernel. */
static tenon_status load(tenon_device* device, const void* code, size_t bytes, tenon_device_program** loaded,
                         tenon_text* error) {
  (void)device;
  uint64_t kernel_bytes = 0;
  if (bytes >= sizeof kernel_bytes) memcpy(&kernel_bytes, code, sizeof kernel_bytes);
  if (bytes < sizeof kernel_bytes || kernel_bytes > bytes - sizeof kernel_bytes)
    return tenon_write_text(error, TENON_BAD_FILE, "the code of a kernel is cut off");
  const char* const kernel = (const char*)code + sizeof kernel_bytes;
  const uint64_t object_bytes = bytes - sizeof kernel_bytes - kernel_bytes;
  tenon_host_kernel* program = NULL;
  const tenon_status status =
      the_host->load_kernel(kernel, kernel_bytes, kernel + kernel_bytes, object_bytes, &program, error);
  *loaded = (tenon_device_program*)program;
  loopback_live += status == TENON_OK;
  return status;
}

static tenon_status allocate(tenon_device* device, uint64_t bytes, uint64_t alignment, void** memory,
                             tenon_text* error) {
  (void)device;
  void* const found = aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  if (found == NULL) return tenon_write_text(error, TENON_OUT_OF_MEMORY, "no memory of the device is left");
  *memory = (void*)((uintptr_t)found + OFFSET);
  ++loopback_live;
  return TENON_OK;
}

static void free_memory(tenon_device* device, void* memory) {
  (void)device;
  free(real(memory));
  --loopback_live;
}

static tenon_status copy(tenon_device* device, void* to, const void* from, uint64_t bytes, int to_device,
                         uint64_t* ticket, tenon_text* error) {
  command* const it = calloc(1, sizeof *it);
  ++loopback_copies;
  if (it != NULL) {
    it->to = to_device ? real(to) : to;
    it->from = to_device ? from : real(from);
    it->bytes = bytes;
  }
  return enqueue(device, it, ticket, error);
}

static tenon_status submit(tenon_device* device, tenon_device_program* program, const tenon_launch* launch,
                           uint64_t* ticket, tenon_text* error) {
  command* const it = calloc(1, sizeof *it + (launch->buffer_count + launch->size_count) * sizeof(uint64_t));
  if (it != NULL) {
    it->kernel = (tenon_host_kernel*)program;
    it->buffers = (void**)(it + 1);
    it->sizes = (int64_t*)(it->buffers + launch->buffer_count);
    for (uint64_t i = 0; i < launch->buffer_count; ++i) it->buffers[i] = real(launch->buffers[i]);
    if (launch->size_count > 0) memcpy(it->sizes, launch->sizes, launch->size_count * sizeof *it->sizes);
  }
  return enqueue(device, it, ticket, error);
}

static tenon_status wait_for(tenon_device* device, uint64_t ticket, tenon_text* error) {
  tenon_status status = TENON_OK;
  pthread_mutex_lock(&device->mutex);
  while (device->done < ticket) pthread_cond_wait(&device->changed, &device->mutex);
  command** place = &device->failed;
  while (*place != NULL && (*place)->ticket != ticket) place = &(*place)->next;
  command* const failed = *place;
  if (failed != NULL) {
    status = tenon_write_text(error, TENON_RUN_FAILED, failed->text);
    *place = failed->next;
    free(failed);
  }
  pthread_mutex_unlock(&device->mutex);
  return status;
}

static tenon_status events(tenon_device* device, tenon_device_event* to, uint64_t capacity, uint64_t* count,
                           tenon_text* error) {
  (void)error;
  pthread_mutex_lock(&device->mutex);
  if (device->event_count > device->events_given + EVENTS) device->events_given = device->event_count - EVENTS;
  for (*count = 0; *count < capacity && device->events_given < device->event_count; ++*count)
    to[*count] = device->events[device->events_given++ % EVENTS];
  pthread_mutex_unlock(&device->mutex);
  return TENON_OK;
}

static const tenon_device_api api = {
    .size = sizeof(tenon_device_api), .describe = describe, .open = open_device, .release = release, .claim = claim,
    .compile = compile, .load = load, .allocate = allocate, .free = free_memory, .copy = copy, .submit = submit,
    .wait = wait_for, .events = events};

const tenon_device_api* tenon_device_plugin_v1(const tenon_host* host) {
  the_host = host;
  return &api;
}
