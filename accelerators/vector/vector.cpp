// vector: a 1-D vector unit as a device of Tenon, to show that a device need be no array of tiles. It has 32 lanes of
// f32 (vector:lanes=16), fused multiply-add, sums along a row, and memory of its own. An instruction reads vectors from
// memory and writes one, a strip of as many numbers as there are lanes in each cycle; a segment is a list of them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <numeric>
#include <vector>

#include "tenon/device.h"

enum Op : int64_t { kRelu, kMaximum, kAdd, kSub, kMul, kSum, kMatmul, kLinear };
constexpr uint32_t kF32 = 1 << TENON_F32;
constexpr tenon_op_rule kRules[] = {{"relu", kF32, 0, 0},   {"maximum", kF32, 0, 0}, {"add", kF32, 0, 0},
                                    {"sub", kF32, 0, 0},    {"mul", kF32, 0, 0},     {"sum", kF32, 0, 0},
                                    {"matmul", kF32, 0, 0}, {"linear", kF32, 0, 0}};
constexpr uintptr_t kOffset = uintptr_t{1} << 59;  // of the device's addresses: no pointer of the host lies there

struct Operand {
  uint32_t buffer = 0, is_there = 0;  // the buffer of the launch, or TENON_SCRATCH
  int64_t offset = 0, step = 0;       // in numbers; a step of 0: the same number for all lanes
};

struct Instruction {
  Op op;
  int64_t rows = 1, length = 0;
  int64_t inner = 0, inner_step = 0;  // numbers that are summed up, and the step of a product's right operand
  Operand in[3] = {}, out = {};
};

struct tenon_device {
  int64_t lanes = 32;
  uint64_t tickets = 0, cycles = 0;  // of 1 ns
  std::deque<tenon_device_event> events = {};
};

struct tenon_device_program {
  std::vector<Instruction> instructions;
};

static int64_t elements(const tenon_value& value) {
  return std::accumulate(value.shape, value.shape + value.rank, int64_t{1}, std::multiplies());
}

static Op op_of(const tenon_node& node) {
  const auto is_its = [&](const tenon_op_rule& rule) { return std::strcmp(rule.op, node.op) == 0; };
  return static_cast<Op>(std::find_if(std::begin(kRules), std::end(kRules), is_its) - kRules);
}

static float combined(Op op, float a, float b) {
  if (op <= kMaximum) return a >= b ? a : b > a ? b : NAN;  // NaN if they are not ordered
  return op == kAdd ? a + b : op == kSub ? a - b : a * b;
}

static Instruction assembled(const tenon_segment& segment, const tenon_node& node, const std::vector<Operand>& places) {
  Instruction it{op_of(node)};
  const tenon_value &x = segment.values[node.inputs[0]], &y = segment.values[node.outputs[0]];
  it.length = elements(y);
  it.out = places[node.outputs[0]];
  for (uint32_t i = 0; i < node.input_count; ++i) {
    if (node.inputs[i] == UINT32_MAX) continue;
    it.in[i] = places[node.inputs[i]];
    it.in[i].step = elements(segment.values[node.inputs[i]]) == it.length ? 1 : 0;
  }
  if (it.op < kSum) return it;
  it.inner = x.shape[x.rank - 1];
  it.rows = it.length / std::max<int64_t>(it.op == kSum ? 1 : y.shape[y.rank - 1], 1);
  it.length /= std::max<int64_t>(it.rows, 1);
  it.inner_step = it.op == kLinear ? 1 : it.length;
  it.in[1].step = it.op == kLinear ? it.inner : 1;
  return it;
}

static void* real(const void* address) { return (void*)((uintptr_t)address - kOffset); }

static float* place(const tenon_launch& launch, const Operand& at) {
  if (at.is_there == 0) return nullptr;
  return static_cast<float*>(real(at.buffer == TENON_SCRATCH ? launch.scratch : launch.buffers[at.buffer])) + at.offset;
}

// Returns the cycles that it takes.
static int64_t execute(const Instruction& it, const tenon_launch& launch, int64_t lanes) {
  const float *a = place(launch, it.in[0]), *b = place(launch, it.in[1]), *bias = place(launch, it.in[2]);
  float* out = place(launch, it.out);
  for (int64_t i = 0; it.op < kSum && i < it.length; ++i)
    out[i] = combined(it.op, a[i * it.in[0].step], b == nullptr ? 0 : b[i * it.in[1].step]);
  if (it.op < kSum) return (it.length + lanes - 1) / lanes;
  for (int64_t row = 0; row < it.rows; ++row, a += it.inner, out += it.length) {
    for (int64_t i = 0; i < it.length; ++i) out[i] = bias == nullptr ? 0 : bias[i];
    for (int64_t k = 0; k < it.inner; ++k)
      for (int64_t i = 0; i < it.length; ++i)
        out[i] = it.op == kSum ? out[i] + a[k] : std::fma(a[k], b[k * it.inner_step + i * it.in[1].step], out[i]);
  }
  return it.rows * (it.op == kSum ? (it.inner + lanes - 1) / lanes : it.inner * ((it.length + lanes - 1) / lanes));
}

static tenon_status describe(const char*, tenon_device_info* info, tenon_text*) {
  *info = {sizeof *info, "vector", "1", "a 1-D vector unit, with cycles", 0, kRules, std::size(kRules)};
  return TENON_OK;
}

static tenon_status open_device(const char* options, tenon_device** device, tenon_text* error) {
  long lanes = 32;
  int end = 0;
  if (options[0] != 0 && (std::sscanf(options, "lanes=%ld%n", &lanes, &end) != 1 || options[end] != 0 || lanes < 1))
    return tenon_write_text(error, TENON_INVALID_ARGUMENT, "the option is lanes=N, at least 1");
  *device = new tenon_device{lanes};
  return TENON_OK;
}

static void release(tenon_device* device, tenon_device_program* code) { code ? delete code : delete device; }

static bool is_last(const tenon_attribute& dims, int64_t rank) {
  return dims.count == 1 && (dims.numbers[0] == -1 || dims.numbers[0] == static_cast<double>(rank - 1));
}

static tenon_status claim(tenon_device*, const tenon_segment* segment, tenon_claim* claim, tenon_text*) {
  const tenon_node& node = segment->nodes[0];
  const tenon_value &x = segment->values[node.inputs[0]], &y = segment->values[node.inputs[node.input_count > 1]];
  const int64_t size = elements(segment->values[node.outputs[0]]);
  const auto is_vector = [&](const tenon_value& value) { return elements(value) == size || elements(value) == 1; };
  const Op op = op_of(node);
  if (op < kSum && !(is_vector(x) && is_vector(y))) claim->reason = "it repeats single numbers only";
  if (op == kSum && (x.rank == 0 || !is_last(node.attributes[0], x.rank)))
    claim->reason = "it sums along the last dimension";
  if (op > kSum && (y.rank != 2 || x.rank < 2)) claim->reason = "it multiplies matrices";
  claim->accepted = claim->reason == nullptr;
  return TENON_OK;
}

static tenon_status compile(tenon_device*, const tenon_segment* segment, tenon_sink* sink, tenon_text*) {
  std::vector<Operand> places(segment->value_count);
  uint32_t buffers = 0;
  for (uint64_t i = 0; i < segment->value_count; ++i) {
    const bool is_buffer = segment->values[i].role != TENON_VALUE_TEMPORARY;
    places[i] = {is_buffer ? buffers++ : TENON_SCRATCH, 1,
                 is_buffer ? 0 : static_cast<int64_t>(sink->scratch_bytes / 4), 1};
    if (!is_buffer) sink->scratch_bytes += static_cast<uint64_t>(elements(segment->values[i])) * 4;
  }
  std::vector<Instruction> code;
  for (uint64_t i = 0; i < segment->node_count; ++i) code.push_back(assembled(*segment, segment->nodes[i], places));
  return sink->write(sink->self, code.data(), code.size() * sizeof(Instruction));
}

static tenon_status load(tenon_device*, const void* code, size_t bytes, tenon_device_program** program,
                         tenon_text* error) {
  if (bytes % sizeof(Instruction) != 0) return tenon_write_text(error, TENON_BAD_FILE, "the code is cut off");
  *program = new tenon_device_program{std::vector<Instruction>(bytes / sizeof(Instruction))};
  std::memcpy((*program)->instructions.data(), code, bytes);
  return TENON_OK;
}

static tenon_status allocate(tenon_device*, uint64_t bytes, uint64_t alignment, void** memory, tenon_text* error) {
  void* const found = std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  if (found == nullptr) return tenon_write_text(error, TENON_OUT_OF_MEMORY, "no memory of the device is left");
  *memory = (void*)((uintptr_t)found + kOffset);
  return TENON_OK;
}

static void free_memory(tenon_device*, void* memory) { std::free(real(memory)); }

static tenon_status done(tenon_device* device, int64_t cycles, uint64_t* ticket) {
  const uint64_t begin = device->cycles;
  device->events.push_back({* ticket = ++device->tickets, begin, device->cycles += static_cast<uint64_t>(cycles)});
  if (device->events.size() > 4096) device->events.pop_front();  // of runs that nobody profiles
  return TENON_OK;
}

static tenon_status copy(tenon_device* unit, void* to, const void* from, uint64_t n, int in, uint64_t* ticket,
                         tenon_text*) {
  std::memcpy(in ? real(to) : to, in ? from : real(from), n);
  return done(unit, 0, ticket);
}

static tenon_status submit(tenon_device* device, tenon_device_program* program, const tenon_launch* launch,
                           uint64_t* ticket, tenon_text*) {
  int64_t cycles = 0;
  for (const Instruction& it : program->instructions) cycles += execute(it, *launch, device->lanes);
  return done(device, cycles, ticket);
}

static tenon_status wait_for(tenon_device*, uint64_t, tenon_text*) { return TENON_OK; }  // all is done at once

static tenon_status events(tenon_device* device, tenon_device_event* to, uint64_t capacity, uint64_t* count,
                           tenon_text*) {
  *count = std::min<uint64_t>(capacity, device->events.size());
  std::copy_n(device->events.begin(), *count, to);
  device->events.erase(device->events.begin(), device->events.begin() + static_cast<std::ptrdiff_t>(*count));
  return TENON_OK;
}

extern "C" __attribute__((visibility("default"))) const tenon_device_api* tenon_device_plugin_v1(const tenon_host*) {
  static const tenon_device_api api = {sizeof api, describe,    open_device, release, claim,    compile, load,
                                       allocate,   free_memory, copy,        submit,  wait_for, events};
  return &api;
}
