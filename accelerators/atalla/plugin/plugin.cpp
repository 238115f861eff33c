// Atalla as a device of Tenon: tenon_device_plugin_v1. Tenon compiles layers into tile actions; the plug-in encodes
// them as commands, puts addresses into them at each launch, and gives them to a body.
//
//     tenon run model.pt2 --plugin build/accelerators/atalla.so --device atalla:body=cycles,size=16
#include <map>

#include "plugin/device.h"

using namespace atalla;

namespace {

constexpr size_t kMostEvents = 1 << 16;

tenon_tile_machine description(const DeviceOptions& options) {
  const Machine& machine = options.machine;
  return {.size = sizeof(tenon_tile_machine),
          .rows = machine.size,
          .columns = machine.size,
          .operand_dtypes = 1 << TENON_BF16 | 1 << TENON_I8,
          .output_dtypes = 1 << TENON_BF16 | 1 << TENON_F32 | 1 << TENON_I8 | 1 << TENON_I32,
          .epilogues = TENON_TILE_BIAS | TENON_TILE_SCALE | TENON_TILE_RESIDUAL | TENON_TILE_CLAMP,
          .line_bytes = machine.size,
          .lines = machine.scratchpad_lines,
          .line_banks = machine.scratchpad_banks,
          .accumulator_rows = machine.accumulator_rows,
          .accumulator_banks = machine.accumulator_banks,
          .max_run = 65535,
          .max_count = 65535,
          .max_line_step = 32767,
          .max_stride = INT32_MAX,
          .dma_bytes = machine.dma_bytes,
          .dma_latency = machine.dma_latency,
          .hertz = options.hertz};
}

tenon_status describe(const char* text, tenon_device_info* info, tenon_text* error) {
  return guarded(error, TENON_INVALID_ARGUMENT, [&] {
    const DeviceOptions options = parse_options(text);
    static std::map<std::string, tenon_tile_machine> machines;  // live as long as the plug-in
    const tenon_tile_machine& machine = machines[text] = description(options);
    info->name = "atalla";
    info->version = "1";
    info->doc = "a systolic array of bf16 products, as a model, with cycles, or as RTL";
    info->memory = options.memory_bytes - kZeroPage;
    info->alignment = 64;
    info->tiles = &machine;
  });
}

tenon_status open_device(const char* text, tenon_device** opened, tenon_text* error) {
  return guarded(error, TENON_INVALID_ARGUMENT, [&] {
    const DeviceOptions options = parse_options(text);
    if (options.body == "hw")
      throw std::runtime_error(
          "there is no hardware: a driver implements Body (accelerators/atalla/body.h) and is "
          "made in make_body (bodies.cpp)");
    std::string reason;
    auto body = make_body(options.body, options.machine,
                          {.memory_bytes = options.memory_bytes, .rtl_bug = options.rtl_bug}, reason);
    if (!body) throw std::runtime_error(reason);
    *opened = new tenon_device{options, std::move(body), Heap(kZeroPage, options.memory_bytes)};
  });
}

void release(tenon_device* device, tenon_device_program* program) {
  if (program != nullptr) {
    delete program;
  } else {
    delete device;
  }
}

tenon_status compile(tenon_device* device, const tenon_segment* segment, tenon_sink* sink, tenon_text* error) {
  return guarded(error, TENON_UNSUPPORTED, [&] {
    std::vector<Relocatable> commands;
    for (uint64_t i = 0; i < segment->action_count; ++i) commands.push_back(encode(segment->actions[i]));
    const std::vector<uint8_t> bytes = to_bytes(commands, device->options.machine);
    sink->scratch_bytes = segment->action_scratch;
    if (sink->write(sink->self, bytes.data(), bytes.size()) != TENON_OK) throw std::bad_alloc();
  });
}

tenon_status load(tenon_device* device, const void* code, size_t bytes, tenon_device_program** loaded,
                  tenon_text* error) {
  return guarded(error, TENON_BAD_FILE, [&] {
    *loaded = new tenon_device_program{from_bytes({static_cast<const uint8_t*>(code), bytes}, device->options.machine)};
  });
}

// ---- memory: addresses of the device are offsets in the body's memory ----

tenon_status allocate(tenon_device* device, uint64_t bytes, uint64_t alignment, void** memory, tenon_text* error) {
  return guarded(error, TENON_OUT_OF_MEMORY,
                 [&] { *memory = reinterpret_cast<void*>(device->heap.allocate(bytes, alignment)); });
}

void free_memory(tenon_device* device, void* memory) { device->heap.free(reinterpret_cast<uintptr_t>(memory)); }

void add_event(tenon_device* device, uint64_t ticket, uint64_t cycles) {
  const uint64_t begin = device->now_ns();
  device->cycles += cycles;
  device->events.push_back({ticket, begin, device->now_ns()});
  if (device->events.size() > kMostEvents) device->events.pop_front();
}

tenon_status copy(tenon_device* device, void* to, const void* from, uint64_t bytes, int to_device, uint64_t* ticket,
                  tenon_text* error) {
  return guarded(error, TENON_INVALID_ARGUMENT, [&] {
    uint8_t* const memory = device->body->memory().data();
    if (to_device != 0) {
      std::memcpy(memory + offset_in(device, to, bytes), from, bytes);
    } else {
      std::memcpy(to, memory + offset_in(device, from, bytes), bytes);
    }
    add_event(device, *ticket = ++device->tickets, 0);
  });
}

// ---- launches ----

tenon_status submit(tenon_device* device, tenon_device_program* program, const tenon_launch* launch, uint64_t* ticket,
                    tenon_text* error) {
  return guarded(error, TENON_RUN_FAILED, [&] {
    const Stream stream = stream_of(device, *program, *launch);
    const RunResult run = device->body->submit(stream.commands);
    if (run.fault) throw std::runtime_error(fault_text(*run.fault, stream.commands));
    add_event(device, *ticket = ++device->tickets, run.counters.cycles);
  });
}

tenon_status wait_for(tenon_device*, uint64_t, tenon_text*) { return TENON_OK; }  // submit and copy are done at once

tenon_status events(tenon_device* device, tenon_device_event* to, uint64_t capacity, uint64_t* count, tenon_text*) {
  for (*count = 0; *count < capacity && !device->events.empty(); ++*count) {
    to[*count] = device->events.front();
    device->events.pop_front();
  }
  return TENON_OK;
}

const tenon_device_api kApi = {.size = sizeof(tenon_device_api),
                               .describe = describe,
                               .open = open_device,
                               .release = release,
                               .compile = compile,
                               .load = load,
                               .allocate = allocate,
                               .free = free_memory,
                               .copy = copy,
                               .submit = submit,
                               .wait = wait_for,
                               .events = events};

}  // namespace

extern "C" __attribute__((visibility("default"))) const tenon_device_api* tenon_device_plugin_v1(const tenon_host*) {
  return &kApi;
}
