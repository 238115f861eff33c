// Code of kernels in the threads of the pool. Each thread has a table of its own: what one instantiates, the others
// must instantiate, too, at the same places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// What the page offers (js/runtime.mjs): makes the functions "0", "1", ... of a module the table's, at these places.
// False: it failed, and wrote why.
extern "C" __attribute__((import_module("tenon"), import_name("instantiate"))) bool tenon_instantiate(
    const void* bytes, size_t size, const uint32_t* places, size_t count, char* text, size_t capacity);

namespace tenon::runtime {

#ifdef __wasm_atomics__
inline constexpr bool kHasThreads = true;
#else
inline constexpr bool kHasThreads = false;
#endif

// For the thread that opens programs, while no loop runs.
void publish_code(const void* owner, std::vector<uint8_t> module, std::vector<uint32_t> places);
void withdraw_code(const void* owner);

// For a thread of the pool, before it runs a part of a loop: instantiates what was published since its last call.
void adopt_code();

}  // namespace tenon::runtime
