// What tests ask of the fake driver, beside NVIDIA's interface.
#pragma once

#include <cstdint>

extern "C" {

// Objects that nobody freed: memory, pinned memory, streams, events, modules, references of the context, of cuBLASLt.
long fake_live(void);
long fake_launches(void);  // of kernels, ever
long fake_products(void);  // of cuBLASLt, ever
long fake_allocations(void);
long fake_recorded_events(void);
long fake_advice(void);  // that cuBLASLt was asked for, ever
// The next call of this function ("cuMemAlloc_v2"), after `skipped` others, fails with this result.
void fake_fail(const char* function, int result, int skipped);
void fake_set_devices(int count);
// A launch of this kernel makes the GPU fail when it runs: from then on, everything fails.
void fake_break_on(const char* entry);
void fake_repair(void);
// A graph of a stream: what is enqueued between the two calls does not run, but whenever it is replayed.
void fake_capture(void* stream, bool begins);
void fake_replay(void* stream);
}
