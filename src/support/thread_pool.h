// Threads that live as long as the process and wait for loops to run.
#pragma once

#include <cstdint>

namespace tenon {

// How many threads a loop runs on: $TENON_THREADS, or as many as the machine has. Fewer where the system refuses some.
int64_t thread_count();

// Runs one stretch [begin, end) of a loop. Returns 0, or an error that ends the loop. Does not throw.
using StretchFn = int64_t (*)(void* context, int64_t begin, int64_t end);

// Runs all of [begin, end) on several threads, the caller's among them, and returns the first error. May be called from
// any thread, also from a stretch, and in a fork of the process.
int64_t parallel_for(int64_t begin, int64_t end, StretchFn stretch, void* context);

}  // namespace tenon
